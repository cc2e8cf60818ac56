// Clusters of thread blocks on several OS threads: invisible, whether they lie apart, meet, fail or print.
#include "plan/plan.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

constexpr int64_t kBlocks = 40, kRow = 16;

// Blocks of one thread; each has its row of `a` in %4 and its number in %3. Rows that nobody writes stay as they begin.
std::string blocks(const std::string& body, const std::string& more = "") {
  return "pallasim-ir 1\nmodule \"k\" {machine = mosaic_gpu}\n"
         "mesh \"gpu\" {kind = gpu, axes = [axis(\"i\", 40)], grid = 1, cluster = 0, threads = 0}\n"
         "input \"a\" : f32[40,16] {space = gmem}\noutput \"o\" : f32[40,16] {space = gmem}\n" +
         more +
         "body \"gpu\" (%0 \"a\": ref<f32[40,16], gmem>, %1 \"o\": ref<f32[40,16], gmem>) {\n"
         "  %2 = axis_index {axis = \"i\"} : i32[]\n  %3 = constant {value = i32 0x1} : i32[]\n" +
         body + "  yield\n}\n";
}

const char* const kOwnRow = R"(  %4 = get %0, %2 {view = [index($1, slice(0, 16))]} : f32[16]
)";
const char* const kStore = R"(  store %1, %5, %2 {view = [index($2, slice(0, 16))]}
)";

struct Kernel {
  const char* name;
  std::string text;
  bool apart;
};

std::vector<Kernel> kernels() {
  const std::string own = kOwnRow, store = kStore, alias = "alias {input = 0, output = 0}\n";
  const std::string square = own + "  %5 = mul %4, %4 : f32[16]\n" + store;
  // Row i + 1 becomes row i's and its own: a chain through all blocks, as long as they follow each other.
  const std::string chain =
      "  %4 = get %1, %2 {view = [index($1, slice(0, 16))]} : f32[16]\n"
      "  %5 = add %2, %3 : i32[]\n  %6 = constant {value = i32 0x27} : i32[]\n  %7 = min %5, %6 : i32[]\n"
      "  %8 = get %1, %7 {view = [index($1, slice(0, 16))]} : f32[16]\n  %9 = add %4, %8 : f32[16]\n"
      "  store %1, %9, %7 {view = [index($2, slice(0, 16))]}\n";
  // Only every second block has something to write.
  const std::string some = own +
                           "  %5 = and %2, %3 : i32[]\n  cond %5 () {\n    yield\n  } () {\n    %6 = neg %4 : f32[16]\n"
                           "    store %1, %6, %2 {view = [index($2, slice(0, 16))]}\n    yield\n  }\n";
  const std::string in_place =
      "  %4 = get %1, %2 {view = [index($1, slice(0, 16))]} : f32[16]\n  %5 = add %4, %4 : f32[16]\n" + store;
  const std::string prints = square + "  debug_print %2 {format = \"{}\", placeholders = true}\n";
  return {{"each its row", blocks(square), true},
          {"some rows", blocks(some), true},
          {"in place", blocks(in_place, alias), true},
          {"a chain", blocks(chain, alias), false},
          {"prints", blocks(prints), false}};
}

Options with(int workers) {
  Options o;
  o.workers = workers;
  return o;
}

TEST(Apart, SameBytesForEveryNumberOfWorkers) {
  for (const Kernel& k : kernels()) {
    const std::vector<Array> args{noise({kBlocks, kRow})};
    const Outcome want = run(k.text, args, with(1));
    EXPECT_FALSE(all_zero(want.results[0])) << k.name;
    for (const int workers : {2, 8}) {
      const Outcome got = run(k.text, args, with(workers));
      EXPECT_EQ(got.results[0].bytes, want.results[0].bytes) << k.name << " with " << workers;
      EXPECT_EQ(got.report.prints, want.report.prints) << k.name;
      EXPECT_EQ(got.report.steps, want.report.steps) << k.name;
      EXPECT_EQ(got.report.units > 1, k.apart) << k.name;
    }
  }
}

// Who met once is not tried again, and the plan is as good as before.
TEST(Apart, APlanWhoseBlocksMeetRunsInOrderFromThenOn) {
  const std::string text = kernels()[3].text;
  const Options o = with(4);
  const auto plan = compile(ir::parse(text), o);
  const Array a = noise({kBlocks, kRow});
  const std::vector<std::byte> want = run(text, {a}, with(1)).results[0].bytes;
  for (int repeat = 0; repeat < 3; ++repeat) {
    Array in = a, out = f32({kBlocks, kRow}, std::vector<float>(kBlocks * kRow));
    const Buffer args[] = {in.buffer()}, results[] = {out.buffer()};
    Session session;
    launch(*plan, session, args, results, o);
    EXPECT_EQ(out.bytes, want);
    EXPECT_TRUE(plan->programs_met);
  }
}

TEST(Apart, TheFirstErrorIsReportedWithTheOrderOfBlocks) {
  const std::string text = blocks(
      "  %4 = constant {value = i32 0x3} : i32[]\n  %5 = mul %2, %4 : i32[]\n"
      "  %6 = get %0, %5 {view = [index($1, slice(0, 16))]} : f32[16]\n"
      "  store %1, %6, %2 {view = [index($2, slice(0, 16))]}\n");
  std::string want, got;
  const std::vector<Array> args{noise({kBlocks, kRow})};
  EXPECT_EQ(error_code(text, args, with(1), &want), error_code(text, args, with(4), &got));
  EXPECT_EQ(got, want);
  EXPECT_NE(want.find("42"), std::string::npos) << want;  // block 14 is the first that leaves the array
}

}  // namespace
}  // namespace pallasim::interp::test
