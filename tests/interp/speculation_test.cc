// Clusters of thread blocks, and cores of a mesh, on several OS threads: invisible, whether they lie apart, meet, fail
// or print.
#include <cstring>

#include "launch/learnt.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

constexpr int64_t kBlocks = 40, kWidth = 16;

// Blocks of one thread, whose number is in %2; %3 is 1. Rows that nobody writes stay as they begin.
std::string blocks(const std::string& body, const std::string& more = "") {
  return "pallasim-ir 1\nmodule \"k\" {machine = mosaic_gpu}\n"
         "mesh \"gpu\" {kind = gpu, axes = [axis(\"i\", 40)], grid = 1, cluster = 0, threads = 0}\n"
         "input \"a\" : f32[40,16] {space = gmem}\noutput \"o\" : f32[40,16] {space = gmem}\n" +
         more +
         "body \"gpu\" (%0 \"a\": ref<f32[40,16], gmem>, %1 \"o\": ref<f32[40,16], gmem>) {\n"
         "  %2 = axis_index {axis = \"i\"} : i32[]\n  %3 = constant {value = i32 0x1} : i32[]\n" +
         body + "  yield\n}\n";
}

Options with(int workers) {
  Options o;
  o.workers = workers;
  return o;
}

// Who met once is not tried again, and the plan is as good as before.
TEST(Speculation, APlanWhoseBlocksMeetRunsInOrderFromThenOn) {
  const std::string text = read_file("engine/speculation/chain.psir");
  const Options o = with(4);
  const auto plan = compile(ir::parse(text), o);
  const Array a = noise({kBlocks, kWidth});
  const std::vector<std::byte> want = run(text, {a}, with(1)).results[0].bytes;
  for (int repeat = 0; repeat < 3; ++repeat) {
    Array in = a, out = f32({kBlocks, kWidth}, std::vector<float>(kBlocks * kWidth));
    const Buffer args[] = {in.buffer()}, results[] = {out.buffer()};
    Session session;
    launch(*plan, session, args, results, o);
    EXPECT_EQ(out.bytes, want);
    EXPECT_TRUE(learnt(*plan).conflicted);
  }
}

TEST(Speculation, TheFirstErrorIsReportedWithTheOrderOfBlocks) {
  const std::string text = blocks(
      "  %4 = constant {value = i32 0x3} : i32[]\n  %5 = mul %2, %4 : i32[]\n"
      "  %6 = get %0, %5 {view = [index($1, slice(0, 16))]} : f32[16]\n"
      "  store %1, %6, %2 {view = [index($2, slice(0, 16))]}\n");
  std::string want, got;
  const std::vector<Array> args{noise({kBlocks, kWidth})};
  EXPECT_EQ(error_code(text, args, with(1), &want), error_code(text, args, with(4), &got));
  EXPECT_EQ(got, want);
  EXPECT_NE(want.find("42"), std::string::npos) << want;  // block 14 is the first that leaves the array
}

}  // namespace
}  // namespace pallasim::interp::test
