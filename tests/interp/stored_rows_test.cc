// Stores whose value is computed where it goes to: rows by index and mask, against loops over their elements.
#include <fmt/format.h>

#include <algorithm>

#include "pallasim/interp/rewrites.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

constexpr int64_t kRows = 4, kColumns = 32, kOutRows = 6, kOutColumns = 64;

// Element (i, j) of 2 x + 1, or with `own` of o[r, c] + 1, is stored to o[r, c + `ahead`], where r = row + row_step i
// and c = column + step j, if low <= j < high. Rows and columns begin at what memory says.
struct Store {
  const char* name;
  int row, row_step, column, step, low, high;
  bool own = false;
  int ahead = 0;
};

std::string text_of(const Store& s, const std::string& type) {
  const bool masked = s.low > 0 || s.high < kColumns;
  std::string t = R"(pallasim-ir 1
module "k" {machine = triton}
input "b" : i32[2] {space = gmem}
input "x" : f32[4,32] {space = gmem}
input "was" : TYPE[6,64] {space = gmem}
output "o" : TYPE[6,64] {space = gmem}
alias {input = 2, output = 0}
body (%0 "b": ref<i32[2], gmem>, %1 "x": ref<f32[4,32], gmem>,
      %2 "was": ref<TYPE[6,64], gmem>, %3 "o": ref<TYPE[6,64], gmem>) {
  %4 = constant {value = i32 0x0} : i32[]
  %5 = constant {value = i32 0x1} : i32[]
  %6 = get %0, %4 {view = [index($1)]} : i32[]
  %7 = get %0, %5 {view = [index($1)]} : i32[]
  %8 = iota {axis = 0} : i32[4,32]
  %9 = iota {axis = 1} : i32[4,32]
)";
  int next = 10;
  const auto constant = [&](const char* dtype, const std::string& value) {
    t += fmt::format("  %{} = constant {{value = {} {}}} : {}[]\n", next, dtype, value, dtype);
    t += fmt::format("  %{} = broadcast_in_dim %{} {{dims = []}} : {}[4,32]\n", next + 1, next, dtype);
    next += 2;
    return next - 1;
  };
  const auto integer = [&](int v) { return constant("i32", fmt::format("{:#x}", static_cast<uint32_t>(v))); };
  const auto op = [&](const std::string& what, const std::string& type_of) {
    t += fmt::format("  %{} = {} : {}[4,32]\n", next, what, type_of);
    return next++;
  };
  const auto place = [&](int iota, int step, int scalar) {
    const int k = integer(step), scaled = op(fmt::format("mul %{}, %{}", iota, k), "i32"),
              base = op(fmt::format("broadcast_in_dim %{} {{dims = []}}", scalar), "i32");
    return op(fmt::format("add %{}, %{}", scaled, base), "i32");
  };
  const int row = place(8, s.row_step, 6), from = place(9, s.step, 7),
            to = s.ahead ? op(fmt::format("add %{}, %{}", from, integer(s.ahead)), "i32") : from;
  int mask = -1;
  if (masked) {
    const int low = op(fmt::format("ge %9, %{}", integer(s.low)), "bool"),
              high = op(fmt::format("lt %9, %{}", integer(s.high)), "bool");
    mask = op(fmt::format("and %{}, %{}", low, high), "bool");
  }
  int value =
      s.own ? op(fmt::format("masked_load %3, %{}, %{} {{view = [index(array($1), array($2))]}}", row, from), type)
            : op("get %1", "f32");
  if (s.own && type != "f32") value = op(fmt::format("convert %{}", value), "f32");
  if (!s.own) value = op(fmt::format("mul %{}, %{}", value, constant("f32", "0x40000000")), "f32");
  value = op(fmt::format("add %{}, %{}", value, constant("f32", "0x3f800000")), "f32");
  if (type != "f32") value = op(fmt::format("convert %{}", value), type);
  t += masked
           ? fmt::format("  masked_store %3, %{}, %{}, %{}, %{} {{view = [index(array($2), array($3))], mask = $4}}\n",
                         value, row, to, mask)
           : fmt::format("  masked_store %3, %{}, %{}, %{} {{view = [index(array($2), array($3))]}}\n", value, row, to);
  t += "  yield\n}\n";
  for (size_t at; (at = t.find("TYPE")) != std::string::npos;) t.replace(at, 4, type);
  return t;
}

