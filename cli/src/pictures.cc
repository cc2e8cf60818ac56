// pallasim trace and report: launches as a time line, and as a page.
#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "io.h"
#include "launches.h"
#include "pallasim/hw/timing.h"
#include "pallasim/interp/predict.h"
#include "pallasim/trace/perfetto.h"
#include "pallasim/trace/report.h"
#include "progress.h"
#include "verdict.h"

namespace pallasim::cli {
namespace {

bool has_figures(const interp::Options& o) { return hw::timing_figures(*o.chip) != nullptr; }

interp::Options as_predicted(interp::Options o) {
  static_cast<interp::PlanOptions&>(o) = interp::predicted_options(o);
  return o;
}

struct Seen {
  interp::Report report;
  std::optional<ir::Diagnostic> stop;
};

// Runs it; `steps`: where its steps go, null: nowhere.
Seen run_steps(Launch& l, interp::Session& session, const std::string& kernel, bool progress, interp::Timeline* steps) {
  ProgressLine line(progress, kernel);
  std::vector<interp::Observer*> observers;
  std::unique_ptr<interp::Observer> made;
  if (steps) {
    made = interp::step_timeline(steps);
    observers.push_back(made.get());
  }
  interp::Outcome outcome =
      interp::try_launch(l.cached(), session, l.calls(), l.options, {nullptr, line.counter(), nullptr, observers});
  line.wipe();
  return {std::move(outcome.report), std::move(outcome.stop)};
}

}  // namespace

int trace_launches(const PictureOptions& o, Out& out) {
  std::vector<interp::Timeline> all;
  interp::Session session;
  int code = kOk;
  const auto adapt = [&](interp::Options options) { return o.run.predict ? as_predicted(options) : options; };
  each_launch(o.run, adapt, [&](Launch& l) {
    const std::string kernel = kernel_name(interp::module_of(*l.plan));
    interp::Timeline& t = all.emplace_back();
    std::string says;
    if (o.run.predict) {
      interp::Prediction p =
          interp::predict(l.cached(), l.calls(), l.options, {.sensitivity = false, .timeline = true});
      t = std::move(p.timeline);
      says = fmt::format("{:.4g} us predicted on {}", p.seconds * 1e6, p.chip);
    } else {
      const Seen seen = run_steps(l, session, kernel, o.run.progress, &t);
      for (const ir::Diagnostic& d : seen.report.findings) code = std::max(code, out.finding(d));
      if (seen.stop) code = std::max(code, out.finding(*seen.stop));
      says = fmt::format("{} steps", seen.report.steps);
    }
    t.kernel = kernel;
    out.text(fmt::format("launch {:<3} {}: {}, {} slices, {} values of counters\n", l.number, kernel, says,
                         t.slices.size(), t.counts.size()));
    const std::string left_out = t.left_out();
    if (!left_out.empty()) out.text(fmt::format("           left out: {}\n", left_out));
    out.object["launches"].push_back({{"launch", l.number},
                                      {"kernel", interp::module_of(*l.plan).name},
                                      {"slices", t.slices.size()},
                                      {"left_out", left_out}});
  });
  write_file(o.to, all.size() == 1 ? trace::to_perfetto(all[0]) : trace::to_perfetto(all));
  out.text(fmt::format("wrote    {}\n", escaped(o.to)));
  out.object["file"] = o.to;
  return code;
}

int report_launches(const PictureOptions& o, Out& out) {
  std::vector<std::string> all;
  std::string title;
  interp::Session session;
  // Where steps are shown, blocks of a grid move as they do on the machine.
  const auto by_steps_alone = [&](const interp::Options& options) { return o.steps || !has_figures(options); };
  const auto adapt = [&](interp::Options options) {
    if (by_steps_alone(options)) options.pipeline = interp::Options::Pipeline::Modelled;
    if (!o.unchecked) interp::set_option(options, "detect_races", "true");
    return options;
  };
  // Plans of predictions are others than those of checked runs: launches are made twice, in the same order.
  std::vector<Seen> seen;
  std::vector<interp::Timeline> steps;
  if (!o.unchecked || o.steps)
    each_launch(o.run, adapt, [&](Launch& l) {
      const bool by_steps = by_steps_alone(l.options);
      steps.push_back(trace::report_limits());
      seen.push_back(run_steps(l, session, kernel_name(interp::module_of(*l.plan)), o.run.progress,
                               by_steps ? &steps.back() : nullptr));
    });
  size_t n = 0;
  each_launch(
      o.run, [&](interp::Options options) { return by_steps_alone(options) ? adapt(options) : as_predicted(options); },
      [&](Launch& l) {
        const ir::Module& m = interp::module_of(*l.plan);
        const bool by_steps = by_steps_alone(l.options);
        trace::Reported r;
        interp::Prediction p;
        interp::Timeline own = trace::report_limits();
        if (by_steps && n < seen.size()) {
          own = std::move(steps[n]);
        } else if (by_steps) {
          seen.push_back(run_steps(l, session, kernel_name(m), o.run.progress, &own));
        } else {
          p = interp::predict(l.cached(), l.calls(), l.options,
                              {.timeline = true, .every_trip = true, .picture = trace::report_limits()});
          r.prediction = &p;
        }
        r.timeline = by_steps ? &own : &p.timeline;
        r.module = &m;
        r.chip = l.options.chip;
        if (n < seen.size()) {
          r.findings = seen[n].report.findings;
          r.traffic = seen[n].report.traffic;
          if (seen[n].stop) r.findings.insert(r.findings.begin(), *seen[n].stop);
        }
        all.push_back(trace::report_data(r));
        title += (title.empty() ? "" : ", ") + m.name;
        out.text(fmt::format("launch {:<3} {}: {}\n", l.number, kernel_name(m),
                             by_steps ? fmt::format("{} slices of steps", own.slices.size())
                                      : fmt::format("{:.4g} us predicted on {}", p.seconds * 1e6, p.chip)));
        if (const std::string left = r.timeline->left_out(); !left.empty())
          out.text(fmt::format("           left out: {}\n", left));
        ++n;
      });
  write_file(o.to, trace::report_page(title.size() > 80 ? title.substr(0, 80) : title, all));
  out.text(fmt::format("wrote    {}\n", escaped(o.to)));
  out.object["file"] = o.to;
  return kOk;
}

}  // namespace pallasim::cli
