// Facts about a module before anything is emitted.
#include "analysis/expressions.h"
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
    if (op.code == ir::OpCode::cond) return analysis::zero_axes(analysis::Expressions(g, m.grid), op.operands[0]);
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

TEST(ZeroAxes, OfMultiplesAndBounds) {
  const std::string p = "  %2 = program_id {axis = 1} : i32[]\n  %3 = constant {value = i32 0x8} : i32[]\n";
  EXPECT_EQ(axes_of(p + "  %4 = mul %2, %3 : i32[]\n  %5 = lt %4, %3 : bool[]\n", "%5"), (std::vector<int>{1}));
  EXPECT_EQ(axes_of(p + "  %4 = mul %2, %3 : i32[]\n  %5 = le %4, %3 : bool[]\n", "%5"), std::nullopt);
  EXPECT_EQ(axes_of(p + "  %5 = lt %2, %3 : bool[]\n", "%5"), std::nullopt);
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
  EXPECT_FALSE(first_index("  %2 = convert %1 : i8[]\n  %3 = convert %2 : i32[]\n", "%3").known);
  EXPECT_TRUE(first_index("  %2 = convert %0 : i8[]\n  %3 = convert %2 : i32[]\n", "%3").known);
  EXPECT_FALSE(
      first_index("  %2 = constant {value = i32 0x80000000} : i32[]\n  %3 = sub %0, %2 : i32[]\n", "%3").known);
}

// What is known of the last value of the body, or of its loop, after `%1 = program_id` of 300 and constants %2 = 3 and
// %3 = 8.
struct Known {
  std::optional<analysis::Interval> range;
  std::optional<bool> truth;
};
Known known(const std::string& ops) {
  const ir::Module m = ir::parse(
      "pallasim-ir 1\nmodule \"k\" {machine = generic}\ngrid {size = 300}\noutput \"o\" : i32[4] {space = any}\n"
      "body (%0 \"o\": ref<i32[4], any>) {\n  %1 = program_id {axis = 0} : i32[]\n"
      "  %2 = constant {value = i32 0x3} : i32[]\n  %3 = constant {value = i32 0x8} : i32[]\n" +
      ops + "  yield\n}\n");
  ir::verify(m);
  const analysis::Expressions values(m.bodies[0].graph, m.grid);
  const ir::Op* op = &m.bodies[0].graph.region.ops.end()[-2];
  if (!op->regions.empty()) op = &op->regions[0].ops.end()[-3];  // before what the carry becomes
  const analysis::AffineExpr* e = values.of(op->results[0]);
  return {e ? std::optional(e->range()) : std::nullopt, values.truth(op->results[0])};
}
const std::string kMultiple = "  %4 = mul %1, %3 : i32[]\n  %5 = add %4, %2 : i32[]\n";  // 8 * id + 3

TEST(Expressions, DivideByWhatTheyAreMultiplesOf) {
  EXPECT_EQ(known(kMultiple + "  %6 = rem %5, %3 : i32[]\n  %9 = eq %6, %2 : bool[]\n").truth, true);
  EXPECT_EQ(known(kMultiple + "  %6 = div %5, %3 : i32[]\n  %9 = eq %6, %1 : bool[]\n").truth, true);
  EXPECT_EQ(known(kMultiple + "  %6 = rem %5, %2 : i32[]\n  %9 = eq %6, %2 : bool[]\n").truth, false);
  EXPECT_EQ(known(kMultiple + "  %6 = div %5, %2 : i32[]\n  %9 = eq %6, %1 : bool[]\n").truth, std::nullopt);
  EXPECT_EQ(known("  %4 = mul %1, %3 : i32[]\n  %5 = sub %4, %3 : i32[]\n  %9 = div %5, %3 : i32[]\n").range,
            std::nullopt);  // of less than 0
}

