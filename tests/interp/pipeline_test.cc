// The pipeline of a grid with windows of its own, and TensorCores that share a grid.
#include "run.h"

namespace pallasim::interp::test {
namespace {

Options modelled(Options::Copies copies = Options::Copies::AtIssue, int seed = -1) {
  Options o;
  o.pipeline = Options::Pipeline::Modelled;
  o.copies = copies;
  if (seed >= 0) { o.random_seed = static_cast<uint64_t>(seed); }
  return o;
}

std::vector<Options> all_modelled() {
  std::vector<Options> r{modelled(), modelled(Options::Copies::AtWait)};
  for (int seed = 0; seed < 8; ++seed) r.push_back(modelled(Options::Copies::Scheduled, seed));
  return r;
}

TEST(Pipeline, AModelledPipelineHasTheBytesOfAnElidedOne) {
  const std::vector<std::pair<std::string, std::vector<Array>>> kernels = {
      {"pass/matmul_2x2.psir", {noise({64, 64}, 1), noise({64, 64}, 2)}},
      {"pass/prefetch_gather.psir", {i32({4}, {3, 7, 7, 0}), noise({8, 8, 128})}},
      {"pass/sum_when.psir", {noise({4, 8, 128})}},
  };
  for (const auto& [file, args] : kernels) {
    std::string text = read_file(file);
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"1024", "64"}, {"512", "32"}})
      for (size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, from.size(), to);
    Options plain;
    plain.numerics = Options::Numerics::Reference;  // a library's sums depend on how its operands lie
    const Outcome elided = run(text, args, plain);
    EXPECT_FALSE(all_zero(elided.results[0]));
    for (Options o : all_modelled()) {
      o.numerics = Options::Numerics::Reference;
      const Outcome r = run(text, args, o);
      EXPECT_EQ(r.results[0].bytes, elided.results[0].bytes) << file << " " << r.report.token;
      EXPECT_EQ(r.report.grid_points, elided.report.grid_points);
      EXPECT_EQ(r.report.sequential_because, "the pipeline is modelled");
    }
  }
}

// Blocks of 4 rows of an array that has 10: what the kernel sees is written out whole.
const std::string kEdge = R"(pallasim-ir 1
module "edge" {machine = tpu}
grid {size = 3}
input "x" : f32[10,128] {space = vmem, block = [blocked(4), blocked(128)]PIPELINE} (%0: i32[]) {
  %1 = constant {value = i32 0x0} : i32[]
  yield %0, %1
}
output "o" : f32[12,128] {space = vmem, block = [blocked(4), blocked(128)]} (%0: i32[]) {
  %1 = constant {value = i32 0x0} : i32[]
  yield %0, %1
}
body (%0 "x": ref<f32[4,128], vmem>, %1 "o": ref<f32[4,128], vmem>) {
  %2 = get %0 : f32[4,128]
  store %1, %2
  yield
}
)";

std::string with_pipeline(const std::string& text, const std::string& mode) {
  std::string r = text;
  return r.replace(r.find("PIPELINE"), 8, mode);
}

TEST(Pipeline, BehindTheEdgeLiesWhatTheSlotHeldBefore) {
  const Array x = noise({10, 128});
  const auto v = x.as<float>();
  for (const auto& [mode, stale] : std::vector<std::pair<std::string, size_t>>{
           {"", 2}, {", pipeline = buffered(2)", 2}, {", pipeline = buffered(1)", 6}}) {
    const auto o = run(with_pipeline(kEdge, mode), {x}, modelled()).results[0].as<float>();
    for (size_t i = 0; i < v.size(); ++i) ASSERT_EQ(o[i], v[i]);
    for (size_t i = 0; i < 2 * 128; ++i) ASSERT_EQ(o[v.size() + i], v[stale * 128 + i]) << mode;
  }
  const auto elided = run(with_pipeline(kEdge, ""), {x}).results[0].as<float>();
  for (size_t i = v.size(); i < elided.size(); ++i) ASSERT_TRUE(std::isnan(elided[i]));
}

