// Frames suspend at every step of any nesting; threads copy as bytes.
#include <filesystem>

#include "engine/engine.h"
#include "engine/publish.h"
#include "engine/snapshot.h"
#include "report/words.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

// Two threads hand a token to and fro at every depth of run_scoped / for / while / cond.
const char* kNest = R"(pallasim-ir 1
module "nest" {machine = generic}
mesh "m" {kind = generic, axes = [axis("i", 2)]}
output "o_ref" : i32[2,4] {space = smem}
scratch "sems" : ref<sem[2], semaphore, grid>
scratch "turn" : ref<i32[1], smem, grid>
body "m" (%0 "o_ref": ref<i32[2,4], smem>, %1 "sems": ref<sem[2], semaphore, grid>,
    %2 "turn": ref<i32[1], smem, grid>) {
  %3 = axis_index {axis = "i"} : i32[]
  %4 = constant {value = i32 0x1} : i32[]
  %5 = sub %4, %3 : i32[]
  %6 = constant {value = i32 0x0} : i32[]
  %7 = constant {value = i32 0x3} : i32[]
  %8 = eq %3, %6 : bool[]
  cond %8 () {
    yield
  } () {
    store %2, %6 {view = [index(0)]}
    sem_signal %1, %3 {view = [index($1)], inc = 1}
    yield
  }
  run_scoped (%9 "tmp": ref<i32[4], smem>) {
    %10 = iota {axis = 0} : i32[4]
    store %9, %10
    %11 = for %6, %7, %4, %6 (%12: i32[], %13: i32[]) {
      sem_wait %1, %3 {view = [index($1)], value = 1}
      %14 = while %6 (%15: i32[]) {
        %16 = lt %15, %7 : bool[]
        yield %16
      } (%17: i32[]) {
        %18 = get %2 {view = [index(0)]} : i32[]
        %19 = add %18, %4 : i32[]
        store %2, %19 {view = [index(0)]}
        sem_signal %1, %5 {view = [index($1)], inc = 1}
        sem_wait %1, %3 {view = [index($1)], value = 1}
        %20 = rem %17, %7 : i32[]
        %21 = cond %20 () {
          %22 = get %9, %17 {view = [index($1)]} : i32[]
          yield %22
        } () {
          sem_signal %1, %3 {view = [index($1)], inc = 1}
          sem_wait %1, %3 {view = [index($1)], value = 1}
          yield %19
        } : i32[]
        %23 = add %13, %21 : i32[]
        store %9, %23, %17 {view = [index($2)]}
        %24 = add %17, %4 : i32[]
        yield %24
      } : i32[]
      %25 = add %13, %14 : i32[]
      sem_signal %1, %5 {view = [index($1)], inc = 1}
      yield %25
    } : i32[]
    %26 = get %9 : i32[4]
    %27 = add %26, %11 : i32[4]
    store %0, %27, %3 {view = [index($2, slice(0, 4))]}
    yield
  }
  yield
}
)";

struct Fixture {
  std::shared_ptr<const Plan> plan;
  std::vector<int32_t> out = std::vector<int32_t>(8, -1);
  Options options;
  Execution exec;

  Fixture() : plan(compile(ir::parse(kNest))), exec(*plan, Words::all()) {
    exec.options = &options;
    const std::vector<std::byte*> operands[] = {{reinterpret_cast<std::byte*>(out.data())}};
    exec.bind(operands, {});
    exec.start({});
  }
};

TEST(Snapshot, SuspendedAfterEveryStepResumesToTheSameBytes) {
  Fixture whole;
  run_threads(whole.exec, whole.options);
  const int64_t steps = whole.exec.steps;
  ASSERT_GT(steps, 200);
  for (int64_t budget : {1, 2, 3, 5, 7, 11}) {
    Fixture f;
    std::deque<int32_t> ready = {0, 1};
    while (!ready.empty()) {
      const int32_t i = ready.front();
      ready.pop_front();
      const Stop stop = run(f.exec, f.exec.threads[static_cast<size_t>(i)], budget);
      for (int32_t w : f.exec.woken) ready.push_back(w);
      f.exec.woken.clear();
      if (stop == Stop::None) ready.push_back(i);
    }
    EXPECT_EQ(f.out, whole.out) << "budget " << budget;
  }
}

TEST(Snapshot, RestoreGivesTheSameBytesFromEveryStep) {
  Fixture whole;
  run_threads(whole.exec, whole.options);
  for (const bool random : {false, true}) {
    Fixture f;
    if (random) f.options.random_seed = 7;
    run_restoring(f.exec, f.options, 1);  // throws where something differs
    EXPECT_EQ(f.out, whole.out);
  }
}

