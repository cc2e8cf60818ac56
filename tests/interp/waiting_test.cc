// What threads wait for besides semaphores: barriers with phases, and the threads that they spawned; and which threads
// there are at a time.
#include <fmt/format.h>

#include "pallasim/hw/chips.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

std::string edited(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// Thread blocks of two warpgroups: the first one fills a slot of shared memory in every round, the other one adds what
// is in it to its sum. `full` and `empty` are barriers of the block; `wait_empty` and `arrive_full` are left out by
// tests.
std::string rounds(int blocks, const std::string& arrive_full = "  barrier_arrive %3 {barrier = view($0, [])} @1\n",
                   const std::string& wait_full = "  barrier_wait %3 {barrier = view($0, [])} @2\n") {
  return fmt::format(R"(pallasim-ir 1
module "rounds" {{machine = mosaic_gpu}}
mesh "g" {{kind = gpu, axes = [axis("x", {0}), axis("wg", 2)], grid = 1, cluster = 0, threads = 1}}
input "a" : i32[{0},4] {{space = gmem}}
output "o" : i32[{0}] {{space = gmem}}
scratch "slot" : ref<i32[1], gsmem, cta>
scratch "full" : ref<mbarrier[], gsmem, cta> {{num_arrivals = 1}}
scratch "empty" : ref<mbarrier[], gsmem, cta> {{num_arrivals = 1}}
body "g" (%0 "a": ref<i32[{0},4], gmem>, %1 "o": ref<i32[{0}], gmem>, )"
                     R"(%2 "slot": ref<i32[1], gsmem, cta>, %3 "full": ref<mbarrier[], gsmem, cta>, )"
                     R"(%4 "empty": ref<mbarrier[], gsmem, cta>) {{
  %5 = axis_index {{axis = "x"}} : i32[]
  %6 = axis_index {{axis = "wg"}} : i32[]
  %7 = constant {{value = i32 0x0}} : i32[]
  %8 = constant {{value = i32 0x1}} : i32[]
  %9 = constant {{value = i32 0x4}} : i32[]
  %10 = eq %6, %7 : bool[]
  cond %10 () {{
    %11 = for %7, %9, %8, %7 (%12: i32[], %13: i32[]) {{
    {2}      %14 = get %2 {{view = [index(0)]}} : i32[]
      barrier_arrive %4 {{barrier = view($0, [])}} @3
      %15 = add %13, %14 : i32[]
      yield %15
    }} : i32[]
    store %1, %11, %5 {{view = [index($2)]}}
    yield
  }} () {{
    for %7, %9, %8 (%16: i32[]) {{
      %17 = get %0, %5, %16 {{view = [index($1, $2)]}} : i32[]
      store %2, %17 {{view = [index(0)]}}
    {1}      barrier_wait %4 {{barrier = view($0, [])}} @4
      yield
    }}
    yield
  }}
  yield
}}
loc 0 {{file = "k.py", line = 1}}
loc 1 {{file = "k.py", line = 2}}
loc 2 {{file = "k.py", line = 3}}
loc 3 {{file = "k.py", line = 4}}
loc 4 {{file = "k.py", line = 5}}
)",
                     blocks, arrive_full, wait_full);
}

struct Numbers {
  Array a;
  std::vector<int32_t> sums;
};
Numbers numbers(int blocks) {
  std::vector<int32_t> all, sums;
  for (int b = 0; b < blocks; ++b) {
    sums.push_back(0);
    for (int i = 0; i < 4; ++i) all.push_back(100 * b + i * i + 1), sums.back() += all.back();
  }
  return {i32({blocks, 4}, all), sums};
}

TEST(Waiting, WarpgroupsHandASlotToAndFroByTheirBlocksBarriers) {
  const Numbers n = numbers(3);
  for (int seed = -1; seed < 20; ++seed) {
    Options o;
    if (seed >= 0) o.random_seed = static_cast<uint64_t>(seed);
    o.verify_restore = seed < 3 ? 1 : 0;
    const Outcome r = run(rounds(3), {n.a}, o);
    EXPECT_EQ(r.results[0].as<int32_t>(), n.sums) << seed;
    EXPECT_TRUE(r.report.findings.empty()) << ir::render(r.report.findings.front());
  }
  Options checked;
  checked.checked = true;
  for (const ir::Diagnostic& d : run(rounds(3), {n.a}, checked).report.findings)
    EXPECT_NE(d.code, "PS-RACE-002") << ir::render(d);
}

