// What the verifier must accept, and what a view shows.
#include <gtest/gtest.h>

#include "pallasim/ir/builder.h"
#include "pallasim/ir/equal.h"

namespace pallasim::ir {
namespace {

std::string refusal(const std::string& text) {
  try {
    verify(parse(text));
  } catch (const DiagnosticError& e) { return e.what(); }
  return "";
}

// A body whose ref %0 is f32[4,8,16] and whose operands %1 i32[], %2 i32[5], %3 i32[7,1], %4 ref<i32[32]> serve as
// indices.
std::string access(const std::string& view, const std::string& shape, const char* machine = "generic") {
  return std::string("pallasim-ir 1\nmodule \"k\" {machine = ") + machine +
         "}\ninput \"x\" : f32[4,8,16] {space = any}\n" +
         "input \"i\" : i32[32] {space = any}\nbody (%0: ref<f32[4,8,16], any>, %1: ref<i32[32], any>) {\n"
         "  %2 = constant {value = i32 0x1} : i32[]\n  %3 = iota {axis = 0} : i32[5]\n  %4 = iota {axis = 0} : "
         "i32[7,1]\n"
         "  %5 = get %0, %2, %3, %4, %1 {view = [" +
         view + "]} : " + shape + "\n  yield\n}\n";
}

TEST(View, Shapes) {
  const std::pair<const char*, const char*> kGood[] = {
      {"index(0, 1, 2)", "f32[]"},
      {"index($1, slice(0, 4, 2), slice($1, 3))", "f32[4,3]"},
      {"index(array($2), slice(0, 8), slice(0, 16))", "f32[5,8,16]"},
      {"index(slice(0, 4), array($2), slice(0, 16))", "f32[4,5,16]"},
      {"index(slice(0, 4), array($2), array($3))", "f32[4,7,5]"},
      {"index(array($2), slice(0, 8), array($3))", "f32[7,5,8]"},  // not adjacent: in front
      {"index(array($2), slice(0, 8), 0)", "f32[5,8]"},            // an integer counts as one of them
      {"index(slice(0, 4), 0, array($2))", "f32[4,5]"},
      {"index(slice(0, 4), ref($4), slice(0, 16))", "f32[4,32,16]"},
      {"index(slice(0, 4), ref($4, -1), slice(0, 16))", "f32[4,32,16]"},
      {"index(slice($1, $1), slice(0, 8), slice(0, 16))", "f32[4,8,16]"},
      {"reshape(32, 16)", "f32[32,16]"},
      {"transpose(2, 0, 1)", "f32[16,4,8]"},
      {"transpose(2, 0, 1), index(slice(1, 1), 0, slice(0, 8)), squeeze(0)", "f32[8]"},
      {"bitcast(i32[])", "i32[4,8,16]"},
      {"tile(4, 8)", "f32[4,2,2,4,8]"},
      {"swizzle(128), tile(4, 8), untile(4, 8), unswizzle(128)", "f32[4,8,16]"},
      {"extract(f32[8], 256, 1)", "f32[8]"},
      {"extract(f32[8], 256, 1, f(a))", "f32[8]"},
      {"cluster(axis(\"x\", 1), axis(\"y\", $1))", "f32[4,8,16]"},
      {"peer($1, logical)", "f32[4,8,16]"},
      {"peer([axis(\"x\", $1)], mesh)", "f32[4,8,16]"},
      {"multicast(\"x\", \"y\")", "f32[4,8,16]"},
      {"select($1)", "i32[3]"},
  };
  for (const auto& [view, shape] : kGood) EXPECT_EQ(refusal(access(view, shape)), "") << view;
  const std::pair<const char*, const char*> kBad[] = {
      {"index(0, 1, 2)", "i32[]"},
      {"index(array($2), slice(0, 8), array($3))", "f32[8,7,5]"},
      {"index(array($1), slice(0, 8), 0)", "f32[8,1]"},
      {"index($2, 0, 0)", "f32[5]"},
      {"index(slice($2, 4), 0, 0)", "f32[4]"},
      {"index(slice(0, -1), 0, 0)", "f32[]"},
      {"index(ref($2), 0, 0)", "f32[5]"},
      {"reshape(32, 15)", "f32[32,15]"},
      {"squeeze(0)", "f32[8,16]"},
      {"transpose(0, 0, 1)", "f32[4,4,8]"},
      {"bitcast(7)", "f32[4,8,16]"},
      {"tile(3, 8)", "f32[4,3,2,3,8]"},
      {"tile(1, 1, 1, 1)", "f32[4,8,16]"},
      {"tile()", "f32[4,8,16]"},
      {"untile(8, 128)", "f32[3,3]"},
      {"swizzle(48)", "f32[4,8,16]"},
      {"extract(0)", "f32[8]"},
      {"extract(f32[8], 256, 1)", "i32[8]"},
      {"cluster(axis(\"x\", $2))", "f32[4,8,16]"},
      {"cluster()", "f32[4,8,16]"},
      {"peer($1)", "f32[4,8,16]"},
      {"peer($2, logical)", "f32[4,8,16]"},
      {"multicast(x)", "f32[4,8,16]"},
      {"index(slice(0, 4, $1), 0, 0)", "f32[4]"},
      {"index(array($2, $1), 0, 0)", "f32[5]"},
      {"index($9, 0, 0)", "f32[]"},
      {"index(slice(k, 4), 0, 0)", "f32[4]"},
  };
  for (const auto& [view, shape] : kBad) EXPECT_NE(refusal(access(view, shape)), "") << view;
  EXPECT_EQ(refusal(access("bitcast(bf16[])", "bf16[4,16,16]", "tpu")), "");
  EXPECT_EQ(refusal(access("bitcast(bf16[])", "bf16[4,8,32]", "mosaic_gpu")), "");
}

std::string body(const std::string& ops, const char* machine = "generic") {
  return std::string("pallasim-ir 1\nmodule \"k\" {machine = ") + machine + "}\nparam n\nparam m\nbody () {\n" + ops +
         "  yield\n}\n";
}

TEST(Verify, AcceptsWhatJaxWrites) {
  for (
      const char* ops : {
          "  %0 = iota {axis = 0} : f32[n]\n  %1 = iota {axis = 0} : f32[n]\n  %2 = add %0, %1 : f32[n]\n",
          // Whether n is 8 cannot be decided.
          "  %0 = iota {axis = 0} : f32[n]\n  %1 = iota {axis = 0} : f32[8]\n  %2 = add %0, %1 : f32[8]\n",
          "  %0 = iota {axis = 0} : f32[n,4]\n  %1 = reshape %0 : f32[mul(4,n)]\n  %2 = slice %1 {start = [0], limit = "
          "[n]} : f32[n]\n",
          "  %0 = iota {axis = 0} : i64[8]\n  %1 = iota {axis = 0} : f32[8]\n  %2 = pow %1, %0 : f32[8]\n",
          "  %0 = iota {axis = 0} : f32[8]\n  %1 = constant {value = bool 0x1} : bool[]\n  %2 = select_n %1, %0, %0 : "
          "f32[8]\n",
          "  %0 = iota {axis = 0} : c64[8]\n  %1 = abs %0 : f32[8]\n  %2 = real %0 : f32[8]\n  %3 = complex %1, %2 : "
          "c64[8]\n",
          "  %0 = iota {axis = 0} : i32[8]\n  %1 = bitcast_convert %0 : i8[8,4]\n  %2 = bitcast_convert %1 : u32[8]\n",
          "  %0 = iota {axis = 0} : f32[8]\n  %1 = iota {axis = 0} : i32[8]\n  %2, %3 = sort %0, %1 {axis = 0, "
          "num_keys = 1, stable = true} : f32[8], i32[8]\n",
          "  %0 = iota {axis = 1} : bf16[2,8,4]\n  %1 = iota {axis = 1} : f32[2,4,3]\n  %2 = dot_general %0, %1 "
          "{lhs_contract = [2], rhs_contract = [1], "
          "lhs_batch = [0], rhs_batch = [0], precision = highest} : f32[2,8,3]\n",
          "  %0 = constant {value = u32 0x0} : u32[]\n  %1 = iota {axis = 0} : u32[4]\n  %2, %3 = threefry2x32 %0, %0, "
          "%1, %1 : u32[4], u32[4]\n",
          "  extern {name = \"f\", anything = f(1, [a]), more = \"x\", k = 1}\n",
          "  %0 = empty_ref : ref<[ref<f32[8], gsmem>, ref<i32[2,2], gsmem>], gsmem, cta>\n  %1 = get %0 {view = "
          "[extract(f32[3], 0, 0)]} : f32[3]\n",
          "  %0 = constant {value = key_fry[] 0x0100000002000000} : key_fry[]\n",
          "  %0 = constant {value = blob(f32[1024], \"abc\")} : f32[1024]\n",
          "  %0 = iota {axis = 0} : f32[0,4]\n  %1 = reshape %0 : f32[0]\n",
      })
    EXPECT_EQ(refusal(body(ops)), "") << ops;
}

TEST(Verify, DeclarationsThatLookOdd) {
  // 64-bit index maps, physical blocks of Mosaic GPU, a prefetch operand, an empty grid axis.
  const std::string map = " (%0: i64[]) {\n  yield %0, %0\n}\n";
  EXPECT_EQ(refusal("pallasim-ir 1\nmodule \"k\" {machine = mosaic_gpu}\ngrid {size = 0, vmapped = true}\ninput \"x\" "
                    ": f16[64,64] {space = gsmem, block = "
                    "[blocked(64), blocked(64)]}" +
                    map + "body (%0: ref<f16[8,1,8,64], gsmem>) {\n  yield\n}\n"),
            "");
}

TEST(BindShapes, ReplacesEverySymbol) {
  const Module m = parse(
      "pallasim-ir 1\nmodule \"k\" {machine = generic}\nparam n\ninput \"x\" : f32[mul(2,n)] {space = any}\nbody (%0: "
      "ref<f32[mul(2,n)], any>) {\n"
      "  %1 = get %0 {view = [index(slice(0, n))]} : f32[n]\n  %2 = slice %1 {start = [0], limit = [floordiv(n, 2)]} : "
      "f32[floordiv(n,2)]\n"
      "  %3 = dim_value {dim = add(n, 1)} : i32[]\n  yield\n}\n");
  verify(m);
  const Module b = bind_shapes(m, {{"n", 6}});
  verify(b);
  const std::string text = print(b);
  EXPECT_NE(text.find("ref<f32[12], any>"), std::string::npos) << text;
  EXPECT_NE(text.find("slice(0, 6)"), std::string::npos) << text;
  EXPECT_NE(text.find("limit = [3]} : f32[3]"), std::string::npos) << text;
  EXPECT_NE(text.find("dim = 7"), std::string::npos) << text;
  EXPECT_EQ(text.find("param"), std::string::npos);
}

TEST(InferShapes, SolvesWhatIsLinearInOneParameter) {
  const Module m = parse(
      "pallasim-ir 1\nmodule \"k\" {machine = generic}\nparam n\nparam k\ninput \"x\" : f32[add(mul(8,k),n),4] {space "
      "= any}\n"
      "input \"y\" : f32[add(mul(2,n),1)] {space = any}\nbody (%0: ref<f32[add(mul(8,k),n),4], any>, %1: "
      "ref<f32[add(mul(2,n),1)], any>) {\n"
      "  yield\n}\n");
  using Values = std::vector<std::pair<std::string, int64_t>>;
  Values v;
  EXPECT_EQ(infer_shapes(m, {{43, 4}, {7}}, &v), "");  // y gives n = 3, then x gives k = 5
  EXPECT_EQ(v, (Values{{"n", 3}, {"k", 5}}));
  v.clear();
  EXPECT_EQ(infer_shapes(m, {{42, 4}, {7}}, &v), "k");  // 8 k = 39
  EXPECT_EQ(infer_shapes(m, {{43, 4}, {8}}, &v), "n");
  EXPECT_EQ(infer_shapes(m, {{43, 4}, {-1}}, &v), "n");
  EXPECT_TRUE(v.empty() || v.size() == 1);
}

TEST(Module, LocationsKeepTheirCallChain) {
  Module m;
  m.locs = {{{"a.py", 1, 0, "f", "x"}, 1}, {{"b.py", 2, 0, "g", "y"}, 0}};
  const Site s = site_of(m, 0);
  EXPECT_EQ(s.source.file, "a.py");
  ASSERT_FALSE(s.callers.empty());
  EXPECT_EQ(s.callers[0].file, "b.py");
  EXPECT_LE(s.callers.size(), 64u);  // the chain is a cycle
  EXPECT_TRUE(site_of(m, 5).source.file.empty());
}

TEST(Parser, LenientWhereItHelpsPeople) {
  const std::string text =
      "pallasim-ir 1\r\n// a comment\n\nmodule \"k\" {\n  machine = generic, // here too\n  a = [1,\n 2]\n}\nbody () "
      "{\n  %7=iota{axis=0}:i32[ 8 ]\n"
      "  %3 = add %7 ,%7 : i32[8] // trailing\n\n  yield }\n";
  EXPECT_THROW(parse(text), DiagnosticError);  // an operation ends with its line
  const Module m = parse(text.substr(0, text.size() - 2) + "\n}\n");
  EXPECT_EQ(print(m),
            "pallasim-ir 1\nmodule \"k\" {machine = generic, a = [1, 2]}\nbody () {\n  %0 = iota {axis = 0} : i32[8]\n"
            "  %1 = add %0, %0 : i32[8]\n  yield\n}\n");
}

TEST(Parser, LimitsHoldBeforeMemoryIsTaken) {
  Limits l;
  l.max_ops = 3;
  const std::string head = "pallasim-ir 1\nmodule \"k\" {machine = generic}\nbody () {\n";
  auto code = [&](const std::string& text, const Limits& limits) {
    try {
      parse(text, "t", limits);
    } catch (const DiagnosticError& e) { return std::string(e.diagnostic().code.text()); }
    return std::string();
  };
  EXPECT_EQ(code(head + "  yield\n  yield\n  yield\n}\n", l), "");
  EXPECT_EQ(code(head + "  yield\n  yield\n  yield\n  yield\n}\n", l), "PS-IR-004");
  l = {};
  l.max_text_bytes = 10;
  EXPECT_EQ(code(head, l), "PS-IR-004");
  l = {};
  l.max_attrs = 5;
  EXPECT_EQ(code(head + "  extern {name = [1, 2, 3, 4, 5]}\n  yield\n}\n", l), "PS-IR-004");
  l = {};
  std::string deep = head;
  for (int i = 0; i < 10000; ++i) deep += "call () {\n";
  EXPECT_EQ(code(deep, l), "PS-IR-004");
  EXPECT_EQ(code(head + "  extern {a = " + std::string(100000, '['), l), "PS-IR-004");
  std::string dims = "f32[";
  for (int i = 0; i < 100000; ++i) dims += "add(";
  EXPECT_EQ(code(head + "  %0 = iota {axis = 0} : " + dims, l), "PS-IR-004");
  std::string unions;
  for (int i = 0; i < 100000; ++i) unions += "ref<[";
  EXPECT_EQ(code(head + "  %0 = empty_ref : " + unions, l), "PS-IR-004");
}

}  // namespace
}  // namespace pallasim::ir
