// Products of warpgroups that are awaited too late, made of the judge's programs of clusters: what they leave depends
// on when their bytes move, and checked runs name both lines.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "judge.h"

namespace pallasim::judge {
namespace {

constexpr uint64_t kPrograms = 600;
constexpr int kSchedules = 20;

// The line of the text that begins behind `at`, and where it ends.
std::string line_at(const std::string& text, size_t at) {
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

// The n-th operand of the line's operation, from 0.
std::string operand(const std::string& line, int n) {
  size_t at = line.find("wgmma_ref") == std::string::npos ? line.find("store ") + 6 : line.find("wgmma_ref ") + 10;
  for (; n > 0; --n) at = line.find(", ", at) + 2;
  return line.substr(at, line.find_first_of(", {\n", at) - at);
}

// Of the last product of the text: nothing where it is awaited by an operation of its own.
struct Product {
  size_t at, read;  // of its line, and of the first line that reads an accumulator behind it
  std::string line;
};
bool find_product(const std::string& text, Product* p) {
  p->at = text.rfind("wgmma_ref");
  if (p->at == std::string::npos) return false;
  p->line = line_at(text, p->at);
  p->read = text.find("wgmma_accumulator_deref", p->at);
  return text.substr(p->at, p->read - p->at).find("wgmma_wait %110") == std::string::npos;
}

// Puts ` @n` at the end of the line.
void locate(std::string* text, size_t at, int n) { text->insert(text->find('\n', at), fmt::format(" @{}", n)); }
void add_lines(std::string* text) {
  for (int n : {0, 1})
    *text += fmt::format("loc {} {{file = \"late.py\", line = {}, column = 1, function = \"late\", text = \"late\"}}\n",
                         n, 10 + n);
}

// The accumulator is read while the product may be in flight.
std::string read_too_early(std::string text) {
  Product p;
  if (!find_product(text, &p)) return "";
  for (size_t at = p.read; at != std::string::npos; at = text.find("wgmma_accumulator_deref", at + 40)) {
    text.replace(text.find("wait_n = 0", at), 10, "wait_n = 1");
    locate(&text, at, 1);
  }
  locate(&text, p.at, 0);
  add_lines(&text);
  return text;
}

// Its right operand, which lies in shared memory, gets what the left one began with.
std::string overwritten_too_early(std::string text) {
  Product p;
  if (!find_product(text, &p) || text.find("commit_smem") == std::string::npos) return "";
  const std::string right = operand(p.line, 2);
  const size_t own = text.find("store " + right + ", ");
  if (own == std::string::npos) return "";
  size_t other = text.rfind("store ", own - 1);
  if (other == std::string::npos || operand(line_at(text, other), 0) == right) return "";
  const size_t above = text.rfind('\n', text.rfind('\n', other) - 1);
  if (text.find("convert", above) > other) return "";
  const std::string before = text.substr(0, text.rfind('\n', p.read) + 1);
  text = before + "store " + right + ", " + operand(line_at(text, other), 1) + " @1\n" + text.substr(before.size());
  locate(&text, p.at, 0);
  add_lines(&text);
  return text;
}

struct Found {
  int programs = 0, shown = 0, reported = 0;
};

// How many of the programs some schedule shows another value of, and how many are reported with both lines.
Found look(std::string (*late)(std::string)) {
  Found f;
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    Case c = generate_clusters(seed);
    if (c.in_order) continue;
    const oracle::Outcome want = oracle::evaluate(ir::parse(c.text), c.args);  // for which waits are nothing
    EXPECT_EQ(want.end, oracle::End::Done) << "seed " << seed;
    c.text = late(c.text);
    if (c.text.empty()) continue;
    ++f.programs;
    Engine engine(c);
    bool shown = false;
    for (int n = 0; n < kSchedules && !shown; ++n) {
      Config config{"scheduled", {}};
      config.options.workers = 1;
      config.options.random_seed = static_cast<uint64_t>(n);
      config.options.copies = interp::Options::Copies::Scheduled;
      const EngineOutcome got = engine.run(config);
      EXPECT_TRUE(got.done) << "seed " << seed << ": " << got.message;
      shown = !difference(want.results, got.results).empty();
    }
    Config checked{"checked", {}};
    checked.options.workers = 1;
    checked.options.checked = true;
    const EngineOutcome got = engine.run(checked);
    const bool reported = std::any_of(got.findings.begin(), got.findings.end(), [](const std::string& s) {
      return s.starts_with("PS-RACE-002") && s.find("late.py:10") != std::string::npos &&
             s.find("late.py:11") != std::string::npos;
    });
    f.shown += shown, f.reported += reported;
    if (!reported)
      ADD_FAILURE() << "seed " << seed
                    << " is not reported: " << (got.findings.empty() ? "nothing is" : got.findings.front());
  }
  return f;
}

void expect_found(const Found& f) {
  testing::Test::RecordProperty("programs", f.programs);
  testing::Test::RecordProperty("shown", f.shown);
  testing::Test::RecordProperty("reported", f.reported);
  EXPECT_GE(f.programs, 20);
  EXPECT_EQ(f.reported, f.programs);
  EXPECT_GE(f.shown * 100, f.programs * 95) << f.shown << " of " << f.programs;
}

TEST(JudgeOfClusters, AccumulatorsThatAreReadTooEarlyShowIt) { expect_found(look(read_too_early)); }
TEST(JudgeOfClusters, OperandsThatAreOverwrittenTooEarlyShowIt) { expect_found(look(overwritten_too_early)); }

}  // namespace
}  // namespace pallasim::judge
