// GPUs that reach into each other, clusters that begin when others end or never, and warps.
#include "pallasim/hw/chips.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

// A GPU that holds so many CTAs.
const hw::Profile& holding(int64_t ctas) {
  static std::map<int64_t, hw::Profile> all;
  hw::Profile& p = all.try_emplace(ctas, hw::generic()).first->second;
  p.device_cores = 1, p.blocks_per_sm = ctas, p.warps_per_sm = 1024;
  return p;
}

Options on(int64_t ctas, bool checked = false) {
  Options o;
  o.chip = &holding(ctas);
  o.checked = checked;
  return o;
}

std::string edited(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// The same launch on several devices, each with x[i] = 10 * device + i; what each has in o, or the error.
struct Ran {
  std::vector<std::vector<int32_t>> o;
  std::string error;
  std::vector<ir::Diagnostic> findings;
};
Ran on_devices(const std::string& text, int devices, int64_t n, const Options& o) {
  std::deque<Array> x, out;
  std::vector<std::vector<Buffer>> in(static_cast<size_t>(devices)), res(in.size());
  std::vector<DeviceCall> calls;
  for (int d = 0; d < devices; ++d) {
    std::vector<int32_t> v(static_cast<size_t>(n)), none(v.size(), -1);
    for (int64_t i = 0; i < n; ++i) v[static_cast<size_t>(i)] = static_cast<int32_t>(10 * d + i);
    x.push_back(i32({n}, v)), out.push_back(i32({n}, none));
    in[static_cast<size_t>(d)] = {x.back().buffer()}, res[static_cast<size_t>(d)] = {out.back().buffer()};
  }
  for (size_t d = 0; d < in.size(); ++d) calls.push_back({static_cast<int32_t>(d), in[d], res[d]});
  const auto plan = compile(ir::parse(text), o);
  EXPECT_EQ(devices_of(*plan), devices);
  Session session;
  const auto outcome = try_launch(*plan, session, calls, o);
  Ran r;
  for (const Array& a : out) r.o.push_back(a.as<int32_t>());
  if (outcome.stop) r.error = ir::render(*outcome.stop);
  r.findings = outcome.report.findings;
  return r;
}

// Cluster i of each device writes to the other one's array, tells its cluster i, and waits for it.
constexpr std::string_view kSwap = R"(pallasim-ir 1
module "swap" {machine = mosaic_gpu, devices = [axis("d", 2)], communicates = true}
mesh "gpu" {kind = gpu, axes = [axis("i", 6), axis("wg", 1)], grid = 1, cluster = 0, threads = 1}
input "x" : i32[6] {space = gmem}
output "o" : i32[6] {space = gmem}
body "gpu" (%0 "x": ref<i32[6], gmem>, %1 "o": ref<i32[6], gmem>) {
  %2 = axis_index {axis = "d"} : i32[]
  %3 = axis_index {axis = "i"} : i32[]
  %4 = constant {value = i32 0x1} : i32[]
  %5 = sub %4, %2 : i32[]
  run_scoped {collective = ["wg"]} (%6 "came": ref<sem[], gmem, cta>) {
    %7 = get %0, %3 {view = [index($1)]} : i32[]
    store %1, %7, %5, %3 {view = [peer($2, logical), index($3)]} @0
    gpu_sem_signal %6, %4, %5 {inc = $1, device_id = $2, device_id_type = logical}
    gpu_sem_wait %6, %4 {value = $1} @1
    yield
  }
  yield
}
loc 0 {file = "swap.py", line = 7}
loc 1 {file = "swap.py", line = 9}
)";

const std::vector<int32_t> kFirst{10, 11, 12, 13, 14, 15}, kSecond{0, 1, 2, 3, 4, 5};

TEST(Peers, ClustersBeginWhenOthersEndOnEachOfSeveralDevices) {
  for (int64_t ctas : {1, 2, 5, 100})
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Options o = on(ctas, seed % 2 == 1);
      if (seed) o.random_seed = seed, o.copies = Options::Copies::Scheduled;
      o.verify_restore = seed == 2 ? 3 : 0;
      const Ran r = on_devices(std::string(kSwap), 2, 6, o);
      ASSERT_EQ(r.error, "") << ctas << ", " << seed;
      EXPECT_EQ(r.o, (std::vector<std::vector<int32_t>>{kFirst, kSecond})) << ctas << ", " << seed;
      EXPECT_TRUE(r.findings.empty()) << ir::render(r.findings.front());
    }
}

