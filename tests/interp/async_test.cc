// Asynchronous copies: when bytes move, what waits count, what may be left.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <random>

#include "engine/snapshot.h"
#include "report/words.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

// Row r + 1 is fetched while row r is doubled.
const std::string kDoubleBuffered = read_file("pass/double_buffer.psir");

std::string edited(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

Options with(Options::Copies copies, int seed = -1) {
  Options o;
  o.copies = copies;
  if (seed >= 0) { o.random_seed = static_cast<uint64_t>(seed); }
  return o;
}

TEST(Async, ACorrectKernelHasTheSameBytesWheneverItsCopiesMove) {
  const Array x = noise({4, 128});
  const auto v = x.as<float>();
  std::vector<float> want;
  for (float f : v) want.push_back(f + f);
  std::vector<Options> all{with(Options::Copies::AtIssue), with(Options::Copies::AtWait)};
  for (int seed = 0; seed < 30; ++seed) all.push_back(with(Options::Copies::Scheduled, seed));
  for (const Options& o : all) {
    const auto r = run(kDoubleBuffered, {x}, o);
    EXPECT_EQ(r.results[0].as<float>(), want);
    Options again;
    again.replay = r.report.token;
    EXPECT_EQ(run(kDoubleBuffered, {x}, again).report.steps, r.report.steps) << r.report.token;
  }
}

// Every second row is fetched into the slot that is in use: only late copies show it.
TEST(Async, ASwappedSlotShowsWhenCopiesMoveEarlierThanTheirWait) {
  const std::string text =
      edited(kDoubleBuffered, "dst = view($1, [index($4, slice(0, 128))]), dst_sem = view($2, [index($4)])} @1",
             "dst = view($1, [index(0, slice(0, 128))]), dst_sem = view($2, [index($4)])} @1");
  const Array x = noise({4, 128});
  std::set<std::vector<int32_t>> seen;
  for (int seed = 0; seed < 30; ++seed)
    seen.insert(run(text, {x}, with(Options::Copies::Scheduled, seed)).results[0].as<int32_t>());
  EXPECT_GT(seen.size(), 1u);
}

// Outputs that copies alone write are poisoned after them, and only where they wrote nothing; checked runs poison
// first.
TEST(Async, WhatNoCopyWroteIsPoisonWheneverThatIsPut) {
  std::mt19937_64 rng(11);
  int partly = 0;
  for (int round = 0; round < 60; ++round) {
    std::string text = R"(pallasim-ir 1
module "pieces" {machine = tpu}
input "x" : f32[8,128] {space = hbm}
output "o" : f32[8,128] {space = hbm}
scratch "sem" : ref<dma_sem[], semaphore>
body (%0 "x": ref<f32[8,128], hbm>, %1 "o": ref<f32[8,128], hbm>, %2 "sem": ref<dma_sem[], semaphore>) {
)";
    for (auto n = rng() % 5; n-- > 0;) {
      const auto row = rng() % 8, rows = 1 + rng() % (8 - row), column = round % 3 ? 0 : rng() % 128,
                 columns = round % 3 ? 128 : 1 + rng() % (128 - column);
      for (const char* op : {"dma_start", "dma_wait"})
        text += fmt::format(
            "  {0} %0, %1, %2 {{src = view($0, [index(slice({1}, {2}), slice({3}, {4}))]), dst = view($1, "
            "[index(slice({1}, {2}), slice({3}, {4}))]), dst_sem = view($2, [])}}\n",
            op, row, rows, column, columns);
    }
    text += "  yield\n}\n";
    const Array x = noise({8, 128});
    Options checked;
    checked.checked = true;
    const auto want = run(text, {x}, checked).results[0].as<int32_t>();
    const auto nan =
        std::count_if(want.begin(), want.end(), [](int32_t v) { return std::isnan(std::bit_cast<float>(v)); });
    partly += nan > 0 && nan < static_cast<int64_t>(want.size());
    for (auto copies : {Options::Copies::AtIssue, Options::Copies::AtWait, Options::Copies::Scheduled})
      EXPECT_EQ(run(text, {x}, with(copies, round)).results[0].as<int32_t>(), want) << text;
  }
  EXPECT_GT(partly, 20);
}

TEST(Async, AMissingWaitIsReportedWithTheBytesLeft) {
  const std::string text = edited(kDoubleBuffered,
                                  "    dma_wait %3, %1, %5, %10 {src = view($0, []), dst = view($1, [index($3, "
                                  "slice(0, 128))]), dst_sem = view($2, [])} @4\n",
                                  "");
  for (auto copies : {Options::Copies::AtIssue, Options::Copies::AtWait, Options::Copies::Scheduled}) {
    std::string report;
    EXPECT_EQ(error_code(text, {noise({4, 128})}, with(copies), &report), "PS-SEM-002");
    EXPECT_NE(report.find("out_sem ends with 2048 bytes that nobody waited for"), std::string::npos) << report;
    EXPECT_NE(report.find("out_sem counts the bytes of the copy of out to o started at double.py:9"), std::string::npos)
        << report;
  }
}

TEST(Async, AWaitWithoutACopyIsADeadlockInBytes) {
  const std::string text = edited(kDoubleBuffered,
                                  "  dma_start %0, %2, %4 {src = view($0, [index(0, slice(0, 128))]), dst = view($1, "
                                  "[index(0, slice(0, 128))]), dst_sem = view($2, [index(0)])} @0\n",
                                  "");
  for (auto copies : {Options::Copies::AtIssue, Options::Copies::AtWait, Options::Copies::Scheduled}) {
    std::string report;
    EXPECT_EQ(error_code(text, {noise({4, 128})}, with(copies), &report), "PS-DEAD-001");
    EXPECT_NE(report.find("waits for in_sems[0] to reach 512 bytes: it is 0, of 0 signalled in all (double.py:7)"),
              std::string::npos)
        << report;
  }
}

// A copy whose extent is a run-time value: src[start, start + n) of 300 to the front of dst.
std::string sliced(const std::string& machine) {
  return R"(pallasim-ir 1
module "sliced" {machine = )" +
         machine + R"(}
input "range" : i32[2] {space = smem}
input "x" : f32[300] {space = hbm}
output "o" : f32[400] {space = hbm}
scratch "sem" : ref<dma_sem[], semaphore>
body (%0 "range": ref<i32[2], smem>, %1 "x": ref<f32[300], hbm>, %2 "o": ref<f32[400], hbm>,
    %3 "sem": ref<dma_sem[], semaphore>) {
  %4 = get %0 {view = [index(0)]} : i32[]
  %5 = get %0 {view = [index(1)]} : i32[]
  dma_start %1, %2, %3, %4, %5 {src = view($0, [index(slice($3, $4))]), dst = view($1, [index(slice(0, $4))]),
      dst_sem = view($2, [])}
  dma_wait %1, %2, %3, %4, %5 {src = view($0, [index(slice($3, $4))]), dst = view($1, [index(slice(0, $4))]),
      dst_sem = view($2, [])}
  yield
}
)";
}

