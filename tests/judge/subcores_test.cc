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
Found with(const std::string& from, const std::string& to, bool races = false) {
  Found r;
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    Case c = generate_subcores(seed);
    const std::vector<oracle::Array> want = expected(c);
    if (replace_all(&c.text, from, to) == 0) continue;
    ++r.programs;
    Engine engine(c);
    const auto configs = races ? race_configurations(seed) : configurations(ir::parse(c.text), seed);
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

// Memory that each subcore has for itself, where a SparseCore has one.
TEST(JudgeOfSubcores, NoticesMemoryThatIsNotShared) {
  const Found f = with("vmem_shared, subcore_group", "vmem");
  EXPECT_GE(f.programs, 40);
  EXPECT_GE(f.noticed * 10, f.programs * 4) << f.noticed << " of " << f.programs;
}

}  // namespace
}  // namespace pallasim::judge
