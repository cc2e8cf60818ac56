// Copies whose rows a list chooses; subcores: barriers, words of others, cores named by several axes.
#include <fmt/format.h>

#include "run.h"

namespace pallasim::interp::test {
namespace {

std::vector<Options> settings() {
  std::vector<Options> r(5);
  r[1].copies = Options::Copies::AtWait;
  r[2].copies = Options::Copies::Scheduled;
  r[2].random_seed = 3;
  r[3].random_seed = 11;
  r[4].checked = true;
  return r;
}

// `start`: of the destination; `copy`: attributes of the copy, whose operands are src, dst, semaphore, list.
std::string rows(const std::string& copy, int list, const std::string& type = "i32") {
  return fmt::format(R"(pallasim-ir 1
module "rows" {{machine = tpu}}
mesh "vs" {{kind = vector_subcore, axes = [axis("core", 1), axis("subcore", 1)]}}
input "x" : {1}[4,2] {{space = hbm}}
input "list" : i32[{0}] {{space = hbm}}
input "start" : {1}[4,2] {{space = hbm}}
output "o" : {1}[4,2] {{space = hbm}}
scratch "index" : ref<i32[{0}], vmem>
scratch "buffer" : ref<{1}[4,2], vmem>
body "vs" (%0 "x": ref<{1}[4,2], hbm>, %1 "list": ref<i32[{0}], hbm>, %2 "start": ref<{1}[4,2], hbm>,
    %3 "o": ref<{1}[4,2], hbm>, %4 "index": ref<i32[{0}], vmem>, %5 "buffer": ref<{1}[4,2], vmem>) {{
  run_scoped (%6 "sem": ref<dma_sem[], semaphore>) {{
    dma_start %1, %4, %6 {{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}}
    dma_wait %1, %4, %6 {{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}}
    dma_start %2, %3, %6 {{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}}
    dma_wait %2, %3, %6 {{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}}
    dma_start %2, %5, %6 {{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}}
    dma_wait %2, %5, %6 {{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}}
    {2}
    yield
  }}
  yield
}}
)",
                     list, type, copy);
}

// Rows of x that the list chooses come to the buffer, and from there to o.
std::string gather(const std::string& attrs, const std::string& item, int n, const std::string& type = "i32") {
  const std::string views = fmt::format(
      "{{src = view($0, [index({}, slice(0, 2))]), dst = view($1, [index(slice(0, {}), slice(0, 2))]), dst_sem = "
      "view($2, []){}}}",
      item, n, attrs);
  const std::string all = "{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}";
  return rows(
      fmt::format("dma_start %0, %5, %6, %4 {0}\n    dma_wait %0, %5, %6, %4 {1}\n    dma_start %5, %3, %6 {2}\n"
                  "    dma_wait %5, %3, %6 {2}",
                  views, views.substr(0, views.find(", add")) + (attrs.empty() ? "" : "}"), all),
      n, type);
}

std::string scatter(const std::string& attrs, const std::string& item) {
  const std::string views = fmt::format(
      "{{src = view($0, []), dst = view($1, [index({}, slice(0, 2))]), dst_sem = view($2, []){}}}", item, attrs);
  return rows(fmt::format("dma_start %5, %3, %6, %4 {}\n    dma_wait %5, %3, %6, %4 {}", views,
                          views.substr(0, views.find(", add")) + (attrs.empty() ? "" : "}")),
              4);
}

const Array kX = i32({4, 2}, {10, 11, 20, 21, 30, 31, 40, 41}), kStart = i32({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
using Words = std::vector<int32_t>;

TEST(ChosenRows, AreGatheredInTheOrderOfTheList) {
  for (const Options& o : settings()) {
    const auto got = run(gather("", "ref($3)", 4), {kX, i32({4}, {2, 0, 0, 3}), kStart}, o);
    EXPECT_EQ(got.results[0].as<int32_t>(), (Words{30, 31, 10, 11, 10, 11, 40, 41}));
    EXPECT_TRUE(got.report.findings.empty());
  }
}

TEST(ChosenRows, ThatAreIgnoredKeepWhatWasThereAndCountAsMoved) {
  for (const Options& o : settings())
    EXPECT_EQ(run(gather("", "ref($3, 77)", 4), {kX, i32({4}, {2, 77, 77, 3}), kStart}, o).results[0].as<int32_t>(),
              (Words{30, 31, 3, 4, 5, 6, 40, 41}));
}

TEST(ChosenRows, AreAddedEachTimeThatTheyAreNamed) {
  for (const Options& o : settings()) {
    EXPECT_EQ(
        run(gather(", add = true", "ref($3)", 4), {kX, i32({4}, {1, 1, 0, 0}), kStart}, o).results[0].as<int32_t>(),
        (Words{21, 23, 23, 25, 15, 17, 17, 19}));
    // The buffer begins as `start`, and so does o.
    EXPECT_EQ(run(scatter(", add = true", "ref($3)"), {kX, i32({4}, {1, 1, 0, 1}), kStart}, o).results[0].as<int32_t>(),
              (Words{6, 8, 3 + 1 + 3 + 7, 4 + 2 + 4 + 8, 5, 6, 7, 8}));
  }
}

TEST(ChosenRows, AreScattered) {
  for (const Options& o : settings())
    EXPECT_EQ(run(scatter("", "ref($3, 9)"), {kX, i32({4}, {3, 9, 0, 1}), kStart}, o).results[0].as<int32_t>(),
              (Words{5, 6, 7, 8, 5, 6, 1, 2}));
}

TEST(ChosenRows, OfNarrowElementsCountTheBytesOfTheMachine) {
  const Array x = array<int8_t>(ir::DType::I4, {4, 2}, {1, 2, 3, 4, 5, 6, 7, -8});
  for (const Options& o : settings())
    EXPECT_EQ(run(gather("", "ref($3)", 4, "i4"), {x, i32({4}, {3, 1, 1, 0}), x}, o).results[0].as<int8_t>(),
              (std::vector<int8_t>{7, -8, 3, 4, 3, 4, 1, 2}));
}

TEST(ChosenRows, OutsideAreAFinding) {
  for (const int32_t row : {4, -1}) {
    std::string report;
    EXPECT_EQ(error_code(gather("", "ref($3)", 4), {kX, i32({4}, {0, 1, row, 2}), kStart}, {}, &report), "PS-OOB-001");
    EXPECT_NE(report.find(fmt::format("index {} is outside dimension 0 of x (size 4)", row)), std::string::npos)
        << report;
  }
}

TEST(ChosenRows, AreRestoredFromASnapshot) {
  Options o;
  o.copies = Options::Copies::AtWait;
  o.verify_restore = 1;
  EXPECT_EQ(run(gather("", "ref($3)", 4), {kX, i32({4}, {2, 0, 0, 3}), kStart}, o).results[0].as<int32_t>(),
            (Words{30, 31, 10, 11, 10, 11, 40, 41}));
}

// Every subcore sets its word, adds ten times its number to the next one's, and writes what it found and what it has.
const std::string kWords = R"(pallasim-ir 1
module "words" {machine = tpu}
mesh "vs" {kind = vector_subcore, axes = [axis("core", 2), axis("subcore", 3)]}
output "o" : i32[2,3,2] {space = hbm}
scratch "word" : ref<i32[1], smem>
body "vs" (%0 "o": ref<i32[2,3,2], hbm>, %1 "word": ref<i32[1], smem>) {
  %2 = axis_index {axis = "core"} : i32[]
  %3 = axis_index {axis = "subcore"} : i32[]
  %4 = constant {value = i32 0x64} : i32[]
  %5 = mul %2, %4 : i32[]
  %6 = add %5, %3 : i32[]
  store %1, %6 {view = [index(0)]}
  sc_barrier
  %7 = constant {value = i32 0x1} : i32[]
  %8 = add %3, %7 : i32[]
  %9 = constant {value = i32 0x3} : i32[]
  %10 = rem %8, %9 : i32[]
  %11 = constant {value = i32 0xa} : i32[]
  %12 = mul %3, %11 : i32[]
  %13 = sc_fetch_and_add %1, %12, %10 {view = [index(0)], subcore = $2} : i32[]
  sc_barrier
  %14 = get %1 {view = [index(0)]} : i32[]
  store %0, %13, %2, %3 {view = [index($2, $3, 0)]}
  store %0, %14, %2, %3 {view = [index($2, $3, 1)]}
  yield
}
)";

TEST(Subcores, AddToEachOthersWordsBetweenBarriers) {
  const Words want{1, 20, 2, 1, 0, 12, 101, 120, 102, 101, 100, 112};
  for (int seed = 0; seed < 20; ++seed) {
    Options o;
    if (seed > 0) o.random_seed = static_cast<uint64_t>(seed);
    EXPECT_EQ(run(kWords, {}, o).results[0].as<int32_t>(), want) << seed;
  }
  Options o;
  o.verify_restore = 3;
  EXPECT_EQ(run(kWords, {}, o).results[0].as<int32_t>(), want);
  o = {};
  o.checked = true;
  EXPECT_TRUE(run(kWords, {}, o).report.findings.empty());
}

// All add to the first subcore's word, which is looked at behind a barrier.
TEST(Subcores, ThatAddToOneWordDoNotRace) {
  std::string text = kWords;
  text.replace(text.find("subcore = $2"), 12, "subcore = $3");
  text.replace(text.find("%12, %10 {"), 10, "%12, %10, %99 {");
  const std::string start = "  %13 = sc_fetch_and_add";
  text.insert(text.find(start), "  %99 = constant {value = i32 0x0} : i32[]\n");
  // What each finds depends on the order.
  const std::string found = "  store %0, %13, %2, %3 {view = [index($2, $3, 0)]}\n";
  text.replace(text.find(found), found.size(), "  store %0, %99, %2, %3 {view = [index($2, $3, 0)]}\n");
  for (int seed = 0; seed < 10; ++seed) {
    Options o;
    o.checked = true;
    if (seed > 0) o.random_seed = static_cast<uint64_t>(seed);
    const Outcome r = run(text, {}, o);
    EXPECT_EQ(r.results[0].as<int32_t>(), (Words{0, 0 + 10 + 20, 0, 1, 0, 2, 0, 130, 0, 101, 0, 102})) << seed;
    EXPECT_TRUE(r.report.findings.empty()) << ir::render(r.report.findings.front());
  }
  // Without the barrier behind them the look is not ordered.
  text.erase(text.rfind("  sc_barrier\n"), 13);
  Options o;
  o.checked = true;
  EXPECT_FALSE(run(text, {}, o).report.findings.empty());
}

TEST(Subcores, AWordOfASubcoreThatThereIsNotIsAFinding) {
  std::string text = kWords;
  text.replace(text.find("%10 = rem %8, %9"), 16, "%10 = add %8, %9");
  std::string report;
  EXPECT_EQ(error_code(text, {}, {}, &report), "PS-SEM-001");
  EXPECT_NE(report.find("subcore"), std::string::npos) << report;
}

TEST(Subcores, ABarrierThatSomeDoNotComeToIsADeadlock) {
  std::string text = kWords;
  const std::string barrier = "  sc_barrier\n  %14";
  text.replace(
      text.find(barrier), barrier.size(),
      "  %15 = eq %3, %7 : bool[]\n  cond %15 () {\n    sc_barrier\n    yield\n  } () {\n    yield\n  }\n  %14");
  // Values are numbered in the order in which they are defined.
  for (const auto& [from, to] : {std::pair("%14", "%99"), std::pair("%15", "%14"), std::pair("%99", "%15")})
    for (size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, 3, to);
  std::string report;
  EXPECT_EQ(error_code(text, {}, {}, &report), "PS-DEAD-001");
  for (const char* line : {"subcore 0 of SparseCore 0 waits for phase 1 of the subcore barrier of SparseCore 0 to end: "
                           "2 of 3 arrived",
                           "subcore 1 of SparseCore 0 has ended and comes to"})
    EXPECT_NE(report.find(line), std::string::npos) << report;
  EXPECT_EQ(report.find("circle"), std::string::npos) << report;
}

// Each subcore signals the one at the same place of the next SparseCore, naming both axes, or one of them.
std::string signal_by_axes(const std::string& axes) {
  return R"(pallasim-ir 1
module "axes" {machine = tpu}
mesh "vs" {kind = vector_subcore, axes = [axis("core", 2), axis("subcore", 3)]}
output "o" : i32[2,3] {space = hbm}
scratch "sem" : ref<sem[], semaphore>
body "vs" (%0 "o": ref<i32[2,3], hbm>, %1 "sem": ref<sem[], semaphore>) {
  %2 = axis_index {axis = "core"} : i32[]
  %3 = axis_index {axis = "subcore"} : i32[]
  %4 = constant {value = i32 0x1} : i32[]
  %5 = sub %4, %2 : i32[]
  %6 = mul %3, %4 : i32[]
  sem_signal %1, %5, %6 {inc = 1, device_id = none, core_index = [)" +
         axes + R"(]}
  sem_wait %1 {value = 1}
  store %0, %4, %2, %3 {view = [index($2, $3)]}
  yield
}
)";
}

TEST(Subcores, AreNamedBySeveralAxesOrBySomeOfThem) {
  for (const std::string axes : {R"(axis("core", $1), axis("subcore", $2))", R"(axis("core", $1))"})
    EXPECT_EQ(run(signal_by_axes(axes), {}).results[0].as<int32_t>(), Words(6, 1)) << axes;
  // Not subcore 0 of the next SparseCore.
  EXPECT_EQ(error_code(signal_by_axes(R"(axis("subcore", 3))"), {}), "PS-SEM-001");
}

}  // namespace
}  // namespace pallasim::interp::test
