// Which grids may be split, and the judge of that: verify_split compares what units do.
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

void expect_sequential(const std::string& text, const std::vector<Array>& args) {
  const Outcome one = with_workers(text, args, 1);
  EXPECT_NE(one.report.sequential_because, "");
  for (int workers : {2, 8})
    for (int repeat = 0; repeat < 3; ++repeat)
      EXPECT_EQ(with_workers(text, args, workers).results[0].bytes, one.results[0].bytes);
  EXPECT_EQ(error_code(text, args, judged()), "");
}

Array flag(bool on) { return array<uint8_t>(ir::DType::Bool, {1}, {on}); }

TEST(Split, AConditionThatIsNotItsAxisAlone) { expect_sequential(kFlagged, {flag(true), noise({4, 16})}); }
TEST(Split, AWindowThatTheKernelWritesTo) { expect_sequential(kWrittenInput, {noise({16})}); }
TEST(Split, AWindowThatComesInAgain) {
  expect_sequential(kPasses, {noise({4, 16})});
  EXPECT_EQ(run(kPasses, {f32({4, 16}, std::vector<float>(64, 1.f))}).results[0].as<float>()[63], 3.f);
}
TEST(Split, ABlockThatEndsOutside) { expect_sequential(kEdge, {}); }
TEST(Split, AnAliasedBlockWithOtherPadding) {
  EXPECT_EQ(with_workers(kShifted, {noise({8})}, 1).report.sequential_because,
            "an aliased input is read through another window than its output");
}

TEST(Split, AxesOfOnePointDoNotStandInTheWay) {
  const std::string text =
      kernel(kIn + kOut + kScratch,
             "body (%0 \"x_ref\": ref<f32[16], vmem>, %1 \"o_ref\": ref<f32[16], vmem>, %2 \"acc_ref\": ref<f32[16], "
             "vmem>) {\n"
             "  %3 = get %0 : f32[16]\n  store %2, %3\n  %4 = get %2 : f32[16]\n  store %1, %4\n  yield\n}\n",
             "1,4");
  EXPECT_GT(with_workers(text, {noise({4, 16})}, 8).report.units, 1);
}

TEST(Split, PointersThatLeaveTheirBlock) {
  Options machine;
  machine.out_of_bounds = Options::Oob::Machine;
  const std::string text =
      kernel(kIn + kOut, kOneInOut + "  %2 = get %0 : f32[16]\n  store %1, %2\n  yield\n}\n", "1,4", "triton");
  EXPECT_EQ(with_workers(text, {noise({4, 16})}, 8).report.sequential_because, "");
  EXPECT_NE(with_workers(text, {noise({4, 16})}, 8, machine).report.sequential_because, "");
}

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

// One output that all programs see; `%2` is the program's place on axis 1 of (1, 4), `%3` is 4, `%4` their product.
std::string by_program(const std::string& body, const std::string& machine = "triton") {
  const std::string space = machine == "triton" ? "gmem" : "any";
  return kernel(
      "input \"x_ref\" : f32[16] {space = " + space + "}\noutput \"o_ref\" : f32[16] {space = " + space + "}\n",
      "body (%0 \"x_ref\": ref<f32[16], " + space + ">, %1 \"o_ref\": ref<f32[16], " + space +
          ">) {\n  %2 = program_id {axis = 1} : i32[]\n  %3 = constant {value = i32 0x4} : i32[]\n"
          "  %4 = mul %2, %3 : i32[]\n" +
          body + "  yield\n}\n",
      "1,4", machine);
}
const std::string kTake = "  %5 = get %0, %4 {view = [index(slice($1, 4))]} : f32[4]\n",
                  kLanes =
                      "  %6 = iota {axis = 0} : i32[4]\n  %7 = broadcast_in_dim %4 {dims = []} : i32[4]\n"
                      "  %8 = add %7, %6 : i32[4]\n",
                  kPut = "  masked_store %1, %5, %8 {view = [index(array($2))]}\n";

void expect_split(const std::string& text) {
  const std::vector<Array> args{noise({16})};
  const Outcome one = with_workers(text, args, 1), many = with_workers(text, args, 8);
  EXPECT_EQ(many.report.units, 4) << many.report.sequential_because;
  EXPECT_EQ(many.results[0].bytes, one.results[0].bytes);
  EXPECT_EQ(one.results[0].bytes, args[0].bytes);
  EXPECT_EQ(error_code(text, args, judged()), "");
}

