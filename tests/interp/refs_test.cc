// Refs seen through other element widths, or another shape with gaps: an access touches the bytes of its elements.
#include <fmt/format.h>

#include "run.h"

namespace pallasim::interp::test {
namespace {

struct Width {
  ir::DType type;
  const char* name;
  int bytes;
};
constexpr Width kI32{ir::DType::I32, "i32", 4}, kI16{ir::DType::I16, "i16", 2}, kI8{ir::DType::I8, "i8", 1};
constexpr int64_t kColumns = 4, kBytes = 16 * kColumns * 4;

std::vector<std::byte> counting(size_t n, int first) {
  std::vector<std::byte> r(n);
  for (size_t i = 0; i < n; ++i) r[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return r;
}

// Rows from `row` on in steps, columns from `column` on, of the view's elements. 0 rows or columns: one, without a
// dimension.
struct Part {
  std::string index;
  int64_t row, rows, step, column, columns;
};

// Where byte `b` of element (r, k) of the view lies in the array.
size_t place(const Width& base, const Width& view, int64_t r, int64_t k, int b) {
  if (view.bytes <= base.bytes) {
    const int64_t ratio = base.bytes / view.bytes;
    return static_cast<size_t>((r / ratio * kColumns + k) * base.bytes + r % ratio * view.bytes + b);
  }
  const int64_t ratio = view.bytes / base.bytes;
  return static_cast<size_t>(((r * ratio + b / base.bytes) * kColumns + k) * base.bytes + b % base.bytes);
}

std::string shape(const Width& w, const Part& p) {
  std::string dims;
  if (p.rows) dims += std::to_string(p.rows);
  if (p.columns) dims += (dims.empty() ? "" : ",") + std::to_string(p.columns);
  return fmt::format("{}[{}]", w.name, dims);
}

// o becomes x, then a part of its view v; g is what the part was before.
std::string module_of(const Width& base, const Width& view, const Part& p, const std::string& op) {
  const std::string whole = fmt::format("{}[{},{}]", base.name, kBytes / kColumns / base.bytes, kColumns),
                    part = shape(view, p);
  const std::string seen = fmt::format("view = [bitcast({}[]), {}]", view.name, p.index);
  const std::string access =
      op == "get" ? fmt::format("%6 = get %3, %5 {{{}}} : {}\n  store %4, %6", seen, part)
                  : fmt::format("%6 = get %2 : {}\n  store %3, %6, %5 {{{}}}\n  store %4, %6", part, seen);
  std::string text = fmt::format(R"(pallasim-ir 1
module "widths" {{machine = tpu}}
input "at" : i32[1] {{space = smem}}
input "x" : {0} {{space = vmem}}
input "v" : {1} {{space = vmem}}
output "o" : {0} {{space = vmem}}
output "g" : {1} {{space = vmem}}
body (%0 "at": ref<i32[1], smem>, %1 "x": ref<{0}, vmem>, %2 "v": ref<{1}, vmem>, %3 "o": ref<{0}, vmem>,
    %4 "g": ref<{1}, vmem>) {{
  %5 = get %0 {{view = [index(0)]}} : i32[]
  %7 = get %1 : {0}
  store %3, %7
  {2}
  yield
}}
)",
                                 whole, part, access);
  // The index is operand 1 of a get, 2 of a store.
  const std::string from = "$I", to = op == "get" ? "$1" : "$2";
  for (size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, 2, to);
  return text;
}

void check(const Width& base, const Width& view, const Part& p, int at) {
  const int64_t rows = std::max<int64_t>(p.rows, 1), columns = std::max<int64_t>(p.columns, 1),
                own = rows * columns * view.bytes;
  const Array x{base.type, {kBytes / kColumns / base.bytes, kColumns}, counting(kBytes, 1)};
  Array v{view.type, {}, counting(static_cast<size_t>(own), 100)};
  if (p.rows) v.dims.push_back(p.rows);
  if (p.columns) v.dims.push_back(p.columns);
  std::vector<std::byte> after = x.bytes, seen(v.bytes.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < columns; ++k)
      for (int b = 0; b < view.bytes; ++b) {
        const size_t in_value = static_cast<size_t>((r * columns + k) * view.bytes + b),
                     in_array = place(base, view, p.row + r * p.step, p.column + k, b);
        seen[in_value] = x.bytes[in_array];
        after[in_array] = v.bytes[in_value];
      }
  Options o;
  o.rules = Options::Rules::Off;
  for (const bool checked : {false, true}) {
    o.checked = checked;
    const std::string label = fmt::format("{} as {}, {}, {}", base.name, view.name, p.index, at);
    const Outcome read = run(module_of(base, view, p, "get"), {i32({1}, {at}), x, v}, o);
    EXPECT_EQ(read.results[0].bytes, x.bytes) << label;
    EXPECT_EQ(read.results[1].bytes, seen) << label;
    const Outcome written = run(module_of(base, view, p, "store"), {i32({1}, {at}), x, v}, o);
    EXPECT_EQ(written.results[0].bytes, after) << label;
    if (!checked) continue;
    EXPECT_EQ(read.report.traffic[3].bytes_read, own) << label;
    EXPECT_EQ(read.report.traffic[3].bytes_written, kBytes) << label;
    EXPECT_EQ(written.report.traffic[3].bytes_read, 0) << label;
    EXPECT_EQ(written.report.traffic[3].bytes_written, kBytes + own) << label;
  }
}

TEST(Refs, AnAccessThroughOtherWidthsTouchesTheBytesOfItsElements) {
  for (const auto& [base, view] : std::vector<std::pair<Width, Width>>{
           {kI32, kI16}, {kI32, kI8}, {kI16, kI8}, {kI8, kI32}, {kI16, kI32}, {kI8, kI16}}) {
    check(base, view, {"index(5, slice(0, 4))", 5, 0, 1, 0, 4}, 0);
    check(base, view, {"index(slice(8, 4), slice(1, 2))", 8, 4, 1, 1, 2}, 0);
    check(base, view, {"index(slice(3, 6), slice(0, 4))", 3, 6, 1, 0, 4}, 0);
    check(base, view, {"index(slice(1, 5, 2), slice(0, 4))", 1, 5, 2, 0, 4}, 0);
    for (const int at : {0, 2, 3}) {
      check(base, view, {"index($I, slice(0, 4))", at, 0, 1, 0, 4}, at);
      check(base, view, {"index(slice($I, 7), slice(0, 4))", at, 7, 1, 0, 4}, at);
      check(base, view, {"index(slice(2, 3), $I)", 2, 3, 1, at, 0}, at);
    }
  }
}

// Columns 1 and 2 of 16 rows as 8 rows of 4: elements 13 and 14 of these.
TEST(Refs, AnAccessThroughAShapeWithGapsTouchesItsElements) {
  const std::string text = R"(pallasim-ir 1
module "gaps" {machine = tpu}
input "v" : i32[2] {space = vmem}
output "o" : i32[16,4] {space = vmem}
body (%0 "v": ref<i32[2], vmem>, %1 "o": ref<i32[16,4], vmem>) {
  %2 = constant {value = i32 0x7} : i32[]
  %3 = broadcast_in_dim %2 {dims = []} : i32[16,4]
  store %1, %3
  %4 = get %0 : i32[2]
  store %1, %4 {view = [index(slice(0, 16), slice(1, 2)), reshape(8, 4), index(3, slice(1, 2))]}
  yield
}
)";
  Options o;
  o.rules = Options::Rules::Off;
  o.checked = true;
  const Outcome r = run(text, {i32({2}, {50, 51})}, o);
  std::vector<int32_t> want(64, 7);
  want[6 * 4 + 2] = 50;
  want[7 * 4 + 1] = 51;
  EXPECT_EQ(r.results[0].as<int32_t>(), want);
  EXPECT_EQ(r.report.traffic[1].bytes_written, 64 * 4 + 2 * 4);
  EXPECT_EQ(r.report.traffic[1].bytes_read, 0);
}

// A copy fills the first 8 rows while the others are cleared through another width.
TEST(Refs, ASlotIsClearedWhileACopyFillsTheOther) {
  for (const char* rows : {"slice(16, 16)", "slice($1, 16)"}) {
    const std::string text = fmt::format(R"(pallasim-ir 1
module "slots" {{machine = tpu}}
input "at" : i32[1] {{space = smem}}
input "x" : i32[8,128] {{space = hbm}}
output "o" : i32[16,128] {{space = vmem}}
scratch "sem" : ref<dma_sem[], semaphore>
body (%0 "at": ref<i32[1], smem>, %1 "x": ref<i32[8,128], hbm>, %2 "o": ref<i32[16,128], vmem>,
    %3 "sem": ref<dma_sem[], semaphore>) {{
  %4 = get %0 {{view = [index(0)]}} : i32[]
  %5 = constant {{value = i16 0x0}} : i16[]
  %6 = broadcast_in_dim %5 {{dims = []}} : i16[16,128]
  dma_start %1, %2, %3 {{src = view($0, []), dst = view($1, [index(slice(0, 8), slice(0, 128))]),
      dst_sem = view($2, [])}}
  store %2, %6{0} {{view = [bitcast(i16[]), index({1}, slice(0, 128))]}}
  dma_wait %1, %2, %3 {{src = view($0, []), dst = view($1, [index(slice(0, 8), slice(0, 128))]),
      dst_sem = view($2, [])}}
  yield
}}
)",
                                         std::string(rows).find('$') == std::string::npos ? "" : ", %4",
                                         std::string(rows).find('$') == std::string::npos ? rows : "slice($2, 16)");
    Options o;
    o.checked = true;
    for (auto copies : {Options::Copies::AtIssue, Options::Copies::AtWait}) {
      o.copies = copies;
      const Array x = i32({8, 128}, std::vector<int32_t>(8 * 128, 3));
      const Outcome r = run(text, {i32({1}, {16}), x}, o);
      const auto v = r.results[0].as<int32_t>();
      for (size_t i = 0; i < v.size(); ++i) ASSERT_EQ(v[i], i < 8 * 128 ? 3 : 0);
      EXPECT_TRUE(r.report.findings.empty()) << r.report.findings.size() << " " << r.report.findings[0].message;
    }
  }
}