// Every part of a snapshot counts: what is left out of a restored one shows.
TEST(Snapshot, WhatIsNotRestoredIsSeen) {
  Fixture f;
  Scheduler scheduler(f.exec, f.options);
  for (int i = 0; i < 40; ++i) scheduler.turn(1);
  const Snapshot here = Snapshots(f.exec).take();
  auto differs = [&](auto&& change) {
    Snapshot other = here;
    change(other);
    return difference(here, other);
  };
  EXPECT_EQ(differs([](Snapshot&) {}), "");
  const auto flip = [](memory::Pages& pages, size_t at) {
    std::vector<std::byte> bytes(static_cast<size_t>(pages.size()));
    pages.load(bytes);
    bytes[at] ^= std::byte{1};
    pages = memory::Pages(bytes);
  };
  EXPECT_EQ(differs([&](Snapshot& s) { flip(s.memory.arrays[0], 3); }), "operands");
  EXPECT_EQ(differs([&](Snapshot& s) { flip(s.memory.shared[0], 2); }), "shared memory");
  EXPECT_EQ(differs([&](Snapshot& s) { flip(s.memory.slots[1], 9); }), "arenas");
  EXPECT_EQ(differs([&](Snapshot& s) { flip(s.memory.temporaries[1], 0); }), "arenas");
  EXPECT_EQ(differs([](Snapshot& s) { s.state.semaphores.set(0, 77); }), "semaphores");
  EXPECT_EQ(differs([](Snapshot& s) { s.log.prints.push_back({0, "text", nullptr}); }), "prints");
  EXPECT_EQ(differs([](Snapshot& s) { s.log.findings.push_back(ir::Diagnostic("PS-OOB-001", "")); }), "findings");
  EXPECT_EQ(differs([](Snapshot& s) { ++s.state.steps; }), "counts");
  EXPECT_EQ(differs([](Snapshot& s) { ++s.state.threads[0].wait.value; }), "threads");
  EXPECT_EQ(differs([](Snapshot& s) { s.state.copies_issued = 9; }), "copies in flight");
  EXPECT_EQ(differs([](Snapshot& s) { s.state.turn.policy.push_back(5); }), "whose turn it is");
}

// What a restore puts back is equal to what was taken, field by field, and what was taken points into no memory of the
// host.
TEST(Snapshot, AStateIsAValue) {
  Fixture f;
  Scheduler scheduler(f.exec, f.options);
  Snapshots snapshots(f.exec);
  for (int i = 0; i < 40; ++i) scheduler.turn(1);
  const Snapshot here = snapshots.take();
  const State copy = f.exec;
  EXPECT_EQ(copy, here.state);
  for (const Thread& t : copy.threads)
    EXPECT_TRUE(!t.arena && !t.bases && !t.exec && !t.strips) << "thread " << t.index;
  const std::vector<int32_t> out = f.out;
  while (scheduler.turn()) {}
  EXPECT_FALSE(copy == f.exec);
  EXPECT_NE(difference(copy, f.exec), "");
  EXPECT_FALSE(snapshots.holds(here));
  snapshots.restore(here);
  EXPECT_EQ(copy, static_cast<const State&>(f.exec));
  EXPECT_EQ(difference(copy, f.exec), "");
  EXPECT_TRUE(snapshots.holds(here));
  EXPECT_EQ(f.out, out);
}

// Programs after each other in one memory, each of which writes a page of it: elsewhere its memory is fresh, which no
// step says.
TEST(Snapshot, MemoryThatComesToTheNextProgramHasChanged) {
  const auto plan = compile(ir::parse(read_file("interp/programs.psir")));
  Options options;
  std::vector<int32_t> out(40);
  const std::vector<std::byte*> operands[] = {{reinterpret_cast<std::byte*>(out.data())}};
  const int64_t grid[] = {40};
  for (const int every : {1, 2, 3, 5, 7, 11}) {
    Execution ex(*plan, Words::all());
    WrittenPages written(ex);
    Observer* const observers[] = {&written};
    const Publisher publisher(ex, observers);
    ex.options = &options;
    ex.bind(operands, grid, 0, {.programs = 40, .resident = 1});
    ex.start_programs();
    Snapshots snapshots(ex, &written);
    Scheduler scheduler(ex, options);
    for (int steps = 1; scheduler.turn(1); ++steps) {
      if (steps % every != 0) continue;
      ASSERT_TRUE(snapshots.holds(snapshots.take())) << every << ", " << steps;
    }
    EXPECT_EQ(out, std::vector<int32_t>(40, 8));
  }
}

// Every kernel of tests/pass, from snapshots of its whole run, copies in flight and programs included.
TEST(Snapshot, KernelsOfTestsPassEndAlikeFromSnapshots) {
  int runs = 0;
  for (const auto& [file, text] : kernels_that_pass()) {
    const ir::Module m = ir::parse(text);
    for (auto when : {Options::Copies::AtIssue, Options::Copies::AtWait, Options::Copies::Scheduled})
      for (const bool random : {false, true}) {
        Options o;
        o.copies = when;
        o.livelock_steps = 100'000;  // all arguments are 0: some wait for ever
        o.checked = random;          // what changes is known by footprints there
        if (random) o.random_seed = 3;
        std::vector<Array> args;
        for (const ir::Operand& operand : m.operands)
          if (operand.kind != ir::Operand::Kind::Output) {
            Array a{operand.array->dtype, {}, std::vector<std::byte>(static_cast<size_t>(operand.array->num_bytes()))};
            for (const ir::Dim& d : operand.array->dims) a.dims.push_back(d.size);
            args.push_back(std::move(a));
          }
        try {
          const int64_t steps = run(text, args, o).report.steps;
          if (steps > 20'000) continue;  // the rest is run twice from five places
          o.verify_restore = std::max<int64_t>(1, steps / 5);
          run(text, args, o);
          ++runs;
        } catch (const ir::DiagnosticError& e) { EXPECT_NE(e.diagnostic().code, "PS-BUG-003") << file << e.what(); }
      }
  }
  EXPECT_GT(runs, 60);
}

}  // namespace
}  // namespace pallasim::interp::test
