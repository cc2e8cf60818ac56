// Exploration: outcomes, tokens, and the exhaustive search against all schedules.
#include <map>

#include "launch/branching_runs.h"
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

// Work that has nothing to do with what is wrong, of about as many turns.
Program among_work(Program p, int turns) {
  for (size_t t = 0; t < p.size(); ++t)
    for (int i = 0; i < turns; ++i)
      p[t].insert(p[t].begin() + (i % 2 ? static_cast<std::ptrdiff_t>(p[t].size()) : 0), "+3");
  p.push_back({});
  for (int i = 0; i < turns; ++i) p.back().push_back("w2=" + std::to_string(i % 5));
  return p;
}

bool same_bytes(const std::vector<ExploredArray>& a, const std::vector<ExploredArray>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.bytes == y.bytes; });
}

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

// From a moment that it has in common with the last one, each run ends as the same choices do from the beginning.
TEST(Explore, RunsThatGoOnFromAMomentEndAsThoseFromTheBeginning) {
  for (const bool checked : {false, true}) {
    int64_t judged = 0, turns = 0, spared = 0;
    for (const Case& c : kLitmus) {
      Litmus litmus(text_of(among_work(c.program, 2)));
      Options o;
      o.livelock_steps = 100'000;
      o.checked = checked;
      const auto runner = litmus.runner(o), other = litmus.runner(o);
      Exhaustive policy;
      BranchingRuns runs(*runner, 0);
      std::vector<Choice> choices, again;
      for (int i = 0; i < 100; ++i) {
        const ScheduleEnd end = runs.run(policy, &choices);
        if (end.over) break;
        policy.ended(end.turns, runner->touches().all(), {}, false);
        if (end.abandoned) continue;
        std::vector<Deviation> list;
        const ScheduleEnd whole = other->run(*follow_choices(choices, &list), false, &again);
        ASSERT_EQ(end.key(), whole.key()) << c.name << " " << i;
        ASSERT_EQ(end.turns, whole.turns) << c.name << " " << i;
        ASSERT_EQ(end.report.steps, whole.report.steps) << c.name << " " << i;
        ASSERT_TRUE(choices == again) << c.name << " " << i;
        if (!end.stop) { ASSERT_TRUE(same_bytes(runner->outputs(), other->outputs())) << c.name << " " << i; }
        ++judged;
      }
      turns += runs.turns(), spared += runs.spared();
    }
    std::printf("%lld runs of %lld turns, %lld of which were run\n", static_cast<long long>(judged),
                static_cast<long long>(turns + spared), static_cast<long long>(turns));
    EXPECT_GT(judged, 300);
    EXPECT_GT(spared, 2 * turns);
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
  const int programs = more ? std::atoi(more) : 200;
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

// What is planted, and how many orders of two events must come together for it to show.
struct Bug {
  const char* name;
  int depth;
  Program program;
  std::string shows;  // the code of the stop; "": outputs that the usual schedule does not have
};
const Bug kBugs[] = {
    {"slot reused too early", 1, {{"w0=1", "s0", "w0=2"}, {"p0", "r0"}}, ""},
    {"accumulator read before its copy came", 1, {{"w0=1", "c0>1.0", "r1", "d0"}}, ""},
    {"source overwritten under its copy", 1, {{"w0=1", "c0>1.0", "w0=2", "d0", "r1"}}, ""},
    {"copy before its receiver is ready", 1, {{"w0=7", "c0>1.0"}, {"w1=5", "d0", "r1"}}, ""},
    {"flag raised before its data", 2, {{"w1=1", "w0=7"}, {"r1", "r0"}}, ""},
    {"sum that two threads update", 2, {{"+0", "s0"}, {"+0", "s0"}, {"p0", "p0", "r0"}}, ""},
    {"locks in two orders", 2, {{"s0", "s1", "p0", "p1", "s0", "s1"}, {"p1", "p0", "s0", "s1"}}, "PS-DEAD-001"},
    {"signal taken by another", 1, {{"s0", "s1"}, {"p0"}, {"p1", "p0"}, {"p1", "s0"}}, "PS-DEAD-001"},
    {"value that was there between two others", 3, {{"w0=1", "w1=1", "w0=0"}, {"r1", "r0", "w0=9", "r0"}}, ""},
};

TEST(Explore, PctFindsPlantedBugsWithinAThousandSchedules) {
  for (const Bug& b : kBugs) {
    Litmus alone(text_of(b.program));
    int found = 0;
    int64_t worst = 0;
    constexpr int kSeeds = 5;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const Exploration x =
          alone.explored({.policy = "pct", .schedules = 1000, .depth = b.depth + 1, .seed = seed, .jobs = 1});
      const auto shows = std::find_if(x.outcomes.begin(), x.outcomes.end(), [&](const ExploredOutcome& o) {
        return b.shows.empty() ? o.first > 0 : o.stop && o.stop->code.text() == b.shows;
      });
      found += shows != x.outcomes.end();
      if (shows != x.outcomes.end()) worst = std::max(worst, shows->first);
    }
    std::printf("%-40s depth %d: found with %d of %d seeds, at schedule %lld at the latest\n", b.name, b.depth, found,
                kSeeds, static_cast<long long>(worst));
    EXPECT_EQ(found, kSeeds) << b.name;
  }
}

TEST(Explore, WhatIsFoundDoesNotDependOnJobs) {
  Litmus litmus(text_of(among_work(kLitmus[5].program, 4)));
  const auto said = [&](int jobs, const char* policy) {
    const Exploration x = litmus.explored({.policy = policy, .schedules = 500, .seed = 3, .jobs = jobs});
    std::string s = to_text(x);
    for (const ExploredOutcome& o : x.outcomes) s += std::to_string(o.count) + " " + std::to_string(o.first) + "\n";
    return s;
  };
  for (const char* policy : {"pct", "random"}) {
    const std::string one = said(1, policy);
    EXPECT_EQ(one, said(2, policy));
    EXPECT_EQ(one, said(7, policy));
    EXPECT_NE(one.find("outcome 2"), std::string::npos) << one;
  }
}

// The outcome of a run whose schedule is a token's.
std::string replayed(const Plan& p, const std::string& token, std::vector<std::byte>* out) {
  Options o;
  o.replay = token;
  Session session;
  const ir::Type& t = *result_types(p)[0];
  out->assign(static_cast<size_t>(t.num_bytes()), std::byte{0x77});
  Buffer to{out->data(), t.dtype, {}};
  for (const ir::Dim& d : t.dims) to.dims.push_back(d.size);
  const DeviceCall call{0, {}, std::span(&to, 1), 0};
  const interp::Outcome r = try_launch(p, session, std::span(&call, 1), o);
  return r.stop ? ir::render(*r.stop) : "";
}

TEST(Explore, AThousandTokensReplay) {
  int tokens = 0, stops = 0;
  for (uint64_t seed = 0; tokens < 1000; ++seed)
    for (const Case& c : kLitmus) {
      Litmus litmus(text_of(among_work(c.program, static_cast<int>(seed % 4))));
      const Exploration x = litmus.explored(
          {.policy = seed % 2 ? "random" : "pct", .schedules = 30, .seed = seed, .jobs = 1, .minimise = seed % 3 > 0});
      for (const ExploredOutcome& o : x.outcomes) {
        std::vector<std::byte> out;
        const std::string stop = replayed(litmus.plan(), o.token, &out);
        ASSERT_EQ(stop, o.stop ? ir::render(*o.stop) : "") << c.name << " " << o.token;
        if (!o.stop) { ASSERT_EQ(out, o.outputs[0].bytes) << c.name << " " << o.token; }
        ++tokens;
        stops += o.stop.has_value();
      }
    }
  std::printf("%d tokens, %d of them of runs that stop\n", tokens, stops);
  EXPECT_GT(stops, 50);
}

TEST(Explore, TokensOfOtherKernelsAndVersionsAreRefusedByName) {
  Litmus litmus(text_of(kLitmus[0].program)), other(text_of(kLitmus[1].program));
  const Exploration x = litmus.explored({.policy = "exhaustive"});
  const std::string token = x.outcomes.back().token;
  std::vector<std::byte> out;
  EXPECT_EQ(replayed(litmus.plan(), token, &out), "");
  EXPECT_NE(replayed(other.plan(), token, &out).find("of another kernel"), std::string::npos);
  EXPECT_NE(replayed(litmus.plan(), "ps1:random:7", &out).find("version 1"), std::string::npos);
  const std::string head = token.substr(0, token.find(':', 13) + 1);
  for (const char* list :
       {"1t9", "1x0", "t1", "1c0", "1c0-", "9999999999999999999t0", "9223372036854775807t0", "0t0..1t1", "-1t0"}) {
    SCOPED_TRACE(list);
    EXPECT_NE(replayed(litmus.plan(), head + list, &out).find("PS-TOK-001"), std::string::npos);
  }
}

// Whatever becomes of a token's text, it is a schedule that runs, or refused.
TEST(Explore, ADamagedTokenIsAScheduleOrRefused) {
  Litmus litmus(text_of(among_work(kLitmus[5].program, 2)));
  const Exploration x = litmus.explored({.policy = "random", .schedules = 50, .jobs = 1, .minimise = false});
  uint32_t random = 7;
  const auto draw = [&](size_t n) { return (random = random * 1664525u + 1013904223u) / 65536 % n; };
  int ran = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string token = x.outcomes[draw(x.outcomes.size())].token;
    constexpr std::string_view kLetters = "0123456789tc.-:+ps";
    for (size_t n = 1 + draw(3); n > 0; --n) {
      const size_t at = draw(2) ? 30 + draw(token.size() - 30) : draw(token.size());
      if (draw(3) == 0) token.erase(at, 1 + draw(8));
      else if (draw(2)) token.insert(at, 1, kLetters[draw(kLetters.size())]);
      else token[at] = kLetters[draw(kLetters.size())];
      if (token.size() < 40) break;
    }
    std::vector<std::byte> out;
    const std::string stop = replayed(litmus.plan(), token, &out);
    ran += stop.empty();
    refused += stop.find("PS-TOK-001") != std::string::npos;
    ASSERT_TRUE(stop.empty() || stop.find("PS-TOK-001") != std::string::npos) << token << stop;
  }
  std::printf("%d damaged tokens ran, %d were refused\n", ran, refused);
  EXPECT_GT(ran, 50);
  EXPECT_GT(refused, 1000);
}

