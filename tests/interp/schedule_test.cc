// Threads, semaphores, policies, deadlocks.
#include <chrono>
#include <thread>

#include "run.h"

namespace pallasim::interp::test {
namespace {

std::string ring(int n) {
  std::string s = read_file("pass/semaphore_ring.psir");
  auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t i = 0; (i = s.find(from, i)) != std::string::npos; i += to.size()) s.replace(i, from.size(), to);
  };
  char hex[32];
  std::snprintf(hex, sizeof hex, "0x%x", n);
  replace("axis(\"i\", 8)", "axis(\"i\", " + std::to_string(n) + ")");
  replace("[8]", "[" + std::to_string(n) + "]");
  replace("i32 0x8}", std::string("i32 ") + hex + "}");
  return s;
}

TEST(Schedule, TenThousandThreadsInARingOnOneOsThread) {
  constexpr int kThreads = 10'000;
  const auto r = run(ring(kThreads), {});
  EXPECT_EQ(r.report.threads, kThreads);
  const auto o = r.results[0].as<int32_t>();
  for (int i = 0; i < kThreads; ++i) ASSERT_EQ(o[static_cast<size_t>(i)], (i + 1) % kThreads);
}

TEST(Schedule, EverySeedGivesTheSameRingAndReplaysItsToken) {
  const auto want = run(ring(50), {}).results[0].bytes;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Options o;
    o.random_seed = seed;
    const auto r = run(ring(50), {}, o);
    EXPECT_EQ(r.results[0].bytes, want);
    Options again;
    again.replay = r.report.token;
    const auto s = run(ring(50), {}, again);
    EXPECT_EQ(s.report.steps, r.report.steps);
    EXPECT_EQ(s.report.token, r.report.token);
  }
}

TEST(Schedule, BadTokensAreRefused) {
  for (const char* token :
       {"x", "ps1:random:1", "ps2:random:", "ps2:random:1x", "ps2:random:99999999999999999999999"}) {
    Options o;
    o.replay = token;
    EXPECT_EQ(error_code(ring(4), {}, o), "PS-TOK-001") << token;
  }
}

// Every thread appends what it sees of a shared counter: the order of the schedule shows.
const char* kRace = R"(pallasim-ir 1
module "race" {machine = generic}
mesh "m" {kind = generic, axes = [axis("i", 4)]}
output "o_ref" : i32[4] {space = smem}
scratch "count" : ref<i32[1], smem, grid>
scratch "ready" : ref<sem[1], semaphore, grid>
body "m" (%0 "o_ref": ref<i32[4], smem>, %1 "count": ref<i32[1], smem, grid>,
    %2 "ready": ref<sem[1], semaphore, grid>) {
  %3 = axis_index {axis = "i"} : i32[]
  %4 = constant {value = i32 0x1} : i32[]
  %5 = get %1 {view = [index(0)]} : i32[]
  %6 = add %5, %4 : i32[]
  store %1, %6 {view = [index(0)]}
  store %0, %6, %3 {view = [index($2)]}
  yield
}
)";

TEST(Schedule, RandomSeedsFindOtherInterleavingsAndAreReproducible) {
  std::set<std::vector<std::byte>> seen;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Options o;
    o.random_seed = seed;
    const auto a = run(kRace, {}, o).results[0].bytes;
    EXPECT_EQ(run(kRace, {}, o).results[0].bytes, a);
    seen.insert(a);
  }
  EXPECT_GT(seen.size(), 3u);
}

TEST(Schedule, DeadlockNamesWaitersSemaphoresAndSignals) {
  std::string text = ring(3);
  // Every thread waits first: nobody signals.
  const std::string from =
      "    sem_signal %1, %8, %3 {view = [index($1)], inc = $2}\n    sem_wait %1, %2, %3 {view = [index($1)], value = "
      "$2}\n";
  const std::string to =
      "    sem_wait %1, %2, %3 {view = [index($1)], value = $2}\n    sem_signal %1, %8, %3 {view = [index($1)], inc = "
      "$2}\n";
  ASSERT_NE(text.find(from), std::string::npos);
  text.replace(text.find(from), from.size(), to);
  std::string report;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(error_code(text, {}, {}, &report), "PS-DEAD-001");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_NE(report.find("deadlock: 3 of 3 threads wait and nobody is left to signal"), std::string::npos) << report;
  EXPECT_NE(report.find("thread 1 waits for sems[1] to reach 1: it is 0"), std::string::npos) << report;
  EXPECT_NE(report.find("schedule ps2:run-to-block"), std::string::npos) << report;
}

TEST(Schedule, PlansMayBeLaunchedFromSeveralOsThreads) {
  auto plan = compile(ir::parse(read_file("pass/sum_when.psir")));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&, k] {
      Session s;
      for (int i = 0; i < 50; ++i) {
        Array x = noise({4, 8, 128}, static_cast<uint32_t>(k + 1)), o = noise({8, 128}, 9);
        const Buffer in[] = {x.buffer()}, out[] = {o.buffer()};
        launch(*plan, s, in, out);
        const auto a = x.as<float>();
        if (o.as<float>()[5] != ((a[5] + a[5 + 1024]) + a[5 + 2048]) + a[5 + 3072]) ++wrong;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// From the start of the launch, which is earlier than the moment in which the last thread blocks.
TEST(Schedule, ADeadlockIsReportedWithinATenthOfASecond) {
  for (int threads : {2, 64, 1000}) {
    std::string text = read_file("fail/run/deadlock_pair.psir");
    const std::string n = std::to_string(threads);
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"axis(\"core\", 2)", "axis(\"core\", " + n + ")"},
          {"sem[2]", "sem[" + n + "]"},
          {"i32[2]", "i32[" + n + "]"}})
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    const auto plan = compile(ir::parse(text));
    Session session;
    std::vector<int32_t> o(static_cast<size_t>(threads));
    const Buffer out{o.data(), ir::DType::I32, {threads}};
    const auto begin = std::chrono::steady_clock::now();
    std::string report;
    try {
      launch(*plan, session, {}, std::span<const Buffer>(&out, 1));
    } catch (const ir::DiagnosticError& e) { report = e.what(); }
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    std::printf("%d threads: %.2f ms\n", threads, ms);
    EXPECT_NE(report.find("deadlock: " + n + " of " + n + " threads wait"), std::string::npos) << report;
    EXPECT_NE(report.find("they wait in a circle: thread 0 for thread 1, thread 1 for thread 0"), std::string::npos)
        << report;
    EXPECT_LT(ms, 100);
  }
}

}  // namespace
}  // namespace pallasim::interp::test
