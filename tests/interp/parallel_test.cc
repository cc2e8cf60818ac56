// Splitting the grid is invisible: same bytes, prints and first finding for 1, 2 and 8 workers. Small kernels are in
// ../engine/parallel_axes and ../engine/splitting.
#include <fmt/format.h>

#include <cmath>

#include "run.h"

namespace pallasim::interp::test {
namespace {

struct Kernel {
  const char* name;
  std::string text;
  std::vector<Array> args;
  bool splits;  // whether independence can be proven
};

std::string blocked(const std::string& semantics, const std::string& out_index, const std::string& body,
                    const std::string& scratch = "", const std::string& scratch_arg = "") {
  return "pallasim-ir 1\nmodule \"k\" {machine = tpu}\ngrid {size = 4, semantics = " + semantics +
         "}\ngrid {size = 8, semantics = arbitrary}\n" +
         "input \"x_ref\" : f32[4,8,16] {space = vmem, block = [squeezed, squeezed, blocked(16)]} (%0: i32[], %1: "
         "i32[]) {\n"
         "  %2 = constant {value = i32 0x0} : i32[]\n  yield %0, %1, %2\n}\n"
         "output \"o_ref\" : f32[4,16] {space = vmem, block = [squeezed, blocked(16)]} (%0: i32[], %1: i32[]) {\n"
         "  %2 = constant {value = i32 0x0} : i32[]\n  yield " +
         out_index + ", %2\n}\n" + scratch +
         "body (%0 \"x_ref\": ref<f32[16], vmem>, %1 \"o_ref\": ref<f32[16], vmem>" + scratch_arg + ") {\n" + body +
         "  yield\n}\n";
}

std::vector<Kernel> kernels_under_test() {
  return {
      {"matmul", read_file("pass/matmul_2x2.psir"), {noise({1024, 1024}, 1), noise({1024, 1024}, 2)}, true},
      {"in place", read_file("pass/alias_inplace.psir"), {i32({}, {4}), noise({4, 128})}, true},
  };
}

// On several workers, and its parts one after the other in orders that are not the grid's.
std::vector<Options> in_parts() {
  std::vector<Options> r(4);
  r[0].workers = 2;
  r[1].workers = 8;
  r[2].verify_parts = 1;
  r[3].verify_parts = 17;
  return r;
}

TEST(Parallel, SameBytesForEveryWorkerCountAndOrderOfParts) {
  for (const Kernel& k : kernels_under_test()) {
    Options one;
    one.workers = 1;
    const Outcome want = run(k.text, k.args, one);
    EXPECT_FALSE(all_zero(want.results[0])) << k.name;
    EXPECT_EQ(want.report.units, 1);
    EXPECT_EQ(want.report.sequential_because.empty(), k.splits) << k.name << ": " << want.report.sequential_because;
    for (const Options& o : in_parts())
      for (int repeat = 0; repeat < 3; ++repeat) {
        const Outcome got = run(k.text, k.args, o);
        EXPECT_EQ(got.results[0].bytes, want.results[0].bytes) << k.name << ", " << o.workers << " workers";
        EXPECT_EQ(got.report.prints, want.report.prints) << k.name;
        EXPECT_EQ(got.report.units > 1, k.splits) << k.name;
      }
  }
}

TEST(Parallel, CheckedAndFastAgree) {
  for (const Kernel& k : kernels_under_test()) {
    Options o;
    o.checked = true;
    const Outcome checked = run(k.text, k.args, o);
    EXPECT_TRUE(checked.report.findings.empty()) << k.name << "\n" << ir::render(checked.report.findings.front());
    EXPECT_EQ(checked.results[0].bytes, run(k.text, k.args).results[0].bytes) << k.name;
  }
}

TEST(Parallel, TheJudgeAgrees) {
  for (const Kernel& k : kernels_under_test()) {
    Options one, judged;
    one.workers = 1;
    judged.verify_split = true;
    const Outcome want = run(k.text, k.args, one), got = run(k.text, k.args, judged);
    EXPECT_EQ(got.results[0].bytes, want.results[0].bytes) << k.name;
    EXPECT_EQ(got.report.prints, want.report.prints) << k.name;
    EXPECT_EQ(got.report.units > 1, k.splits) << k.name;
  }
}

TEST(Parallel, TheFirstErrorInGridOrderIsReported) {
  const std::string body =
      "  %3 = program_id {axis = 0} : i32[]\n  %4 = get %0, %3 {view = [index($1)]} : f32[]\n  %5 = program_id {axis = "
      "1} : i32[]\n"
      "  %6 = constant {value = i32 0x8} : i32[]\n  %7 = mul %3, %6 : i32[]\n  %8 = get %0, %7 {view = [index($1)]} : "
      "f32[]\n"
      "  store %1, %8 {view = [index(0)]}\n";
  std::string shifted = body;
  for (char c = '3'; c <= '8'; ++c)
    for (size_t i = 0; (i = shifted.find(std::string("%") + c, i)) != std::string::npos; ++i)
      shifted[i + 1] = static_cast<char>(c - 1);
  const std::string text = blocked("parallel", "%0", shifted);
  std::string first;
  std::vector<Options> all = in_parts();
  all.emplace_back().workers = 1;
  for (Options& o : all) {
    o.out_of_bounds = Options::Oob::Error;
    std::string report;
    EXPECT_EQ(error_code(text, {noise({4, 8, 16})}, o, &report), "PS-OOB-001");
    EXPECT_NE(report.find("grid point (2, 0)"), std::string::npos) << report;
    if (first.empty()) first = report;
    EXPECT_EQ(report, first);
  }
  Options judged;
  judged.verify_split = true;
  judged.out_of_bounds = Options::Oob::Error;
  std::string report;
  EXPECT_EQ(error_code(text, {noise({4, 8, 16})}, judged, &report), "PS-OOB-001");
  EXPECT_EQ(report, first);
}

// One grid point whose steps run in parts: chains along rows and along one dimension, sums of rows and of columns,
// narrow types, copies of blocks. Sizes that no number of parts divides.
TEST(Parallel, PartsOfSteps) {
  const std::string text = R"(pallasim-ir 1
module "k" {machine = tpu}
grid {size = 1, semantics = arbitrary}
input "x_ref" : f32[701,1003] {space = vmem, block = [blocked(701), blocked(1003)]} (%0: i32[]) {
  %1 = constant {value = i32 0x0} : i32[]
  yield %1, %1
}
output "o_ref" : f32[701,1003] {space = vmem, block = [blocked(701), blocked(1003)]} (%0: i32[]) {
  %1 = constant {value = i32 0x0} : i32[]
  yield %1, %1
}
output "flat_ref" : bf16[703103] {space = vmem}
output "rows_ref" : f32[701] {space = vmem}
body (%0 "x_ref": ref<f32[701,1003], vmem>, %1 "o_ref": ref<f32[701,1003], vmem>,
      %2 "flat_ref": ref<bf16[703103], vmem>, %3 "rows_ref": ref<f32[701], vmem>) {
  %4 = get %0 : f32[701,1003]
  %5 = reduce_max %4 {axes = [1]} : f32[701]
  %6 = broadcast_in_dim %5 {dims = [0]} : f32[701,1003]
  %7 = sub %4, %6 : f32[701,1003]
  %8 = exp %7 : f32[701,1003]
  store %1, %8
  %9 = reduce_sum %8 {axes = [1]} : f32[701]
  store %3, %9
  %10 = reshape %8 : f32[703103]
  %11 = convert %10 : bf16[703103]
  %12 = constant {value = bf16 0x3f81} : bf16[]
  %13 = broadcast_in_dim %12 {dims = []} : bf16[703103]
  %14 = mul %11, %13 : bf16[703103]
  store %2, %14
  yield
}
)";
  const std::vector<Array> args{noise({701, 1003})};
  Options o;
  o.workers = 1;
  const Outcome one = run(text, args, o);
  ASSERT_EQ(one.results.size(), 3u);
  const std::vector<float> exps = one.results[0].as<float>();
  EXPECT_EQ(*std::max_element(exps.begin(), exps.end()), 1.f);
  for (int workers : {2, 3, 8})
    for (int repeat = 0; repeat < 3; ++repeat) {
      o.workers = workers;
      const Outcome many = run(text, args, o);
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(many.results[i].bytes, one.results[i].bytes) << workers << ' ' << i;
    }
}

// A product of `batch` matrices of m x k and k x n in one grid point, `turned` on their sides in memory; with `sum`
// added to what the output begins with.
struct Product {
  int64_t batch, m, n, k;
  bool turned, sum;
  const char* dtype;  // of the operands
};

std::string text_of(const Product& p) {
  const auto dims = [&](int64_t rows, int64_t columns) {
    return fmt::format("[{},{},{}]", p.batch, p.turned ? columns : rows, p.turned ? rows : columns);
  };
  const std::string a = p.dtype + dims(p.m, p.k), b = p.dtype + dims(p.k, p.n),
                    o = fmt::format("f32[{},{},{}]", p.batch, p.m, p.n);
  std::string text = fmt::format(
      "pallasim-ir 1\nmodule \"k\" {{machine = generic}}\ninput \"a\" : {0} {{space = any}}\n"
      "input \"b\" : {1} {{space = any}}\ninput \"c\" : {2} {{space = any}}\noutput \"o\" : {2} {{space = any}}\n"
      "body (%0 \"a\": ref<{0}, any>, %1 \"b\": ref<{1}, any>, %2 \"c\": ref<{2}, any>, %3 \"o\": ref<{2}, any>) {{\n"
      "  %4 = get %0 : {0}\n  %5 = get %1 : {1}\n  %6 = dot_general %4, %5 {{lhs_contract = [{3}], rhs_contract = "
      "[{4}], lhs_batch = [0], rhs_batch = [0]}} : {2}\n",
      a, b, o, p.turned ? 1 : 2, p.turned ? 2 : 1);
  text += p.sum ? fmt::format("  %7 = get %2 : {0}\n  %8 = add %7, %6 : {0}\n  store %3, %8\n", o) : "  store %3, %6\n";
  return text + "  yield\n}\n";
}

std::vector<float> by_loops(const Product& p, const Array& a, const Array& b, const Array& c) {
  const std::vector<float> x = a.as<float>(), y = b.as<float>();
  std::vector<float> r = p.sum ? c.as<float>() : std::vector<float>(static_cast<size_t>(p.batch * p.m * p.n));
  for (int64_t h = 0; h < p.batch; ++h)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t l = 0; l < p.k; ++l)
        for (int64_t j = 0; j < p.n; ++j)
          r[static_cast<size_t>((h * p.m + i) * p.n + j)] +=
              x[static_cast<size_t>(h * p.m * p.k + (p.turned ? l * p.m + i : i * p.k + l))] *
              y[static_cast<size_t>(h * p.k * p.n + (p.turned ? j * p.k + l : l * p.n + j))];
  return r;
}

