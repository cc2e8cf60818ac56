// Facts about a module before anything is emitted.
#include "analysis/affine.h"
#include "analysis/predicates.h"
#include "analysis/refs.h"
#include "passes/passes.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

using Axes = std::optional<std::vector<int>>;

// zero_axes of the predicate of the body's only cond. %0 is a bool argument's ref, %1 an output; values start at %2.
Axes axes_of(const std::string& ops, const std::string& pred) {
  const std::string text =
      "pallasim-ir 1\nmodule \"k\" {machine = tpu}\ngrid {size = 300}\ngrid {size = 300}\n"
      "input \"f_ref\" : bool[1] {space = smem}\noutput \"o_ref\" : f32[8] {space = vmem}\n"
      "body (%0 \"f_ref\": ref<bool[1], smem>, %1 \"o_ref\": ref<f32[8], vmem>) {\n" +
      ops + "  cond " + pred + " () {\n    yield\n  } () {\n    yield\n  }\n  yield\n}\n";
  const ir::Module m = ir::parse(text);
  ir::verify(m);
  const ir::Graph& g = m.bodies[0].graph;
  for (const ir::Op& op : g.region.ops)
    if (op.code == ir::OpCode::cond) return analysis::zero_axes(g, analysis::Definitions(g.region), op.operands[0]);
  return std::vector<int>{-1};
}

std::string eq_zero(int first, int axis, bool swapped = false) {
  auto v = [](int n) { return "%" + std::to_string(n); };
  return "  " + v(first) + " = program_id {axis = " + std::to_string(axis) + "} : i32[]\n  " + v(first + 1) +
         " = constant {value = i32 0x0} : i32[]\n  " + v(first + 2) + " = eq " +
         (swapped ? v(first + 1) + ", " + v(first) : v(first) + ", " + v(first + 1)) + " : bool[]\n";
}

TEST(ZeroAxes, SpellingsOfWhen) {
  const Axes zero = std::vector<int>{0}, one = std::vector<int>{1};
  const std::string zero_i32 = " = constant {value = i32 0x0} : i32[]\n", as_i32 = " = convert %4 : i32[]\n";
  EXPECT_EQ(axes_of(eq_zero(2, 0), "%4"), zero);
  EXPECT_EQ(axes_of(eq_zero(2, 1, true), "%4"), one);
  EXPECT_EQ(axes_of(eq_zero(2, 1) + "  %5" + as_i32, "%5"), one);
  EXPECT_EQ(axes_of(eq_zero(2, 0) + "  %5" + as_i32 + "  %6" + zero_i32 + "  %7 = ne %5, %6 : bool[]\n", "%7"), zero);
  EXPECT_EQ(axes_of(eq_zero(2, 0) + "  %5" + as_i32 + "  %6" + zero_i32 + "  %7 = ne %6, %5 : bool[]\n", "%7"), zero);
  EXPECT_EQ(axes_of(eq_zero(2, 0) + "  %5 = convert %4 : i8[]\n  %6 = convert %5 : i32[]\n", "%6"), zero);
  EXPECT_EQ(axes_of(eq_zero(2, 0) + "  %5 = constant {value = bool 0x0} : bool[]\n  %6 = ne %4, %5 : bool[]\n", "%6"),
            zero);
  EXPECT_EQ(axes_of(eq_zero(2, 0) + eq_zero(5, 1) + "  %8 = and %4, %7 : bool[]\n  %9 = convert %8 : i32[]\n", "%9"),
            (std::vector<int>{0, 1}));
}

