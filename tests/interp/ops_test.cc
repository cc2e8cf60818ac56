// Shape operations, reductions, contractions, memory operations, and that fusion changes no bit.
#include <map>

#include "run.h"

namespace pallasim::interp::test {
namespace {

// One input, one output, `body` between (values from %2).
std::string kernel(const std::string& in, const std::string& out, const std::string& body) {
  return "pallasim-ir 1\nmodule \"t\" {machine = generic}\ninput \"x_ref\" : " + in +
         " {space = any}\noutput \"o_ref\" : " + out + " {space = any}\nbody (%0 \"x_ref\": ref<" + in +
         ", any>, %1 \"o_ref\": ref<" + out + ", any>) {\n" + body + "  yield\n}\n";
}

std::vector<float> iota(size_t n) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = static_cast<float>(i);
  return v;
}

TEST(Shape, PadWithNegativeAndInterior) {
  const auto r = run(kernel("f32[4]", "f32[6]", R"(  %2 = get %0 : f32[4]
  %3 = constant {value = f32 0xbf800000} : f32[]
  %4 = pad %2, %3 {low = [-1], high = [1], interior = [1]} : f32[7]
  %5 = slice %4 {start = [0], limit = [6]} : f32[6]
  store %1, %5
)"),
                     {f32({4}, {1, 2, 3, 4})});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{-1, 2, -1, 3, -1, 4}));
}

TEST(Shape, RevConcatTransposeBroadcast) {
  const auto r = run(kernel("f32[2,3]", "f32[3,4]", R"(  %2 = get %0 : f32[2,3]
  %3 = rev %2 {axes = [1]} : f32[2,3]
  %4 = concatenate %2, %3 {axis = 0} : f32[4,3]
  %5 = transpose %4 {perm = [1, 0]} : f32[3,4]
  %6 = iota {axis = 1} : f32[3,4]
  %7 = add %5, %6 : f32[3,4]
  store %1, %7
)"),
                     {f32({2, 3}, iota(6))});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{0, 4, 4, 8, 1, 5, 3, 7, 2, 6, 2, 6}));
}

TEST(Shape, DynamicSliceClampsAndUpdateKeepsTheRest) {
  const auto r = run(kernel("f32[4,4]", "f32[4,4]", R"(  %2 = get %0 : f32[4,4]
  %3 = constant {value = i32 0x3} : i32[]
  %4 = constant {value = i32 0x1} : i32[]
  %5 = dynamic_slice %2, %3, %4 {sizes = [2, 2]} : f32[2,2]
  %6 = constant {value = i32 0xffffffff} : i32[]
  %7 = dynamic_update_slice %2, %5, %6, %6 : f32[4,4]
  store %1, %7
)"),
                     {f32({4, 4}, iota(16))});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{9, 10, 2, 3, 13, 14, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(Reduce, MiddleAndSplitAxes) {
  const auto r = run(kernel("f32[2,3,4]", "f32[3]", R"(  %2 = get %0 : f32[2,3,4]
  %3 = reduce_sum %2 {axes = [0, 2]} : f32[3]
  %4 = reduce_max %2 {axes = [1]} : f32[2,4]
  %5 = reduce_min %4 {axes = [0, 1]} : f32[]
  %6 = add %3, %5 : f32[3]
  store %1, %6
)"),
                     {f32({2, 3, 4}, iota(24))});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{60 + 8, 92 + 8, 124 + 8}));
}

TEST(Dot, BatchedWithTransposedOperands) {
  // [b,k,m] x [b,n,k] -> [b,m,n]
  const std::string text = R"(pallasim-ir 1
module "dot" {machine = generic}
input "x_ref" : f32[2,5,3] {space = any}
input "y_ref" : f32[2,4,5] {space = any}
output "o_ref" : f32[2,3,4] {space = any}
body (%0 "x_ref": ref<f32[2,5,3], any>, %1 "y_ref": ref<f32[2,4,5], any>, %2 "o_ref": ref<f32[2,3,4], any>) {
  %3 = get %0 : f32[2,5,3]
  %4 = get %1 : f32[2,4,5]
  %5 = dot_general %3, %4 {lhs_contract = [1], rhs_contract = [2], lhs_batch = [0], rhs_batch = [0]} : f32[2,3,4]
  store %2, %5
  yield
}
)";
  const Array x = noise({2, 5, 3}, 3), y = noise({2, 4, 5}, 4);
  const auto o = run(text, {x, y}).results[0].as<float>();
  const auto a = x.as<float>(), b = y.as<float>();
  for (size_t n = 0; n < 2; ++n)
    for (size_t i = 0; i < 3; ++i)
      for (size_t j = 0; j < 4; ++j) {
        double sum = 0;
        for (size_t k = 0; k < 5; ++k) sum += static_cast<double>(a[n * 15 + k * 3 + i]) * b[n * 20 + j * 5 + k];
        EXPECT_NEAR(o[n * 12 + i * 4 + j], sum, 1e-5);
      }
}

