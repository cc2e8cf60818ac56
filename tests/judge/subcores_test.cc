// What the judge's programs of SparseCores would notice.
#include <gtest/gtest.h>

#include <algorithm>

#include "judge.h"

namespace pallasim::judge {
namespace {

constexpr uint64_t kPrograms = 120;

std::vector<oracle::Array> expected(const Case& c) {
  const oracle::Outcome o = oracle::evaluate(ir::parse(c.text), c.args);
  EXPECT_EQ(o.end, oracle::End::Done) << "seed " << c.seed << ": " << o.what;
  return o.results;
}

// Replaces every `from`. How many there were.
int replace_all(std::string* text, const std::string& from, const std::string& to) {
  int n = 0;
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size(), ++n)
    text->replace(at, from.size(), to);
  return n;
}

struct Found {
  int programs = 0, noticed = 0;
};

// The engine gets the program with `from` replaced by `to`, and the evaluator as it is.
Found with(const std::string& from, const std::string& to, bool races = false, uint64_t programs = kPrograms) {
  Found r;
  for (uint64_t seed = 1; seed <= programs; ++seed) {
    Case c = generate_subcores(seed);
    const std::vector<oracle::Array> want = expected(c);
    if (replace_all(&c.text, from, to) == 0) continue;
    ++r.programs;
    Engine engine(c);
    const auto configs = races ? race_configurations(seed) : configurations(ir::parse(c.text), c);
    r.noticed += std::any_of(configs.begin(), configs.begin() + (races ? 5 : 1), [&](const Config& config) {
      const EngineOutcome got = engine.run(config);
      return !got.done || !got.findings.empty() || !difference(want, got.results).empty();
    });
  }
  return r;
}

TEST(JudgeOfSubcores, NoticesOutputsOfZeros) {
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const std::vector<oracle::Array> want = expected(generate_subcores(seed));
    std::vector<oracle::Array> zeros = want;
    for (oracle::Array& a : zeros) std::fill(a.bytes.begin(), a.bytes.end(), std::byte{0});
    EXPECT_EQ(difference(want, want), "");
    EXPECT_NE(difference(want, zeros), "") << "seed " << seed;
  }
}

TEST(JudgeOfSubcores, NoticesCopiesThatDoNotAdd) {
  const Found f = with(", add = true", "");
  EXPECT_GE(f.programs, 20);
  EXPECT_GE(f.noticed * 10, f.programs * 6) << f.noticed << " of " << f.programs;
}

TEST(JudgeOfSubcores, NoticesIgnoredRowsThatAreNotIgnored) {
  const Found f = with(", 77)", ")");
  EXPECT_GE(f.programs, 5);
  EXPECT_GE(f.noticed * 10, f.programs * 6) << f.noticed << " of " << f.programs;
}

TEST(JudgeOfSubcores, NoticesBarriersThatAreMissing) {
  const Found f = with("sc_barrier", "trace_mark {label = \"no barrier\"}", true);
  EXPECT_GE(f.programs, 60);
  EXPECT_GE(f.noticed * 10, f.programs * 7) << f.noticed << " of " << f.programs;
}

// The program without its `which`-th barrier; empty: it has no more.
std::string without(const std::string& text, int which) {
  size_t at = text.find("sc_barrier\n");
  while (which-- > 0 && at != std::string::npos) at = text.find("sc_barrier\n", at + 1);
  return at == std::string::npos ? "" : std::string(text).erase(at, 11);
}

// The program in which the `which`-th wait of a body's own level comes at the body's end; empty: it has no more.
std::string delayed(const std::string& text, int which) {
  size_t at = text.find("\n  sem_wait ");
  while (which-- > 0 && at != std::string::npos) at = text.find("\n  sem_wait ", at + 1);
  if (at == std::string::npos) return "";
  const size_t end = text.find('\n', at + 1), last = text.find("\n  yield\n}", at);
  return text.substr(0, at) + text.substr(end, last - end) + text.substr(at, end - at) + text.substr(last);
}

// Without a barrier, or with a wait too late, where the result depends on the order of the threads then: checked runs
// say what meets. Without a barrier all do; a wait that is there still may order the two in some.
void expect_races(std::string (*broken)(const std::string&, int), bool in_all, int least) {
  int mattered = 0;
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const Case whole = generate_subcores(seed);
    Case c = whole;
    for (int which = 0; !(c.text = broken(whole.text, which)).empty(); ++which) {
      if (!order_shows(c)) continue;
      ++mattered;
      Engine engine(c);
      const std::vector<Config> configs = race_configurations(seed);
      const auto silent = std::count_if(configs.begin(), configs.end(), [&](const Config& config) {
        const EngineOutcome got = engine.run(config);
        return got.done && got.findings.empty();
      });
      const auto most = in_all ? 0 : static_cast<ptrdiff_t>(configs.size()) - 1;
      EXPECT_LE(silent, most) << "seed " << seed << ", the one behind " << which;
    }
  }
  EXPECT_GE(mattered, least);
}

TEST(JudgeOfSubcores, EveryBarrierThatMattersIsMissed) { expect_races(without, true, 20); }
TEST(JudgeOfSubcores, EveryWaitThatMattersIsMissed) { expect_races(delayed, false, 10); }

// Memory that each subcore has for itself, where a SparseCore has one. About half of the programs can tell: of few ones
// too few may be drawn.
TEST(JudgeOfSubcores, NoticesMemoryThatIsNotShared) {
  const Found f = with("vmem_shared, subcore_group", "vmem", false, 5 * kPrograms);
  EXPECT_GE(f.programs, 40);
  EXPECT_GE(f.noticed * 10, f.programs * 4) << f.noticed << " of " << f.programs;
}

}  // namespace
}  // namespace pallasim::judge