TEST(Async, ExtentsMayBeKnownAtRunTimeOnly) {
  std::vector<float> x(300);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  for (const auto& [start, n] : {std::pair{0, 300}, {10, 0}, {299, 1}, {17, 200}}) {
    const auto o = run(sliced("generic"), {i32({2}, {start, n}), f32({300}, x)}).results[0].as<float>();
    for (int i = 0; i < 400; ++i) {
      if (i < n) ASSERT_EQ(o[static_cast<size_t>(i)], x[static_cast<size_t>(start + i)]);
      else ASSERT_TRUE(std::isnan(o[static_cast<size_t>(i)]));
    }
  }
  for (const auto& [start, n] : {std::pair{0, 301}, {-1, 4}, {200, 101}, {0, -1}})
    EXPECT_EQ(error_code(sliced("generic"), {i32({2}, {start, n}), f32({300}, x)}), "PS-OOB-001") << start << " " << n;
}

// A TPU's array of 300 ends with a whole tile of 128: a copy may name the padding, whose bytes are nobody's.
TEST(Async, CopiesMayNameThePaddingOfTiles) {
  std::vector<float> x(300, 1.0f);
  const auto o = run(sliced("tpu"), {i32({2}, {256, 128}), f32({300}, x)}).results[0].as<float>();
  for (size_t i = 0; i < 44; ++i) ASSERT_EQ(o[i], 1.0f);
  for (size_t i = 44; i < 400; ++i) ASSERT_TRUE(std::isnan(o[i]));
  EXPECT_EQ(error_code(sliced("tpu"), {i32({2}, {257, 128}), f32({300}, x)}), "PS-OOB-001");
}

