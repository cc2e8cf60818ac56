// Clusters of thread blocks, and cores of a mesh, on several OS threads: invisible, whether they lie apart, meet, fail
// or print.
#include <cstring>

#include "plan/plan.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

constexpr int64_t kBlocks = 40, kRow = 16;

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

// The same as programs of a grid, each with a barrier of its own: they may wait, and so are programs that are there
// together.
std::string programs(std::string text) {
  const auto put = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  put("mesh \"gpu\" {kind = gpu, axes = [axis(\"i\", 40)], grid = 1, cluster = 0, threads = 0}", "grid {size = 40}");
  put("body \"gpu\"", "body");
  put("{space = gmem}\noutput \"o\" : f32[40,16] {space = gmem}\n",
      "{space = gmem}\noutput \"o\" : f32[40,16] {space = gmem}\n"
      "scratch \"bar\" : ref<mbarrier[1], gsmem> {num_arrivals = 1}\n");
  put("gmem>) {", "gmem>, %90 \"bar\": ref<mbarrier[1], gsmem>) {");
  put("axis_index {axis = \"i\"}", "program_id {axis = 0}");
  put("  yield", "  barrier_arrive %90 {barrier = view($0, [])}\n  barrier_wait %90 {barrier = view($0, [])}\n  yield");
  return text;
}

const char* const kOwnRow = R"(  %4 = get %0, %2 {view = [index($1, slice(0, 16))]} : f32[16]
)";
const char* const kStore = R"(  store %1, %5, %2 {view = [index($2, slice(0, 16))]}
)";

// Subcores of which each copies row 16 * `core` + its number of `a` in, doubles it, and copies it out; then `more`.
std::string subcores(const std::string& core, const std::string& more = "") {
  std::string text = R"(pallasim-ir 1
module "k" {machine = tpu}
mesh "v" {kind = vector_subcore, axes = [axis("c", 2), axis("s", 16)]}
input "a" : f32[40,16] {space = hbm}
output "o" : f32[40,16] {space = hbm}
scratch "row" : ref<f32[16], vmem>
scratch "sem" : ref<dma_sem[], semaphore>
scratch "met" : ref<sem[], semaphore>
body "v" (%0 "a": ref<f32[40,16], hbm>, %1 "o": ref<f32[40,16], hbm>, %2 "row": ref<f32[16], vmem>,
    %3 "sem": ref<dma_sem[], semaphore>, %4 "met": ref<sem[], semaphore>) {
  %5 = axis_index {axis = "c"} : i32[]
  %6 = axis_index {axis = "s"} : i32[]
  %7 = constant {value = i32 0x10} : i32[]
  %8 = constant {value = i32 0x0} : i32[]
  %9 = mul CORE, %7 : i32[]
  %10 = add %9, %6 : i32[]
  dma_start %0, %10, %2, %3 {src = view($0, [index($1, slice(0, 16))]), dst = view($2, []),
      dst_sem = view($3, [])}
  dma_wait %0, %10, %2, %3 {src = view($0, [index($1, slice(0, 16))]), dst = view($2, []),
      dst_sem = view($3, [])}
  %11 = get %2 : f32[16]
  %12 = add %11, %11 : f32[16]
  store %2, %12
  dma_start %2, %1, %10, %3 {src = view($0, []), dst = view($1, [index($2, slice(0, 16))]),
      dst_sem = view($3, [])}
  dma_wait %2, %1, %10, %3 {src = view($0, []), dst = view($1, [index($2, slice(0, 16))]),
      dst_sem = view($3, [])}
)";
  text.replace(text.find("CORE"), 4, core);
  return text + more + "  yield\n}\n";
}

using Rows = std::vector<float>;
struct Kernel {
  const char* name;
  std::string text;
  bool apart;
  Rows (*wanted)(Rows a);  // worked out by hand
};

constexpr float kNobody = std::numeric_limits<float>::quiet_NaN();
Rows times(Rows a, float by, size_t rows = kBlocks) {
  for (size_t i = 0; i < a.size(); ++i) a[i] = i < rows * kRow ? a[i] * by : kNobody;
  return a;
}
// Of the first 32 rows elements 3 to 12.
Rows doubled_middles(Rows a) {
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t at = i % kRow;
    a[i] = i < 32 * kRow && at >= 3 && at < 13 ? a[i] * 2 : kNobody;
  }
  return a;
}
Rows squares(Rows a) {
  for (float& x : a) x *= x;
  return a;
}
Rows odd_rows(Rows a) {
  for (size_t i = 0; i < a.size(); ++i) a[i] = i / kRow % 2 == 1 ? -a[i] : kNobody;
  return a;
}
Rows sums(Rows a) {
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t next = std::min<size_t>(i / kRow + 1, kBlocks - 1) * kRow + i % kRow;
    a[next] = a[i] + a[next];
  }
  return a;
}

