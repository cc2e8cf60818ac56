#include "launch_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "breakpoints.h"
#include "pallasim/interp/options.h"
#include "pallasim/interp/predict.h"
#include "predict.h"
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
  if (!d.code.of_unread_text()) ir::place(d, ir::parse(text));
  if (!d.site.source.file.empty())
    std::erase_if(d.numbers, [](const std::string& n) { return n.starts_with("operation: "); });
  return ir::DiagnosticError(std::move(d));
}

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace

std::shared_ptr<const Program> Program::make(std::string_view text, std::string_view options,
                                             std::string_view settings) {
  auto p = std::make_shared<Program>();
  p->settings_ = parse_settings(settings);
  p->options_ = interp::parse_options(options);
  p->option_text_ = interp::to_text(p->options_);
  p->reportable_ = std::make_shared<Reportable::Kernel>(Reportable::Kernel{std::string(text), p->options_});
  const auto begin = std::chrono::steady_clock::now();
  try {
    p->plan_ = interp::compile_cached(text, p->options_);
    if (p->settings_.time) {
      interp::Options timed = p->options_;
      static_cast<interp::PlanOptions&>(timed) = interp::predicted_options(timed);
      p->timed_ = interp::compile_cached(text, timed);
    }
  } catch (const ir::DiagnosticError& e) { throw placed(e.diagnostic(), text); }
  plan_times().made(p->plan_.plan, seconds_since(begin));
  const ir::Module& m = interp::module_of(p->plan());
  // Dynamic grid bounds are one i32 or i64: `open` leaves dtype and shape to the launch.
  for (int i = 0; i < m.num_dynamic; ++i) p->args_.push_back({ir::DType::I32, {}, true});
  for (const ir::Operand& o : m.operands) {
    (o.kind == ir::Operand::Kind::Output ? p->results_ : p->args_).push_back(shape_of(*o.array));
    p->has_sub_byte_ = p->has_sub_byte_ || ir::bit_width(o.array->dtype) < 8;
  }
  return p;
}

// Of the arrays that a prediction goes by: all where values are computed, else bounds of the grid and scalars.
static uint64_t inputs_hash(const ir::Module& m, std::span<const interp::DeviceCall> devices, bool with_values) {
  std::vector<bool> read(static_cast<size_t>(m.num_dynamic), true);
  for (const ir::Operand& o : m.operands)
    if (o.kind != ir::Operand::Kind::Output)
      read.push_back(with_values || o.kind == ir::Operand::Kind::Prefetch || o.space == ir::Space::Smem);
  uint64_t h = 0;
  for (const interp::DeviceCall& d : devices)
    for (size_t i = 0; i < d.args.size(); ++i) {
      if (i < read.size() && !read[i]) continue;
      const interp::Buffer& b = d.args[i];
      int64_t elements = 1;
      for (const int64_t n : b.dims) elements *= n;
      const auto bytes = static_cast<size_t>((elements * ir::bit_width(b.dtype) + 7) / 8);
      h = (h ^ std::hash<std::string_view>{}({static_cast<const char*>(b.data), bytes})) * 0x9e3779b97f4a7c15u;
      h ^= h >> 29;
    }
  return h;
}

// As JSON. Outputs are memory of its own: the launch itself comes afterwards.
Program::Predicted Program::predicted(std::span<const interp::DeviceCall> devices) const {
  std::lock_guard lock(time_mutex_);
  const ir::Module& m = interp::module_of(plan());
  if (time_ && (!time_inputs_ || *time_inputs_ == inputs_hash(m, devices, time_with_values_))) return *time_;
  std::vector<Zeros> kept;
  std::vector<std::vector<interp::Buffer>> results;
  std::vector<interp::DeviceCall> calls;
  for (const interp::DeviceCall& d : devices) {
    results.emplace_back(d.results.begin(), d.results.end());
    for (interp::Buffer& b : results.back()) b.data = zeros(b, &kept);
    interp::DeviceCall& call = calls.emplace_back(d);
    call.results = results.back();
  }
  const interp::Prediction p = interp::predict(timed_, calls, options_);
  Predicted found{interp::to_json(p), p.seconds};
  time_ = found;
  time_with_values_ = p.with_values;
  time_inputs_.reset();
  if (p.reads_inputs) time_inputs_ = inputs_hash(m, devices, p.with_values);
  return found;
}

void Program::run(std::span<const interp::DeviceCall> devices) const {
  note_launch();
  std::vector<LaunchRecorder> recorders;
  for (const interp::DeviceCall& d : devices) recorders.emplace_back(plan_, option_text_, d.device, d.args, d.results);
  Run run;
  run.kernel = interp::module_of(plan()).name;
  run.chip = options_.chip->name;
  run.planned = plan_times().first_launch(plan_.plan.get(), &run.plan_seconds);
  // What stops the kernel itself stops the launch as well, and is told with all that belongs to that.
  std::optional<ir::Diagnostic> untimed;
  std::optional<PredictedTime> time;
  if (settings_.time) {
    try {
      const Predicted found = predicted(devices);
      run.time = found.json;
      time = {run.chip, found.seconds};
    } catch (const ir::DiagnosticError& e) { untimed = e.diagnostic(); }
  }
  // Before the kernel may write to them.
  Reportable reportable{reportable_, {}, {}, {}};
  for (const interp::DeviceCall& d : devices) reportable.contents.push_back(scalars_of(interp::module_of(plan()), d));
  const auto begin = std::chrono::steady_clock::now();
  interp::Recorder recorder;
  recorder.keep_points = settings_.record_grid != 0;
  recorder.keep_calls = settings_.record_calls != 0;
  LaunchBreakpoints breakpoints(settings_, interp::module_of(plan()));
  WatchedLaunch watched(run.kernel, settings_.progress && !breakpoints.any());
  interp::Outcome outcome = interp::try_launch(
      plan_, session(), devices, options_, {&recorder, watched.progress(), breakpoints.any() ? &breakpoints : nullptr});
  watched.end();
  run.seconds = seconds_since(begin);
  keep_recorded(settings_, std::move(recorder));
  for (LaunchRecorder& r : recorders) r.saw(outcome.report.findings, time);
  reportable.findings = outcome.report.findings;
  reportable.traffic = outcome.report.traffic;
  if (outcome.stop) reportable.findings.insert(reportable.findings.begin(), *outcome.stop);
  keep_reportable(std::move(reportable));
  if (outcome.stop) {
    ir::Diagnostic& d = *outcome.stop;
    for (size_t i = 0; i < devices.size(); ++i) recorders[i].failed(d, devices[i].results);
    note_report(std::move(run), std::move(outcome.report), options_, settings_.findings, &d);
    throw Failure(std::move(d));
  }
  if (untimed) throw Failure(std::move(*untimed));
  for (size_t i = 0; i < devices.size(); ++i) recorders[i].ended(devices[i].results);
  note_report(std::move(run), std::move(outcome.report), options_, settings_.findings);
}

}  // namespace pallasim::python