// Whole numbers that bf16 holds.
std::vector<float> numbers(int64_t n, int first) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>((first + 7 * static_cast<int>(i)) % 50 - 25);
  return v;
}
const std::vector<float> kX = numbers(kRows * kColumns, 3), kWas = numbers(kOutRows * kOutColumns, 11);

// All elements are read before one is written; of two at one place the later one stays.
std::vector<float> by_loops(const Store& s) {
  std::vector<float> o = kWas;
  for (int i = 0; i < kRows; ++i)
    for (int j = std::max(s.low, 0); j < std::min<int>(s.high, kColumns); ++j) {
      const auto at = static_cast<size_t>((s.row + s.row_step * i) * kOutColumns + s.column + s.step * j);
      o[at + static_cast<size_t>(s.ahead)] = s.own ? kWas[at] + 1 : 2 * kX[static_cast<size_t>(i * kColumns + j)] + 1;
    }
  return o;
}

Outcome run_store(const Store& s, bool narrow, Options o = {}) {
  const Array wide = f32({kOutRows, kOutColumns}, kWas), was = narrow ? as_bf16(wide) : wide;
  return run(text_of(s, narrow ? "bf16" : "f32"), {i32({2}, {s.row, s.column}), f32({4, 32}, kX), was}, o);
}

TEST(StoredRows, EndAsLoopsOverTheirElements) {
  const Store stores[] = {{"all", 1, 1, 5, 1, 0, 32},
                          {"the first ones", 0, 1, 32, 1, 0, 13},
                          {"the last ones", 2, 1, 0, 1, 9, 32},
                          {"those between", 1, 1, 20, 1, 3, 30},
                          {"one", 1, 1, 20, 1, 7, 8},
                          {"none", 1, 1, 20, 1, 8, 8},
                          {"every second", 0, 1, 1, 2, 0, 31},
                          {"backwards", 1, 1, 40, -1, 0, 32},
                          {"rows backwards", 5, -1, 0, 1, 0, 32},
                          {"all to one row", 3, 0, 7, 1, 0, 32},
                          {"beyond the end", 1, 1, 50, 1, 0, 14},
                          {"before the beginning", 1, 1, -9, 1, 9, 32},
                          {"over what it reads", 1, 1, 4, 1, 0, 32, true, 1},
                          {"itself", 1, 1, 4, 1, 0, 30, true}};
  for (const bool narrow : {false, true})
    for (const Store& s : stores) {
      const int64_t before = hits(Rewrite::StoredInPlace);
      const Outcome got = run_store(s, narrow);
      // A value that reads what the store writes is computed before it.
      EXPECT_EQ(hits(Rewrite::StoredInPlace) > before, !s.own) << s.name;
      const Array want = f32({kOutRows, kOutColumns}, by_loops(s));
      if (narrow) EXPECT_EQ(got.results[0].as<uint16_t>(), as_bf16(want).as<uint16_t>()) << s.name;
      else EXPECT_EQ(got.results[0].as<float>(), want.as<float>()) << s.name;
      Options checked;
      checked.checked = true;
      EXPECT_EQ(run_store(s, narrow, checked).results[0].bytes, got.results[0].bytes) << s.name;
    }
}

// The element that lies outside is named.
TEST(StoredRows, OutsideTheyStopAtTheElement) {
  try {
    run_store({"outside", 3, 1, 5, 1, 0, 32}, false);
    FAIL();
  } catch (const ir::DiagnosticError& e) {
    const std::string text = ir::render(e.diagnostic());
    EXPECT_NE(text.find("index 6 is outside dimension 0 of o (size 6)"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace pallasim::interp::test