TEST(Waiting, AWaitThatIsLeftOutIsARaceAndAPhaseThatNobodySaw) {
  Options o;
  o.checked = true;
  std::string all;
  const std::string text =
      edited(rounds(2, "  barrier_arrive %3 {barrier = view($0, [])} @1\n", ""), "i32 0x4}", "i32 0x1}");
  for (const ir::Diagnostic& d : run(text, {numbers(2).a}, o).report.findings) all += ir::render(d);
  EXPECT_NE(all.find("PS-RACE-002"), std::string::npos) << all;
  EXPECT_NE(all.find("nobody saw the end of the last phase of full"), std::string::npos) << all;
  EXPECT_NE(all.find("warpgroup 1"), std::string::npos) << all;
}

TEST(Waiting, ADeadlockAtABarrierSaysWhatArrivedAndWhatIsDue) {
  std::string report;
  EXPECT_EQ(error_code(rounds(1, ""), {numbers(1).a}, {}, &report), "PS-DEAD-001");
  EXPECT_NE(report.find("waits for phase 0 of full to end: 0 of 1 arrived (k.py:3)"), std::string::npos) << report;
  EXPECT_NE(report.find("waits for phase 0 of empty to end: 0 of 1 arrived (k.py:5)"), std::string::npos) << report;
  EXPECT_NE(report.find("no thread that is left comes to an arrival at it"), std::string::npos) << report;
  EXPECT_NE(report.find("could arrive at it, but waits too"), std::string::npos) << report;
  EXPECT_EQ(error_code(rounds(1, "  barrier_arrive %3 {barrier = view($0, []), expects = 512} @1\n"), {numbers(1).a},
                       {}, &report),
            "PS-DEAD-001");
  EXPECT_NE(report.find("512 bytes are due"), std::string::npos) << report;
}

// Bytes may come before they are expected, and a phase ends when both are there.
TEST(Waiting, BytesAreDueUntilTheyCame) {
  const Numbers n = numbers(2);
  const std::string text = rounds(2,
                                  "  barrier_arrive %3 {barrier = view($0, []), count = 0, brings = 200}\n"
                                  "      barrier_arrive %3 {barrier = view($0, []), expects = 512}\n"
                                  "      barrier_arrive %3 {barrier = view($0, []), count = 0, brings = 312}\n");
  for (int seed = 0; seed < 10; ++seed) {
    Options o;
    o.random_seed = static_cast<uint64_t>(seed);
    EXPECT_EQ(run(text, {n.a}, o).results[0].as<int32_t>(), n.sums);
  }
  std::string all;
  for (const ir::Diagnostic& d :
       run(edited(rounds(1), "  yield\n}\nloc",
                  "  barrier_arrive %3 {barrier = view($0, []), count = 0, brings = 64}\n  yield\n}\nloc"),
           {numbers(1).a})
           .report.findings)
    all += ir::render(d);
  EXPECT_NE(all.find("full ends with 128 bytes that nobody expected"), std::string::npos) << all;
}

TEST(Waiting, MoreArrivalsThanAPhaseExpectsAreAFinding) {
  std::string all;
  for (const ir::Diagnostic& d :
       run(rounds(1, "  barrier_arrive %3 {barrier = view($0, []), count = 3} @1\n"), {numbers(1).a}).report.findings)
    all += ir::render(d);
  EXPECT_NE(all.find("2 arrivals at full more than its phase 0 expects"), std::string::npos) << all;
  EXPECT_NE(all.find("k.py:2"), std::string::npos) << all;
}