TEST(Expressions, OfValuesThatMayBeAny) {
  const std::string any = "  %4 = get %0 {view = [index(0)]} : i32[]\n", u = any + "  %5 = convert %4 : u32[]\n";
  const auto is = [](const std::string& ops, int64_t least, int64_t greatest) {
    const auto range = known(ops).range;
    ASSERT_TRUE(range) << ops;
    EXPECT_EQ(range->least, least) << ops;
    EXPECT_EQ(range->greatest, greatest) << ops;
  };
  is(any + "  %5 = rem %4, %3 : i32[]\n", -7, 7);
  is(u + "  %6 = constant {value = u32 0x2} : u32[]\n  %7 = rem %5, %6 : u32[]\n", 0, 1);
  is(any + "  %5 = and %4, %3 : i32[]\n", 0, 8);
  is(any + "  %5 = clamp %2, %4, %3 : i32[]\n", 3, 8);
  is(any + "  %5 = max %4, %2 : i32[]\n  %6 = min %3, %5 : i32[]\n", 3, 8);
  is(any + "  %5 = min %4, %2 : i32[]\n", INT32_MIN, 3);
  EXPECT_EQ(known(any + "  %5 = rem %3, %4 : i32[]\n").range, std::nullopt);        // by what may be 0 or less
  EXPECT_EQ(known(any + "  %5 = clamp %3, %4, %2 : i32[]\n").range, std::nullopt);  // crossed bounds
  EXPECT_EQ(known(any + "  %5 = max %4, %4 : i32[]\n").range, std::nullopt);
}

TEST(Expressions, OfElementsThatMoveAreOthers) {
  const std::string square = "  %4 = iota {axis = 0} : i32[4,4]\n  %5 = broadcast_in_dim %2 {dims = []} : i32[4,4]\n",
                    flip = " {perm = [1, 0]} : i32[4,4]\n", same = "  %9 = eq %7, %8 : bool[4,4]\n";
  EXPECT_EQ(known(square + "  %7 = add %4, %5 : i32[4,4]\n  %8 = iota {axis = 1} : i32[4,4]\n" + same).truth,
            std::nullopt);
  EXPECT_EQ(known(square + "  %7 = transpose %4" + flip + "  %8 = add %4, %5 : i32[4,4]\n" + same).truth, std::nullopt);
  EXPECT_EQ(known("  %4 = iota {axis = 0} : i32[4]\n  %7 = broadcast_in_dim %4 {dims = [1]} : i32[4,4]\n"
                  "  %8 = iota {axis = 1} : i32[4,4]\n" +
                  same)
                .truth,
            true);
  // Of remainders only the interval is known, and the transposed ones are no longer the same.
  EXPECT_EQ(known(square + "  %7 = rem %4, %5 : i32[4,4]\n  %8 = transpose %7" + flip + same).truth, std::nullopt);
  EXPECT_EQ(known(square + "  %7 = rem %4, %5 : i32[4,4]\n  %8 = add %7, %5 : i32[4,4]\n" + same).truth, false);
  EXPECT_EQ(known(square + "  %6 = rem %4, %5 : i32[4,4]\n  %9 = transpose %6" + flip).range,
            (analysis::Interval{0, 2}));
}

// The loop's index is %20, a carry from 3 on %21, which grows by 8.
TEST(Expressions, CarriesAreAddRecurrences) {
  const auto in_loop = [](const std::string& from, const std::string& to, const std::string& ops) {
    return known(kMultiple + "  %6 = add %4, %3 : i32[]\n  %7 = constant {value = i32 0x1} : i32[]\n  %30 = for " +
                 from + ", " + to + ", %7, %2 (%20: i32[], %21: i32[]) {\n" + ops +
                 "    %22 = add %21, %3 : i32[]\n    yield %22\n  } : i32[]\n");
  };
  EXPECT_EQ(in_loop("%7", "%3", "    %9 = add %21, %7 : i32[]\n").range, (analysis::Interval{4, 52}));
  EXPECT_EQ(in_loop("%7", "%3", "    %8 = mul %20, %3 : i32[]\n    %9 = gt %8, %21 : bool[]\n").truth, true);
  EXPECT_EQ(in_loop("%4", "%6", "    %9 = lt %20, %6 : bool[]\n").truth, true);  // from 8 * id to 8 * id + 8
  EXPECT_EQ(in_loop("%4", "%6", "    %9 = lt %20, %5 : bool[]\n").truth, std::nullopt);
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
