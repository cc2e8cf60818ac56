// The judge of grids that are split: verify_split compares what units do. Which ones are is in ../engine/splitting.
#include "plan/plan.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

const std::string kAxis = "grid {size = ";

// An f32 operand; `index` is its index map's result over two axes %0, %1, with %2 = 0 and %3 = 2 * %1.
std::string operand(const std::string& what, const std::string& name, const std::string& dims, const std::string& block,
                    const std::string& index) {
  return what + " \"" + name + "\" : f32[" + dims + "] {space = vmem, block = [" + block +
         "]} (%0: i32[], %1: i32[]) {\n" +
         "  %2 = constant {value = i32 0x0} : i32[]\n  %3 = add %1, %1 : i32[]\n  yield " + index + "\n}\n";
}

std::string kernel(const std::string& operands, const std::string& body, const std::string& grid = "2,4",
                   const std::string& machine = "tpu") {
  const size_t comma = grid.find(',');
  return "pallasim-ir 1\nmodule \"k\" {machine = " + machine + "}\n" + kAxis + grid.substr(0, comma) + "}\n" + kAxis +
         grid.substr(comma + 1) + "}\n" + operands + body;
}

const std::string kOut = operand("output", "o_ref", "4,16", "squeezed, blocked(16)", "%1, %2");
const std::string kIn = operand("input", "x_ref", "4,16", "squeezed, blocked(16)", "%1, %2");
const std::string kScratch = "scratch \"acc_ref\" : ref<f32[16], vmem>\n";
const std::string kOneInOut = "body (%0 \"x_ref\": ref<f32[16], vmem>, %1 \"o_ref\": ref<f32[16], vmem>) {\n";
const std::string kRowsOut = operand("output", "o_ref", "4,16", "squeezed, blocked(16)", "%0, %2"),
                  kRowsIn = operand("input", "x_ref", "4,16", "squeezed, blocked(16)", "%0, %2");

// acc = 0 where (program_id(1) == 0) != flag, acc += x, o = acc.
const std::string kFlagged = kernel(
    "input \"f_ref\" : bool[1] {space = smem}\n" + kRowsIn + kRowsOut + kScratch,
    "body (%0 \"f_ref\": ref<bool[1], smem>, %1 \"x_ref\": ref<f32[16], vmem>, %2 \"o_ref\": ref<f32[16], vmem>, %3 "
    "\"acc_ref\": ref<f32[16], vmem>) {\n"
    "  %4 = program_id {axis = 1} : i32[]\n  %5 = constant {value = i32 0x0} : i32[]\n  %6 = eq %4, %5 : bool[]\n"
    "  %7 = get %0 {view = [index(0)]} : bool[]\n  %8 = ne %6, %7 : bool[]\n  cond %8 () {\n    yield\n  } () {\n"
    "    %9 = constant {value = f32 0x0} : f32[]\n    %10 = broadcast_in_dim %9 {dims = []} : f32[16]\n    store %3, "
    "%10\n    yield\n  }\n"
    "  %11 = get %3 : f32[16]\n  %12 = get %1 : f32[16]\n  %13 = add %11, %12 : f32[16]\n  store %3, %13\n  store %2, "
    "%13\n  yield\n}\n",
    "4,2");

// The whole of x lies in a window that the kernel changes: x += 1, o = x.
const std::string kWrittenInput =
    kernel(operand("input", "x_ref", "16", "blocked(16)", "%2") + kOut,
           kOneInOut +
               "  %2 = get %0 : f32[16]\n  %3 = constant {value = f32 0x3f800000} : f32[]\n  %4 = add %2, %3 : "
               "f32[16]\n  store %0, %4\n  store %1, %4\n  yield\n}\n");

// Every pass over the blocks adds 1 to what the pass before left: the window of x comes in again with every pass.
const std::string kPasses = kernel(kIn + kOut + "alias {input = 0, output = 0}\n",
                                   kOneInOut +
                                       "  %2 = get %0 : f32[16]\n  %3 = constant {value = f32 0x3f800000} : f32[]\n  "
                                       "%4 = add %2, %3 : f32[16]\n  store %1, %4\n  yield\n}\n");