TEST(Explore, TokensHaveFewSwitchesAndNameTheLinesWhoseOrderDecides) {
  Litmus litmus(text_of(among_work({{"w0=1", "s0", "w0=2"}, {"p0", "r0"}}, 6)));
  const Exploration x = litmus.explored({.policy = "random", .schedules = 200, .jobs = 1});
  const Exploration raw = litmus.explored({.policy = "random", .schedules = 200, .jobs = 1, .minimise = false});
  ASSERT_EQ(x.outcomes.size(), raw.outcomes.size());
  size_t few = 0, many = 0;
  for (size_t i = 0; i < x.outcomes.size(); ++i) few += x.outcomes[i].switches, many += raw.outcomes[i].switches;
  std::printf("%zu outcomes, %zu switches instead of %zu\n", x.outcomes.size(), few, many);
  EXPECT_LT(4 * few, many);
  EXPECT_TRUE(
      std::any_of(x.outcomes.begin(), x.outcomes.end(), [](const auto& o) { return o.order && !o.differs.empty(); }));
}

TEST(Explore, ARequestToStopGivesWhatThereIs) {
  Litmus litmus(text_of(among_work(kLitmus[5].program, 4)));
  ExploreOptions e{.policy = "random", .schedules = 1'000'000'000, .jobs = 2};
  e.progress = [](int64_t n) {
    if (n > 500) request_interrupt();
  };
  const Exploration x = litmus.explored(e);
  EXPECT_TRUE(x.interrupted);
  EXPECT_GT(x.schedules, 100);
  ASSERT_FALSE(x.outcomes.empty());
  for (const ExploredOutcome& o : x.outcomes) EXPECT_FALSE(o.stop) << ir::render(*o.stop);
}

}  // namespace
}  // namespace pallasim::interp::test