// A wait for a cluster that begins when this one ends.
TEST(Peers, AWaitForAClusterThatIsNotResidentIsADeadlockThatNamesDevices) {
  std::string text =
      edited(std::string(kSwap), "run_scoped {collective = [\"wg\"]} (%6 \"came\": ref<sem[], gmem, cta>) {",
             "%6 = get_global : ref<sem[], gmem, grid>\n  %8 = constant {value = i32 0x6} : i32[]\n  {");
  text = edited(edited(text, "  {\n", "\n"), "    yield\n  }\n  yield", "  yield");
  text = edited(text, "gpu_sem_wait %6, %4 {value = $1}", "gpu_sem_wait %6, %8 {value = $1, decrement = false}");
  const Ran all = on_devices(text, 2, 6, on(6));
  EXPECT_EQ(all.error, "");
  const Ran few = on_devices(text, 2, 6, on(2));
  EXPECT_NE(few.error.find("PS-DEAD-001"), std::string::npos) << few.error;
  EXPECT_NE(few.error.find("8 of 12 clusters have not started"), std::string::npos) << few.error;
  EXPECT_NE(few.error.find("of device 1"), std::string::npos) << few.error;
}

TEST(Peers, ASignalThatNobodyAwaitsNamesTheClusterAndItsDevice) {
  const std::string text = edited(std::string(kSwap), "inc = $1, device_id", "inc = 2, device_id");
  const Ran r = on_devices(text, 2, 6, on(2));
  std::string all = r.error;
  for (const ir::Diagnostic& d : r.findings) all += ir::render(d);
  EXPECT_NE(all.find("came of cluster (5)"), std::string::npos) << all;
  EXPECT_NE(all.find("of device 1 ends at 1 instead of 0"), std::string::npos) << all;
}

TEST(Peers, ADeviceThatDoesNotWaitMayHaveLeft) {
  const std::string text =
      edited(std::string(kSwap), "gpu_sem_wait %6, %4 {value = $1} @1", "gpu_sem_wait %6, %2 {value = $1} @1");
  const Ran r = on_devices(text, 2, 6, on(100, true));
  std::string all = r.error;
  for (const ir::Diagnostic& d : r.findings) all += ir::render(d);
  EXPECT_NE(all.find("o of device 0 is written by cluster"), std::string::npos) << all;
  EXPECT_EQ(all.find("o of device 1 is written by cluster"), std::string::npos) << all;
  EXPECT_NE(all.find("may have left"), std::string::npos) << all;
}

TEST(Peers, NoSuchDeviceIsAnErrorOfTheRun) {
  const Ran r = on_devices(edited(std::string(kSwap), "%5 = sub %4, %2", "%5 = add %4, %2"), 2, 6, on(6));
  EXPECT_NE(r.error.find("PS-SEM-001"), std::string::npos) << r.error;
  EXPECT_NE(r.error.find("device 2"), std::string::npos) << r.error;
}

// All devices store their x to all others' o at once, or sum up what all have.
TEST(Peers, MultimemReachesAllDevices) {
  std::string text = edited(std::string(kSwap), "axis(\"d\", 2)", "axis(\"d\", 3)");
  text = edited(text, "%5 = sub %4, %2 : i32[]", "%5 = constant {value = i32 0x3} : i32[]");
  text =
      edited(text, "store %1, %7, %5, %3 {view = [peer($2, logical), index($3)]} @0",
             "%8 = multimem_load_reduce %0, %3 {ref = view($0, [index($1)]), collective_axes = [\"d\"], reduction_op = "
             "add} : i32[]\n    %9 = eq %2, %4 : bool[]\n    %10 = convert %9 : i32[]\n    cond %10 () {\n      yield\n"
             "    } () {\n      multimem_store %8, %1, %3 {value = $0, ref = view($1, [index($2)]), collective_axes = "
             "[\"d\"]}\n      yield\n    }");
  text = edited(text, "gpu_sem_signal %6, %4, %5 {inc = $1, device_id = $2, device_id_type = logical}",
                "gpu_sem_signal_multicast %6, %4 {sem = view($0, []), inc = $1, collective_axes = [\"d\"]}");
  text = edited(text, "gpu_sem_wait %6, %4", "gpu_sem_wait %6, %5");
  for (bool checked : {false, true}) {
    const Ran r = on_devices(text, 3, 6, on(2, checked));
    ASSERT_EQ(r.error, "");
    const std::vector<int32_t> sums{30, 33, 36, 39, 42, 45};
    EXPECT_EQ(r.o, (std::vector<std::vector<int32_t>>{sums, sums, sums}));
    EXPECT_TRUE(r.findings.empty()) << ir::render(r.findings.front());
  }
}