// Large products are made of panels, by rows, by columns and by both; their sizes are multiples of nothing.
TEST(Parallel, PanelsOfProducts) {
  for (const Product& p :
       {Product{1, 300, 700, 101, false, false, "f32"}, Product{1, 257, 1100, 67, true, true, "f32"},
        Product{1, 131, 1203, 113, false, true, "f32"}, Product{2, 310, 260, 211, true, false, "f32"},
        Product{9, 61, 127, 130, false, true, "f32"}, Product{1, 401, 303, 300, true, true, "bf16"}}) {
    const auto turned = [&](int64_t rows, int64_t columns) {
      return std::vector<int64_t>{p.batch, p.turned ? columns : rows, p.turned ? rows : columns};
    };
    const Array a = whole(turned(p.m, p.k), 1), b = whole(turned(p.k, p.n), 2), c = whole({p.batch, p.m, p.n}, 3);
    const bool narrow = std::string_view(p.dtype) == "bf16";
    const std::vector<Array> args{narrow ? as_bf16(a) : a, narrow ? as_bf16(b) : b, c};
    const std::vector<float> want = by_loops(p, a, b, c);
    for (const int workers : {1, 2, 8}) {
      Options o;
      o.workers = workers;
      EXPECT_EQ(run(text_of(p), args, o).results[0].as<float>(), want) << p.m << ' ' << p.n << " with " << workers;
    }
  }
}

}  // namespace
}  // namespace pallasim::interp::test
