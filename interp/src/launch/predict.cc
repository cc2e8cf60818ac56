// One launch in virtual time.
#include "pallasim/interp/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "advice.h"
#include "bound.h"
#include "folded_times.h"
#include "run.h"
#include "timed_launch.h"
#include "workers.h"

namespace pallasim::interp {
namespace {

constexpr double kScale = 1.25;

// A launch as a whole: from runs that leave out trips in the middle of long loops, where that is much less work.
class WholeLaunch {
 public:
  WholeLaunch(const LaunchInTime& l, const hw::TimingFigures& f) : l_(l), timed_(l, f) {}
  // `out` may be null: the seconds are wanted alone.
  TimedOutcome run(Timeline* timeline, Prediction* out, std::string* note = nullptr) {
    const Timeline fresh = timeline ? *timeline : Timeline{};
    // What was decided for the launch holds when a figure is another one.
    const bool draws = l_.how.timeline;
    if (!l_.values && l_.how.waves > 0 && !(draws && l_.how.every_trip))
      for (const bool samples : {true, false}) {
        if (samples && (!l_.samples || draws)) continue;
        samples_ = samples;
        if (l_.folds)
          if (auto r = folded(timeline, out, note)) return *r;
        if (timeline) *timeline = fresh;
        if (samples)
          if (auto r = sampled(timeline, out)) return *r;
        if (timeline) *timeline = fresh;
      }
    samples_ = false;
    whole_ = true;
    return timed_.run(timeline, out);
  }
  bool whole() const { return whole_; }      // all trips were run
  bool sampled() const { return samples_; }  // of programs that are alike some may have been run alone
  const TimedLaunch& timed() const { return timed_; }

 private:
  struct Part {
    TimedOutcome r;
    Prediction p;
    Folds folds;
  };
  // A run in which loops keep so many times the least number of trips more.
  Part part(int64_t inner, int64_t outer, Timeline* timeline, const Prediction* out) {
    const int64_t q = Folds::quantum(l_.plan);
    Part x{
        {}, out ? *out : Prediction{}, Folds(l_.plan, {std::max<int64_t>(12, 2 * q) + inner * q, 2 + outer, samples_})};
    x.r = timed_.run(timeline, out ? &x.p : nullptr, &x.folds);
    x.p.seconds = x.r.seconds;
    return x;
  }
  std::optional<TimedOutcome> folded(Timeline*, Prediction* out, std::string* note);
  // All trips, of some programs where these may stand for the others; none: they are not alike.
  std::optional<TimedOutcome> sampled(Timeline* timeline, Prediction* out) {
    Folds all(l_.plan, Folds::kAll);
    const Prediction before = out ? *out : Prediction{};
    try {
      const TimedOutcome r = timed_.run(timeline, out, &all);
      whole_ = true;
      samples_ = r.sample.stride > 1;
      return r;
    } catch (const Folds::Uneven&) {
      if (out) *out = before;
      return std::nullopt;
    }
  }
  std::optional<std::vector<Part>> parts(const Timeline& fresh, Timeline*, const Prediction* out);