// The block ends outside of the array: what the first pass stores there is not there in the second one, which adds it
// up.
const std::string kEdge =
    kernel(operand("output", "o_ref", "4,13", "squeezed, blocked(16)", "%1, %2"),
           "body (%0 \"o_ref\": ref<f32[16], vmem>) {\n  %1 = program_id {axis = 0} : i32[]\n  %2 = constant {value = "
           "i32 0x0} : i32[]\n  %3 = eq %1, %2 : bool[]\n"
           "  cond %3 () {\n    %4 = get %0 : f32[16]\n    %5 = reduce_sum %4 {axes = [0]} : f32[]\n    %6 = "
           "broadcast_in_dim %5 {dims = []} : f32[16]\n    store %0, %6\n    yield\n"
           "  } () {\n    %7 = constant {value = f32 0x3f800000} : f32[]\n    %8 = broadcast_in_dim %7 {dims = []} : "
           "f32[16]\n    store %0, %8\n    yield\n  }\n  yield\n}\n");

// x is read one element before the block that is written.
const std::string kShifted =
    kernel(operand("input", "x_ref", "8", "element(2, 1, 0)", "%3") +
               operand("output", "o_ref", "8", "element(2, 0, 0)", "%3") + "alias {input = 0, output = 0}\n",
           "body (%0 \"x_ref\": ref<f32[2], vmem>, %1 \"o_ref\": ref<f32[2], vmem>) {\n  %2 = get %0 : f32[2]\n  store "
           "%1, %2\n  yield\n}\n",
           "1,4");

Outcome with_workers(const std::string& text, const std::vector<Array>& args, int workers, Options o = {}) {
  o.workers = workers;
  return run(text, args, o);
}

Options judged() {
  Options o;
  o.verify_split = true;
  return o;
}

Array flag(bool on) { return array<uint8_t>(ir::DType::Bool, {1}, {on}); }

TEST(Split, OutputsInOnePlaceAreRefused) {
  const auto plan =
      compile(ir::parse(kernel(kIn + kOut + operand("output", "p_ref", "4,16", "squeezed, blocked(16)", "%1, %2"),
                               "body (%0 \"x_ref\": ref<f32[16], vmem>, %1 \"o_ref\": ref<f32[16], vmem>, %2 "
                               "\"p_ref\": ref<f32[16], vmem>) {\n  yield\n}\n")));
  Array x = noise({4, 16}), y = noise({4, 16}), z = noise({4, 16});
  Session session;
  const std::vector<Buffer> args{x.buffer()}, both{y.buffer(), z.buffer()}, one{y.buffer(), y.buffer()};
  EXPECT_NO_THROW(launch(*plan, session, args, both));
  EXPECT_THROW(launch(*plan, session, args, one), ir::DiagnosticError);
}

// ---- the judge ----

// The report of a run that is split along `axes`, whatever can be proven; "" where it ends.
std::string judge(const std::string& text, std::vector<Array> args, std::vector<int> axes, bool unpoisoned = false) {
  const auto plan = compile(ir::parse(text), judged());
  auto& forced = const_cast<Plan&>(*plan);
  forced.split.axes = std::move(axes);
  for (Window& w : forced.bodies[0]->windows) w.fully_written |= unpoisoned && w.is_output;
  std::vector<Array> results;
  for (const ir::Type* t : result_types(*plan)) {
    results.push_back({t->dtype, {}, std::vector<std::byte>(static_cast<size_t>(t->num_bytes()))});
    for (const ir::Dim& d : t->dims) results.back().dims.push_back(d.size);
  }
  std::vector<Buffer> in, out;
  for (Array& a : args) in.push_back(a.buffer());
  for (Array& a : results) out.push_back(a.buffer());
  Session session;
  try {
    launch(*plan, session, in, out, judged());
  } catch (const ir::DiagnosticError& e) {
    EXPECT_EQ(e.diagnostic().code, "PS-BUG-002") << e.what();
    return e.what();
  }
  return "";
}

void expect_report(const std::string& report, const std::vector<std::string>& parts) {
  for (const std::string& p : parts)
    EXPECT_NE(report.find(p), std::string::npos) << "no \"" << p << "\" in\n" << report;
}