TEST(ZeroAxes, OthersAreNot) {
  const std::string flag = "  %5 = get %0 {view = [index(0)]} : bool[]\n", p = "  %2 = program_id {axis = 0} : i32[]\n";
  auto unproven = [](const std::string& ops, const std::string& pred) {
    EXPECT_EQ(axes_of(ops, pred), std::nullopt) << ops;
  };
  unproven(eq_zero(2, 0) + flag + "  %6 = ne %4, %5 : bool[]\n", "%6");
  unproven(eq_zero(2, 0) + flag + "  %6 = and %4, %5 : bool[]\n", "%6");
  unproven(eq_zero(2, 0) + flag + "  %6 = or %4, %5 : bool[]\n", "%6");
  unproven(eq_zero(2, 0) + flag + "  %6 = eq %4, %5 : bool[]\n", "%6");
  unproven(eq_zero(2, 0) + "  %5 = not %4 : bool[]\n", "%5");
  unproven(eq_zero(2, 0) + "  %5 = constant {value = bool 0x1} : bool[]\n  %6 = ne %4, %5 : bool[]\n", "%6");
  unproven(eq_zero(2, 0) +
               "  %5 = convert %4 : i32[]\n  %6 = constant {value = i32 0x1} : i32[]\n  %7 = ne %5, %6 : bool[]\n",
           "%7");
  unproven(eq_zero(2, 0) +
               "  %5 = convert %4 : i32[]\n  %6 = constant {value = i32 0x0} : i32[]\n  %7 = eq %5, %6 : bool[]\n",
           "%7");
  unproven(p + "  %3 = constant {value = i32 0x1} : i32[]\n  %4 = eq %2, %3 : bool[]\n", "%4");
  unproven(p + "  %3 = constant {value = i32 0x0} : i32[]\n  %4 = ne %2, %3 : bool[]\n", "%4");
  unproven(p + "  %3 = constant {value = i32 0x0} : i32[]\n  %4 = lt %3, %2 : bool[]\n", "%4");
  unproven(p + "  %3 = convert %2 : i8[]\n  %4 = constant {value = i8 0x0} : i8[]\n  %5 = eq %3, %4 : bool[]\n", "%5");
  unproven(p + "  %3 = convert %2 : bool[]\n", "%3");
  unproven(p, "%2");
  unproven(
      "  %2 = num_programs {axis = 0} : i32[]\n  %3 = constant {value = i32 0x0} : i32[]\n  %4 = eq %2, %3 : bool[]\n",
      "%4");
}

TEST(ZeroAxes, LongChainsEnd) {
  std::string ops = eq_zero(2, 0);
  for (int i = 5; i < 200; ++i)
    ops +=
        "  %" + std::to_string(i) + " = and %" + std::to_string(i - 1) + ", %" + std::to_string(i - 1) + " : bool[]\n";
  EXPECT_EQ(axes_of(ops, "%199"), std::nullopt);
}

// The first entry of an index map over axes of 4 and 70000.
Affine first_index(const std::string& ops, const std::string& index) {
  const std::string text =
      "pallasim-ir 1\nmodule \"k\" {machine = tpu}\ngrid {size = 4}\ngrid {size = 70000}\n"
      "output \"o_ref\" : f32[64] {space = vmem, block = [blocked(8)]} (%0: i32[], %1: i32[]) {\n" +
      ops + "  yield " + index + "\n}\nbody (%0 \"o_ref\": ref<f32[8], vmem>) {\n  yield\n}\n";
  const ir::Module m = ir::parse(text);
  ir::verify(m);
  return analysis::affine_map(m, m.operands[0])[0];
}

TEST(AffineMaps, AreKnownWhereNothingWraps) {
  const Affine plain = first_index(
      "  %2 = constant {value = i32 0x3} : i32[]\n  %3 = mul %0, %2 : i32[]\n  %4 = add %3, %1 : i32[]\n", "%4");
  ASSERT_TRUE(plain.known);
  EXPECT_EQ(plain.coefficient, (std::vector<int64_t>{3, 1}));
  // 70000 * 70000 does not fit into an i32, 3 * 70000 * 4 does.
  EXPECT_FALSE(first_index("  %2 = constant {value = i32 0x11170} : i32[]\n  %3 = mul %1, %2 : i32[]\n", "%3").known);
  EXPECT_TRUE(first_index("  %2 = constant {value = i32 0x11170} : i32[]\n  %3 = mul %0, %2 : i32[]\n", "%3").known);
  EXPECT_FALSE(first_index("  %2 = convert %0 : i8[]\n  %3 = convert %2 : i32[]\n", "%3").known);
  EXPECT_FALSE(
      first_index("  %2 = constant {value = i32 0x80000000} : i32[]\n  %3 = sub %0, %2 : i32[]\n", "%3").known);
}