  const LaunchInTime& l_;
  TimedLaunch timed_;
  bool whole_ = false, samples_ = false;
};

// How much of what the short runs cost a whole one must be for them to pay.
constexpr double kWorth = 4;
// Of two steps from fewer trips to more, how far apart they may be.
constexpr double kSteady = 0.03;

// None: nothing follows from leaving out trips, or it is not worth it. One run where no loop is long.
std::optional<std::vector<WholeLaunch::Part>> WholeLaunch::parts(const Timeline& fresh, Timeline* timeline,
                                                                 const Prediction* out) {
  const auto again = [&](int64_t inner, int64_t outer, bool last) {
    if (last && timeline) *timeline = fresh;
    return part(inner, outer, last ? timeline : nullptr, out);
  };
  std::vector<Part> r;
  r.push_back(again(0, 0, true));
  const Folds first = r.front().folds;
  if (!first.any()) return r;
  const bool inner = first.inner().left_out > 0, outer = first.outer().left_out > 0;
  if (first.factor() < (inner && outer ? 2 * kWorth : kWorth)) return std::nullopt;
  if (inner) r.push_back(again(1, 0, !outer));
  if (outer) r.push_back(again(0, 1, !inner));
  if (inner && outer) r.push_back(again(1, 1, true));
  // More trips take longer, each as long as the one before it.
  for (size_t i = 1; i < r.size(); ++i)
    if (r[i].r.seconds <= r.front().r.seconds) return std::nullopt;
  if (inner && out) {
    const double a = r[0].r.seconds, b = r[1].r.seconds, c = part(2, 0, nullptr, nullptr).r.seconds;
    if (std::abs((c - b) - (b - a)) > kSteady * (b - a)) return std::nullopt;
  }
  return r;
}

std::string kept(const Folds::Class& c) { return fmt::format("{} of {}", c.first - c.left_out, c.first); }

std::string run_of(const Folds::Class& c) {
  const std::string what = c.axis < 0 ? "trips of loops" : fmt::format("steps along axis {} of the grid", c.axis);
  return what + " " + kept(c) + " were run";
}

std::optional<TimedOutcome> WholeLaunch::folded(Timeline* timeline, Prediction* out, std::string* note) {
  const Timeline fresh = timeline ? *timeline : Timeline{};
  std::optional<std::vector<Part>> all;
  try {
    all = parts(fresh, timeline, out);
  } catch (const Folds::Uneven&) {
  } catch (const ir::DiagnosticError& e) {
    // Where a part of the trips is more than may be run, all are, too.
    if (e.diagnostic().code == "PS-INT-001" || e.diagnostic().code == "PS-LIVE-002") throw;
  }
  if (!all) {
    if (timeline) *timeline = fresh;
    return std::nullopt;
  }
  const Folds::Class inner = all->front().folds.inner(), outer = all->front().folds.outer();
  // A run with a quantum of trips more left out so many quanta fewer.
  const auto reach = [](const Folds::Class& c, int64_t by) {
    return c.left_out > 0 ? static_cast<double>(c.left_out) / static_cast<double>(by) : 0;
  };
  const double ri = reach(inner, Folds::quantum(l_.plan)), ro = reach(outer, 1);
  std::vector<double> weights{(1 - ri) * (1 - ro)};
  if (ri > 0) weights.push_back(ri * (1 - ro));
  if (ro > 0) weights.push_back((1 - ri) * ro);
  if (ri > 0 && ro > 0) weights.push_back(ri * ro);
  TimedOutcome r = all->back().r;
  r.seconds = 0;
  for (size_t i = 0; i < weights.size(); ++i) r.seconds += weights[i] * (*all)[i].r.seconds;
  if (out) {
    std::vector<Prediction> runs;
    for (Part& x : *all) runs.push_back(std::move(x.p));
    *out = weighted(runs, weights);
  }
  if (note && (ri > 0 || ro > 0)) {
    *note = "of the " + run_of(ri > 0 ? inner : outer) +
            (ri > 0 && ro > 0
                 ? (outer.axis < 0 && inner.axis < 0 ? ", around them " + kept(outer) : ", of the " + run_of(outer))
                 : "") +
            ": those in the middle take as long as the others";
  }
  return r;
}

// Watts of a device in the launch, at its full clock: of what it has at rest, its tensor cores, and what moves.
double watts(const Prediction& p, const hw::TimingFigures& f, double devices) {
  const double moved = p.bytes_read + p.bytes_written;
  double joules = (moved + p.bytes_cached) * f("l2_energy") + moved * f("hbm_energy");
  for (const Prediction::Bound& b : p.bounds)
    if (b.name == hw::name(hw::Unit::Matrix, hw::Family::Gpu)) joules += b.seconds * f("power_tensor") * devices;
  return f("power_idle") + joules / p.seconds / devices;
}

// A launch at the clock that the chip's power allows. The voltage goes with the clock, so that an operation takes less
// energy at a lower one: what remains above that of rest falls with the square of the clock.
class PoweredLaunch {
 public:
  PoweredLaunch(const LaunchInTime& l, const hw::TimingFigures& f) : l_(l), f_(f), launch_(std::in_place, l, f) {}
  TimedOutcome run(Timeline* timeline, Prediction* out, std::string* note = nullptr) {
    const Timeline fresh = timeline ? *timeline : Timeline{};
    const Prediction before = out ? *out : Prediction{};
    const bool limited = f_.find("power_limit") != nullptr;
    Prediction own;
    Prediction* first = out || !limited ? out : &own;
    TimedOutcome r = launch_->run(timeline, first, note);
    if (!limited) return r;
    first->seconds = r.seconds;
    const double wanted = watts(*first, f_, static_cast<double>(l_.devices.size())), idle = f_("power_idle");
    if (wanted <= f_("power_limit")) return r;
    const double clock = std::sqrt((f_("power_limit") - idle) / (wanted - idle));
    clock_ = clock;
    slower_.emplace(f_.clocked(clock));
    launch_.emplace(l_, *slower_);
    if (timeline) *timeline = fresh;
    if (out) *out = before;
    if (note) note->clear();
    r = launch_->run(timeline, out, note);
    if (out)
      out->notes.push_back(
          fmt::format("at its full clock the chip would take {:.0f} W: it has {:.0f} W, and {:.0f} % of its clock",
                      wanted, f_("power_limit"), 100 * clock));
    return r;
  }
  const WholeLaunch& launch() const { return *launch_; }
  // The same at the clock that it was run at, if a figure is another one.
  double seconds_with(const hw::TimingFigures& other) const {
    const hw::TimingFigures figures = clock_ == 1 ? other : other.clocked(clock_);
    return WholeLaunch(l_, figures).run(nullptr, nullptr).seconds;
  }

