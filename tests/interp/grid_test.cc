// Grid order, windows, edges, aliases, prefetch, dynamic bounds.
#include "run.h"

namespace pallasim::interp::test {
namespace {

TEST(Grid, AddVectors) {
  const auto r =
      run(read_file("pass/add_vectors.psir"), {f32({8}, {0, 1, 2, 3, 4, 5, 6, 7}), f32({8}, {1, 1, 1, 1, 1, 1, 1, 1})});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(Grid, ProgramIdAndDynamicStoreIndex) {
  const auto r = run(read_file("pass/iota.psir"), {});
  EXPECT_EQ(r.results[0].as<int32_t>(), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(r.report.grid_points, 8);
}

TEST(Grid, OrderOfAnAxisIsFollowedAndRecorded) {
  Options o;
  o.workers = 2;
  o.grid_order = {{1, 0}};
  const Array x = noise({1024, 1024}, 1), y = noise({1024, 1024}, 2);
  const auto ordered = run(read_file("pass/matmul_2x2.psir"), {x, y}, o, true),
             plain = run(read_file("pass/matmul_2x2.psir"), {x, y});
  EXPECT_EQ(ordered.points, (std::vector<GridPoint>{{{1, 0}, 0}, {{1, 1}, 0}, {{0, 0}, 0}, {{0, 1}, 0}}));
  EXPECT_EQ(ordered.results[0].as<float>(), plain.results[0].as<float>());
  EXPECT_FALSE(all_zero(plain.results[0]));
  EXPECT_TRUE(plain.points.empty());
  for (const auto& bad : std::vector<std::vector<std::vector<int32_t>>>{{{0, 0}}, {{0}}, {{0, 2}}, {{}, {}, {0}}}) {
    o.grid_order = bad;
    EXPECT_EQ(error_code(read_file("pass/matmul_2x2.psir"), {x, y}, o), "PS-ARG-001");
  }
}

TEST(Grid, MatmulBlocksAgreeWithPlainLoops) {
  const Array x = noise({1024, 1024}, 1), y = noise({1024, 1024}, 2);
  const auto r = run(read_file("pass/matmul_2x2.psir"), {x, y});
  const auto a = x.as<float>(), b = y.as<float>(), z = r.results[0].as<float>();
  for (size_t i = 0; i < 1024; i += 97)
    for (size_t j = 0; j < 1024; j += 101) {
      double sum = 0;
      for (size_t k = 0; k < 1024; ++k) sum += static_cast<double>(a[i * 1024 + k]) * b[k * 1024 + j];
      ASSERT_NEAR(z[i * 1024 + j], sum, 1e-3) << i << "," << j;
    }
  EXPECT_FALSE(all_zero(r.results[0]));
}

TEST(Grid, AccumulatesInARevisitedOutput) {
  const Array x = noise({4, 8, 128});
  const auto r = run(read_file("pass/sum_when.psir"), {x});
  const auto a = x.as<float>(), s = r.results[0].as<float>();
  for (size_t i = 0; i < 1024; ++i) EXPECT_EQ(s[i], ((a[i] + a[i + 1024]) + a[i + 2048]) + a[i + 3072]);
}

TEST(Grid, PrefetchedScalarsChooseBlocks) {
  const Array x = noise({8, 8, 128});
  const auto r = run(read_file("pass/prefetch_gather.psir"), {i32({4}, {3, 0, 7, 3}), x});
  const auto a = x.as<float>(), o = r.results[0].as<float>();
  const size_t pick[] = {3, 0, 7, 3};
  for (size_t b = 0; b < 4; ++b)
    for (size_t i = 0; i < 1024; ++i) ASSERT_EQ(o[b * 1024 + i], a[pick[b] * 1024 + i]);
}

TEST(Grid, BlockIndexOutOfBoundsNamesOperandAndPoint) {
  std::string report;
  EXPECT_EQ(
      error_code(read_file("pass/prefetch_gather.psir"), {i32({4}, {3, 8, 0, 0}), noise({8, 8, 128})}, {}, &report),
      "PS-OOB-002");
  EXPECT_NE(
      report.find(
          "Out-of-bounds block index 8 for input x_ref: its index map returned it for dimension 0, which has 8 blocks"),
      std::string::npos)
      << report;
  EXPECT_NE(report.find("grid point (1,)"), std::string::npos) << report;
}

TEST(Grid, DynamicBoundRunsThatManySteps) {
  const Array x = noise({4, 128});
  // Aliased: rows beyond the bound keep the input's values.
  const auto r = run(read_file("pass/alias_inplace.psir"), {i32({}, {2}), x});
  const auto a = x.as<float>(), o = r.results[0].as<float>();
  for (size_t i = 0; i < 512; ++i) ASSERT_EQ(o[i], i < 256 ? a[i] + 1.0f : a[i]);
}

TEST(Grid, ZeroDynamicBoundRunsNothing) {
  const Array x = noise({4, 128});
  const auto r = run(read_file("pass/alias_inplace.psir"), {i32({}, {0}), x});
  EXPECT_EQ(r.results[0].as<float>(), x.as<float>());
  EXPECT_EQ(r.report.grid_points, 0);
}

TEST(Grid, AliasedBuffersAreUsedInPlace) {
  auto plan = compile(ir::parse(read_file("pass/alias_inplace.psir")));
  Array n = i32({}, {4}), x = noise({4, 128});
  const auto before = x.as<float>();
  Session s;
  const Buffer in[] = {n.buffer(), x.buffer()}, out[] = {x.buffer()};
  launch(*plan, s, in, out);
  EXPECT_EQ(x.as<float>()[511], before[511] + 1.0f);
}

TEST(Grid, OverlapWithoutAliasIsRefused) {
  auto plan = compile(ir::parse(read_file("pass/add_vectors.psir")));
  Array x = noise({8}), y = noise({8});
  Session s;
  const Buffer in[] = {x.buffer(), y.buffer()}, out[] = {x.buffer()};
  EXPECT_THROW(launch(*plan, s, in, out), ir::DiagnosticError);
}

TEST(Grid, ScratchAndStridedViews) {
  std::vector<uint16_t> bits(20 * 128);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(0x3f80 + i % 64);
  const auto r = run(read_file("pass/scoped_scratch.psir"), {array(ir::DType::BF16, {20, 128}, bits)});
  const auto o = r.results[0].as<float>();
  for (size_t i = 0; i < 8 * 128; ++i) ASSERT_LE(o[i], 1.0f);
  EXPECT_EQ(o[63], 1.0f);  // the row's maximum
}

TEST(Grid, ShapeParametersSpecialise) {
  const char* text = R"(pallasim-ir 1
module "sym" {machine = generic}
param n
input "x_ref" : f32[n] {space = any}
output "o_ref" : f32[n] {space = any}
body (%0 "x_ref": ref<f32[n], any>, %1 "o_ref": ref<f32[n], any>) {
  %2 = get %0 : f32[n]
  %3 = add %2, %2 : f32[n]
  store %1, %3
  yield
}
)";
  auto plan = compile(ir::parse(text));
  Session s;
  for (int64_t n : {3, 5}) {
    Array x = noise({n}), o = noise({n}, 9);
    const Buffer in[] = {x.buffer()}, out[] = {o.buffer()};
    launch(*plan, s, in, out);
    EXPECT_EQ(o.as<float>().back(), 2 * x.as<float>().back());
  }
}

// An aliased pair on `generic`: one buffer, whichever name. Rows are read and written through x (the input) and o.
std::multiset<std::string> alias_findings(const std::string& body, std::vector<float>* out = nullptr) {
  const std::string text = R"(pallasim-ir 1
module "alias" {machine = generic}
grid {size = 3}
input "x" : f32[4,8] {space = any}
output "o" : f32[4,8] {space = any}
alias {input = 0, output = 0}
body (%0 "x": ref<f32[4,8], any>, %1 "o": ref<f32[4,8], any>) {
  %2 = program_id {axis = 0} : i32[]
  %3 = constant {value = i32 0x1} : i32[]
  %4 = add %2, %3 : i32[]
  %5 = constant {value = f32 0x3f800000} : f32[]
)" + body + "  yield\n}\n";
  Options o;
  o.checked = true;
  const Outcome r = run(text, {f32({4, 8}, std::vector<float>(32, 1.0f))}, o);
  if (out) *out = r.results[0].as<float>();
  std::multiset<std::string> codes;
  for (const ir::Diagnostic& d : r.report.findings) codes.insert(std::string(d.code.text()));
  return codes;
}

TEST(Grid, AliasedReadsOfWhatTheOutputWroteAreNamed) {
  const auto load = [](const char* ref, const char* row) {
    return std::string("get ") + ref + ", " + row + " {view = [index($1, slice(0, 8))]} : f32[8]\n";
  };
  const auto store = [](const char* ref, const char* v, const char* row) {
    return std::string("  store ") + ref + ", " + v + ", " + row + " {view = [index($2, slice(0, 8))]}\n";
  };
  const std::string add = "  %7 = add %6, %5 : f32[8]\n", late = "PS-ALIAS-001";
  std::vector<float> rows;
  // The row that the point before wrote: 1, 2, 3, 4.
  EXPECT_EQ(alias_findings("  %6 = " + load("%0", "%2") + add + store("%1", "%7", "%4"), &rows),
            std::multiset<std::string>{late});
  EXPECT_EQ((std::vector<float>{rows[0], rows[8], rows[16], rows[24]}), (std::vector<float>{1, 2, 3, 4}));
  // Each row before it is written, or through the output's own name, or another row.
  EXPECT_EQ(alias_findings("  %6 = " + load("%0", "%2") + add + store("%1", "%7", "%2")).count(late), 0u);
  EXPECT_EQ(alias_findings("  %6 = " + load("%1", "%2") + add + store("%1", "%7", "%4")).count(late), 0u);
  EXPECT_EQ(alias_findings("  %6 = " + load("%0", "%4") + add + store("%1", "%7", "%2")).count(late), 0u);
  // What the input's own name wrote last is the input's.
  EXPECT_EQ(alias_findings("  %6 = " + load("%1", "%2") + add + store("%1", "%7", "%2") + store("%0", "%6", "%2") +
                           "  %8 = " + load("%0", "%2") + store("%1", "%8", "%2"))
                .count(late),
            0u);
}

}  // namespace
}  // namespace pallasim::interp::test