// A copy of 4 elements, and a wait for as many as the caller says.
std::string waits_for_some(const std::string& machine) {
  return R"(pallasim-ir 1
module "waits" {machine = )" +
         machine + R"(}
input "n" : i32[1] {space = smem}
input "x" : f32[300] {space = hbm}
output "o" : f32[400] {space = hbm}
scratch "sem" : ref<dma_sem[], semaphore>
body (%0 "n": ref<i32[1], smem>, %1 "x": ref<f32[300], hbm>, %2 "o": ref<f32[400], hbm>,
    %3 "sem": ref<dma_sem[], semaphore>) {
  %4 = get %0 {view = [index(0)]} : i32[]
  dma_start %1, %2, %3 {src = view($0, [index(slice(0, 4))]), dst = view($1, [index(slice(0, 4))]),
      dst_sem = view($2, [])}
  dma_wait %1, %2, %3, %4 {src = view($0, [index(slice(0, $3))]), dst = view($1, [index(slice(0, $3))]),
      dst_sem = view($2, [])}
  yield
}
)";
}

// One wait may be for several copies, which bring more than its ref has: what nobody sends is a deadlock.
TEST(Async, AWaitOfLessThanNothingIsOutOfBounds) {
  const Array x = f32({300}, std::vector<float>(300, 1.0f));
  for (const char* machine : {"generic", "tpu"}) {
    for (const auto& [n, code] : std::vector<std::pair<int, std::string>>{{4, ""},
                                                                          {-1, "PS-OOB-001"},
                                                                          {-1024, "PS-OOB-001"},
                                                                          {INT32_MIN, "PS-OOB-001"},
                                                                          {5, "PS-DEAD-001"},
                                                                          {400, "PS-DEAD-001"},
                                                                          {401, "PS-DEAD-001"},
                                                                          {513, "PS-DEAD-001"}})
      EXPECT_EQ(error_code(waits_for_some(machine), {i32({1}, {n}), x}), code) << machine << " " << n;
  }
}

// What lies behind the 5 rows of the source arrives when the copy does.
TEST(Async, PaddingArrivesWithTheCopyThatNamesIt) {
  const std::string text = R"(pallasim-ir 1
module "late" {machine = tpu}
input "x" : f32[5,128] {space = hbm}
output "o" : f32[2,128] {space = vmem}
scratch "buf" : ref<f32[8,128], vmem>
scratch "sem" : ref<dma_sem[], semaphore>
body (%0 "x": ref<f32[5,128], hbm>, %1 "o": ref<f32[2,128], vmem>, %2 "buf": ref<f32[8,128], vmem>,
    %3 "sem": ref<dma_sem[], semaphore>) {
  %4 = constant {value = f32 0x40a00000} : f32[]
  %5 = broadcast_in_dim %4 {dims = []} : f32[8,128]
  store %2, %5
  dma_start %0, %2, %3 {src = view($0, [index(slice(0, 8), slice(0, 128))]), dst = view($1, []), dst_sem = view($2, [])}
  %6 = get %2 {view = [index(6, slice(0, 128))]} : f32[128]
  store %1, %6 {view = [index(0, slice(0, 128))]}
  dma_wait %0, %2, %3 {src = view($0, [index(slice(0, 8), slice(0, 128))]), dst = view($1, []), dst_sem = view($2, [])}
  %7 = get %2 {view = [index(6, slice(0, 128))]} : f32[128]
  store %1, %7 {view = [index(1, slice(0, 128))]}
  yield
}
)";
  const Array x = noise({5, 128});
  for (auto copies : {Options::Copies::AtIssue, Options::Copies::AtWait}) {
    Options o = with(copies);
    o.checked = true;
    const Outcome r = run(text, {x}, o);
    const auto v = r.results[0].as<float>();
    EXPECT_TRUE(std::isnan(v[128]));
    if (copies == Options::Copies::AtWait) EXPECT_EQ(v[0], 5.0f);
    else EXPECT_TRUE(std::isnan(v[0]));
    std::multiset<std::string> codes;
    for (const ir::Diagnostic& d : r.report.findings) codes.insert(std::string(d.code.text()));
    EXPECT_EQ(codes.count("PS-RACE-001"), 1u);  // the read of row 6 before the wait
    EXPECT_EQ(codes.count("PS-UNINIT-001") + codes.count("PS-UNINIT-003"),
              1u);  // and of what came from behind the source
  }
}

