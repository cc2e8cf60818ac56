#include "launch_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "pallasim/interp/options.h"
#include "pallasim/trace/causes.h"
#include "progress.h"
#include "recording.h"
#include "reports.h"

namespace pallasim::python {
namespace {

// State that outlives a launch (PRNG, barrier semaphores). One per process while one device is emulated.
interp::Session& session() {
  static interp::Session& s = *new interp::Session;
  return s;
}

Program::Shape shape_of(const ir::Type& t) {
  Program::Shape s;
  s.dtype = t.dtype;
  s.open = !t.is_static();
  if (!s.open)
    for (const ir::Dim& d : t.dims) s.dims.push_back(d.size);
  return s;
}

}  // namespace

namespace {

// Takes `key` ("findings=") out of the options, which the engine does not know; its value, empty where it is absent.
std::string take(std::string_view key, std::string* options) {
  const size_t at = options->starts_with(key) ? 0 : options->find(";" + std::string(key));
  if (at == std::string::npos) return {};
  const size_t value = at + key.size() + (at > 0), end = std::min(options->find(';', value), options->size());
  std::string taken = options->substr(value, end - value);
  options->erase(at, end - at + (at == 0 && end < options->size()));
  return taken;
}

[[noreturn]] void bad_option(const char* name, const std::string& value, std::string hint) {
  ir::Diagnostic d;
  d.code = "PS-OPT-001";
  d.message = fmt::format("option {} cannot be '{}'", name, value);
  d.hint = std::move(hint);
  throw ir::DiagnosticError(std::move(d));
}

Delivery take_delivery(std::string* options) {
  const std::string mode = take("findings=", options);
  if (mode.empty() || mode == "warn") return Delivery::Warn;
  if (mode == "collect") return Delivery::Collect;
  if (mode == "raise") return Delivery::Raise;
  bad_option("findings", mode, "findings is warn, collect or raise");
}

bool take_progress(std::string* options) {
  const std::string shown = take("progress=", options);
  if (!shown.empty() && shown != "0" && shown != "1") bad_option("progress", shown, "progress is 0 or 1");
  return shown != "0";
}

// What making a plan took, told to its first launch. Plans live as long as their cache keeps them: an address that is
// used again belongs to another plan.
struct PlanTimes {
  struct Entry {
    std::weak_ptr<const interp::Plan> plan;
    double seconds = 0;
    bool launched = false;
  };
  std::mutex mutex;
  std::map<const interp::Plan*, Entry> entries;

  void made(const std::shared_ptr<const interp::Plan>& plan, double seconds) {
    std::lock_guard lock(mutex);
    Entry& e = entries[plan.get()];
    if (e.plan.expired()) e = {plan, seconds, false};
  }
  bool first_launch(const interp::Plan* plan, double* seconds) {
    std::lock_guard lock(mutex);
    Entry& e = entries[plan];
    *seconds = e.launched ? 0 : e.seconds;
    return !std::exchange(e.launched, true);
  }
};
PlanTimes& plan_times() {
  static PlanTimes& t = *new PlanTimes;
  return t;
}

// The error of text that may not be a module. Where it has a line of the kernel, that says more than the operation it
// became.
ir::DiagnosticError placed(ir::Diagnostic d, std::string_view text) {
  if (!d.code.starts_with("PS-IR-0")) trace::place(d, ir::parse(text));
  if (!d.site.source.file.empty())
    std::erase_if(d.numbers, [](const std::string& n) { return n.starts_with("operation: "); });
  return ir::DiagnosticError(std::move(d));
}

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace

std::shared_ptr<const Program> Program::make(std::string_view text, std::string_view options) {
  auto p = std::make_shared<Program>();
  p->option_text_ = options;
  p->delivery_ = take_delivery(&p->option_text_);
  p->progress_ = take_progress(&p->option_text_);
  p->options_ = interp::parse_options(p->option_text_);
  const auto begin = std::chrono::steady_clock::now();
  try {
    p->plan_ = interp::compile_cached(text, p->options_);
  } catch (const ir::DiagnosticError& e) { throw placed(e.diagnostic(), text); }
  plan_times().made(p->plan_, seconds_since(begin));
  const ir::Module& m = interp::module_of(*p->plan_);
  // Dynamic grid bounds are one i32 or i64: `open` leaves dtype and shape to the launch.
  for (int i = 0; i < m.num_dynamic; ++i) p->args_.push_back({ir::DType::I32, {}, true});
  for (const ir::Operand& o : m.operands) {
    (o.kind == ir::Operand::Kind::Output ? p->results_ : p->args_).push_back(shape_of(*o.array));
    p->has_sub_byte_ = p->has_sub_byte_ || ir::bit_width(o.array->dtype) < 8;
  }
  return p;
}

void Program::run(std::span<const interp::DeviceCall> devices) const {
  note_launch();
  std::vector<LaunchRecorder> recorders;
  for (const interp::DeviceCall& d : devices) recorders.emplace_back(plan_, option_text_, d.device, d.args, d.results);
  Run run;
  run.kernel = interp::module_of(*plan_).name;
  run.chip = options_.chip->name;
  run.planned = plan_times().first_launch(plan_.get(), &run.plan_seconds);
  const auto begin = std::chrono::steady_clock::now();
  WatchedLaunch watched(run.kernel, progress_);
  interp::Outcome outcome = interp::try_launch(*plan_, session(), devices, options_, watched.progress());
  watched.end();
  run.seconds = seconds_since(begin);
  for (ir::Diagnostic& d : outcome.report.findings) trace::place(d, interp::module_of(*plan_));
  if (outcome.stop) {
    ir::Diagnostic& d = *outcome.stop;
    trace::place(d, interp::module_of(*plan_));
    for (size_t i = 0; i < devices.size(); ++i) recorders[i].failed(d, devices[i].results);
    note_report(std::move(run), std::move(outcome.report), options_, delivery_, &d);
    throw ir::DiagnosticError(std::move(d));
  }
  for (size_t i = 0; i < devices.size(); ++i) recorders[i].ended(devices[i].results);
  note_report(std::move(run), std::move(outcome.report), options_, delivery_);
}

}  // namespace pallasim::python