// Every step adds 1 to its block and writes it to the next one, in place.
const std::string kShifted = R"(pallasim-ir 1
module "shifted" {machine = tpu}
grid {size = 3}
input "x" : f32[4,8,128] {space = vmem, block = [squeezed, blocked(8), blocked(128)]PIPELINE} (%0: i32[]) {
  %1 = constant {value = i32 0x0} : i32[]
  yield %0, %1, %1
}
output "o" : f32[4,8,128] {space = vmem, block = [squeezed, blocked(8), blocked(128)]} (%0: i32[]) {
  %1 = constant {value = i32 0x0} : i32[]
  %2 = constant {value = i32 0x1} : i32[]
  %3 = add %0, %2 : i32[]
  yield %3, %1, %1
}
alias {input = 0, output = 0}
body (%0 "x": ref<f32[8,128], vmem>, %1 "o": ref<f32[8,128], vmem>) {
  %2 = get %0 : f32[8,128]
  %3 = constant {value = f32 0x3f800000} : f32[]
  %4 = add %2, %3 : f32[8,128]
  store %1, %4
  yield
}
)";

TEST(Pipeline, APrefetchedBlockIsOlderThanTheStepBeforeItsOwn) {
  const Array zeros = f32({4, 8, 128}, std::vector<float>(4 * 8 * 128, 0.f));
  auto blocks = [&](const std::string& mode, const Options& o) {
    const auto r = run(with_pipeline(kShifted, mode), {zeros}, o).results[0].as<float>();
    return std::vector<float>{r[0], r[1024], r[2048], r[3072]};
  };
  const std::string one = ", pipeline = buffered(1)";
  EXPECT_EQ(blocks("", {}), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(blocks("", modelled()), (std::vector<float>{0, 1, 1, 1}));
  EXPECT_EQ(blocks(one, modelled()), (std::vector<float>{0, 1, 2, 3}));
  // The block may be fetched again before it has arrived in the array.
  std::set<std::vector<float>> seen;
  for (int seed = 0; seed < 40; ++seed) seen.insert(blocks(one, modelled(Options::Copies::Scheduled, seed)));
  EXPECT_GT(seen.size(), 1u);
}

// A window of one slot overlaps with nothing: the step before has ended, and its block has arrived, when the fetch
// begins.
TEST(Pipeline, AWindowOfOneSlotIsFetchedWhenTheStepBeforeHasEnded) {
  const Array zeros = f32({4, 8, 128}, std::vector<float>(4 * 8 * 128, 0.f));
  std::string text = with_pipeline(kShifted, ", pipeline = buffered(1)");
  const std::string output = "blocked(128)]}";
  text.replace(text.find(output), output.size(), "blocked(128)], pipeline = buffered(1)}");
  for (const Options& o : all_modelled()) {
    const auto r = run(text, {zeros}, o).results[0].as<float>();
    EXPECT_EQ((std::vector<float>{r[0], r[1024], r[2048], r[3072]}), (std::vector<float>{0, 1, 2, 3}))
        << static_cast<int>(o.copies) << " " << o.random_seed.value_or(0);
  }
}

TEST(Pipeline, MoreSlotsThanMemoryHoldsAreRefused) {
  const Array x = noise({10, 128});
  for (const char* n : {"2147483648", "4294967295", "4294967297", "4398046511105", "9223372036854775807"})
    for (const int64_t limit : {int64_t{8} << 30, INT64_MAX}) {
      Options o = modelled();
      o.max_memory = limit;
      std::string report;
      EXPECT_EQ(error_code(with_pipeline(kEdge, std::string(", pipeline = buffered(") + n + ")"), {x}, o, &report),
                "PS-SIZE-001")
          << n;
      EXPECT_NE(report.find(std::string(n) + " slots for the blocks of x"), std::string::npos) << report;
    }
}

// Block k of the output is what the core counted so far; `first` begins at 0 on each core where it is the first step.
const std::string kCount = R"(pallasim-ir 1
module "count" {machine = tpu}
grid {size = 5, semantics = parallel}
grid {size = 2, semantics = arbitrary}
input "s" : i32[1] {space = smem}
output "o" : i32[10,128] {space = vmem, block = [blocked(1), blocked(128)]} (%0: i32[], %1: i32[]) {
  %2 = constant {value = i32 0x2} : i32[]
  %3 = constant {value = i32 0x0} : i32[]
  %4 = mul %0, %2 : i32[]
  %5 = add %4, %1 : i32[]
  yield %5, %3
}
body (%0 "s": ref<i32[1], smem>, %1 "o": ref<i32[1,128], vmem>) {
  %2 = get %0 {view = [index(0)]} : i32[]
  %3 = constant {value = i32 0x1} : i32[]
  %4 = add %2, %3 : i32[]
  store %0, %4 {view = [index(0)]}
  %5 = broadcast_in_dim %2 {dims = []} : i32[1,128]
  store %1, %5
  yield
}
)";