TEST(Split, AccessesByTheProgramsPlace) {
  expect_split(by_program(kTake + "  store %1, %5, %4 {view = [index(slice($2, 4))]}\n"));
  expect_split(by_program(kTake + "  store %1, %5, %4 {view = [index(slice($2, 4))]}\n", "tpu"));
  expect_split(by_program(kTake + kLanes + kPut));
  const std::string loop =
      "  %20 = constant {value = i32 0x0} : i32[]\n  %21 = constant {value = i32 0x1} : i32[]\n  for %20, %3, %21 "
      "(%22: i32[]) {\n    %23 = add %4, %22 : i32[]\n    %24 = get %0, %23 {view = [index($1)]} : f32[]\n"
      "    store %1, %24, %23 {view = [index($2)]}\n    yield\n  }\n";
  expect_split(by_program(loop));
  // What is read lies inside, too.
  expect_split(by_program(kTake + kLanes + kPut + "  %9 = get %1, %4 {view = [index(slice($1, 2))]} : f32[2]\n"));
}

TEST(Split, AccessesThatMeet) {
  const std::vector<Array> args{noise({16})};
  // The last element is that of the next program; one more element; the same of all; a neighbour's is read.
  const std::string wider = "  %9 = constant {value = i32 0x3} : i32[]\n  %10 = mul %2, %9 : i32[]\n";
  expect_sequential(by_program(kTake + wider + "  store %1, %5, %10 {view = [index(slice($2, 4))]}\n"), args);
  expect_sequential(by_program(kTake + kLanes + kPut +
                               "  %9 = reduce_sum %5 {axes = [0]} : f32[]\n  store %1, %9 {view = [index(0)]}\n"),
                    args);
  expect_sequential(by_program(kTake + kLanes + kPut + "  %9 = get %1 {view = [index(3)]} : f32[]\n"), args);
  expect_sequential(by_program(kTake + kLanes +
                               "  %9 = rem %8, %3 : i32[4]\n  masked_store %1, %5, %9 {view = [index(array($2))]}\n"),
                    args);
  expect_sequential(by_program(kTake + "  store %1, %5, %4 {view = [index(slice($2, 4))]}\n  %9 = get %1 : f32[16]\n"),
                    args);
  // Where an access outside is none, nobody knows where it goes.
  Options outside = judged();
  outside.out_of_bounds = Options::Oob::Uninitialized;
  EXPECT_NE(with_workers(by_program(kTake + kLanes + kPut), args, 8, outside).report.sequential_because, "");
}

// On the generic machine -1 is the last element: strips that begin before 0 are other programs' at the end.
TEST(Split, IndicesThatCountFromTheEnd) {
  const std::string text = kernel(
      "input \"x_ref\" : f32[4] {space = any}\noutput \"o_ref\" : f32[12] {space = any}\n",
      "body (%0 \"x_ref\": ref<f32[4], any>, %1 \"o_ref\": ref<f32[12], any>) {\n  %2 = program_id {axis = 1} : i32[]\n"
      "  %3 = constant {value = i32 0x4} : i32[]\n  %4 = mul %2, %3 : i32[]\n  %5 = sub %4, %3 : i32[]\n"
      "  %6 = iota {axis = 0} : i32[4]\n  %7 = broadcast_in_dim %5 {dims = []} : i32[4]\n  %8 = add %7, %6 : i32[4]\n"
      "  %9 = get %0 : f32[4]\n  %10 = convert %2 : f32[]\n  %11 = broadcast_in_dim %10 {dims = []} : f32[4]\n"
      "  %12 = add %9, %11 : f32[4]\n  masked_store %1, %12, %8 {view = [index(array($2))]}\n  yield\n}\n",
      "1,4", "generic");
  expect_sequential(text, {noise({4})});
}

// Two accesses outside, neither of which has a place in a source file.
TEST(Split, FindingsAreTheSameForEveryWorkerCount) {
  const std::string text =
      kernel(kIn + kOut,
             kOneInOut +
                 "  %2 = constant {value = i32 0x14} : i32[]\n  %3 = get %0, %2 {view = [index($1)]} : f32[]\n"
                 "  %4 = constant {value = i32 0x15} : i32[]\n  %5 = get %0, %4 {view = [index($1)]} : f32[]\n  %6 = "
                 "add %3, %5 : f32[]\n"
                 "  %7 = broadcast_in_dim %6 {dims = []} : f32[16]\n  store %1, %7\n  yield\n}\n",
             "1,4");
  Options o;
  o.out_of_bounds = Options::Oob::Machine;
  const Outcome one = with_workers(text, {noise({4, 16})}, 1, o), many = with_workers(text, {noise({4, 16})}, 8, o);
  EXPECT_GT(many.report.units, 1);
  ASSERT_EQ(one.report.findings.size(), 2u);
  ASSERT_EQ(many.report.findings.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(ir::render(many.report.findings[i]), ir::render(one.report.findings[i]));
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