const char* kAdd = R"(pallasim-ir 1
module "adding" {machine = generic}
input "x" : DT[3,5] {space = hbm}
input "y" : DT[3,5] {space = hbm}
output "o" : DT[3,5] {space = hbm}
scratch "sem" : ref<dma_sem[], semaphore>
body (%0 "x": ref<DT[3,5], hbm>, %1 "y": ref<DT[3,5], hbm>, %2 "o": ref<DT[3,5], hbm>,
    %3 "sem": ref<dma_sem[], semaphore>) {
  dma_start %0, %2, %3 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
  dma_wait %0, %2, %3 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
  dma_start %1, %2, %3 {src = view($0, []), dst = view($1, []), dst_sem = view($2, []), add = true}
  dma_wait %1, %2, %3 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
  yield
}
)";

TEST(Async, AnAddingCopyAdds) {
  std::string text = kAdd;
  for (size_t i; (i = text.find("DT")) != std::string::npos;) text.replace(i, 2, "i32");
  std::vector<int32_t> x, y, want;
  for (int i = 0; i < 15; ++i) x.push_back(i * 3), y.push_back(100 - i), want.push_back(100 + 2 * i);
  EXPECT_EQ(run(text, {i32({3, 5}, x), i32({3, 5}, y)}).results[0].as<int32_t>(), want);
}

// One kernel starts a copy, another waits for it.
const char* kStart = R"(pallasim-ir 1
module "start" {machine = tpu}
input "x" : f32[256] {space = hbm}
output "o" : f32[256] {space = hbm}
output "sem" : dma_sem[] {space = semaphore}
body (%0 "x": ref<f32[256], hbm>, %1 "o": ref<f32[256], hbm>, %2 "sem": ref<dma_sem[], semaphore>) {
  dma_start %0, %1, %2 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
  yield
}
)";
const char* kDone = R"(pallasim-ir 1
module "done" {machine = tpu}
input "x" : f32[256] {space = hbm}
input "sem" : dma_sem[] {space = semaphore}
output "o" : f32[256] {space = hbm}
body (%0 "x": ref<f32[256], hbm>, %1 "sem": ref<dma_sem[], semaphore>, %2 "o": ref<f32[256], hbm>) {
  dma_wait %0, %0, %1 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
  %3 = get %0 : f32[256]
  store %2, %3
  yield
}
)";

TEST(Async, ACopyMayBeStartedInOneKernelAndAwaitedInTheNext) {
  for (auto copies : {Options::Copies::AtIssue, Options::Copies::AtWait, Options::Copies::Scheduled}) {
    const Options o = with(copies);
    auto start = compile(ir::parse(kStart), o), done = compile(ir::parse(kDone), o);
    Session session;
    Array x = noise({256}), y = noise({256}, 7), z = noise({256}, 8), sem = i32({}, {0});
    sem.dtype = ir::DType::DmaSem;
    const Buffer in[] = {x.buffer()}, out[] = {y.buffer(), sem.buffer()};
    launch(*start, session, in, out, o);
    EXPECT_EQ(y.bytes, x.bytes);
    EXPECT_GT(sem.as<int32_t>()[0], 0);
    const Buffer in2[] = {y.buffer(), sem.buffer()}, out2[] = {z.buffer()};
    launch(*done, session, in2, out2, o);
    EXPECT_EQ(z.bytes, x.bytes);
    // The bytes are taken: a second wait has nothing to wait for.
    try {
      launch(*done, session, in2, out2, o);
      FAIL() << "the second wait ended";
    } catch (const ir::DiagnosticError& e) { EXPECT_EQ(e.diagnostic().code, "PS-DEAD-001"); }
    Array nothing = i32({}, {0});
    nothing.dtype = ir::DType::DmaSem;
    const Buffer in3[] = {y.buffer(), nothing.buffer()};
    try {
      launch(*done, session, in3, out2, o);
      FAIL() << "no semaphore was accepted";
    } catch (const ir::DiagnosticError& e) { EXPECT_EQ(e.diagnostic().code, "PS-ARG-001"); }
  }
}