// Clusters mark what they do until no cluster is left.
constexpr std::string_view kClaims = R"(pallasim-ir 1
module "claims" {machine = mosaic_gpu}
mesh "gpu" {kind = gpu, axes = [axis("i", 7), axis("x", 2), axis("wg", 2)], grid = 1, cluster = 1, threads = 1}
output "o" : i32[7,2,2] {space = gmem}
output "whose" : i32[7,2,2] {space = gmem}
body "gpu" (%0 "o": ref<i32[7,2,2], gmem>, %1 "whose": ref<i32[7,2,2], gmem>) {
  %2 = axis_index {axis = "i"} : i32[]
  %3 = axis_index {axis = "x"} : i32[]
  %4 = axis_index {axis = "wg"} : i32[]
  %5 = constant {value = i32 0x1} : i32[]
  %6 = constant {value = i32 0x0} : i32[]
  run_scoped {collective = ["wg"], transforms = [[], [], []], allocs = [none, {num_arrivals = 2}, {num_arrivals = 2,
      collective_axes = ["x"]}]} (%7 "answer": ref<i8[16], gsmem, cta>, %8 "bar": ref<mbarrier[1], gsmem, cta>,
      %9 "used": ref<cluster_barrier[1], gsmem, cta>) {
    %10, %11 = while %2, %5 (%12: i32[], %13: i32[]) {
      %14 = ne %13, %6 : bool[]
      yield %14
    } (%15: i32[], %16: i32[]) {
      try_cluster_cancel %7, %8 {result = view($0, []), barrier = view($1, [index(0)])} @0
      store %0, %15, %15, %3, %4 {view = [index($2, $3, $4)]}
      store %1, %2, %15, %3, %4 {view = [index($2, $3, $4)]}
      barrier_wait %8 {barrier = view($0, [index(0)])}
      %17, %18 = query_cluster_cancel %7 {result = view($0, []), grid_names = ["i"]} : i32[], bool[]
      %19 = convert %18 : i32[]
      barrier_arrive %9 {barrier = view($0, [index(0)])}
      barrier_wait %9 {barrier = view($0, [index(0)])}
      yield %17, %19
    } : i32[], i32[]
    yield
  }
  yield
}
loc 0 {file = "claims.py", line = 5}
)";

TEST(LaunchControl, EachClusterIsDoneOnceByOneThatRuns) {
  for (int64_t ctas : {2, 4, 100})
    for (uint64_t seed = 0; seed < 12; ++seed) {
      Options o = on(ctas, seed % 3 == 2);
      if (seed) o.random_seed = seed, o.copies = seed % 2 ? Options::Copies::AtWait : Options::Copies::Scheduled;
      o.verify_restore = seed == 4 ? 7 : 0;
      const Outcome r = run(kClaims, {}, o);
      EXPECT_TRUE(r.report.findings.empty()) << ir::render(r.report.findings.front());
      const auto done = r.results[0].as<int32_t>(), whose = r.results[1].as<int32_t>();
      int taken = 0;
      for (size_t n = 0; n < done.size(); ++n) {
        EXPECT_EQ(done[n], static_cast<int32_t>(n / 4));
        EXPECT_EQ(whose[n], whose[n / 4 * 4]) << "a cluster that two did";
        taken += whose[n] != done[n];
      }
      EXPECT_EQ(taken > 0, ctas < 14) << ctas;
    }
}

