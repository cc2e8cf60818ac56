// Bulk copies between global and shared memory, in tiles and beyond the end of an array, and products of a warpgroup.
#include <cmath>

#include "plan/plan.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

// Rows 2 to 5 of `a`, of which the last one does not exist, as X; 2 X X^T to rows 1 to 4 of `o`, likewise.
const char* const kProduct = R"(pallasim-ir 1
module "k" {machine = mosaic_gpu}
mesh "gpu" {kind = gpu, axes = [], grid = 0, cluster = 0, threads = 0}
input "a" : f32[5,4] {space = gmem}
output "o" : f32[4,4] {space = gmem}
body "gpu" (%0 "a": ref<f32[5,4], gmem>, %1 "o": ref<f32[4,4], gmem>) {
  run_scoped {transforms = [[unswizzle(16), untile(2, 4)], []],
      allocs = [none, {num_arrivals = 1}]} (%2 "s": ref<f32[2,1,2,4], gsmem, cta>,
      %3 "bar": ref<mbarrier[1], gsmem, cta>) {
    async_prefetch %0 {ref = view($0, [])}
    copy_gmem_to_smem %0, %2, %3 {src = view($0, [index(slice(2, 4), slice(0, 4))]),
      dst = view($1, [unswizzle(16), untile(2, 4)]), barrier = view($2, [index(0)]), oob_mode = zeros}
    barrier_wait %3 {barrier = view($0, [index(0)])}
    run_scoped {allocs = [{accumulator = true}]} (%4 "acc": ref<f32[4,4], regs>) {
      wgmma_ref %4, %2, %2 {acc = view($0, []), a = view($1, [unswizzle(16), untile(2, 4)]),
        b = view($2, [unswizzle(16), untile(2, 4), transpose(1, 0)])}
      %5 = constant {value = i32 0x0} : i32[]
      wgmma_wait %5
      %6 = wgmma_accumulator_deref %4 {wait_n = 0} : f32[4,4]
      %7 = add %6, %6 : f32[4,4]
      wgmma_accumulator_store %4, %7
      %8 = get %4 : f32[4,4]
      %9 = neg %6 : f32[4,4]
      %10 = wgmma %9, %2, %2 {acc = $0, a = view($1, [unswizzle(16), untile(2, 4)]),
        b = view($2, [unswizzle(16), untile(2, 4), transpose(1, 0)])} : f32[4,4]
      %11 = add %8, %10 : f32[4,4]
      store %2, %11 {view = [unswizzle(16), untile(2, 4)]}
      commit_smem
      copy_smem_to_gmem %2, %1 {src = view($0, [unswizzle(16), untile(2, 4)]),
        dst = view($1, [index(slice(1, 4), slice(0, 4))]), commit_group = false}
      commit_group
      wait_smem_to_gmem %5 {wait_read_only = false}
      yield
    }
    yield
  }
  yield
}
)";

TEST(Bulk, BoxesAreFilledAndClippedAndProductsAccumulate) {
  std::vector<float> a(20);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 2;
  for (const Options::Copies when : {Options::Copies::AtIssue, Options::Copies::AtWait}) {
    Options o;
    o.copies = when;
    const std::vector<float> got = run(kProduct, {f32({5, 4}, a)}, o).results[0].as<float>();
    for (size_t c = 0; c < 4; ++c) EXPECT_TRUE(std::isnan(got[c]));  // nobody writes row 0
    for (size_t r = 0; r < 3; ++r)
      for (size_t c = 0; c < 4; ++c) {
        float sum = 0;
        for (size_t k = 0; c < 3 && k < 4; ++k) sum += a[(r + 2) * 4 + k] * a[(c + 2) * 4 + k];
        EXPECT_EQ(got[(r + 1) * 4 + c], 2 * sum) << r << ' ' << c;
      }
  }
}

// Tiles are a matter of the machine: a view that takes the memory for other tiles than it has is refused.
TEST(Bulk, OtherTilesThanTheMemoryHasAreRefused) {
  std::string text = kProduct;
  const std::string from = "store %2, %11 {view = [unswizzle(16), untile(2, 4)]}";
  text.replace(text.find(from), from.size(), "store %2, %11 {view = [untile(2, 4)]}");
  std::string report;
  EXPECT_EQ(error_code(text, {f32({5, 4}, std::vector<float>(20, 1))}, {}, &report), "PS-UNSUP-001");
  EXPECT_NE(report.find("other tiles than it has"), std::string::npos) << report;
}