// More thread blocks than the chip holds begin when others end: memory is that of the resident ones.
TEST(Waiting, BlocksBeyondTheResidentOnesBeginWhenOthersEnd) {
  const int blocks = 5000;
  const Numbers n = numbers(blocks);
  const std::string text = edited(rounds(blocks), "ref<i32[1], gsmem, cta>\nscratch \"full\"",
                                  "ref<i32[25000], gsmem, cta>\nscratch \"full\"");
  const std::string wide =
      edited(text, "%2 \"slot\": ref<i32[1], gsmem, cta>", "%2 \"slot\": ref<i32[25000], gsmem, cta>");
  Options o;
  o.chip = hw::find_profile("gpu-h100");
  ASSERT_NE(o.chip, nullptr);
  o.max_memory = 64 << 20;  // 5,000 blocks of 100 KB would be 500 MB
  EXPECT_EQ(run(wide, {n.a}, o).results[0].as<int32_t>(), n.sums);
}

// Programs of a grid that run apart are thread blocks of their own: each has its shared memory.
TEST(Waiting, ProgramsOfAGridThatRunApartHaveTheirBlocksMemory) {
  const std::string text = R"(pallasim-ir 1
module "apart" {machine = mosaic_gpu}
grid {size = 8}
output "o" : i32[8] {space = gmem}
scratch "mine" : ref<i32[1], gsmem, cta>
body (%0 "o": ref<i32[8], gmem>, %1 "mine": ref<i32[1], gsmem, cta>) {
  %2 = program_id {axis = 0} : i32[]
  store %1, %2 {view = [index(0)]}
  %3 = constant {value = i32 0x0} : i32[]
  %4 = constant {value = i32 0x1} : i32[]
  %5 = constant {value = i32 0x40} : i32[]
  for %3, %5, %4 (%6: i32[]) {
    yield
  }
  %7 = get %1 {view = [index(0)]} : i32[]
  store %0, %7, %2 {view = [index($2)]}
  yield
}
)";
  for (int seed = 0; seed < 10; ++seed) {
    Options o;
    o.random_seed = static_cast<uint64_t>(seed);
    o.verify_restore = seed < 2 ? 3 : 0;
    EXPECT_EQ(run(text, {}, o).results[0].as<int32_t>(), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7})) << seed;
  }
}

// Every block waits for all blocks: with more of them than are resident that hangs.
std::string meeting(int blocks) {
  return fmt::format(R"(pallasim-ir 1
module "meeting" {{machine = mosaic_gpu, params = {{disable_semaphore_checks = true}}}}
mesh "g" {{kind = gpu, axes = [axis("x", {0})], grid = 1, cluster = 0, threads = 0}}
output "o" : i32[{0}] {{space = gmem}}
scratch "slot" : ref<i32[25000], gsmem, cta>
scratch "met" : ref<sem[], gmem, grid>
body "g" (%0 "o": ref<i32[{0}], gmem>, %1 "slot": ref<i32[25000], gsmem, cta>, %2 "met": ref<sem[], gmem, grid>) {{
  %3 = axis_index {{axis = "x"}} : i32[]
  store %1, %3 {{view = [index(0)]}}
  sem_signal %2 {{inc = 1}}
  sem_wait %2 {{value = {0}, decrement = false}}
  %4 = get %1 {{view = [index(0)]}} : i32[]
  store %0, %4, %3 {{view = [index($2)]}}
  yield
}}
)",
                     blocks);
}

TEST(Waiting, APersistentKernelWithMoreBlocksThanAreResidentHangsAndSaysSo) {
  Options o;
  o.chip = hw::find_profile("gpu-h100");
  ASSERT_NE(o.chip, nullptr);
  std::vector<int32_t> all;
  for (int i = 0; i < 264; ++i) all.push_back(i);
  o.livelock_steps = 1'000'000;
  EXPECT_EQ(run(meeting(264), {}, o).results[0].as<int32_t>(), all);
  std::string report;
  EXPECT_EQ(error_code(meeting(300), {}, o, &report), "PS-DEAD-001");
  EXPECT_NE(report.find("36 of 300 clusters have not started: 264 are resident at a time on gpu-h100: 2 per SM"),
            std::string::npos)
      << report;
}