TEST(LaunchControl, AnAnswerThatNobodyReadsIsAClusterThatIsLost) {
  std::string text = edited(std::string(kClaims), "yield %17, %19", "yield %17, %6");
  text = edited(text,
                "%17, %18 = query_cluster_cancel %7 {result = view($0, []), grid_names = [\"i\"]} : i32[], bool[]\n"
                "      %19 = convert %18 : i32[]\n",
                "%17 = add %6, %6 : i32[]\n");
  text = edited(text, "yield %17, %6", "yield %17, %17");
  const Outcome r = run(text, {}, on(2));
  std::string all;
  for (const ir::Diagnostic& d : r.report.findings) all += ir::render(d);
  EXPECT_NE(all.find("cluster (1) is lost"), std::string::npos) << all;
  EXPECT_NE(all.find("claims.py:5"), std::string::npos) << all;
}

std::string told(const Outcome& r) {
  std::string all;
  for (const ir::Diagnostic& d : r.report.findings) all += ir::render(d);
  return all;
}

// The same where the CTAs of a cluster do not ask together, and warpgroups do or do not.
std::string asking(const std::string& axes) {
  return edited(std::string(kClaims), "barrier = view($1, [index(0)])} @0",
                "barrier = view($1, [index(0)]), collective_axes = [" + axes + "]} @0");
}

TEST(LaunchControl, AxesThatAreNamedAskTogether) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Options o = on(4, seed % 3 == 2);
    if (seed) o.random_seed = seed;
    const Outcome r = run(asking("[\"x\"], \"wg\""), {}, o);
    EXPECT_EQ(told(r), "");
    const auto done = r.results[0].as<int32_t>();
    for (size_t n = 0; n < done.size(); ++n) EXPECT_EQ(done[n], static_cast<int32_t>(n / 4));
  }
}

// Each CTA asks, and both get both answers. Where no cluster is left all is well, but for bytes that nobody expects;
// else one of two clusters is lost.
TEST(LaunchControl, CtasThatAskByThemselvesLoseClusters) {
  const Outcome room = run(asking("\"wg\""), {}, on(14));
  ASSERT_EQ(room.results.size(), 2U);
  const auto done = room.results[0].as<int32_t>();
  for (size_t n = 0; n < done.size(); ++n) EXPECT_EQ(done[n], static_cast<int32_t>(n / 4));
  EXPECT_EQ(told(room).find("is lost"), std::string::npos) << told(room);
  const std::string lost = told(run(asking("\"wg\""), {}, on(12)));
  EXPECT_NE(lost.find("cluster (6) is lost: a request took it, and another answer came over the one that said so"),
            std::string::npos)
      << lost;
  EXPECT_NE(lost.find("claims.py:5"), std::string::npos) << lost;
  EXPECT_NE(lost.find("cluster_axes"), std::string::npos) << lost;
  // More and more bytes come that nobody expects, until a phase never ends.
  EXPECT_THROW(run(asking("\"wg\""), {}, on(2)), ir::DiagnosticError);
}

// Of each warpgroup: one expects the bytes of two answers, and the second one lies where the first one did.
TEST(LaunchControl, WarpgroupsThatAskByThemselvesLoseClusters) {
  const std::string lost = told(run(asking("\"x\""), {}, on(2)));
  EXPECT_NE(lost.find("is lost: a request took it, and another answer came over"), std::string::npos) << lost;
}

TEST(LaunchControl, ARequestBehindOneThatGotNone) {
  const std::string text =
      edited(asking("\"x\", \"wg\""), "yield %17, %19\n",
             "try_cluster_cancel %7, %8 {result = view($0, []), barrier = view($1, [index(0)])} @0\n"
             "      barrier_wait %8 {barrier = view($0, [index(0)])}\n"
             "      yield %17, %19\n");
  const std::string vain = told(run(text, {}, on(14)));
  EXPECT_NE(vain.find("PS-CLU-002"), std::string::npos) << vain;
}

