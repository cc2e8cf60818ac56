// One launch in virtual time.
#include "pallasim/interp/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../engine/token.h"
#include "../timing/timed_run.h"
#include "advice.h"
#include "bound.h"
#include "float_environment.h"
#include "folded_times.h"
#include "pallasim/hw/machine.h"
#include "pallasim/hw/occupancy.h"
#include "population.h"
#include "run.h"

namespace pallasim::interp {
namespace {

constexpr double kScale = 1.25;

int64_t parameter(const ir::Module& m, std::string_view name, int64_t otherwise) {
  if (const ir::Attr* params = ir::find(m.attrs, "params"))
    for (size_t i = 0; i < params->keys.size(); ++i)
      if (params->keys[i] == name && params->items[i].is_int()) return params->items[i].i;
  return otherwise;
}

// Whether its compiler, and not the kernel, says when copies of its loads begin (Triton).
bool by_itself(const Plan& p) { return p.first().model->programs == hw::Programs::Concurrent; }

// What is the same for every run of a launch.
struct Launch {
  const CachedPlan& cached;
  std::span<const DeviceCall> devices;
  Options options;
  const PredictOptions& how;
  const Plan& plan;
  bool values = false;
  std::vector<std::string> notes;
  bool folds = true;  // loops may leave out trips
};

struct Outcome1 {
  double seconds = 0;
  int64_t programs = 0, run = 0, resident = 0;
  double waves = 0;
};

class TimedLaunch {
 public:
  TimedLaunch(const Launch& l, const hw::TimingFigures& f) : l_(l), f_(f) {}

  // `folds` (may be null): what is left out of loops.
  Outcome1 run(Timeline* timeline, Prediction* out, Folds* folds = nullptr);

 private:
  void residency(const StepCosts&, Population*, double* per_core);
  void describe(const Clocks&, const StepCosts&, const Outcome1&, double scale, Prediction*) const;
  const Launch& l_;
  const hw::TimingFigures& f_;

