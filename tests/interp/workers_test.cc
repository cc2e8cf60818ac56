// OS threads that take parts of steps: each part once, whoever is awake, and the same results for 1, 2 and 8 of them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "launch/workers.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

TEST(StepWorkers, EachPartIsCalledOnceAndSeenByTheCaller) {
  for (const int count : {2, 3, 8}) {
    StepWorkers workers(count);
    EXPECT_EQ(workers.count(), count);
    for (int job = 0; job < 300; ++job)
      for (const int n : {1, 2, 3, count, 64, 65, 200}) {
        std::vector<int> calls(static_cast<size_t>(n));  // written by helpers, read here
        workers.run(n, [&](int i) { calls[static_cast<size_t>(i)] += job + i + 1; });
        for (int i = 0; i < n; ++i)
          ASSERT_EQ(calls[static_cast<size_t>(i)], job + i + 1) << "part " << i << " of " << n;
      }
  }
}

// Helpers that found nothing to do for a while have gone to sleep, and are called again.
TEST(StepWorkers, HelpersComeBackAfterAPause) {
  StepWorkers workers(4);
  for (int job = 0; job < 20; ++job) {
    std::atomic<int> calls{0};
    workers.run(16, [&](int) { ++calls; });
    EXPECT_EQ(calls, 16);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(StepWorkers, NoneOutlivesItsLaunch) {
  std::atomic<int> calls{0};
  int parts = 0;
  for (int launch = 0; launch < 200; ++launch) {
    StepWorkers workers(8);
    for (int job = 0; job < launch % 3; ++job, parts += 8) workers.run(8, [&](int) { ++calls; });
  }
  EXPECT_EQ(calls, parts);
}

// A loop in one piece: behind a product a chain of elementwise operations, a sum over lanes and a copy, long enough to
// be worth parts once their helpers are awake. Whole numbers, whose sums are exact in any order.
constexpr const char* kLoop = R"(pallasim-ir 1
module "k" {machine = tpu}
input "a" : f32[128,160] {space = any}
input "b" : f32[160,256] {space = any}
output "o" : f32[128,256] {space = any}
output "s" : f32[128] {space = vmem}
scratch "acc" : ref<f32[128,256], vmem>
scratch "sum" : ref<f32[128], vmem>
scratch "sem" : ref<dma_sem[], semaphore>
body (%0 "a": ref<f32[128,160], any>, %1 "b": ref<f32[160,256], any>, %2 "o": ref<f32[128,256], any>,
      %3 "s": ref<f32[128], vmem>, %4 "acc": ref<f32[128,256], vmem>,
      %5 "sum": ref<f32[128], vmem>, %6 "sem": ref<dma_sem[], semaphore>) {
  %7 = constant {value = f32 0x0} : f32[]
  %8 = broadcast_in_dim %7 {dims = []} : f32[128,256]
  store %4, %8
  %9 = broadcast_in_dim %7 {dims = []} : f32[128]
  store %5, %9
  %10 = constant {value = i32 0x0} : i32[]
  %11 = constant {value = i32 0xc} : i32[]
  %12 = constant {value = i32 0x1} : i32[]
  %13 = for %10, %11, %12, %10 (%14: i32[], %15: i32[]) {
    %16 = add %15, %12 : i32[]
    %17 = get %0 : f32[128,160]
    %18 = get %1 : f32[160,256]
    %19 = dot_general %17, %18 {lhs_contract = [1], rhs_contract = [0], lhs_batch = [], rhs_batch = []} : f32[128,256]
    %20 = get %4 : f32[128,256]
    %21 = convert %15 : f32[]
    %22 = broadcast_in_dim %21 {dims = []} : f32[128,256]
    %23 = add %19, %22 : f32[128,256]
    %24 = max %20, %23 : f32[128,256]
    %25 = sub %24, %20 : f32[128,256]
    %26 = add %20, %25 : f32[128,256]
    store %4, %26
    %27 = reduce_sum %25 {axes = [1]} : f32[128]
    %28 = get %5 : f32[128]
    %29 = add %28, %27 : f32[128]
    store %5, %29
    dma_start %4, %2, %6 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
    dma_wait %4, %2, %6 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
    yield %16
  } : i32[]
  %30 = get %5 : f32[128]
  store %3, %30
  yield
}
)";

TEST(StepWorkers, LoopsInOnePieceEndAlike) {
  const Array a = whole({128, 160}, 1), b = whole({160, 256}, 2);
  const std::vector<float> x = a.as<float>(), y = b.as<float>();
  std::vector<float> acc(128 * 256), sum(128);
  for (size_t i = 0; i < 128; ++i)
    for (size_t j = 0; j < 256; ++j) {
      float product = 0;
      for (size_t k = 0; k < 160; ++k) product += x[i * 160 + k] * y[k * 256 + j];
      // The last of twelve rounds added 11; what the sums had before were the steps on the way.
      acc[i * 256 + j] = std::max(0.0f, product + 11);
      sum[i] += acc[i * 256 + j];
    }
  for (const int workers : {1, 2, 8}) {
    Options o;
    o.workers = workers;
    for (int repeat = 0; repeat < 10; ++repeat) {
      const Outcome got = run(kLoop, {a, b}, o);
      ASSERT_EQ(got.results[0].as<float>(), acc) << workers;
      ASSERT_EQ(got.results[1].as<float>(), sum) << workers;
    }
  }
}

}  // namespace
}  // namespace pallasim::interp::test