// Four warps of the second warpgroup; one of them waits for what nobody does.
constexpr std::string_view kWarps = R"(pallasim-ir 1
module "warps" {machine = mosaic_gpu}
mesh "gpu" {kind = gpu, axes = [axis("i", 3), axis("x", 2), axis("wg", 2)], grid = 1, cluster = 1, threads = 1}
output "o" : i32[3,2,2,4] {space = gmem}
body "gpu" (%0 "o": ref<i32[3,2,2,4], gmem>) {
  %1 = axis_index {axis = "i"} : i32[]
  %2 = axis_index {axis = "x"} : i32[]
  %3 = axis_index {axis = "wg"} : i32[]
  %4 = constant {value = i32 0x2} : i32[]
  run_scoped {collective = ["wg"], transforms = [[]], allocs = [{num_arrivals = 4}]} (
      %5 "bar": ref<mbarrier[2], gsmem, cta>) {
    spawn {mesh = {kind = warp, axes = [axis("warp", 4)]}} () {
      %6 = axis_index {axis = "warp"} : i32[]
      store %0, %6, %1, %2, %3, %6 {view = [index($2, $3, $4, $5)]}
      barrier_arrive %5, %3 {barrier = view($0, [index($1)])}
      barrier_wait %5, %3 {barrier = view($0, [index($1)])}
      yield
    }
    yield
  }
  yield
}
)";

TEST(Warps, EachArrivesByItself) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Options o = on(2, true);
    if (seed) o.random_seed = seed;
    const Outcome r = run(kWarps, {}, o);
    EXPECT_TRUE(r.report.findings.empty()) << ir::render(r.report.findings.front());
    for (size_t n = 0; n < 48; ++n) EXPECT_EQ(r.results[0].as<int32_t>()[n], static_cast<int32_t>(n % 4));
  }
}

TEST(Warps, ReportsNameThem) {
  const std::string text = edited(std::string(kWarps), "num_arrivals = 4", "num_arrivals = 5");
  try {
    run(text, {}, on(2));
    FAIL() << "no deadlock";
  } catch (const ir::DiagnosticError& e) {
    const std::string all = ir::render(e.diagnostic());
    EXPECT_NE(all.find("cluster (0), CTA x=0, warpgroup 0, warp 2 waits for phase 0 of bar[0]"), std::string::npos)
        << all;
  }
}

// Each of two spawned threads copies a row to memory of its own, naming the device that it is on.
TEST(Warps, ACopyThatNamesTheOwnDeviceGoesToTheSpawnedThreadsOwnMemory) {
  const std::string text = R"(pallasim-ir 1
module "own" {machine = tpu, devices = [axis("d", 2)], communicates = true}
input "x" : i32[256] {space = hbm}
output "o" : i32[256] {space = hbm}
scratch "sems" : ref<dma_sem[2], semaphore>
body (%0 "x": ref<i32[256], hbm>, %1 "o": ref<i32[256], hbm>, %2 "sems": ref<dma_sem[2], semaphore>) {
  %3 = axis_index {axis = "d"} : i32[]
  spawn {mesh = {kind = generic, axes = [axis("n", 2)]}} () {
    %4 = axis_index {axis = "n"} : i32[]
    %5 = constant {value = i32 0x80} : i32[]
    %6 = mul %4, %5 : i32[]
    run_scoped (%7 "mine": ref<i32[128], vmem>) {
      dma_start %0, %7, %2, %6, %4, %3 {src = view($0, [index(slice($3, 128))]), dst = view($1, []),
          dst_sem = view($2, [index($4)]),
          device_id = $5, device_id_type = logical}
      dma_wait %7, %0, %2, %4 {src = view($1, [index(slice(0, 128))]), dst = view($0, []),
          dst_sem = view($2, [index($3)])}
      %8 = get %7 : i32[128]
      %9 = add %8, %8 : i32[128]
      store %1, %9, %6 {view = [index(slice($2, 128))]}
      yield
    }
    yield
  }
  yield
}
)";
  for (const Options::Copies copies : {Options::Copies::AtIssue, Options::Copies::AtWait, Options::Copies::Scheduled})
    for (uint64_t seed = 1; seed < 6; ++seed) {
      Options o;
      o.copies = copies, o.random_seed = seed;
      const Ran r = on_devices(text, 2, 256, o);
      ASSERT_EQ(r.error, "");
      for (int32_t d = 0; d < 2; ++d)
        for (int32_t i = 0; i < 256; ++i)
          ASSERT_EQ(r.o[static_cast<size_t>(d)][static_cast<size_t>(i)], 2 * (10 * d + i)) << d << ", " << i;
    }
}

}  // namespace
}  // namespace pallasim::interp::test