TEST(Async, CopiesInFlightArePartOfASnapshot) {
  auto plan = compile(ir::parse(kDoubleBuffered));
  const Array x = noise({4, 128});
  Options options = with(Options::Copies::AtWait);
  Array in = x, out = noise({4, 128}, 3);
  Execution ex(*plan, Words::all());
  const std::vector<std::byte*> bases[] = {{in.bytes.data(), out.bytes.data()}};
  ex.options = &options;
  ex.copies_move = options.copies;
  ex.bind(bases, {});
  ex.start({});
  std::optional<Snapshot> with_copies;
  Scheduler scheduler(ex, options);
  Snapshots snapshots(ex);
  while (scheduler.turn(1))
    if (ex.copies.size() == 2) with_copies = snapshots.take();
  const auto want = out.bytes;
  ASSERT_TRUE(with_copies.has_value());
  std::fill(out.bytes.begin(), out.bytes.end(), std::byte{0});
  snapshots.restore(*with_copies);
  EXPECT_EQ(ex.copies.size(), 2u);
  while (scheduler.turn(1)) {}
  EXPECT_EQ(out.bytes, want);
}

// A copy from one of several refs, chosen while the kernel runs.
TEST(Async, CopiesComeFromTheChosenRef) {
  const std::string text = R"(pallasim-ir 1
module "chosen" {machine = tpu}
input "i" : i32[1] {space = smem}
input "x" : f32[8] {space = hbm}
input "y" : f32[8] {space = hbm}
output "o" : f32[8] {space = hbm}
scratch "sem" : ref<dma_sem[], semaphore>
body (%0 "i": ref<i32[1], smem>, %1 "x": ref<f32[8], hbm>, %2 "y": ref<f32[8], hbm>, %3 "o": ref<f32[8], hbm>,
    %4 "sem": ref<dma_sem[], semaphore>) {
  %5 = get %0 {view = [index(0)]} : i32[]
  %6 = select_ref %5, %1, %2 : ref<f32[8], hbm>
  dma_start %6, %3, %4 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
  dma_wait %6, %3, %4 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
  yield
}
)";
  const std::vector<Array> refs = {noise({8}, 1), noise({8}, 2)};
  for (int32_t i : {0, 1})
    EXPECT_EQ(run(text, {i32({1}, {i}), refs[0], refs[1]}).results[0].bytes, refs[static_cast<size_t>(i)].bytes) << i;
}

// One of several of several, of parts of rows, seen with a dimension more.
TEST(Async, AChosenRefMayBeAChoiceItself) {
  const std::string text = R"(pallasim-ir 1
module "chosen" {machine = tpu}
input "i" : i32[2] {space = smem}
input "x" : f32[8,256] {space = hbm}
input "y" : f32[8,256] {space = hbm}
output "o" : f32[8,128] {space = hbm}
scratch "sem" : ref<dma_sem[], semaphore>
body (%0 "i": ref<i32[2], smem>, %1 "x": ref<f32[8,256], hbm>, %2 "y": ref<f32[8,256], hbm>,
    %3 "o": ref<f32[8,128], hbm>, %4 "sem": ref<dma_sem[], semaphore>) {
  %5 = get %0 {view = [index(0)]} : i32[]
  %6 = get %0 {view = [index(1)]} : i32[]
  %7 = view %1 {view = [index(slice(0, 8), slice(0, 128))]} : ref<f32[8,128], hbm>
  %8 = view %1 {view = [index(slice(0, 8), slice(128, 128))]} : ref<f32[8,128], hbm>
  %9 = view %2 {view = [index(slice(0, 8), slice(0, 128))]} : ref<f32[8,128], hbm>
  %10 = select_ref %6, %7, %8 : ref<f32[8,128], hbm>
  %11 = select_ref %5, %10, %9 : ref<f32[8,128], hbm>
  dma_start %11, %3, %4 {src = view($0, [reshape(8, 1, 128)]), dst = view($1, [reshape(8, 1, 128)]),
      dst_sem = view($2, [])}
  dma_wait %11, %3, %4 {src = view($0, [reshape(8, 1, 128)]), dst = view($1, [reshape(8, 1, 128)]),
      dst_sem = view($2, [])}
  yield
}
)";
  const std::vector<Array> refs = {noise({8, 256}, 1), noise({8, 256}, 2)};
  for (int32_t i : {0, 1})
    for (int32_t j : {0, 1}) {
      const std::vector<float> from = refs[static_cast<size_t>(i)].as<float>();
      std::vector<float> want;
      for (size_t r = 0; r < 8; ++r)
        for (size_t c = 0; c < 128; ++c) want.push_back(from[r * 256 + (i == 0 && j == 1 ? 128 : 0) + c]);
      EXPECT_EQ(run(text, {i32({2}, {i, j}), refs[0], refs[1]}).results[0].as<float>(), want) << i << j;
    }
}

}  // namespace
}  // namespace pallasim::interp::test