// Four threads inside each of two: they read the parent's memory and scalars, write a place of their own in it, and the
// parent reads all four when they ended.
const std::string kSpawn = R"(pallasim-ir 1
module "spawned" {machine = generic}
mesh "m" {kind = generic, axes = [axis("i", 2)]}
input "x" : i32[2] {space = any}
output "o" : i32[2,4] {space = any}
scratch "mine" : ref<i32[4], smem>
body "m" (%0 "x": ref<i32[2], any>, %1 "o": ref<i32[2,4], any>, %2 "mine": ref<i32[4], smem>) {
  %3 = axis_index {axis = "i"} : i32[]
  %4 = get %0, %3 {view = [index($1)]} : i32[]
  %5 = constant {value = i32 0xa} : i32[]
  %6 = mul %4, %5 : i32[]
  spawn {mesh = {kind = warp, axes = [axis("w", 4)]}} () {
    %7 = axis_index {axis = "w"} : i32[]
    %8 = axis_size {axis = "w"} : i32[]
    run_scoped (%9 "own": ref<i32[4], smem>) {
      %10 = broadcast_in_dim %7 {dims = []} : i32[4]
      store %9, %10
      %11 = get %9 : i32[4]
      %12 = reduce_sum %11 {axes = [0]} : i32[]
      %13 = add %12, %6 : i32[]
      %14 = add %13, %8 : i32[]
      store %2, %14, %7 {view = [index($2)]}
      yield
    }
    yield
  } @0
  %15 = get %2 : i32[4]
  store %1, %15, %3 {view = [index($2, slice(0, 4))]}
  yield
}
loc 0 {file = "k.py", line = 9}
)";

TEST(Waiting, SpawnedThreadsHaveTheirParentsScalarsAndRefs) {
  const Array x = i32({2}, {1, 2});
  for (int seed = -1; seed < 20; ++seed) {
    Options o;
    if (seed >= 0) o.random_seed = static_cast<uint64_t>(seed);
    o.verify_restore = seed < 3 ? 1 : 0;
    EXPECT_EQ(run(kSpawn, {x}, o).results[0].as<int32_t>(), (std::vector<int32_t>{14, 18, 22, 26, 24, 28, 32, 36}))
        << seed;
  }
  Options checked;
  checked.checked = true;
  const auto found = run(kSpawn, {x}, checked).report.findings;
  EXPECT_TRUE(found.empty()) << ir::render(found.front());
}

TEST(Waiting, SpawnedThreadsThatWriteOneElementRace) {
  Options o;
  o.checked = true;
  const auto found = run(edited(kSpawn, "store %2, %14, %7 {view = [index($2)]}", "store %2, %14 {view = [index(1)]}"),
                         {i32({2}, {1, 2})}, o)
                         .report.findings;
  ASSERT_FALSE(found.empty());
  std::string all;
  for (const ir::Diagnostic& d : found) all += ir::render(d);
  EXPECT_NE(all.find("PS-RACE-002"), std::string::npos) << all;
  EXPECT_NE(all.find("spawned thread 1 of thread 0"), std::string::npos) << all;
}

TEST(Waiting, AParentThatWaitsForItsThreadsIsPartOfADeadlock) {
  std::string report;
  const std::string text =
      edited(edited(edited(kSpawn, "scratch \"mine\"", "scratch \"never\" : ref<sem[], semaphore>\nscratch \"mine\""),
                    "%2 \"mine\": ref<i32[4], smem>) {",
                    "%16 \"never\": ref<sem[], semaphore>, %2 \"mine\": ref<i32[4], smem>) {"),
             "    run_scoped (%9", "    sem_wait %16 {value = 1}\n    run_scoped (%9");
  EXPECT_EQ(error_code(text, {i32({2}, {1, 2})}, {}, &report), "PS-DEAD-001");
  EXPECT_NE(report.find("thread 0 waits for 4 of its 4 threads to end (k.py:9)"), std::string::npos) << report;
}

}  // namespace
}  // namespace pallasim::interp::test
