// Binding buffers, splitting the grid, running it.
#include "pallasim/interp/launch.h"
#include "../plan/host_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "../engine/engine.h"
#include "../engine/publish.h"
#include "../engine/written_pages.h"
#include "../report/causes.h"
#include "../report/checked.h"
#include "../report/checks.h"
#include "../report/report.h"
#include "bound.h"
#include "learnt.h"
#include "pallasim/hw/machine.h"
#include "pallasim/interp/progress.h"
#include "partitioned_run.h"
#include "population.h"
#include "run.h"
#include "speculation.h"
#include "split_judge.h"
#include "units.h"
#include "workers.h"

namespace pallasim::interp {

void request_interrupt() { g_interrupt_epoch.fetch_add(1, std::memory_order_relaxed); }
uint64_t interrupt_epoch() { return g_interrupt_epoch.load(std::memory_order_relaxed); }

namespace {

// Grid points as they are entered.
struct GridRecorder : Observer {
  uint32_t wants() const override { return kPoint; }
  void on_point(const PointEvent& e) override { points.push_back({{e.ids.begin(), e.ids.end()}, e.core}); }
  std::vector<GridPoint> points;
};

std::vector<Part> parts_of(const std::vector<GridBox>& boxes, const Call& c) {
  std::vector<Part> r;
  for (const GridBox& b : boxes) r.push_back({c.who, b});
  return r;
}

// Options::strict: the first output that has undefined data is why the launch stops.
void stop_at_undefined(Report* report) {
  const auto undefined = [](const ir::Diagnostic& d) {
    return d.code.is("PS-UNINIT-001") || d.code.is("PS-UNINIT-003") || d.code.is("PS-OUT-001");
  };
  const auto first = std::find_if(report->findings.begin(), report->findings.end(), undefined);
  if (first == report->findings.end()) return;
  ir::Diagnostic d = std::move(*first);
  report->findings.erase(first);
  d.severity = ir::Severity::Error;
  throw ir::DiagnosticError(std::move(d));
}

void run_sequential(const Call& c, Report* report) {
  Lease ex(c.plan);
  GridRecorder recorder;
  const bool keep_points = c.watch.recorder && c.watch.recorder->keep_points;
  std::vector<Observer*> observers(c.watch.observers.begin(), c.watch.observers.end());
  if (keep_points) observers.push_back(&recorder);
  std::optional<Checks> checks;
  StepWorkers workers(c.options.workers > 0 ? c.options.workers : default_workers());
  if (!c.options.checked && workers.count() > 1) ex->host.helpers = &workers;
  if (c.options.checked) checks.emplace(c.plan, c.options, c.operands.size()).attach(*ex, &observers);
  std::optional<WrittenPages> written;
  if (c.options.verify_restore > 0 && !observers.empty()) observers.push_back(&written.emplace(*ex));
  std::optional<Publisher> publisher;
  if (!observers.empty()) publisher.emplace(*ex, observers);
  const GridBox box{std::vector<int64_t>(c.grid.size(), 0), c.grid};
  auto finish = [&] {
    report->steps = ex->steps;
    deliver(std::exchange(ex->log.prints, {}), c, ex->points > 0, report);
    report->findings.insert(report->findings.end(), ex->log.findings.begin(), ex->log.findings.end());
    if (checks) checks->finish(report->findings);
    if (checks) report->traffic = checks->traffic();
    if (checks) report->undefined = checks->undefined();
    if (keep_points) c.watch.recorder->points = std::move(recorder.points);
    if (checks) keep_early(c, checks->early());
  };
  try {
    report->token = run_part(*ex, c, c.who, box, written ? &*written : nullptr);
  } catch (...) {
    finish();
    throw;
  }
  finish();
  if (c.options.strict) stop_at_undefined(report);
}

// The units of a grid one after another, before a judge. Throws its verdict, or the error of the first grid point.
void run_judged(const Call& c, const std::vector<GridBox>& units, SplitJudge& judge, Report* report) {
  PartitionedRun run(c, parts_of(units, c), PartitionedRun::Apart::Proven, [&](int unit, const Execution& ex) {
    if (judge.verdict()) throw *judge.verdict();
    judge.begin(units[static_cast<size_t>(unit)]);
    judge.attach(ex);
    return std::shared_ptr<Observer>(std::shared_ptr<void>(), &judge);
  });
  try {
    run.run(1, report);
  } catch (const ir::DiagnosticError&) {
    if (judge.verdict()) throw *judge.verdict();
    throw;
  }
  judge.end(c.operands[0]);
}

// Runs the grid in one piece on copies of the outputs, then its units before the judge, who compares the two.
void judge_against_one_piece(const Call& c, const std::vector<GridBox>& units, SplitJudge& judge, Report* report) {
  Call one = c;
  one.watch = {};
  std::vector<std::vector<std::byte>> copies;
  std::vector<std::span<const std::byte>> results;
  for (size_t o = 0; o < c.operands[0].size(); ++o) {
    if (!c.plan.first().windows[o].is_output) continue;
    std::byte* at = c.operands[0][o];
    const auto bytes = static_cast<size_t>(c.plan.module.operands[o].array->num_bytes());
    results.emplace_back(at, bytes);
    copies.emplace_back(at, at + bytes);
    // Aliased inputs are the output's memory.
    for (std::byte*& p : one.operands[0])
      if (bytes > 0 && p == at) p = copies.back().data();
  }
  Report wanted;
  wanted.findings = report->findings;
  std::optional<ir::DiagnosticError> stop;
  try {
    run_sequential(one, &wanted);
  } catch (const ir::DiagnosticError& e) { stop = e; }
  try {
    run_judged(c, units, judge, report);
  } catch (const ir::DiagnosticError& e) {
    if (!judge.verdict()) judge.compare_stops(stop, e);
    throw;
  }
  judge.compare_stops(stop, std::nullopt);
  judge.compare(wanted, copies, *report, results);
}

// Over workers, where that is worth their waking and nobody can tell.
bool run_in_parallel(const Call& c, int64_t points, Report* report) {
  const PlanSplit& split = c.plan.split;
  constexpr int kJudged = 8;  // as many parts as so many workers would have
  const int workers = c.options.verify_parts ? kJudged : c.options.workers > 0 ? c.options.workers : default_workers();
  const int64_t times = std::max({points, c.who.programs, int64_t{c.plan.threads.count}});
  const bool worth = c.options.workers > 0 || c.options.verify_parts > 0 ||
                     split.step_cost_ns * static_cast<double>(times) > host_cost::kWorthSplitting;
  if (workers == 1 || !worth) return false;
  if (c.who.programs == 0 && !split.axes.empty()) {
    const std::vector<GridBox> boxes = split_grid(c.plan, c.grid, static_cast<size_t>(workers) * 4);
    if (boxes.size() > 1)
      return PartitionedRun(c, parts_of(boxes, c), PartitionedRun::Apart::Proven).run(workers, report);
  }
  return run_speculatively(c, workers, report);
}

}  // namespace

int devices_of(const Plan& p) { return p.threads.has_peers ? static_cast<int>(p.threads.num_devices()) : 1; }

namespace {

// Throws where the launch stops; the report holds what was seen until then.
void run_launch(const Plan& p, const ir::LocTable& locs, Session& session, std::span<const DeviceCall> devices,
                const Options& options, Watch watch, Report* out) {
  const uint64_t epoch = interrupt_epoch();
  if (!p.module.params.empty())
    return run_launch(*specialised(p, locs, devices), locs, session, devices, options, watch, out);
  const std::unique_ptr<Bound> bound = bind_launch(p, locs, session, devices, options, watch);
  bound->call.interrupt_epoch = epoch;
  Call& call = bound->call;
  const int64_t points = bound->points;

  Report& report = *out;
  report.grid_points = points;
  report.threads = p.threads.count * static_cast<int>(devices.size());
  report.sequential_because = p.split.refused;
  report.findings = p.findings;
  for (ir::Diagnostic& d : report.findings) ir::relocate(d, locs);
  if (points == 0) return;
  note_shared_barrier(call, &report);
  if (watch.progress)
    watch.progress->expect(memory::mul(points, p.threads.core_axis >= 0 ? int64_t(devices.size()) : report.threads));

  const bool watched = options.checked || watch.breakpoints || !watch.observers.empty() ||
                       (watch.recorder && watch.recorder->keep_points) ||
                       options.revisits == Options::Revisits::Error || options.verify_restore > 0 ||
                       options.verify_footprints || !options.grid_order.empty(),
             in_order = watched || options.max_steps != 0;
  call.who = population_of(p, options, call.grid);
  const bool one_piece = watched || call.who.programs > 0;
  if (options.verify_split && !one_piece && devices.size() == 1 && p.threads.count == 1) {
    const std::vector<GridBox> units = units_of(p, call.grid);
    report.units = static_cast<int>(units.size());
    report.token = "ps2:run-to-block";
    SplitJudge judge(p, call.grid, !p.split.axes.empty());
    if (units.size() > 1) judge_against_one_piece(call, units, judge, &report);
    else run_judged(call, units, judge, &report);
    return;
  }
  if (in_order || !run_in_parallel(call, points, &report)) run_sequential(call, &report);
}

Outcome launch_at(const Plan& p, const ir::LocTable& locs, Session& session, std::span<const DeviceCall> devices,
                  const Options& options, Watch watch) {
  Outcome r;
  try {
    run_launch(p, locs, session, devices, options, watch, &r.report);
  } catch (const ir::DiagnosticError& e) { r.stop = e.diagnostic(); }
  if (p.options.nans != Options::Nans::Off) drop_followers(&r.report.findings);
  conclude(module_of(p), locs, &r);
  if (p.options.chip->family != hw::Family::Generic) {
    for (ir::Diagnostic& d : r.report.findings) d.chip = p.options.chip->name;
    if (r.stop) r.stop->chip = p.options.chip->name;
  }
  return r;
}

}  // namespace

Outcome try_launch(const Plan& p, Session& session, std::span<const DeviceCall> devices, const Options& options,
                   Watch watch) {
  return launch_at(p, p.module.locs, session, devices, options, watch);
}

Outcome try_launch(const CachedPlan& p, Session& session, std::span<const DeviceCall> devices, const Options& options,
                   Watch watch) {
  return launch_at(*p.plan, *p.locs, session, devices, options, watch);
}

static Report report_of(Outcome r) {
  if (r.stop) throw ir::DiagnosticError(std::move(*r.stop));
  return std::move(r.report);
}

Report launch(const Plan& p, Session& session, std::span<const DeviceCall> devices, const Options& options,
              Watch watch) {
  return report_of(try_launch(p, session, devices, options, watch));
}

Report launch(const CachedPlan& p, Session& session, std::span<const DeviceCall> devices, const Options& options,
              Watch watch) {
  return report_of(try_launch(p, session, devices, options, watch));
}

std::vector<const ir::Type*> result_types(const Plan& p) {
  std::vector<const ir::Type*> r;
  for (const ir::Operand& o : p.module.operands)
    if (o.kind == ir::Operand::Kind::Output) r.push_back(o.array);
  return r;
}

}  // namespace pallasim::interp