// What is left of a body of scalars from `%2 = program_id` and `%3 = 1` on, and how many operations went.
std::pair<int, std::string> merged(const std::string& ops) {
  ir::Module m = ir::parse(
      "pallasim-ir 1\nmodule \"k\" {machine = tpu}\ngrid {size = 4}\ninput \"x\" : i32[4] {space = smem}\n"
      "output \"o\" : i32[4] {space = smem}\nbody (%0 \"x\": ref<i32[4], smem>, %1 \"o\": ref<i32[4], smem>) {\n"
      "  %2 = program_id {axis = 0} : i32[]\n  %3 = constant {value = i32 0x1} : i32[]\n" +
      ops + "  yield\n}\n");
  ir::verify(m);
  const int64_t n = passes::merge_equal({m.bodies[0].graph, m.grid});
  return {static_cast<int>(n), ir::print(m)};
}

TEST(EqualScalars, AreComputedOnce) {
  const auto [n, text] = merged(
      "  %4 = rem %2, %3 : i32[]\n  %5 = rem %2, %3 : i32[]\n  %6 = add %4, %3 : i32[]\n  %7 = add %5, %3 : i32[]\n"
      "  %8 = add %3, %5 : i32[]\n  store %1, %7, %8 {view = [index($2)]}\n");
  EXPECT_EQ(n, 2) << text;  // of %5 and %7; operands in another order are another operation
}

TEST(EqualScalars, OfABranchStayInIt) {
  const auto in = [](int v) {
    const std::string x = "%" + std::to_string(v);
    return "    " + x + " = add %2, %3 : i32[]\n    store %1, " + x + ", %3 {view = [index($2)]}\n    yield\n";
  };
  const auto [n, text] = merged("  %4 = eq %2, %3 : bool[]\n  cond %4 () {\n" + in(5) + "  } () {\n" + in(6) + "  }\n" +
                                "  %7 = add %2, %3 : i32[]\n  store %1, %7, %2 {view = [index($2)]}\n");
  EXPECT_EQ(n, 0) << text;
  const auto [around, all] = merged("  %4 = add %2, %3 : i32[]\n  %5 = eq %2, %3 : bool[]\n  cond %5 () {\n" + in(6) +
                                    "  } () {\n" + in(7) + "  }\n  store %1, %4, %2 {view = [index($2)]}\n");
  EXPECT_EQ(around, 2) << all;
}

TEST(EqualScalars, OfSpawnedThreadsAreTheirOwn) {
  const auto [n, text] = merged(
      "  %4 = axis_index {axis = \"w\"} : i32[]\n  store %1, %4, %2 {view = [index($2)]}\n"
      "  spawn {mesh = {kind = warp, axes = [axis(\"w\", 4)]}} () {\n    %5 = axis_index {axis = \"w\"} : i32[]\n"
      "    store %1, %5, %5 {view = [index($2)]}\n    yield\n  }\n");
  EXPECT_EQ(n, 0) << text;
}

TEST(EqualScalars, ReadsAndTensorsStay) {
  const auto [n, text] = merged(
      "  %4 = get %0, %2 {view = [index($1)]} : i32[]\n  store %1, %4, %2 {view = [index($2)]}\n"
      "  %5 = get %0, %2 {view = [index($1)]} : i32[]\n  store %1, %5, %2 {view = [index($2)]}\n"
      "  %6 = iota {axis = 0} : i32[4]\n  %7 = iota {axis = 0} : i32[4]\n  store %1, %6\n  store %1, %7\n");
  EXPECT_EQ(n, 0) << text;
}

}  // namespace
}  // namespace pallasim::interp::test