// TMA boxes have static extents: one of a size that is known at run time only is refused, not copied whole.
TEST(Bulk, AnExtentThatIsKnownAtRunTimeOnlyIsRefused) {
  std::string text = kProduct;
  const std::string from = R"(copy_smem_to_gmem %2, %1 {src = view($0, [unswizzle(16), untile(2, 4)]),
        dst = view($1, [index(slice(1, 4), slice(0, 4))]), commit_group)";
  text.replace(text.find(from), from.size(),
               R"(copy_smem_to_gmem %2, %1, %5 {src = view($0, [unswizzle(16), untile(2, 4),
        index(slice(0, $2), slice(0, 4))]), dst = view($1, [index(slice(0, $2), slice(0, 4))]), commit_group)");
  std::string report;
  EXPECT_EQ(error_code(text, {f32({5, 4}, std::vector<float>(20, 1))}, {}, &report), "PS-UNSUP-001");
  EXPECT_NE(report.find("extent that is known at run time only"), std::string::npos) << report;
}

// Two CTAs write their rows of an input; when both have, each copies the other's row out, by a list of rows.
const char* const kInput = R"(pallasim-ir 1
module "k" {machine = mosaic_gpu}
mesh "gpu" {kind = gpu, axes = [axis("x", 2)], grid = 0, cluster = 1, threads = 0}
input "a" : i32[3,4] {space = gmem}
output "o" : i32[2,2,4] {space = gmem}
body "gpu" (%0 "a": ref<i32[3,4], gmem>, %1 "o": ref<i32[2,2,4], gmem>) {
  run_scoped {allocs = [none, {num_arrivals = 1}, {num_arrivals = 1, collective_axes = ["x"]}]} (
      %2 "s": ref<i32[2,4], gsmem, cta>,
      %3 "bar": ref<mbarrier[1], gsmem, cta>, %4 "met": ref<cluster_barrier[1], gsmem, cta>) {
    %5 = axis_index {axis = "x"} : i32[]
    %6 = get %0, %5 {view = [index($1, slice(0, 4))]} : i32[4]
    %7 = add %6, %6 : i32[4]
    store %0, %7, %5 {view = [index($2, slice(0, 4))]}
    barrier_arrive %4 {barrier = view($0, [index(0)])}
    barrier_wait %4 {barrier = view($0, [index(0)])}
    %8 = iota {axis = 0} : i32[2]
    %9 = constant {value = i32 0x3} : i32[]
    %10 = broadcast_in_dim %9 {dims = []} : i32[2]
    %11 = mul %8, %10 : i32[2]
    %12 = constant {value = i32 0x1} : i32[]
    %13 = sub %12, %5 : i32[]
    %14 = broadcast_in_dim %13 {dims = []} : i32[2]
    %15 = add %11, %14 : i32[2]
    copy_gmem_to_smem %0, %15, %2, %3 {src = view($0, [index(array($1), slice(0, 4))]), dst = view($2, []),
      barrier = view($3, [index(0)]), oob_mode = zeros}
    barrier_wait %3 {barrier = view($0, [index(0)])}
    %16 = get %2 : i32[2,4]
    store %1, %16, %5 {view = [index($2, slice(0, 2), slice(0, 4))]}
    yield
  }
  yield
}
)";

TEST(Bulk, InputsThatAKernelWritesAreCopiesOfTheLaunchs) {
  const std::vector<int32_t> a{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  for (const Options::Copies when : {Options::Copies::AtIssue, Options::Copies::AtWait, Options::Copies::Scheduled}) {
    Options o;
    o.copies = when;
    if (when == Options::Copies::Scheduled) o.random_seed = 3;
    const Outcome r = run(kInput, {i32({3, 4}, a)}, o);
    // Rows 3 and 4 of the list do not exist.
    EXPECT_EQ(r.results[0].as<int32_t>(), (std::vector<int32_t>{10, 12, 14, 16, 0, 0, 0, 0, 2, 4, 6, 8, 0, 0, 0, 0}));
    ASSERT_EQ(r.report.findings.size(), 1u);
    EXPECT_EQ(r.report.findings[0].code.text(), "PS-RO-001");
    EXPECT_EQ(r.report.findings[0].severity, ir::Severity::Note);
  }
}

TEST(Bulk, InputsThatAreOnlyReadAreNotCopied) {
  EXPECT_TRUE(compile(ir::parse(kProduct))->memory.own_inputs.empty());
  EXPECT_EQ(compile(ir::parse(kInput))->memory.own_inputs.size(), 1U);
}

}  // namespace
}  // namespace pallasim::interp::test