Rows first_sums(Rows a) {
  for (size_t i = 0; i + 1 < kBlocks; ++i) a[(i + 1) * kRow] = a[i * kRow] + a[(i + 1) * kRow];
  a[(kBlocks - 1) * kRow] *= 2;  // the last block adds its own
  return a;
}

std::vector<Kernel> kernels() {
  const std::string own = kOwnRow, store = kStore, alias = "alias {input = 0, output = 0}\n";
  const std::string square = own + "  %5 = mul %4, %4 : f32[16]\n" + store;
  // Row i + 1 becomes row i's and its own: a chain through all blocks, as long as they follow each other.
  const std::string chain =
      "  %4 = get %1, %2 {view = [index($1, slice(0, 16))]} : f32[16]\n"
      "  %5 = add %2, %3 : i32[]\n  %6 = constant {value = i32 0x27} : i32[]\n  %7 = min %5, %6 : i32[]\n"
      "  %8 = get %1, %7 {view = [index($1, slice(0, 16))]} : f32[16]\n  %9 = add %4, %8 : f32[16]\n"
      "  store %1, %9, %7 {view = [index($2, slice(0, 16))]}\n";
  // The same of one element per row.
  const std::string element_chain =
      "  %4 = get %1, %2 {view = [index($1, 0)]} : f32[]\n"
      "  %5 = add %2, %3 : i32[]\n  %6 = constant {value = i32 0x27} : i32[]\n  %7 = min %5, %6 : i32[]\n"
      "  %8 = get %1, %7 {view = [index($1, 0)]} : f32[]\n  %9 = add %4, %8 : f32[]\n"
      "  store %1, %9, %7 {view = [index($2, 0)]}\n";
  // Only every second block has something to write.
  const std::string some = own +
                           "  %5 = and %2, %3 : i32[]\n  cond %5 () {\n    yield\n  } () {\n    %6 = neg %4 : f32[16]\n"
                           "    store %1, %6, %2 {view = [index($2, slice(0, 16))]}\n    yield\n  }\n";
  const std::string in_place =
      "  %4 = get %1, %2 {view = [index($1, slice(0, 16))]} : f32[16]\n  %5 = add %4, %4 : f32[16]\n" + store;
  // To the other core's subcore of the same number, which waits for it.
  const std::string signal =
      "  %13 = constant {value = i32 0x1} : i32[]\n  %14 = sub %13, %5 : i32[]\n"
      "  sem_signal %4, %13, %14 {inc = $1, core_index = [axis(\"c\", $2)]}\n  sem_wait %4, %13 {value = $1}\n";
  const std::string prints = square + "  debug_print %2 {format = \"{}\", placeholders = true}\n";
  std::string middles = subcores("%5");
  for (const char* from : {"src = view($0, [])", "dst = view($1, [index($2, slice(0, 16))])"})
    for (size_t at; (at = middles.find(from)) != std::string::npos;)
      middles.replace(
          at, strlen(from),
          *from == 's' ? "src = view($0, [index(slice(3, 10))])" : "dst = view($1, [index($2, slice(3, 10))])");
  return {
      {"each its row", blocks(square), true, squares},
      {"some rows", blocks(some), true, odd_rows},
      {"in place", blocks(in_place, alias), true, [](Rows a) { return times(a, 2); }},
      {"a chain", blocks(chain, alias), false, sums},
      {"a chain of single elements", blocks(element_chain, alias), false, first_sums},
      {"programs, each its row", programs(blocks(square)), true, squares},
      {"a chain of programs", programs(blocks(chain, alias)), false, sums},
      {"a chain of programs, single elements", programs(blocks(element_chain, alias)), false, first_sums},
      {"prints", blocks(prints), false, squares},
      {"subcores, each its row", subcores("%5"), true, [](Rows a) { return times(a, 2, 32); }},
      {"subcores, each the middle of its row", middles, true, doubled_middles},
      {"subcores of two cores, the same rows", subcores("%8"), false, [](Rows a) { return times(a, 2, 16); }},
      {"subcores that signal the next core", subcores("%5", signal), false, [](Rows a) { return times(a, 2, 32); }}};
}

Options with(int workers) {
  Options o;
  o.workers = workers;
  return o;
}

