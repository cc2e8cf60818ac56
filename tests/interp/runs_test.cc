// Scalar steps that run by themselves (plan/scalar_forms.h): results worked out by hand, and the same number of steps
// as one by one.
#include <fmt/format.h>

#include "pallasim/interp/rewrites.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

std::string scalars(const std::string& body, const std::string& grid = "") {
  return "pallasim-ir 1\nmodule \"k\" {machine = generic}\n" + grid +
         "input \"a\" : i32[16] {space = smem}\noutput \"o\" : i32[16] {space = smem}\n"
         "body (%0 \"a\": ref<i32[16], smem>, %1 \"o\": ref<i32[16], smem>) {\n"
         "  %2 = constant {value = i32 0x0} : i32[]\n  %3 = constant {value = i32 0x1} : i32[]\n"
         "  %4 = constant {value = i32 0x7} : i32[]\n  %5 = constant {value = i32 0x3} : i32[]\n" +
         body + "  yield\n}\n";
}

std::vector<int32_t> sixteen(int32_t first) {
  std::vector<int32_t> v;
  for (int32_t i = 0; i < 16; ++i) v.push_back(first * (i + 3) - 5 * i * i);
  return v;
}

// One by one where the number of steps is limited.
void expect_both_ways(const std::string& text, const std::vector<int32_t>& a, const std::vector<int32_t>& want) {
  Options one_by_one;
  one_by_one.max_steps = int64_t{1} << 40;
  const Outcome joined = run(text, {i32({16}, a)}), single = run(text, {i32({16}, a)}, one_by_one);
  EXPECT_EQ(joined.results[0].as<int32_t>(), want) << text;
  EXPECT_EQ(single.results[0].as<int32_t>(), want) << text;
  EXPECT_EQ(joined.report.steps, single.report.steps) << text;
}

uint32_t u(int32_t x) { return static_cast<uint32_t>(x); }

// A loop with a branch and a loop in it whose length depends on the index, upwards and downwards, for more steps than
// runs may jump over at a time; an access by the index; empty loops.
TEST(Runs, LoopsAndBranches) {
  for (const bool down : {false, true})
    for (const int trips : {0, 1, 3, 700, 20000}) {
      const std::string text = scalars(fmt::format(
          R"(  %6 = constant {{value = i32 0x{:x}}} : i32[]
  %7 = for %2, %6, %3, %3 {{reverse = {}}} (%8: i32[], %9: i32[]) {{
    %10 = mul %9, %5 : i32[]
    %11 = and %8, %4 : i32[]
    %12 = get %0, %11 {{view = [index($1)]}} : i32[]
    %13 = add %10, %12 : i32[]
    %14 = and %13, %3 : i32[]
    %15 = cond %14 () {{
      yield %13
    }} () {{
      %16 = sub %13, %8 : i32[]
      yield %16
    }} : i32[]
    %17 = for %2, %11, %3, %15 (%18: i32[], %19: i32[]) {{
      %20 = xor %19, %18 : i32[]
      %21 = add %20, %8 : i32[]
      yield %21
    }} : i32[]
    store %1, %17, %11 {{view = [index($2)]}}
    yield %17
  }} : i32[]
  %22 = constant {{value = i32 0xf}} : i32[]
  store %1, %7, %22 {{view = [index($2)]}}
  %23 = for %2, %22, %3, %2 (%24: i32[], %25: i32[]) {{
    %26 = ge %24, %4 : bool[]
    %27 = convert %26 : i32[]
    %28 = add %25, %27 : i32[]
    yield %28
  }} : i32[]
  store %1, %23 {{view = [index(8)]}}
  store %1, %2 {{view = [index(9)]}}
)",
          trips, down));
      const std::vector<int32_t> a = sixteen(trips);
      std::vector<int32_t> want(16);
      int32_t x = 1;
      for (int n = 0; n < trips; ++n) {
        const int32_t i = down ? trips - 1 - n : n, low = i & 7;
        x = static_cast<int32_t>(u(x) * 3 + u(a[static_cast<size_t>(low)]));
        if (x & 1) x = static_cast<int32_t>(u(x) - u(i));
        for (int32_t j = 0; j < low; ++j) x = static_cast<int32_t>((u(x) ^ u(j)) + u(i));
        want[static_cast<size_t>(low)] = x;
      }
      want[15] = x, want[8] = 8, want[9] = 0;
      // What nobody writes stays as outputs begin.
      const std::vector<int32_t> other = run(scalars(""), {i32({16}, a)}).results[0].as<int32_t>();
      for (size_t i = 0; i < 15; ++i)
        if (i != 8 && i != 9 && (i > 7 || static_cast<int>(i) >= trips)) want[i] = other[i];
      expect_both_ways(text, a, want);
    }
}

// Longer than a run may be, each operation on what the one before made, by either operand or both.
TEST(Runs, LongChains) {
  std::string body = "  %6 = get %0 {view = [index(0)]} : i32[]\n";
  std::vector<int32_t> a = sixteen(11), want;
  int32_t x = a[0];
  for (int n = 0; n < 300; ++n) {
    const int before = 6 + n, after = before + 1;
    switch (n % 4) {
      case 0:
        body += fmt::format("  %{} = sub %4, %{} : i32[]\n", after, before);
        x = static_cast<int32_t>(7 - u(x));
        break;
      case 1:
        body += fmt::format("  %{} = mul %{}, %{} : i32[]\n", after, before, before);
        x = static_cast<int32_t>(u(x) * u(x));
        break;
      case 2:
        body += fmt::format("  %{} = xor %{}, %5 : i32[]\n", after, before);
        x ^= 3;
        break;
      default: body += fmt::format("  %{} = max %{}, %2 : i32[]\n", after, before); x = std::max(x, 0);
    }
  }
  for (int i = 0; i < 16; ++i) body += fmt::format("  store %1, %306 {{view = [index({})]}}\n", i), want.push_back(x);
  expect_both_ways(scalars(body), a, want);
}

// Grid points follow each other within runs; the last axis hands over its id, the first one does not.
TEST(Runs, GridPoints) {
  const std::string body =
      "  %6 = program_id {axis = 1} : i32[]\n  %7 = program_id {axis = 0} : i32[]\n  %8 = mul %6, %7 : i32[]\n"
      "  %9 = and %8, %4 : i32[]\n  %10 = get %1, %9 {view = [index($1)]} : i32[]\n  %11 = add %10, %6 : i32[]\n"
      "  %12 = add %9, %4 : i32[]\n  %13 = add %12, %3 : i32[]\n"
      "  store %1, %11, %9 {view = [index($2)]}\n  store %1, %6, %13 {view = [index($2)]}\n";
  std::vector<int32_t> want(16);
  const std::vector<int32_t> a(16);
  for (int i = 0; i < 90; ++i)
    for (int j = 0; j < 101; ++j)
      want[static_cast<size_t>(i * j & 7)] += j, want[static_cast<size_t>((i * j & 7) + 8)] = j;
  Options zeros;
  zeros.uninitialized = Options::Fill::Zero;
  const Outcome got = run(scalars(body, "grid {size = 90}\ngrid {size = 101}\n"), {i32({16}, a)}, zeros);
  EXPECT_EQ(got.results[0].as<int32_t>(), want);
}

}  // namespace
}  // namespace pallasim::interp::test