TEST(Memory, OutOfBoundsNamesRefIndexAndLine) {
  std::string text = kernel("f32[8]", "f32[1]", R"(  %2 = constant {value = i32 0x8} : i32[]
  %3 = get %0, %2 {view = [index($1)]} : f32[] @0
  store %1, %3 {view = [index(0)]}
)");
  text += "loc 0 {file = \"k.py\", line = 7, function = \"kernel\", text = \"o_ref[0] = x_ref[8]\"}\n";
  std::string report;
  EXPECT_EQ(error_code(text, {noise({8})}, {}, &report), "PS-OOB-001");
  EXPECT_EQ(report,
            "error[PS-OOB-001]: Out-of-bounds read: index 8 is outside dimension 0 of x_ref (size 8)\n"
            "  at k.py:7 in kernel\n"
            "      o_ref[0] = x_ref[8]\n"
            "  in kernel t\n"
            "  index 8 of dimension 0\n"
            "  x_ref has shape (8,)\n"
            "  hint: clamp it, jnp.clip(index, 0, 7), mask the access, or choose a grid and block shape that divide "
            "the array\n");
}

TEST(Memory, MaskedLanesMayLieOutside) {
  std::vector<float> x = iota(20);
  const auto r = run(read_file("pass/masked_triton.psir"), {f32({20}, x)});
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(r.results[0].as<float>()[i], 2 * x[i]);
  EXPECT_EQ(r.report.prints, (std::vector<std::string>{"program 0", "program 1", "program 2"}));
}

TEST(Unsupported, IsRefusedByName) {
  std::string report;
  EXPECT_EQ(error_code(
                kernel("f32[8]", "f32[8]",
                       "  %2 = get %0 : f32[8]\n  %3 = extern %2 {name = \"my_primitive\"} : f32[8]\n  store %1, %3\n"),
                {noise({8})}, {}, &report),
            "PS-UNSUP-001");
  EXPECT_NE(report.find("my_primitive"), std::string::npos);
}

// An operation with the fewest operands and attributes that its row admits.
std::string least(const std::string& name) {
  ir::OpCode code;
  if (!ir::parse_op(name, &code)) return name;
  const ir::OpInfo& row = ir::info(code);
  std::string operands, attrs;
  for (int i = 0; i < row.min_operands; ++i) operands += i ? ", %0" : " %0";
  for (const ir::AttrSpec& a : row.attrs) {
    if (a.optional) continue;
    using K = ir::AttrKind;
    const char* value = a.kind == K::View                                                   ? "view($0, [])"
                        : a.kind == K::Transforms || a.kind == K::List || a.kind == K::Ints ? "[]"
                        : a.kind == K::Operand                                              ? "$0"
                        : a.kind == K::Bool                                                 ? "true"
                        : a.kind == K::Sym                                                  ? "add"
                        : a.kind == K::Str                                                  ? "\"s\""
                                                                                            : "0";
    attrs += (attrs.empty() ? "" : ", ") + std::string(a.name) + " = " + value;
  }
  return name + operands + (attrs.empty() ? "" : " {" + attrs + "}");
}

// docs/coverage.md: a dash on all machines.
TEST(Unsupported, IsWhatTheCoveragePageSays) {
  const std::map<std::string, std::string> lines = {
      {"spawn", "spawn {mesh = \"warps\"} () {\n    yield\n  }"},
      {"parallel_loop",
       "%2 = constant {value = i32 0x1} : i32[]\n  parallel_loop %2, %2, %2 (%3: i32[]) {\n    yield\n  }"},
      {"get_global", "%2 = get_global : ref<f32[8], vmem>"},
      {"addressof", "%2 = addressof %0 : i32[]"},
      {"extern", "extern {name = \"extern\"}"}};
  std::ifstream page(PALLASIM_DOCS_DIR "/coverage.md");
  int refused = 0;
  for (std::string line; std::getline(page, line) && line != "## Primitives of JAX";) {
    const size_t end = line.find("` | – | – | – |");
    if (end == std::string::npos) continue;
    const std::string name = line.substr(3, end - 3);
    const auto special = lines.find(name);
    std::string report;
    EXPECT_EQ(
        error_code(kernel("f32[8]", "f32[8]", "  " + (special == lines.end() ? least(name) : special->second) + "\n"),
                   {noise({8})}, {}, &report),
        "PS-UNSUP-001")
        << name << '\n'
        << report;
    EXPECT_NE(report.find(name), std::string::npos) << report;
    ++refused;
  }
  EXPECT_GT(refused, 3);
}

TEST(Arguments, ShapeAndDtypeAreChecked) {
  const std::string text = read_file("pass/add_vectors.psir");
  EXPECT_EQ(error_code(text, {noise({8}), noise({9})}), "PS-ARG-001");
  EXPECT_EQ(error_code(text, {noise({8}), i32({8}, std::vector<int32_t>(8))}), "PS-ARG-001");
  EXPECT_EQ(error_code(text, {noise({8})}), "PS-ARG-001");
}