TEST(VerifySplit, LegalSplitsEndAsInOnePiece) {
  const std::string text =
      kernel(kIn + kOut, kOneInOut + "  %2 = get %0 : f32[16]\n  %3 = get %1 : f32[16]\n  store %1, %2\n  yield\n}\n");
  const Outcome want = with_workers(text, {noise({4, 16})}, 1), got = run(text, {noise({4, 16})}, judged());
  EXPECT_EQ(got.report.units, 4);
  EXPECT_EQ(got.results[0].bytes, want.results[0].bytes);
  const std::string in_place = read_file("pass/alias_inplace.psir");
  const std::vector<Array> args{i32({}, {4}), noise({4, 128})};
  EXPECT_EQ(run(in_place, args, judged()).report.units, 4);
  EXPECT_EQ(run(in_place, args, judged()).results[0].bytes, with_workers(in_place, args, 1).results[0].bytes);
}

TEST(VerifySplit, UnitsThatWriteOneBlock) {
  const std::string text = kernel(kIn + operand("output", "o_ref", "16", "blocked(16)", "%2"),
                                  kOneInOut + "  %2 = get %0 : f32[16]\n  store %1, %2\n  yield\n}\n", "1,4");
  expect_report(judge(text, {noise({4, 16})}, {1}), {"units write disjoint memory", "o_ref, bytes 0 to 63",
                                                     "grid point (0, 1)", "written before at grid point (0, 0)"});
}

TEST(VerifySplit, UnitsThatReadWhatOthersWrite) {
  const std::string text =
      kernel("input \"x_ref\" : f32[4,16] {space = any}\n" + kOut + "alias {input = 0, output = 0}\n",
             "body (%0 \"x_ref\": ref<f32[4,16], any>, %1 \"o_ref\": ref<f32[16], vmem>) {\n  %2 = get %0 {view = "
             "[index(2, slice(0, 16))]} : f32[16]\n  store %1, %2\n  yield\n}\n",
             "1,4");
  // Unit 2 writes the row that units 0 and 1 have read, by another name.
  expect_report(judge(text, {noise({4, 16})}, {1}), {"no unit reads what another one writes", "o_ref, bytes 128 to 191",
                                                     "written at grid point (0, 2), read before at grid point (0, 1)"});
}

TEST(VerifySplit, ScratchThatIsCarriedOver) {
  expect_report(judge(kFlagged, {flag(true), noise({4, 16})}, {0}),
                {"written before it is read inside each unit", "acc_ref, bytes",
                 "read at grid point (1, 0), written before at grid point (0, 1)"});
  EXPECT_EQ(judge(kFlagged, {flag(false), noise({4, 16})}, {0}), "");
}

TEST(VerifySplit, WindowsThatLackTheirPoison) {
  const std::string half = kernel(kOut,
                                  "body (%0 \"o_ref\": ref<f32[16], vmem>) {\n  %1 = constant {value = f32 0x0} : "
                                  "f32[]\n  %2 = broadcast_in_dim %1 {dims = []} : f32[8]\n"
                                  "  store %0, %2 {view = [index(slice(0, 8))]}\n  yield\n}\n");
  expect_report(judge(half, {}, {1}, true), {"written as a whole", "o_ref, bytes 32 to 63"});
  const std::string reads = kernel(kOut,
                                   "body (%0 \"o_ref\": ref<f32[16], vmem>) {\n  %1 = get %0 : f32[16]\n  %2 = neg %1 "
                                   ": f32[16]\n  store %0, %2\n  yield\n}\n");
  expect_report(judge(reads, {}, {}, true), {"written before it is read", "o_ref, bytes 0 to 63", "written by nobody"});
}

// Nothing that units share tells of these; the bytes do.
TEST(VerifySplit, WindowsThatDoNotComeInAgain) {
  const std::string bytes = "units leave the bytes that the grid in one piece leaves";
  expect_report(judge(kWrittenInput, {noise({16})}, {1}), {bytes, "o_ref, from byte"});
  expect_report(judge(kPasses, {noise({4, 16})}, {1}), {bytes});
  expect_report(judge(kEdge, {}, {1}), {bytes});
}

}  // namespace
}  // namespace pallasim::interp::test