// Transforms of machines whose memory is not modelled have types; a kernel that uses one is refused by name.
TEST(Refs, TransformsWithoutAMeaningYetAreRefusedByName) {
  const std::pair<const char*, const char*> kTransforms[] = {
      {"tile(4, 8), untile(4, 8)", "ref transform tile"},
      {"swizzle(64)", "ref transform swizzle"},
      {"unswizzle(128)", "ref transform unswizzle"},
      {"extract(f32[8,16], 0, 0)", "a member of this ref, which is no union that has it"},
      {"select($1)", "ref transform select"},
      {"cluster(axis(\"x\", 1))", "get along \"x\", which is no axis of a cluster"},
      {"multicast(\"x\")", "ref transform multicast"},
  };
  for (const auto& [view, name] : kTransforms) {
    const std::string text = fmt::format(R"(pallasim-ir 1
module "k" {{machine = generic}}
input "x" : f32[8,16] {{space = any}}
output "o" : f32[8,16] {{space = any}}
body (%0 "x": ref<f32[8,16], any>, %1 "o": ref<f32[8,16], any>) {{
  %2 = constant {{value = i32 0x0}} : i32[]
  %3 = get %0, %2 {{view = [{}, index(0, 0)]}} : f32[]
  yield
}}
)",
                                         view);
    try {
      run(text, {noise({8, 16})});
      ADD_FAILURE() << view << " ran";
    } catch (const ir::DiagnosticError& e) { EXPECT_EQ(e.diagnostic().message, fmt::format("unsupported: {}", name)); }
  }
}

}  // namespace
}  // namespace pallasim::interp::test
