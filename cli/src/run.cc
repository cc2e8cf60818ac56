// pallasim run: operands in, outputs out.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "commands.h"
#include "io.h"
#include "pallasim/capsule/archive.h"
#include "pallasim/capsule/npy.h"
#include "pallasim/hw/rules.h"
#include "pallasim/interp/predict.h"
#include "pallasim/trace/perfetto.h"
#include "pallasim/trace/reporter.h"
#include "progress.h"
#include "verdict.h"

namespace pallasim::cli {

interp::Options engine_options(const RunOptions& o, interp::Options e) {
  if (!o.schedule.empty()) e = without_schedule(std::move(e));
  if (o.schedule == "random") e.random_seed = o.seed;
  if (o.oob_as_machine) e.out_of_bounds = interp::Options::Oob::Machine;
  return overridden(std::move(e), o.options);
}

void show_prints(const interp::Report& report, Out& out) {
  for (const std::string& line : report.prints) out.text(escaped(line) + '\n');
}

namespace {

// Those of a launch, each with the name of the file that --out writes it to.
std::vector<Argument> named_results(const ir::Module& m, int64_t budget) {
  std::vector<Argument> all = make_results(m, &budget);
  std::set<std::string> names;
  for (Argument& a : all) {
    std::string file = safe_file_name(a.name);
    for (int n = 2; !names.insert(file).second; ++n) file = fmt::format("{}_{}", safe_file_name(a.name), n);
    a.origin = file + ".npy";
  }
  return all;
}

std::string statistics(const Summary& s) {
  std::string r;
  if (s.finite) r = fmt::format("min {:.6g}  max {:.6g}  mean {:.6g}", s.min, s.max, s.mean);
  if (s.nan) r += fmt::format("{}{} NaN", r.empty() ? "" : "  ", s.nan);
  if (s.infinite) r += fmt::format("{}{} infinite", r.empty() ? "" : "  ", s.infinite);
  return r;
}

Json number(double v) { return v; }

Json describe(const Argument& a) {
  Json j = {{"name", a.name}, {"dtype", ir::name(a.array.dtype)}, {"shape", a.array.dims}};
  return j;
}

std::string blocks(int64_t n) { return fmt::format("{} {}", n, n == 1 ? "block" : "blocks"); }

void show_traffic(const interp::Report& report, size_t width, Out& out) {
  for (const interp::Traffic& t : report.traffic) width = std::max(width, escaped(t.name).size());
  for (const interp::Traffic& t : report.traffic) {
    out.text(fmt::format("memory   {:{}}  {} {}, {}; {} {}, {}\n", escaped(t.name), width, t.reads,
                         t.reads == 1 ? "read" : "reads", human_bytes(t.bytes_read), t.writes,
                         t.writes == 1 ? "write" : "writes", human_bytes(t.bytes_written)));
    if (t.fetches > 0)
      out.text(fmt::format("         {:{}}  {} fetched from HBM, {}\n", "", width, blocks(t.fetches),
                           human_bytes(t.bytes_fetched)));
    if (t.write_backs > 0)
      out.text(fmt::format("         {:{}}  {} written back to HBM, {}\n", "", width, blocks(t.write_backs),
                           human_bytes(t.bytes_written_back)));
    out.object["traffic"].push_back({{"name", t.name},
                                     {"space", t.space},
                                     {"reads", t.reads},
                                     {"bytes_read", t.bytes_read},
                                     {"writes", t.writes},
                                     {"bytes_written", t.bytes_written},
                                     {"fetches", t.fetches},
                                     {"bytes_fetched", t.bytes_fetched},
                                     {"write_backs", t.write_backs},
                                     {"bytes_written_back", t.bytes_written_back}});
  }
}

void show_times(std::vector<double> seconds, const interp::Report& report, Out& out) {
  std::sort(seconds.begin(), seconds.end());
  const double least = seconds.front(), median = seconds[seconds.size() / 2];
  out.text(fmt::format("time     {} {}: least {:.3f} ms, median {:.3f} ms", seconds.size(),
                       seconds.size() == 1 ? "launch" : "launches", least * 1e3, median * 1e3));
  if (report.grid_points > 1)
    out.text(fmt::format(", {:.1f} ns per grid point", least * 1e9 / static_cast<double>(report.grid_points)));
  out.text("\n");
  out.object["time"] = {{"launches", seconds.size()}, {"least_seconds", least}, {"median_seconds", median}};
}

std::vector<std::unique_ptr<trace::Reporter>> make_reporters(const std::vector<std::string>& names) {
  std::vector<std::unique_ptr<trace::Reporter>> r;
  for (const std::string& name : names) {
    r.push_back(trace::make_reporter(name));
    if (r.back()) continue;
    std::vector<std::string> known;
    for (const trace::ReporterRow& row : trace::reporters()) known.push_back(row.name);
    fail("PS-CLI-001", fmt::format("there is no observer {}", name),
         {fmt::format("there are {}", fmt::join(known, ", "))});
  }
  return r;
}

std::string escaped_lines(const std::string& text) {
  std::string r;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    r += escaped(std::string(text, at, end - at)) + '\n';
    at = end + 1;
  }
  return r;
}

// What was seen before the stop comes first.
[[noreturn]] void stopped(const interp::Report& report, const ir::Diagnostic& why, Out& out) {
  show_prints(report, out);
  out.object["prints"] = report.prints;
  for (const ir::Diagnostic& d : report.findings) out.finding(d);
  throw ir::DiagnosticError(why);
}

// What the launch would take on the chip. Values are computed where control depends on them.
int predict_launch(const RunOptions& o, const interp::Options& options, ir::Module m,
                   const std::vector<Argument>& given, Out& out) {
  interp::Options how = options;
  static_cast<interp::PlanOptions&>(how) = interp::predicted_options(options);
  std::vector<Argument> args = given;
  const auto plan = placed(m, [&] { return interp::compile(std::move(m), how); });
  const ir::Module& module = interp::module_of(*plan);
  std::vector<Argument> results = placed(module, [&] { return named_results(module, options.max_memory); });
  const auto in = buffers(args), to = buffers(results);
  const interp::DeviceCall call{0, in, to, 0};
  const interp::CachedPlan cached{plan, std::shared_ptr<const ir::LocTable>(plan, &module.locs)};
  const interp::Prediction p = interp::predict(cached, std::span(&call, 1), how, {.timeline = !o.trace.empty()});
  if (!o.trace.empty()) write_file(o.trace, trace::to_perfetto(p.timeline));
  out.text(escaped_lines(interp::to_text(p)));
  out.object = Json::parse(interp::to_json(p));
  return kOk;
}

// As often as it is asked for; the last one's report, and the seconds of each.
interp::Report launches(const RunOptions& o, const interp::Options& options, const interp::Plan& plan,
                        const std::string& kernel, const interp::DeviceCall& call, Out& out,
                        std::vector<double>* seconds) {
  interp::Report report;
  for (int i = 0; i < o.repeat; ++i) {
    interp::Session session;
    const auto start = std::chrono::steady_clock::now();
    ProgressLine progress(o.progress, kernel);
    const std::vector<std::unique_ptr<trace::Reporter>> reporters = make_reporters(o.observe);
    std::vector<interp::Observer*> observers;
    for (const auto& r : reporters) observers.push_back(r.get());
    interp::Timeline timeline;
    std::unique_ptr<interp::Observer> steps = interp::step_timeline(&timeline);
    if (!o.trace.empty()) observers.push_back(steps.get());
    interp::Outcome outcome = interp::try_launch(plan, session, std::span(&call, 1), options,
                                                 {nullptr, progress.counter(), nullptr, observers});
    progress.wipe();
    steps.reset();  // its last grid point ends
    if (!o.trace.empty()) write_file(o.trace, trace::to_perfetto(timeline));
    if (i == 0)
      for (const auto& r : reporters) out.text(escaped_lines(r->text()));
    report = std::move(outcome.report);
    if (outcome.stop) stopped(report, *outcome.stop, out);
    seconds->push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return report;
}

}  // namespace

int run(const RunOptions& o, Out& out) {
  const interp::Options options = engine_options(o);
  const std::string text = read_program(o.file, options.max_memory);
  if (looks_like_zip(text)) return replay(o, text, out);
  if (o.launch || o.rtol != 0 || o.atol != 0)
    fail("PS-CLI-001", "--launch, --rtol and --atol are for capsules, which have recorded outputs");
  ir::Module m = load_module(text, o.file);
  // What the chip refuses, its memory's size among it, is said before operands are made.
  if (m.params.empty() && options.rules == interp::Options::Rules::Error)
    placed(m, [&] { return hw::check_rules(m, *options.chip, options.strict); });
  std::vector<Argument> args = make_arguments(&m, o);
  int64_t budget = options.max_memory;
  for (const Argument& a : args) budget -= static_cast<int64_t>(a.array.data.size());
  std::vector<int64_t> bounds;
  for (const Argument& a : args)
    if (!a.operand) bounds.push_back(static_cast<int64_t>(to_double(a.array.data.data(), a.array.dtype)));
  if (o.predict) return predict_launch(o, options, std::move(m), args, out);
  const std::string kernel = kernel_name(m), grid = grid_text(m, bounds), machine(ir::name(m.machine));
  out.object["kernel"] = m.name;
  out.object["machine"] = machine;
  out.object["chip"] = options.chip->name;

  const auto plan = placed(m, [&] { return interp::compile(std::move(m), options); });
  const ir::Module& module = interp::module_of(*plan);  // the plan owns it now
  std::vector<Argument> results = placed(module, [&] { return named_results(module, budget); });
  const auto in = buffers(args), to = buffers(results);
  std::vector<double> seconds;
  const interp::Report report = launches(o, options, *plan, kernel, {0, in, to, 0}, out, &seconds);

  show_prints(report, out);
  const bool on_chip = options.chip->family != hw::Family::Generic;
  out.text(fmt::format("kernel   {} on {}, grid {}, {} {}\n", kernel,
                       on_chip ? fmt::format("{}, chip {}", machine, options.chip->name) : machine, grid,
                       report.threads, report.threads == 1 ? "thread" : "threads"));
  size_t width = 0;
  for (const auto* list : {&args, &results})
    for (const Argument& a : *list) width = std::max(width, escaped(a.name).size());
  for (const Argument& a : args) {
    out.text(fmt::format("in       {:{}}  {}  {}\n", escaped(a.name), width, type_text(a.array), escaped(a.origin)));
    Json j = describe(a);
    j["from"] = a.origin;
    out.object["inputs"].push_back(std::move(j));
  }
  if (!o.out.empty() && !results.empty()) make_directory(o.out);
  out.object["outputs"] = Json::array();
  for (const Argument& a : results) {
    const Summary s = summarize(a.array);
    out.text(fmt::format("out      {:{}}  {}  {}  {}\n", escaped(a.name), width, type_text(a.array),
                         first_elements(a.array, 8), statistics(s)));
    Json j = describe(a);
    j["min"] = s.finite ? number(s.min) : Json();
    j["max"] = s.finite ? number(s.max) : Json();
    j["mean"] = s.finite ? number(s.mean) : Json();
    j["nan"] = s.nan;
    j["infinite"] = s.infinite;
    j["fnv1a"] = fmt::format("{:016x}", s.hash);
    if (!o.out.empty()) {
      const std::string path = o.out + (o.out.back() == '/' ? "" : "/") + a.origin;
      write_file(path, npy_file(a.array.data.data(), a.array.dtype, a.array.dims));
      out.text(fmt::format("wrote    {}\n", escaped(path)));
      j["file"] = path;
    }
    out.object["outputs"].push_back(std::move(j));
  }
  show_traffic(report, width, out);
  if (o.time) show_times(seconds, report, out);
  out.object["prints"] = report.prints;
  out.object["grid_points"] = report.grid_points;
  out.object["steps"] = report.steps;
  out.object["threads"] = report.threads;
  out.object["units"] = report.units;
  out.object["sequential_because"] = report.sequential_because;
  out.object["token"] = report.token;
  if (options.policy() == interp::Options::Policy::Random)
    out.text(fmt::format("schedule {}  (--replay repeats it)\n", escaped(report.token)));

  int code = kOk;
  for (const ir::Diagnostic& d : report.findings) code = std::max(code, out.finding(d));
  return code;
}

}  // namespace pallasim::cli