 private:
  double clock_ = 1;  // of its full one
  const LaunchInTime& l_;
  const hw::TimingFigures& f_;
  std::optional<hw::TimingFigures> slower_;
  std::optional<WholeLaunch> launch_;
};

}  // namespace

PlanOptions predicted_options(const PlanOptions& given) {
  PlanOptions o = given;
  o.fuse = false;
  o.checked = false;
  o.verify_split = false;
  o.nans = Options::Nans::Off;
  o.pipeline = Options::Pipeline::Modelled;
  return o;
}

// What the seconds change by where a guessed figure is another one. The launches share nothing, so they run side by
// side.
static void find_changes(const LaunchInTime& l, const PoweredLaunch& launch, const hw::TimingFigures& figures,
                         double seconds, std::vector<Prediction::Figure>* of) {
  std::vector<Prediction::Figure*> guessed;
  for (Prediction::Figure& f : *of)
    if (f.figure.status == hw::FigureStatus::Guessed && f.figure.value != 0) guessed.push_back(&f);
  std::vector<std::exception_ptr> failed(guessed.size());
  const int workers = l.options.workers > 0 ? l.options.workers : default_workers();
  on_workers(workers, static_cast<int>(guessed.size()), [&](int i) {
    const auto n = static_cast<size_t>(i);
    try {
      guessed[n]->change = launch.seconds_with(figures.scaled(guessed[n]->figure.name, kScale)) - seconds;
    } catch (...) { failed[n] = std::current_exception(); }
  });
  for (const std::exception_ptr& e : failed)
    if (e) std::rethrow_exception(e);
}

// The launch's seconds where its module is another one; none: it is refused.
static std::optional<double> predicted_with(const Plan& plan, const std::function<void(ir::Module&)>& change,
                                            std::span<const DeviceCall> devices, const Options& options,
                                            PredictOptions how) {
  try {
    ir::Module m = ir::parse(ir::print(plan.module));
    change(m);
    const auto other = compile(std::move(m), plan.options);
    how.sensitivity = how.timeline = false;
    return predict({other, std::shared_ptr<const ir::LocTable>(other, &other->module.locs)}, devices, options, how)
        .seconds;
  } catch (const ir::DiagnosticError& e) {
    if (e.diagnostic().code == "PS-INT-001") throw;
    return std::nullopt;
  }
}

// Whether the run goes by numbers that nobody gave.
static bool goes_by_made_up(const ir::Module& m, bool values, const std::vector<bool>& made_up) {
  const auto dynamic = static_cast<size_t>(m.num_dynamic);
  for (size_t i = 0; i < made_up.size(); ++i) {
    if (!made_up[i]) continue;
    if (values || i < dynamic) return true;
    const ir::Operand& o = m.operands[i - dynamic];
    if (o.kind == ir::Operand::Kind::Prefetch || o.space == ir::Space::Smem) return true;
  }
  return false;
}

// Whether all lists of integers are given.
static bool has_lists(const ir::Module& m, const std::vector<bool>& made_up) {
  size_t arg = static_cast<size_t>(m.num_dynamic);
  for (const ir::Operand& o : m.operands) {
    if (o.kind == ir::Operand::Kind::Output) continue;
    if (ir::is_int(o.array->dtype) && arg < made_up.size() && made_up[arg]) return false;
    ++arg;
  }
  return true;
}

// With zeros in place of what arrays hold, a kernel may go where it never goes. Which arrays those are tells whether
// it went there by what was given.
[[noreturn]] static void cannot_tell(const ir::DiagnosticError& e, const ir::Module& m,
                                     const std::vector<bool>& made_up) {
  const ir::Diagnostic& d = e.diagnostic();
  std::vector<std::string> names;
  const auto dynamic = static_cast<size_t>(m.num_dynamic);
  for (size_t i = 0; i < made_up.size(); ++i)
    if (made_up[i]) names.push_back(i < dynamic ? "the size of the grid" : m.operands[i - dynamic].name);
  ir::Diagnostic("PS-OPT-001", "what the kernel does depends on what arrays hold, which was not given")
      .of(m.name)
      .at(d.site)
      .with({fmt::format("with zeros in place of {}: {}, {}", fmt::join(names, ", "), d.code.text(), d.message)})
      .hinted("give arrays in place of shapes")
      .raise();
}

Prediction predict(const CachedPlan& given, std::span<const DeviceCall> devices, const Options& options,
                   const PredictOptions& how) {
  CachedPlan cached = given;
  if (!given.plan->module.params.empty()) cached.plan = specialised(*given.plan, *given.locs, devices);
  const auto figures = hw::timing_figures(*options.chip);
  if (!figures)
    ir::Diagnostic("PS-OPT-001", options.chip->name + " has no figures to predict times with")
        .of(cached.plan->module.name)
        .hinted("name a chip, such as tpu-v5e or gpu-h100")
        .raise();
  LaunchInTime l{cached, devices, options, how, *cached.plan, how.values, {}};
  l.samples = how.sample;
  static_cast<PlanOptions&>(l.options) = cached.plan->options;
  l.options.random_seed.reset();
  l.options.replay.clear();
  Prediction out;
  out.kernel = cached.plan->module.name;
  out.chip = options.chip->name;
  ir::LocId where = -1;
  if (!l.values && control_needs_values(*cached.plan, &where)) {
    l.values = true;
    const ir::Site site = ir::site_of(*cached.locs, where);
    out.notes.push_back(fmt::format("values were computed: what happens at line {} depends on them", site.source.line));
  }
  const bool lists = atomics_go_by_lists(*cached.plan);
  if (lists && !l.values && has_lists(cached.plan->module, how.made_up)) {
    l.values = true;
    out.notes.push_back("values were computed: they say where atomic operations meet");
  }
  out.with_values = l.values;
  const auto& operands = cached.plan->module.operands;
  out.reads_inputs = l.values || lists || cached.plan->module.num_dynamic > 0 ||
                     std::any_of(operands.begin(), operands.end(), [](const ir::Operand& o) {
                       return o.kind == ir::Operand::Kind::Prefetch ||
                              (o.kind == ir::Operand::Kind::Input && o.space == ir::Space::Smem);
                     });
  Timeline drawn = how.picture;  // beside the prediction, which is put together from several runs
  drawn.kernel = out.kernel;
  Timeline one_core;  // where nobody wants a picture, advice takes what moves on one core
  one_core.moves_only = true;
  one_core.most_moves = 4000;
  one_core.most_cores = 1;
  Timeline* timeline = how.timeline ? &drawn : &one_core;
  PoweredLaunch powered(l, *figures);
  std::string folded;
  TimedOutcome r;
  try {
    r = powered.run(timeline, &out, &folded);
  } catch (const ir::DiagnosticError& e) {
    const ir::Code code = e.diagnostic().code;
    const bool of_the_run =
        code.blame() == ir::Blame::Kernel && code != "PS-LIVE-002" && code.family() != ir::CodeFamily::kMEM;
    if (of_the_run && goes_by_made_up(cached.plan->module, l.values, how.made_up))
      cannot_tell(e, cached.plan->module, how.made_up);
    throw;
  }
  const WholeLaunch& launch = powered.launch();
  l.folds = !launch.whole();
  l.samples = launch.sampled();
  out.seconds = r.seconds;
  out.programs = r.programs;
  out.programs_run = r.run;
  out.resident = r.resident;
  out.waves = r.waves;
  if (r.sample.stride > 1)
    out.notes.push_back(fmt::format("one of {} programs was run, on {} SMs with their share of what SMs share",
                                    r.sample.stride, r.sample.sms));
  if (r.run * r.sample.stride < r.programs)
    out.notes.push_back(
        fmt::format("{} of {} programs were run; a wave of those that were not takes as long as the second one",
                    r.run * r.sample.stride, r.programs));
  if (!folded.empty()) out.notes.push_back(folded);
  for (const std::string& registers : {launch.timed().spilled(), launch.timed().waits()})
    if (!registers.empty()) out.notes.push_back(registers);
  for (const hw::TimingFigure* f : figures->used()) out.figures.push_back({*f, std::nullopt});
  if (how.sensitivity) find_changes(l, powered, *figures, r.seconds, &out.figures);
  std::stable_sort(out.figures.begin(), out.figures.end(), [](const auto& a, const auto& b) {
    return std::abs(a.change.value_or(0)) > std::abs(b.change.value_or(0));
  });
  AdviceGround ground{cached.plan.get(), options.chip, timeline, launch.timed().residency(), {}};
  if (how.sensitivity)
    ground.again = [&](const std::function<void(ir::Module&)>& change) {
      return predicted_with(*cached.plan, change, devices, options, how);
    };
  out.advice = advise(out, ground);
  out.timeline = std::move(drawn);
  return out;
}

}  // namespace pallasim::interp
