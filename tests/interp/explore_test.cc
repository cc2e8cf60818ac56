// Exploration: outcomes, tokens, and the exhaustive search against all schedules.
#include <map>

#include "litmus.h"

namespace pallasim::interp::test {
namespace {

struct Case {
  const char* name;
  Program program;
};
const Case kLitmus[] = {
    {"store buffering", {{"w0=1", "r1"}, {"w1=1", "r0"}}},
    {"message passing", {{"w0=1", "w1=1"}, {"r1", "r0"}}},
    {"load buffering", {{"r0", "w1=1"}, {"r1", "w0=1"}}},
    {"two writers", {{"w0=1", "r0"}, {"w0=2", "r0"}}},
    {"coherence of reads", {{"w0=1"}, {"r0", "r0"}, {"w0=2"}}},
    {"write to read causality", {{"w0=1"}, {"r0", "w1=1"}, {"r1", "r0"}}},
    {"lost update", {{"+0", "s0"}, {"+0", "s0"}, {"p0", "p0", "r0"}}},
    {"independent writers", {{"w0=1"}, {"w1=1"}, {"w2=1"}}},
    {"ring of 3", {{"s1", "p0"}, {"p1", "s2"}, {"p2", "s0"}}},
    {"deadlock of two", {{"p0", "s1"}, {"p1", "s0"}}},
    {"locks in two orders", {{"s0", "s1", "p0", "p1", "s0", "s1"}, {"p1", "p0", "s0", "s1"}}},
    {"one token for two", {{"s0"}, {"p0", "w0=1"}, {"p0", "w0=2"}}},
    {"a token that comes back", {{"s0", "p0"}, {"p0", "s0", "r0"}}},
    {"two tokens", {{"s0", "s0"}, {"p0", "r0"}, {"w0=1"}}},
    {"producer and consumer, 2 slots",
     {{"w0=1", "s0", "w1=2", "s0", "p1", "w0=3", "s0"}, {"p0", "r0", "s1", "p0", "r1", "p0", "r0"}}},
    {"slot reused too early", {{"w0=1", "s0", "w0=2"}, {"p0", "r0"}}},
    {"copy before it is awaited", {{"w0=1", "c0>1.0", "r1", "d0"}}},
    {"source reused under a copy", {{"w0=1", "c0>1.0", "w0=2", "d0", "r1"}}},
    {"copy and its signal", {{"w0=1", "c0>1.0", "s0"}, {"p0", "r1", "d0", "r1"}}},
    {"two copies to one cell", {{"w0=1", "c0>2.0"}, {"w1=2", "c1>2.1"}, {"d0", "d1", "r2"}}},
};

int64_t total(const Exploration& x) {
  int64_t n = 0;
  for (const ExploredOutcome& o : x.outcomes) n += o.count;
  return n;
}

TEST(Explore, ExhaustiveFindsEveryOutcomeAndVisitsEachTraceAtMostOnce) {
  for (const Case& c : kLitmus) {
    Litmus litmus(text_of(c.program));
    const Searched all = litmus.brute_force(200'000);
    EXPECT_TRUE(all.ended) << c.name << " has more than " << all.runs << " schedules";
    const Exploration x = litmus.explored({.policy = "exhaustive", .schedules = 100'000});
    std::printf("%-32s %6lld schedules, %5zu traces: %5lld run, %3lld given up, %2zu outcomes\n", c.name,
                static_cast<long long>(all.runs), all.traces.size(), static_cast<long long>(x.schedules),
                static_cast<long long>(x.given_up), x.outcomes.size());
    EXPECT_TRUE(x.exhausted) << c.name;
    EXPECT_EQ(x.outcomes.size(), all.outcomes.size()) << c.name;
    EXPECT_LE(static_cast<size_t>(x.schedules), all.traces.size()) << c.name;
    EXPECT_EQ(total(x), x.schedules);
  }
}

std::string word(uint32_t* x) {
  const auto draw = [&](uint32_t n) {
    *x = *x * 1664525u + 1013904223u;
    return static_cast<int>((*x >> 16) % n);
  };
  const std::string a = std::to_string(draw(2)), b = std::to_string(draw(3));
  switch (draw(8)) {
    case 0:
    case 1: return "w" + a + "=" + std::to_string(1 + draw(9));
    case 2:
    case 3: return "r" + a;
    case 4: return "+" + a;
    case 5: return "s" + b;
    case 6: return "p" + b;
    default: return draw(2) ? "c" + a + ">" + std::to_string(draw(3)) + "." + b : "d" + b;
  }
}

TEST(Explore, GeneratedProgramsHaveTheOutcomesOfBruteForce) {
  const char* more = std::getenv("PALLASIM_EXPLORE_PROGRAMS");
  const int programs = more ? std::atoi(more) : 400;
  int judged = 0, stuck = 0;
  const char* from = std::getenv("PALLASIM_EXPLORE_FROM");
  for (uint32_t seed = from ? static_cast<uint32_t>(std::atoi(from)) : 1; judged < programs; ++seed) {
    uint32_t x = seed * 2654435761u;
    Program p(2 + seed % 2);
    for (auto& t : p) {
      const uint32_t n = 1 + (x = x * 1664525u + 1013904223u) / 65536 % 3;
      for (uint32_t i = 0, reads = 0; i < n; ++i) {
        t.push_back(word(&x));
        if (t.back()[0] == 'r' && ++reads > kReads) t.pop_back();
      }
    }
    Litmus litmus(text_of(p));
    const Searched all = litmus.brute_force(1'000);
    if (!all.ended) continue;
    ++judged;
    stuck += std::any_of(all.outcomes.begin(), all.outcomes.end(), [](const auto& k) { return k.starts_with("PS-"); });
    const Exploration e = litmus.explored({.policy = "exhaustive", .schedules = 100'000, .minimise = false});
    std::string said;
    for (const auto& t : p) {
      said += "{ ";
      for (const auto& w : t) said += w + " ";
      said += "} ";
    }
    ASSERT_TRUE(e.exhausted) << said;
    ASSERT_EQ(e.outcomes.size(), all.outcomes.size()) << "seed " << seed << ": " << said;
    ASSERT_LE(static_cast<size_t>(e.schedules), all.traces.size()) << "seed " << seed << ": " << said;
  }
  std::printf("%d programs, %d of them may stop\n", judged, stuck);
  EXPECT_GT(stuck, programs / 10);
}

}  // namespace
}  // namespace pallasim::interp::test
