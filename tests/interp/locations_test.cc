// Texts that differ in their tables of locations alone share a plan, and each has the lines of its own.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "pallasim/hw/chips.h"
#include "pallasim/ir/diagnostic.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

// Reads x[index] at `line`, in a function that is called at the line before.
std::string reads(int line, int loc = 0, const std::string& more = "") {
  return fmt::format(R"psir(pallasim-ir 1
module "moved" {{machine = generic, call = 1}}
grid {{size = 4}}
input "x" : f32[8] {{space = any}}
output "o" : f32[4] {{space = any}}
body (%0 "x": ref<f32[8], any>, %1 "o": ref<f32[4], any>) {{
  %2 = program_id {{axis = 0}} : i32[]
  %3 = constant {{value = i32 0x4}} : i32[]
  %4 = mul %2, %3 : i32[] @{1}
  %5 = get %0, %4 {{view = [index($1)]}} : f32[] @{1}
  store %1, %5, %2 {{view = [index($2)]}}
  yield
}}
loc 0 {{file = "k.py", line = {0}, function = "kernel", text = "x_ref[4 * i]", scope = "s{0}", caller = 1}}
loc 1 {{file = "k.py", line = {2}, text = "kernel_call(x)"}}
{3})psir",
                     line, loc, line - 1, more);
}

// What a launch on zeros tells, to the last word.
std::string told(const interp::Outcome& o) {
  std::string r;
  for (const ir::Diagnostic& d : o.report.findings) r += ir::render(d);
  return r + (o.stop ? ir::render(*o.stop) : "");
}

struct Zeros {
  explicit Zeros(const Plan& plan) {
    for (const ir::Operand& o : module_of(plan).operands) {
      std::vector<int64_t> dims;
      for (const ir::Dim& d : o.array->dims) dims.push_back(d.size);
      arrays.push_back({o.array->dtype, dims, std::vector<std::byte>(static_cast<size_t>(o.array->num_bytes()))});
    }
    size_t i = 0;
    for (const ir::Operand& o : module_of(plan).operands)
      (o.kind == ir::Operand::Kind::Output ? results : args).push_back(arrays[i++].buffer());
  }
  std::deque<Array> arrays;
  std::vector<Buffer> args, results;
};

template <typename P>
std::string run_on_zeros(const P& p, const Plan& plan, const Options& o) {
  Session session;
  std::deque<Zeros> zeros;
  std::vector<DeviceCall> devices;
  for (int d = 0; d < devices_of(plan); ++d) {
    const Zeros& z = zeros.emplace_back(plan);
    devices.push_back({d, z.args, z.results, 0});
  }
  return told(try_launch(p, session, devices, o));
}
std::string run_cached(const std::string& text, const Options& o = {}) {
  const CachedPlan p = compile_cached(text, o);
  return run_on_zeros(p, *p.plan, o);
}
std::string run_anew(const std::string& text, const Options& o = {}) {
  const auto plan = compile(ir::parse(text), o);
  return run_on_zeros(*plan, *plan, o);
}

TEST(Locations, AKernelThatMovedIsNotCompiledAnew) {
  const CachedPlan here = compile_cached(reads(10)), there = compile_cached(reads(11));
  EXPECT_EQ(here.plan, there.plan);
  EXPECT_NE(here.locs, there.locs);
  EXPECT_EQ(here.locs, compile_cached(reads(10)).locs);
  for (const int line : {10, 11, 10, 12}) {
    const std::string report = run_cached(reads(line));
    EXPECT_EQ(report, run_anew(reads(line)));
    EXPECT_NE(report.find(fmt::format("k.py:{}", line)), std::string::npos) << report;
    EXPECT_NE(report.find(fmt::format("k.py:{}", line - 1)), std::string::npos) << report;  // the caller
    EXPECT_NE(report.find(fmt::format("s{}", line)), std::string::npos) << report;          // the scope
  }
  EXPECT_NE(dump(there), dump(here));
  EXPECT_EQ(dump(there), dump(*compile(ir::parse(reads(11)))));
}

TEST(Locations, OtherNumbersAreAnotherPlan) {
  const auto plan = compile_cached(reads(20)).plan;
  EXPECT_NE(compile_cached(reads(20, 1)).plan, plan);
  EXPECT_NE(compile_cached(reads(20, 0, "loc 2 {file = \"k.py\", line = 3}\n")).plan, plan);
  EXPECT_NE(run_cached(reads(20, 1)).find("k.py:19"), std::string::npos);
}

