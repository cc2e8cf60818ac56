// Frames suspend at every step of any nesting; threads copy as bytes.
#include "engine/engine.h"
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
body "m" (%0 "o_ref": ref<i32[2,4], smem>, %1 "sems": ref<sem[2], semaphore, grid>, %2 "turn": ref<i32[1], smem, grid>) {
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
  const int64_t bytes = 32;

  Fixture() : plan(compile(ir::parse(kNest))), exec(*plan) {
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
      const Stop stop = f.exec.run(f.exec.threads[static_cast<size_t>(i)], budget);
      for (int32_t w : f.exec.woken) ready.push_back(w);
      f.exec.woken.clear();
      if (stop == Stop::None) ready.push_back(i);
    }
    EXPECT_EQ(f.out, whole.out) << "budget " << budget;
  }
}

TEST(Snapshot, RestoreGivesTheSameBytesFromEveryPoint) {
  Fixture whole;
  run_threads(whole.exec, whole.options);
  int points = 0;
  for (int64_t cut = 1; cut < whole.exec.steps; cut += 13, ++points) {
    Fixture f;
    // Run to the cut, one step at a time, first runnable thread first.
    std::deque<int32_t> ready = {0, 1};
    auto advance = [&](int64_t until) {
      while (!ready.empty() && f.exec.steps < until) {
        const int32_t i = ready.front();
        ready.pop_front();
        const Stop stop = f.exec.run(f.exec.threads[static_cast<size_t>(i)], 1);
        for (int32_t w : f.exec.woken) ready.push_back(w);
        f.exec.woken.clear();
        if (stop == Stop::None) ready.push_back(i);
      }
    };
    advance(cut);
    const std::deque<int32_t> ready_then = ready;
    const Execution::Snapshot snapshot = f.exec.snapshot(std::span(&f.bytes, 1));
    advance(INT64_MAX);
    const auto first = f.out;
    f.exec.restore(snapshot, std::span(&f.bytes, 1));
    ready = ready_then;
    advance(INT64_MAX);
    EXPECT_EQ(f.out, first) << "cut at step " << cut;
    EXPECT_EQ(f.out, whole.out) << "cut at step " << cut;
  }
  EXPECT_GT(points, 10);
}

}  // namespace
}  // namespace pallasim::interp::test