 public:
  std::optional<hw::Residency> residency_;  // once it ran
};

// How many programs are there at a time. Triton's compiler takes shared memory for loads that it fetches ahead, and
// registers for what is alive: about as much as the largest values need.
void TimedLaunch::residency(const StepCosts& costs, Population* who, double* per_core) {
  const hw::Profile& chip = *l_.options.chip;
  hw::BlockNeeds needs = hw::block_needs(l_.plan.module);
  if (by_itself(l_.plan)) {
    const int64_t stages = parameter(l_.plan.module, "num_stages", 3);
    if (costs.ahead_bytes() > 0)
      needs.smem_bytes = static_cast<int64_t>(costs.ahead_bytes()) * std::max<int64_t>(stages, 1);
    constexpr double kOthers = 40;  // registers for addresses and what else there is
    const double threads = 32.0 * static_cast<double>(std::max<int64_t>(needs.warps, 1));
    needs.regs_per_thread = static_cast<int64_t>(std::clamp(costs.value_bytes() / 4 / threads + kOthers, 32.0, 255.0));
  }
  const hw::Residency r = hw::residency(needs, chip);
  residency_ = r;
  const int64_t cluster = std::max<int64_t>(needs.cluster, 1);
  if (r.per_sm == 0)
    ir::Diagnostic("PS-MEM-001", "no SM of " + chip.name + " holds a block of this kernel")
        .of(l_.plan.module.name)
        .with({r.limits.empty() ? "" : r.limits.front().why})
        .hinted("take smaller blocks, or fewer stages")
        .raise();
  *per_core = static_cast<double>(std::max<int64_t>(r.per_sm, 1));
  who->resident = std::clamp<int64_t>(r.blocks / cluster, 1, std::max<int64_t>(who->programs, 1));
}

Outcome1 TimedLaunch::run(Timeline* timeline, Prediction* out, Folds* folds) {
  const Plan& p = l_.plan;
  const FloatEnvironment environment;
  Session session;
  const std::unique_ptr<Bound> bound = bind_launch(p, *l_.cached.locs, session, l_.devices, l_.options, {});
  Call& call = bound->call;
  call.deferred_init.clear();
  const hw::Profile& chip = *l_.options.chip;
  const bool gpu = chip.family == hw::Family::Gpu;
  const int64_t warps = by_itself(p) ? parameter(p.module, "num_warps", 4) : 4;
  const auto model = hw::cost_model(p.module, chip, f_, warps);
  const bool triton = by_itself(p);
  const int64_t stages = triton ? parameter(p.module, "num_stages", 3) : 1;
  const StepCosts costs(p, *model, gpu, triton && stages > 1);

  Options any = l_.options;
  any.replay = kAnyChoices;
  Population who = population_of(p, any, call.grid);
  ClockSettings settings;
  settings.figures = &f_;
  settings.chip = &chip;
  settings.cores = static_cast<double>(gpu ? chip.device_cores : std::max<int64_t>(p.threads.cores, 1));
  settings.stages = static_cast<int>(stages);
  settings.timeline = timeline;
  settings.warm = !l_.how.cold;
  settings.folds = folds;
  Outcome1 r;
  int64_t skipped_waves = 0;
  if (gpu && who.programs > 0) {
    residency(costs, &who, &settings.per_core);
    r.programs = who.programs;
    settings.filled =
        static_cast<double>(std::min(
            who.programs * std::max<int64_t>(
                               p.threads.units.per_device(memory::Level::Core) / std::max<int64_t>(who.programs, 1), 1),
            chip.device_cores)) /
        static_cast<double>(chip.device_cores);
    r.resident = who.resident;
    r.waves = static_cast<double>(who.programs) / static_cast<double>(who.resident);
    const auto waves = static_cast<int64_t>(std::ceil(r.waves));
    if (l_.how.waves > 0 && waves > l_.how.waves && !l_.values && !programs_differ(p)) {
      skipped_waves = waves - l_.how.waves;
      who.programs -= skipped_waves * who.resident;
    }
    r.run = who.programs;
  }

  Lease lease(p);
  Execution& ex = *lease;
  ex.options = &l_.options;
  ex.locs = &call.locs;
  ex.host.keeps_calls = false;
  ex.host.breakpoints = nullptr;
  ex.makes_values = l_.values;
  ex.bind(call.operands, call.grid, call.first_device, who);
  ex.host.interrupt_epoch = interrupt_epoch();
  if (who.programs > 0) ex.start_programs();
  else ex.start({std::vector<int64_t>(call.grid.size(), 0), call.grid});
  ex.deferred_init.clear();
  enter_session(ex, call);
  ex.copies_move = Options::Copies::Scheduled;
  ex.host.announces = false;
  ex.joined = false;
  ex.elides_copies = false;
  Clocks clocks(ex, costs, settings);
  struct Restore {
    Execution& ex;
    ~Restore() {
      ex.events = &Events::nobody();
      ex.makes_values = true;
      ex.observed = false;
    }
  } restore{ex};
  ex.events = &clocks;
  ex.observed = true;
  TimedRun how;
  how.skips = l_.values ? std::vector<bool>(p.steps.size()) : value_steps(p);
  how.most_steps = l_.how.most_steps;
  run_timed(ex, clocks, how);
  clocks.end_picture();

  double end = clocks.end();
  if (skipped_waves > 0) {
    // Waves that were not run take as long as the one between the first and the last.
    std::vector<double> ends = clocks.program_ends;
    std::sort(ends.begin(), ends.end());
    const auto at = [&](int64_t n) {
      return ends[static_cast<size_t>(std::clamp<int64_t>(n, 1, static_cast<int64_t>(ends.size())) - 1)];
    };
    end += static_cast<double>(skipped_waves) * (at(2 * who.resident) - at(who.resident));
  }
  r.seconds = end + (gpu ? f_("kernel_end") : 0);
  if (out)
    describe(clocks, costs, r, r.programs > 0 ? static_cast<double>(r.programs) / static_cast<double>(r.run) : 1, out);
  return r;
}

double peak_rate(const hw::TimingFigures& f, bool gpu) { return f(gpu ? "f16_rate" : "bf16_rate"); }

void TimedLaunch::describe(const Clocks& c, const StepCosts& costs, const Outcome1& r, double scale,
                           Prediction* out) const {
  const bool gpu = l_.options.chip->family == hw::Family::Gpu;
  const std::vector<std::string> names = c.cause_names();
  const double whole = r.seconds, ran = c.end();
  std::vector<Prediction::Share> critical;
  const auto add = [&](const std::string& name, double seconds) {
    if (seconds <= 0) return;
    for (auto& s : critical)
      if (s.name == name) {
        s.seconds += seconds;
        return;
      }
    critical.push_back({name, seconds});
  };
  for (size_t i = 0; i < names.size(); ++i) add(names[i], c.path().causes[i] * whole / ran);
  out->critical = std::move(critical);

  const double cores = gpu ? static_cast<double>(l_.options.chip->device_cores)
                           : static_cast<double>(std::max<int64_t>(l_.plan.threads.cores, 1));
  const double everywhere = cores * static_cast<double>(l_.devices.size());
  for (int u = 0; u < hw::kUnits; ++u)
    if (const double busy = c.busy()[static_cast<size_t>(u)] * scale / everywhere; busy > 0)
      out->bounds.push_back({names[static_cast<size_t>(u)], busy, busy / whole});
  std::vector<std::pair<std::string, std::pair<double, int>>> shared;
  for (size_t i = 0; i < c.transfers().resources(); ++i) {
    const std::string& name = c.transfers().name(static_cast<int>(i));
    auto it = std::find_if(shared.begin(), shared.end(), [&](const auto& x) { return x.first == name; });
    if (it == shared.end()) it = shared.insert(shared.end(), {name, {0, 0}});
    it->second.first += c.transfers().busy(static_cast<int>(i));
    ++it->second.second;
  }
  for (const auto& [name, sum] : shared)
    if (sum.first > 0) {
      const double seconds = sum.first * scale / sum.second;
      out->bounds.push_back({name, seconds, seconds / whole});
    }
  sort_shares(out);

  for (size_t i = 1; i < costs.lines().size(); ++i) {
    const double seconds = c.path().lines[i] * whole / ran;
    if (seconds > 0 || c.line_busy(i) > 0)
      out->lines.push_back({ir::site_of(*l_.cached.locs, costs.lines()[i]), seconds, c.line_busy(i) * scale});
  }
  std::stable_sort(out->lines.begin(), out->lines.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  for (const auto& [where, w] : c.waits()) {
    const Step* s = where.first < 0 ? nullptr : &l_.plan.steps[static_cast<size_t>(where.first)];
    Prediction::Wait wait;
    if (s) wait.site = ir::site_of(*l_.cached.locs, l_.plan.loc_of(*s));
    wait.what = fmt::format("{} for {}", s ? step_kind(l_.plan, where.first) : "step",
                            names[static_cast<size_t>(where.second)]);
    wait.seconds = w.seconds;
    wait.longest = w.longest;
    wait.count = w.count;
    out->waits.push_back(std::move(wait));
  }
  std::stable_sort(out->waits.begin(), out->waits.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  out->flops = c.flops() * scale;
  out->bytes_read = c.bytes(false) * scale;
  out->bytes_written = c.bytes(true) * scale;
  out->bytes_cached = c.fast_bytes() * scale;
  const double n = static_cast<double>(l_.devices.size());
  out->peak_flops = peak_rate(f_, gpu) * n;
  out->peak_bandwidth = f_("hbm_bandwidth") * n;
  out->peak_seconds =
      std::max(out->flops / out->peak_flops, (out->bytes_read + out->bytes_written) / out->peak_bandwidth);
}

// A launch as a whole: from runs that leave out trips in the middle of long loops, where that is much less work.
class WholeLaunch {
 public:
  WholeLaunch(const Launch& l, const hw::TimingFigures& f) : l_(l), timed_(l, f) {}
  // `out` may be null: the seconds are wanted alone.
  Outcome1 run(Timeline* timeline, Prediction* out, std::string* note = nullptr) {
    if (l_.folds && !l_.values && l_.how.waves > 0 && !l_.how.timeline)
      if (auto r = folded(timeline, out, note)) return *r;
    whole_ = true;
    return timed_.run(timeline, out);
  }
  bool whole() const { return whole_; }  // all was run
  const std::optional<hw::Residency>& residency() const { return timed_.residency_; }

 private:
  struct Part {
    Outcome1 r;
    Prediction p;
    Folds folds;
  };
  // A run in which loops keep so many times the least number of trips more.
  Part part(int64_t inner, int64_t outer, Timeline* timeline, const Prediction* out) {
    const int64_t q = Folds::quantum(l_.plan);
    Part x{{}, out ? *out : Prediction{}, Folds(l_.plan, {std::max<int64_t>(12, 2 * q) + inner * q, 2 + outer})};
    x.r = timed_.run(timeline, out ? &x.p : nullptr, &x.folds);
    x.p.seconds = x.r.seconds;
    return x;
  }
  std::optional<Outcome1> folded(Timeline*, Prediction* out, std::string* note);
  std::optional<std::vector<Part>> parts(const Timeline& fresh, Timeline*, const Prediction* out);

  const Launch& l_;
  TimedLaunch timed_;
  bool whole_ = false;
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

std::optional<Outcome1> WholeLaunch::folded(Timeline* timeline, Prediction* out, std::string* note) {
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
  Outcome1 r = all->back().r;
  r.seconds = 0;
  for (size_t i = 0; i < weights.size(); ++i) r.seconds += weights[i] * (*all)[i].r.seconds;
  if (out) {
    std::vector<Prediction> runs;
    for (Part& x : *all) runs.push_back(std::move(x.p));
    *out = weighted(runs, weights);
  }
  if (note && (ri > 0 || ro > 0)) {
    const auto kept = [](const Folds::Class& c) { return fmt::format("{} of {}", c.first - c.left_out, c.first); };
    *note = fmt::format(
        "of the trips of loops {} were run: those in the middle take as long as the others",
        ri > 0 && ro > 0 ? fmt::format("{}, around them {}", kept(inner), kept(outer)) : kept(ri > 0 ? inner : outer));
  }
  return r;
}

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
  Launch l{cached, devices, options, how, *cached.plan, how.values, {}};
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
  out.with_values = l.values;
  const auto& operands = cached.plan->module.operands;
  out.reads_inputs = l.values || cached.plan->module.num_dynamic > 0 ||
                     std::any_of(operands.begin(), operands.end(), [](const ir::Operand& o) {
                       return o.kind == ir::Operand::Kind::Prefetch ||
                              (o.kind == ir::Operand::Kind::Input && o.space == ir::Space::Smem);
                     });
  out.timeline = how.picture;
  out.timeline.kernel = out.kernel;
  Timeline one_core;  // where nobody wants a picture, advice takes one that is small
  one_core.most = one_core.most_counts = 1000;
  one_core.most_moves = 4000;
  one_core.most_points = one_core.most_cores = 1;
  Timeline* timeline = how.timeline ? &out.timeline : &one_core;
  WholeLaunch launch(l, *figures);
  std::string folded;
  const Outcome1 r = launch.run(timeline, &out, &folded);
  l.folds = !launch.whole();
  out.seconds = r.seconds;
  out.programs = r.programs;
  out.programs_run = r.run;
  out.resident = r.resident;
  out.waves = r.waves;
  if (r.run < r.programs)
    out.notes.push_back(
        fmt::format("{} of {} programs were run; a wave of those that were not takes as long as the second one", r.run,
                    r.programs));
  if (!folded.empty()) out.notes.push_back(folded);
  for (const hw::TimingFigure* f : figures->used()) out.figures.push_back({*f, std::nullopt});
  if (how.sensitivity)
    for (Prediction::Figure& f : out.figures) {
      if (f.figure.status != hw::FigureStatus::Guessed || f.figure.value == 0) continue;
      const hw::TimingFigures other = figures->scaled(f.figure.name, kScale);
      f.change = WholeLaunch(l, other).run(nullptr, nullptr).seconds - r.seconds;
    }
  std::stable_sort(out.figures.begin(), out.figures.end(), [](const auto& a, const auto& b) {
    return std::abs(a.change.value_or(0)) > std::abs(b.change.value_or(0));
  });
  AdviceGround ground{cached.plan.get(), options.chip, timeline, launch.residency(), {}};
  if (how.sensitivity)
    ground.again = [&](const std::function<void(ir::Module&)>& change) {
      return predicted_with(*cached.plan, change, devices, options, how);
    };
  out.advice = advise(out, ground);
  return out;
}

}  // namespace pallasim::interp