TEST(Speculation, SameBytesForEveryNumberOfWorkers) {
  for (const Kernel& k : kernels()) {
    const std::vector<Array> args{noise({kBlocks, kRow})};
    const Outcome want = run(k.text, args, with(1));
    const Rows by_hand = k.wanted(args[0].as<float>()), alone = want.results[0].as<float>();
    for (size_t i = 0; i < by_hand.size(); ++i)
      ASSERT_TRUE(std::isnan(by_hand[i]) ? std::isnan(alone[i]) : by_hand[i] == alone[i]) << k.name << ' ' << i;
    for (const int workers : {2, 8}) {
      const Outcome got = run(k.text, args, with(workers));
      EXPECT_EQ(got.results[0].bytes, want.results[0].bytes) << k.name << " with " << workers;
      EXPECT_EQ(got.report.prints, want.report.prints) << k.name;
      EXPECT_EQ(got.report.steps, want.report.steps) << k.name;
      EXPECT_EQ(got.report.units > 1, k.apart) << k.name;
    }
  }
}

// Rows of 16 words that lists choose: each subcore scatters its four rows of `a` to the rows of its list.
TEST(Speculation, ChosenRowsAreLookedAtOneByOne) {
  const char* const text = R"(pallasim-ir 1
module "k" {machine = tpu}
mesh "v" {kind = vector_subcore, axes = [axis("c", 2), axis("s", 4)]}
input "a" : i32[32,16] {space = hbm}
input "list" : i32[8,4] {space = hbm}
output "o" : i32[32,16] {space = hbm}
scratch "index" : ref<i32[4], vmem>
scratch "rows" : ref<i32[4,16], vmem>
scratch "sem" : ref<dma_sem[], semaphore>
body "v" (%0 "a": ref<i32[32,16], hbm>, %1 "list": ref<i32[8,4], hbm>, %2 "o": ref<i32[32,16], hbm>,
    %3 "index": ref<i32[4], vmem>, %4 "rows": ref<i32[4,16], vmem>, %5 "sem": ref<dma_sem[], semaphore>) {
  %6 = axis_index {axis = "c"} : i32[]
  %7 = axis_index {axis = "s"} : i32[]
  %8 = constant {value = i32 0x4} : i32[]
  %9 = mul %6, %8 : i32[]
  %10 = add %9, %7 : i32[]
  %11 = mul %10, %8 : i32[]
  dma_start %1, %10, %3, %5 {src = view($0, [index($1, slice(0, 4))]), dst = view($2, []),
      dst_sem = view($3, [])}
  dma_wait %1, %10, %3, %5 {src = view($0, [index($1, slice(0, 4))]), dst = view($2, []),
      dst_sem = view($3, [])}
  dma_start %0, %11, %4, %5 {src = view($0, [index(slice($1, 4), slice(0, 16))]), dst = view($2, []),
      dst_sem = view($3, [])}
  dma_wait %0, %11, %4, %5 {src = view($0, [index(slice($1, 4), slice(0, 16))]), dst = view($2, []),
      dst_sem = view($3, [])}
  dma_start %4, %2, %5, %3 {src = view($0, []), dst = view($1, [index(ref($3, 99), slice(0, 16))]),
      dst_sem = view($2, [])}
  dma_wait %4, %2, %5, %3 {src = view($0, []), dst = view($1, [index(ref($3, 99), slice(0, 16))]),
      dst_sem = view($2, [])}
  yield
}
)";
  std::vector<int32_t> values(512), order(32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i) + 1;
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i * 11 % 32);
  order[5] = 99;  // stays where it is
  std::vector<int32_t> twice = order;
  twice[30] = twice[1];
  for (const auto& list : {order, twice}) {
    const std::vector<Array> args{i32({32, 16}, values), i32({8, 4}, list)};
    const Outcome want = run(text, args, with(1)), got = run(text, args, with(4));
    std::vector<int32_t> by_hand(512, INT32_MIN);  // as memory begins
    for (size_t i = 0; i < list.size(); ++i)
      for (size_t k = 0; k < 16 && list[i] != 99; ++k)
        by_hand[static_cast<size_t>(list[i]) * 16 + k] = values[i * 16 + k];
    EXPECT_EQ(got.results[0].as<int32_t>(), by_hand);
    EXPECT_EQ(got.results[0].bytes, want.results[0].bytes);
    EXPECT_EQ(got.report.units > 1, list == order);
  }
}

// Who met once is not tried again, and the plan is as good as before.
TEST(Speculation, APlanWhoseBlocksMeetRunsInOrderFromThenOn) {
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
    EXPECT_TRUE(plan->conflicted);
  }
}

TEST(Speculation, TheFirstErrorIsReportedWithTheOrderOfBlocks) {
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