TEST(Cores, ShareAGridAlongItsParallelAxisWithMemoryOfTheirOwn) {
  for (const auto& [cores, want] :
       std::vector<std::pair<int, std::vector<int32_t>>>{{1, {10, 11, 12, 13, 14, 15, 16, 17, 18, 19}},
                                                         {2, {10, 11, 12, 13, 14, 15, 10, 11, 12, 13}},
                                                         {8, {10, 11, 10, 11, 10, 11, 10, 11, 10, 11}}}) {
    for (auto pipeline : {Options::Pipeline::Elided, Options::Pipeline::Modelled}) {
      Options o;
      o.cores = cores;
      o.pipeline = pipeline;
      const Outcome r = run(kCount, {i32({1}, {10})}, o, true);
      const auto v = r.results[0].as<int32_t>();
      std::vector<int32_t> first;
      for (size_t i = 0; i < v.size(); i += 128) first.push_back(v[i]);
      EXPECT_EQ(first, want) << cores;
      EXPECT_EQ(r.report.threads, cores);
      std::set<std::pair<int, int64_t>> ran;
      for (const GridPoint& p : r.points) ran.insert({p.core, p.ids[0]});
      const int64_t share = (5 + cores - 1) / cores;
      EXPECT_EQ(ran.size(), 5u);
      for (const auto& [core, id] : ran) EXPECT_EQ(core, id / share);
    }
  }
}

TEST(Cores, AreThoseOfTheChipsDevice) {
  for (const auto& [chip, cores] :
       std::vector<std::pair<std::string, int>>{{"tpu-v4", 2}, {"tpu-v5p", 2}, {"tpu-v6e", 1}, {"tpu-7x", 1}}) {
    Options o;
    o.chip = hw::find_profile(chip);
    o.rules = Options::Rules::Off;
    EXPECT_EQ(run(kCount, {i32({1}, {10})}, o).report.threads, cores) << chip;
  }
}

// Units that are independent run as on one core, and may go to several workers.
TEST(Cores, CannotBeToldFromOneWhereUnitsAreIndependent) {
  std::string text = with_pipeline(kEdge, "");
  text.replace(text.find("grid {size = 3}"), 15, "grid {size = 3, semantics = parallel}");
  Options o;
  o.cores = 2;
  const Array x = noise({10, 128});
  const Outcome r = run(text, {x}, o, true);
  EXPECT_EQ(r.results[0].bytes, run(with_pipeline(kEdge, ""), {x}).results[0].bytes);
  EXPECT_EQ(r.report.threads, 1);
  EXPECT_EQ(r.points, (std::vector<GridPoint>{{{0}, 0}, {{1}, 0}, {{2}, 1}}));
}

// Both cores of a mesh signal each other before the other one has got its semaphore, in every round.
const std::string kMesh = R"(pallasim-ir 1
module "rounds" {machine = tpu}
mesh "tensorcore" {kind = tensorcore, axes = [axis("core", 2)]}
output "o" : i32[2,128] {space = hbm}
scratch "v" : ref<i32[128], vmem>
body "tensorcore" (%0 "o": ref<i32[2,128], hbm>, %1 "v": ref<i32[128], vmem>) {
  %2 = axis_index {axis = "core"} : i32[]
  %3 = constant {value = i32 0x0} : i32[]
  %4 = constant {value = i32 0x1} : i32[]
  %5 = constant {value = i32 0x5} : i32[]
  %6 = sub %4, %2 : i32[]
  %7 = for %3, %5, %4, %3 (%8: i32[], %9: i32[]) {
    run_scoped (%10 "ready": ref<sem[], semaphore>, %11 "shared": ref<i32[128], hbm>,
        %12 "sem": ref<dma_sem[], semaphore>) {
      sem_signal %10, %6 {inc = 1, core_index = $1}
      sem_wait %10 {value = 1}
      yield
    }
    %13 = add %9, %4 : i32[]
    yield %13
  } : i32[]
  %14 = add %7, %2 : i32[]
  %15 = broadcast_in_dim %14 {dims = []} : i32[128]
  store %1, %15
  run_scoped (%16 "sem": ref<dma_sem[], semaphore>) {
    dma_start %1, %0, %16, %2 {src = view($0, []), dst = view($1, [index($3, slice(0, 128))]), dst_sem = view($2, [])}
    dma_wait %1, %0, %16, %2 {src = view($0, []), dst = view($1, [index($3, slice(0, 128))]), dst_sem = view($2, [])}
    yield
  }
  yield
}
)";