// What is wrong with a table is said as if the plan were not known.
TEST(Locations, AWrongTableIsRefused) {
  compile_cached(reads(30));
  const std::string right = reads(30);
  for (const auto& [was, is] : std::vector<std::pair<std::string, std::string>>{
           {"caller = 1", "caller = 2"}, {"line = 30", "line = \"30\""}, {"loc 1", "loc 3"}, {"file", "fyle"}}) {
    std::string wrong = right, cached, anew;
    wrong.replace(wrong.find(was), was.size(), is);
    try {
      compile_cached(wrong);
    } catch (const ir::DiagnosticError& e) { cached = e.what(); }
    try {
      ir::parse(wrong);
    } catch (const ir::DiagnosticError& e) { anew = e.what(); }
    EXPECT_NE(cached, "");
    EXPECT_EQ(cached, anew);
  }
  // A table behind which something stands belongs to the text.
  const std::string commented = right + "// and no more\n";
  EXPECT_NE(compile_cached(commented).plan, compile_cached(right).plan);
  EXPECT_EQ(compile_cached(commented).plan, compile_cached(commented).plan);
  EXPECT_EQ(run_cached(commented), run_cached(right));
}

TEST(Locations, LaunchesAtTheSameTimeHaveTheirOwn) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &wrong] {
      const std::string text = reads(100 + t), mine = fmt::format("k.py:{}", 100 + t);
      for (int i = 0; i < 50; ++i)
        if (run_cached(text).find(mine) == std::string::npos) ++wrong[static_cast<size_t>(t)];
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
  EXPECT_EQ(compile_cached(reads(100)).plan, compile_cached(reads(103)).plan);
  Array x = noise({8}), o = f32({4}, std::vector<float>(4));
  const Buffer in = x.buffer(), out = o.buffer();
  Session session;
  try {
    launch(compile_cached(reads(102)), session, std::span(&in, 1), std::span(&out, 1));
    FAIL() << "x[8] of 8 elements was read";
  } catch (const ir::DiagnosticError& e) { EXPECT_EQ(e.diagnostic().site.source.line, 102); }
}

TEST(Locations, SizesThatAreKnownLateHaveThem) {
  const auto sized = [](int line) {
    std::string text = reads(line);
    const auto replace = [&](const std::string& was, const std::string& is) {
      for (size_t at = 0; (at = text.find(was, at)) != std::string::npos; at += is.size())
        text.replace(at, was.size(), is);
    };
    replace("f32[8]", "f32[n]");
    replace("grid", "param n\ngrid");
    return text;
  };
  for (const int line : {40, 41}) {
    const CachedPlan p = compile_cached(sized(line));
    EXPECT_EQ(p.plan, compile_cached(sized(40)).plan);
    Array x = noise({8}), o = f32({4}, std::vector<float>(4));
    const Buffer in = x.buffer(), out = o.buffer();
    const DeviceCall call{0, std::span(&in, 1), std::span(&out, 1), 0};
    Session session;
    EXPECT_NE(told(try_launch(p, session, std::span(&call, 1))).find(fmt::format("k.py:{}", line)), std::string::npos);
  }
}

// Each failing kernel, as a text with a table, 1,000 lines further down: its report says of the shared plan what it
// says of one that was compiled for it.
TEST(Locations, EveryReportNamesTheLinesOfItsText) {
  int compared = 0, placed = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::string(PALLASIM_TESTS_DIR) + "/fail/run")) {
    if (file.path().extension() != ".psir") continue;
    const std::string name = file.path().filename().string();
    SCOPED_TRACE(name);
    ir::Module m = ir::parse(read_file("fail/run/" + name), name, {}, ir::Unplaced::Text);
    const auto large = [](const ir::Operand& o) { return o.array->num_bytes() > 1 << 26; };
    if (!m.params.empty() || m.num_dynamic > 0 || std::any_of(m.operands.begin(), m.operands.end(), large)) continue;
    const std::string here = ir::print(m);
    for (ir::Loc& l : m.locs) l.source.line += 1000;
    const std::string there = ir::print(m);
    Options o;
    o.checked = true;
    o.workers = 1;
    o.max_steps = 20'000;
    for (const auto& [machine, chip] : {std::pair{ir::Machine::Tpu, "tpu-v5e"},
                                        {ir::Machine::Triton, "gpu-h100"},
                                        {ir::Machine::MosaicGpu, "gpu-h100"}})
      if (m.machine == machine) o.chip = hw::find_profile(chip);
    o.rules = Options::Rules::Warn;
    std::string report;
    CachedPlan first;
    try {
      first = compile_cached(here, o);
      report = run_anew(there, o);
    } catch (const ir::DiagnosticError&) { continue; }  // nothing that a cache holds
    const CachedPlan second = compile_cached(there, o);
    EXPECT_EQ(first.plan, second.plan);
    EXPECT_EQ(run_on_zeros(second, *second.plan, o), report);
    ++compared;
    placed += run_on_zeros(first, *first.plan, o) != report;  // it names a line
  }
  EXPECT_GE(compared, 50);
  EXPECT_GE(placed, 40);
}

}  // namespace
}  // namespace pallasim::interp::test
