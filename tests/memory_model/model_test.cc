#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "model.h"

namespace pallasim::memory::model {
namespace {

// What the scheduler did: a thread's step, or (-1 - id) an operation that it let complete.
using Schedule = std::vector<int64_t>;

void follow(Machine* m, int64_t choice) {
  if (choice >= 0) m->step(static_cast<size_t>(choice));
  else m->complete(-1 - choice);
}

struct Seen {
  int64_t programs = 0, steps = 0, blocked = 0, races = 0, unfenced = 0, over = 0, unwaited = 0, passed = 0, phases = 0,
          deadlocks = 0, clean = 0;
};

// All races of the machine are pairs of the reference; every byte that has one was found when it first had.
void compare_races(const Machine& m, const Reference& r, Seen* seen) {
  std::map<int32_t, std::vector<const shadow::Race*>> by_later;
  for (const shadow::Race& race : m.races()) {
    const bool unfenced = race.kind == shadow::Race::Kind::Unfenced;
    const auto pair = r.pairs.find({race.earlier.site, race.later.site, unfenced});
    ASSERT_NE(pair, r.pairs.end()) << "no race: " << race.earlier.site << " and " << race.later.site
                                   << (unfenced ? " unfenced" : "");
    const auto inside = [&](const auto& b) {
      return b.first == race.instance && b.second >= race.bytes.begin && b.second < race.bytes.end;
    };
    ASSERT_TRUE(std::any_of(pair->second.begin(), pair->second.end(), inside));
    by_later[race.later.site].push_back(&race);
    ++(unfenced ? seen->unfenced : seen->races);
  }
  for (const auto& [site, bytes] : r.first_at)
    for (const auto& [array, byte] : bytes) {
      const auto found = [&, array = array, byte = byte](const shadow::Race* x) {
        return x->instance == array && byte >= x->bytes.begin && byte < x->bytes.end;
      };
      const auto& list = by_later[site];
      ASSERT_TRUE(std::any_of(list.begin(), list.end(), found))
          << "missed: access " << site << " at byte " << byte << " of array " << array;
    }
}

// Runs the program under a random schedule on both sides. `copies`: the machine before each choice.
void run(const Program& p, std::mt19937_64& rng, Machine* machine, Schedule* schedule, std::vector<Machine>* copies,
         Seen* seen) {
  Reference reference(p);
  for (;;) {
    std::vector<int64_t> choices;
    const Status now = machine->status();
    for (size_t t = 0; t < p.threads.size(); ++t)
      if (machine->runnable(t)) choices.push_back(static_cast<int64_t>(t));
    const bool stuck = choices.empty();
    if (stuck || p.policy == CopyCompletion::Scheduled)
      for (int64_t id : now.movable) choices.push_back(-1 - id);
    if (choices.empty()) break;
    const int64_t choice = choices[rng() % choices.size()];
    if (copies) copies->push_back(*machine);
    schedule->push_back(choice);
    follow(machine, choice);
    if (choice >= 0) reference.step(static_cast<size_t>(choice));
    else reference.complete(-1 - choice);
    const Status got = machine->status(), want = reference.status();
    ASSERT_EQ(got, want) << "choice " << choice << "\n" << text(got) << "\n" << text(want);
    for (size_t t = 0; t < p.threads.size(); ++t)
      if (!machine->ended(t) && !machine->runnable(t)) {
        ASSERT_TRUE(reference.would_block(t)) << "thread " << t << " sleeps";
        ++seen->blocked;
      }
  }
  const Status end = machine->status();
  seen->steps += static_cast<int64_t>(schedule->size());
  seen->over += end.over_arrivals, seen->unwaited += end.unwaited, seen->passed += end.passed;
  for (int64_t n : end.phases) seen->phases += n;
  for (size_t t = 0; t < p.threads.size(); ++t)
    if (!machine->ended(t)) {
      ++seen->deadlocks;
      break;
    }
  seen->clean += reference.pairs.empty() && schedule->size() > 20;
  compare_races(*machine, reference, seen);
}

// More programs, another seed: MODEL_PROGRAMS, MODEL_SEED.
int64_t setting(const char* name, int64_t otherwise) {
  const char* v = std::getenv(name);
  return v ? std::atoll(v) : otherwise;
}

TEST(Model, AgreesWithTheReference) {
  Seen seen;
  const int64_t programs = setting("MODEL_PROGRAMS", 4000), seed = setting("MODEL_SEED", 1);
  for (int64_t n = 0; n < programs; ++n) {
    std::mt19937_64 rng(static_cast<uint64_t>(seed * 1000000 + n));
    const Program p = random_program(rng);
    Machine machine(p);
    Schedule schedule;
    run(p, rng, &machine, &schedule, nullptr, &seen);
    ASSERT_FALSE(HasFatalFailure()) << "program " << seed * 1000000 + n;
    ++seen.programs;
  }
  // The programs do what they are for.
  std::printf("%ld programs, %ld steps, %ld waits, %ld phases, %ld deadlocks\n", seen.programs, seen.steps,
              seen.blocked, seen.phases, seen.deadlocks);
  std::printf("%ld races, %ld without a fence, %ld programs without any\n", seen.races, seen.unfenced, seen.clean);
  std::printf("%ld over-arrivals, %ld ends nobody waited for, %ld waits that came late\n", seen.over, seen.unwaited,
              seen.passed);
  EXPECT_GT(seen.steps, 8 * programs);
  EXPECT_GT(seen.blocked, programs);
  EXPECT_GT(seen.races, programs);
  EXPECT_GT(seen.unfenced, programs / 10);
  EXPECT_GT(seen.over, programs / 20);
  EXPECT_GT(seen.unwaited, programs / 20);
  EXPECT_GT(seen.passed, programs / 100);
  EXPECT_GT(seen.phases, programs / 4);
  EXPECT_GT(seen.clean, programs / 20);
  EXPECT_LT(seen.deadlocks, programs / 2);
}

TEST(Model, SnapshotsAtEveryStep) {
  Seen seen;
  for (uint64_t n = 0; n < static_cast<uint64_t>(setting("MODEL_SNAPSHOTS", 60)); ++n) {
    std::mt19937_64 rng(n);
    const Program p = random_program(rng);
    Machine machine(p);
    Schedule schedule;
    std::vector<Machine> copies;
    run(p, rng, &machine, &schedule, &copies, &seen);
    ASSERT_FALSE(HasFatalFailure()) << n;
    for (size_t from = 0; from < copies.size(); ++from) {
      Machine again = copies[from];
      for (size_t i = from; i < schedule.size(); ++i) {
        ASSERT_TRUE(again == copies[i]) << n << " from " << from << " at " << i;
        follow(&again, schedule[i]);
      }
      ASSERT_TRUE(again == machine) << n << " from " << from;
    }
    if (copies.size() > 1) { ASSERT_FALSE(copies.front() == machine); }
  }
}

}  // namespace
}  // namespace pallasim::memory::model