TEST(Cores, OneMaySignalBeforeTheOtherIsInTheScope) {
  std::vector<Options> all(1);
  for (int seed = 0; seed < 20; ++seed) all.emplace_back().random_seed = static_cast<uint64_t>(seed);
  for (const Options& o : all) {
    const auto v = run(kMesh, {}, o).results[0].as<int32_t>();
    EXPECT_EQ(v[0], 5);
    EXPECT_EQ(v[128], 6);
  }
  std::string text = kMesh;
  text.replace(text.find("sem_wait %10 {value = 1}\n"), 25, "");
  std::string report;
  EXPECT_EQ(error_code(text, {}, {}, &report), "PS-SEM-002");
  EXPECT_NE(report.find("ready of thread"), std::string::npos) << report;
}

// A kernel reads and writes rows 4 to 11 of ten; rows 10 to 15 are padding of the last tile.
const std::string kPadded = R"(pallasim-ir 1
module "padded" {machine = tpu}
input "start" : i32[1] {space = smem}
input "x" : f32[8,128] {space = vmem}
output "o" : f32[8,128] {space = vmem}
scratch "s" : ref<f32[10,128], vmem>
body (%0 "start": ref<i32[1], smem>, %1 "x": ref<f32[8,128], vmem>, %2 "o": ref<f32[8,128], vmem>,
    %3 "s": ref<f32[10,128], vmem>) {
  %4 = get %0 {view = [index(0)]} : i32[]
  %5 = get %1 : f32[8,128]
  store %3, %5, %4 {view = [index(slice($2, 8), slice(0, 128))]}
  %6 = get %3, %4 {view = [index(slice($1, 8), slice(0, 128))]} : f32[8,128]
  store %2, %6
  yield
}
)";

TEST(Padding, MayBeNamedWhereItIsAskedForAndKeepsNothing) {
  const Array x = noise({8, 128});
  const auto v = x.as<float>();
  Options all;
  all.padding = Options::Padding::All;
  const auto o = run(kPadded, {i32({1}, {4}), x}, all).results[0].as<float>();
  for (size_t i = 0; i < o.size(); ++i) {
    if (i < 6 * 128) ASSERT_EQ(o[i], v[i]);
    else ASSERT_TRUE(std::isnan(o[i]));
  }
  EXPECT_EQ(run(kPadded, {i32({1}, {2}), x}, all).results[0].as<float>(), v);
  EXPECT_EQ(error_code(kPadded, {i32({1}, {9}), x}, all), "PS-OOB-001");
  EXPECT_EQ(error_code(kPadded, {i32({1}, {4}), x}), "PS-OOB-001");
}

TEST(Padding, ReadsFromOutsideMayGiveWhatNobodyWroteButWritesNever) {
  const Array x = noise({8, 128});
  Options o;
  o.out_of_bounds = Options::Oob::Uninitialized;
  std::string report;
  EXPECT_EQ(error_code(kPadded, {i32({1}, {4}), x}, o, &report), "PS-OOB-001");
  EXPECT_NE(report.find("indices 4 to 11"), std::string::npos) << report;
  std::string text = kPadded;
  text.replace(text.find("%3, %5, %4 {view = [index(slice($2, 8)"), 38, "%3, %5 {view = [index(slice(2, 8)");
  const auto v = run(text, {i32({1}, {400}), x}, o).results[0].as<float>();
  for (float f : v) ASSERT_TRUE(std::isnan(f));
  EXPECT_EQ(run(text, {i32({1}, {2}), x}, o).results[0].as<float>(), x.as<float>());
}

}  // namespace
}  // namespace pallasim::interp::test