TEST(Fusion, RegistersOfOtherWidthsAreNotReused) {
  const std::string body =
      "  %2 = get %0 : bf16[6,8]\n  %3 = get %1 : bf16[6,8]\n  %4 = gt %2, %3 : bool[6,8]\n  %5 = select_n %4, %2, %3 "
      ": bf16[6,8]\n  store %1, %5\n";
  std::vector<uint16_t> x(48);
  for (size_t i = 0; i < 48; ++i) x[i] = static_cast<uint16_t>(0x3f80 + i);
  const auto r = run(kernel("bf16[6,8]", "bf16[6,8]", body), {array(ir::DType::BF16, {6, 8}, x)});
  EXPECT_EQ(r.results[0].as<uint16_t>(), x);  // x > NaN is false
}

TEST(Fusion, ChangesNoBit) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    std::string t = dtype;
    const std::string body =
        "  %2 = get %0 : f32[13,70]\n  %3 = convert %2 : " + t + "[13,70]\n  %4 = mul %3, %3 : " + t +
        "[13,70]\n  %5 = exp %3 : " + t + "[13,70]\n  %6 = add %4, %5 : " + t +
        "[13,70]\n  %7 = reduce_max %6 {axes = [1]} : " + t + "[13]\n  %8 = broadcast_in_dim %7 {dims = [0]} : " + t +
        "[13,70]\n  %9 = sub %6, %8 : " + t + "[13,70]\n  %10 = tanh %9 : " + t +
        "[13,70]\n  %11 = mul %10, %6 : " + t + "[13,70]\n  %12 = convert %11 : f32[13,70]\n  store %1, %12\n";
    Options fused, plain;
    plain.fuse = false;
    const Array x = noise({13, 70}, 5);
    const auto a = run(kernel("f32[13,70]", "f32[13,70]", body), {x}, fused),
               b = run(kernel("f32[13,70]", "f32[13,70]", body), {x}, plain);
    EXPECT_EQ(a.results[0].bytes, b.results[0].bytes) << dtype;
    EXPECT_FALSE(all_zero(a.results[0]));
    EXPECT_LT(a.report.steps, b.report.steps);
  }
}

// min(max(x, lo), hi), also where lo is above hi: for scalars as for arrays.
TEST(Ops, ClampBetweenCrossedBounds) {
  const std::string text = R"(pallasim-ir 1
module "t" {machine = generic}
input "x_ref" : i32[4] {space = any}
output "o_ref" : i32[4] {space = any}
output "s_ref" : i32[4] {space = any}
body (%0 "x_ref": ref<i32[4], any>, %1 "o_ref": ref<i32[4], any>, %2 "s_ref": ref<i32[4], any>) {
  %3 = constant {value = i32 0x5} : i32[]
  %4 = constant {value = i32 0x2} : i32[]
  %5 = get %0 : i32[4]
  %6 = clamp %3, %5, %4 : i32[4]
  store %1, %6
  %7 = clamp %3, %3, %4 : i32[]
  %8 = broadcast_in_dim %7 {dims = []} : i32[4]
  store %2, %8
  yield
}
)";
  const auto r = run(text, {i32({4}, {0, 3, 5, 9})}).results;
  EXPECT_EQ(r[0].as<int32_t>(), std::vector<int32_t>(4, 2));
  EXPECT_EQ(r[1].as<int32_t>(), std::vector<int32_t>(4, 2));
}

// The result of pow has the dtype of its base, whatever the exponent's is, also before it is stored.
TEST(Ops, PowWithAnIntegerExponentRoundsToItsBase) {
  const std::string text = R"(pallasim-ir 1
module "t" {machine = generic}
input "x_ref" : bf16[4] {space = any}
output "o_ref" : f32[4] {space = any}
output "s_ref" : bf16[4] {space = any}
body (%0 "x_ref": ref<bf16[4], any>, %1 "o_ref": ref<f32[4], any>, %2 "s_ref": ref<bf16[4], any>) {
  %3 = get %0 : bf16[4]
  %4 = constant {value = i32 0x3} : i32[]
  %5 = pow %3, %4 : bf16[4]
  %6 = convert %5 : f32[4]
  store %1, %6
  %7 = pow %3, %4 : bf16[4]
  store %2, %7
  yield
}
)";
  const std::vector<uint16_t> x{0x3f8d, 0x3fc7, 0x4049, 0xbfd3};
  const auto r = run(text, {array(ir::DType::BF16, {4}, x)}).results;
  for (size_t i = 0; i < 4; ++i) {
    uint32_t stored = static_cast<uint32_t>(r[1].as<uint16_t>()[i]) << 16, seen;
    std::memcpy(&seen, &r[0].as<float>()[i], 4);
    EXPECT_EQ(seen, stored);
    EXPECT_NE(seen, 0u);
  }
}

}  // namespace
}  // namespace pallasim::interp::test
