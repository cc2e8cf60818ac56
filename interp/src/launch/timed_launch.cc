#include "timed_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "../engine/token.h"
#include "../timing/timed_run.h"
#include "bound.h"
#include "float_environment.h"
#include "folded_times.h"
#include "pallasim/hw/machine.h"
#include "population.h"
#include "run.h"

namespace pallasim::interp {
namespace {

int64_t parameter(const ir::Module& m, std::string_view name, int64_t otherwise) {
  if (const ir::Attr* params = ir::find(m.attrs, "params"))
    for (size_t i = 0; i < params->keys.size(); ++i)
      if (params->keys[i] == name && params->items[i].is_int()) return params->items[i].i;
  return otherwise;
}

// Whether its compiler, and not the kernel, says when copies of its loads begin (Triton).
bool by_itself(const Plan& p) { return p.first().model->programs == hw::Programs::Concurrent; }

}  // namespace

// Whether warpgroups give registers to each other: then a block has all that there are, in equal parts, when it begins.
static bool shares_registers(const ir::Region& r) {
  return std::any_of(r.ops.begin(), r.ops.end(), [](const ir::Op& op) {
    return op.code == ir::OpCode::set_max_registers ||
           std::any_of(op.regions.begin(), op.regions.end(), shares_registers);
  });
}

// How many programs are there at a time. Triton's compiler takes shared memory for loads that it fetches ahead, and
// registers for what is alive: about as much as the largest values need.
void TimedLaunch::find_residency(const StepCosts& costs, const Pressure& pressure, Population* who, double* per_core) {
  const hw::Profile& chip = *l_.options.chip;
  hw::BlockNeeds needs = hw::block_needs(l_.plan.module);
  if (by_itself(l_.plan)) {
    const int64_t stages = parameter(l_.plan.module, "num_stages", 3);
    const double bytes = costs.shared_bytes(stages, costs.model().operands_in_shared_memory);
    if (bytes > 0) needs.smem_bytes = static_cast<int64_t>(bytes);
    const double lanes = 32.0 * static_cast<double>(std::max<int64_t>(needs.warps, 1));
    constexpr int64_t kUnit = 8;  // registers are given in such numbers
    const auto taken = static_cast<int64_t>(std::clamp(pressure.taken(costs.addresses(lanes)), 16.0, 255.0));
    needs.regs_per_thread = (taken + kUnit - 1) / kUnit * kUnit;
  } else if (std::any_of(l_.plan.module.bodies.begin(), l_.plan.module.bodies.end(),
                         [](const ir::Body& b) { return shares_registers(b.graph.region); })) {
    constexpr int64_t kUnit = 8;  // registers are given in such numbers
    const int64_t threads = 32 * std::max<int64_t>(needs.warps, 1);
    needs.regs_per_thread = std::min<int64_t>(255, chip.regs_per_sm / threads / kUnit * kUnit);
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

// Some of the programs on as many SMs, if they may stand for the others.
void TimedLaunch::take_sample(Population* who, ClockSettings* settings, Sample* sample) const {
  if (!settings->warm || l_.devices.size() != 1 || !stays_in_cache(l_.plan, f_)) return;
  const int64_t cluster = std::max<int64_t>(hw::block_needs(l_.plan.module).cluster, 1);
  *sample = sample_of(l_.plan, *who, cluster, sample->sms);
  who->stride = sample->stride;
  who->programs = (who->programs + who->stride - 1) / who->stride;
  who->resident = std::clamp<int64_t>(sample->sms * residency_->per_sm / cluster, 1, who->programs);
  settings->cores = static_cast<double>(sample->sms);
  settings->share = sample->share;
}

// Where registers do not hold what is alive, part of the largest value or all of it goes out and comes back.
void TimedLaunch::spill(const Pressure& pressure, StepCosts* costs) {
  if (!pressure.at || !pressure.spills()) return;
  const auto charge = [&](const ir::Op& at, double bytes) {
    costs->add(at, hw::Unit::Access, 2 * bytes / f_("spill_bandwidth"));
  };
  for (const Pressure::Out& o : pressure.out) charge(*o.at, o.bytes);
  if (pressure.out.empty()) charge(*pressure.at, pressure.spilled());
  note_spilled({pressure.at, pressure.needed(), static_cast<double>(pressure.registers), pressure.spilled()}, true);
}

void TimedLaunch::note_spilled(const hw::Spilled& s, bool gpu) {
  if (!s.at || s.bytes <= 0) return;
  const int64_t line = ir::site_of(*l_.cached.locs, s.at->loc).source.line;
  spilled_ = fmt::format("{}values take about {:.0f} {}, of {:.0f} that {} has: {:.4g} KiB go to {} and back each time",
                         line > 0 ? fmt::format("at line {} ", line) : "", s.needed,
                         gpu ? "registers of a lane" : "vector registers", s.registers, gpu ? "it" : "a core",
                         s.bytes / 1024, gpu ? "local memory" : "VMEM");
}

// A product waits for each of its instructions. Where values go out to memory that is in what they take.
void TimedLaunch::wait_for_products(const hw::CostModel& model, double programs, bool spills, StepCosts* costs) {
  if (const double n = model.waits_for_registers(); n > 0)
    waits_ = fmt::format(
        "products that are under way at a time want {:.0f} registers of a lane beside what it has for "
        "addresses, of 255: a warpgroup waits for each of their instructions (ptxas warns of it: C7512)",
        n);
  if (waits_.empty() || spills) return;
  const std::function<void(const ir::Region&, const ir::Graph&)> walk = [&](const ir::Region& r, const ir::Graph& g) {
    for (const ir::Op& op : r.ops) {
      if (const double seconds = model.waits(op, g, programs); seconds > 0) costs->wait(op, seconds);
      for (const ir::Region& inner : op.regions) walk(inner, g);
    }
  };
  for (const ir::Body& b : l_.plan.module.bodies) walk(b.graph.region, b.graph);
}

// When all programs are through, of which `r.run` were run.
double TimedLaunch::end_of_all(const Clocks& clocks, const TimedOutcome& r, int64_t resident,
                               int64_t skipped_waves) const {
  double end = clocks.end();
  if (skipped_waves > 0) {
    // Waves that were not run take as long as the one between the first and the last.
    std::vector<double> ends = clocks.program_ends;
    std::sort(ends.begin(), ends.end());
    const auto at = [&](int64_t n) {
      return ends[static_cast<size_t>(std::clamp<int64_t>(n, 1, static_cast<int64_t>(ends.size())) - 1)];
    };
    end += static_cast<double>(skipped_waves) * (at(2 * resident) - at(resident));
  }
  if (r.run >= r.programs) return end;
  // Stores go on when their programs have ended, so that what serves all of them may be behind.
  const double scale = static_cast<double>(r.programs) / static_cast<double>(r.run) * r.sample.share;
  for (const auto& [name, seconds] : shared_busy(clocks))
    if (name != "SM port") end = std::max(end, f_("kernel_time") - f_("kernel_end") + seconds * scale);
  return end;
}

TimedOutcome TimedLaunch::run(Timeline* timeline, Prediction* out, Folds* folds) {
  const Plan& p = l_.plan;
  const FloatEnvironment environment;
  Session session;
  const std::unique_ptr<Bound> bound = bind_launch(p, *l_.cached.locs, session, l_.devices, l_.options, {}, l_.values);
  Call& call = bound->call;
  call.deferred_init.clear();
  const hw::Profile& chip = *l_.options.chip;
  const bool gpu = chip.family == hw::Family::Gpu;
  const bool triton = by_itself(p);
  const int64_t warps = triton ? parameter(p.module, "num_warps", 4) : 4;
  const auto model = hw::cost_model(p.module, chip, f_, warps);
  const int64_t stages = triton ? parameter(p.module, "num_stages", 3) : 1;
  StepCosts costs(p, *model, gpu, triton && stages > 1);
  const Pressure pressure = gpu ? register_pressure(p, warps) : Pressure{};
  spill(pressure, &costs);
  if (!gpu) note_spilled(model->spilled(), false);
  Options any = l_.options;
  any.replay = kAnyChoices;
  Population who = population_of(p, any, call.grid);
  ClockSettings settings;
  settings.figures = &f_;
  settings.chip = &chip;
  settings.cores = static_cast<double>(gpu ? chip.device_cores : std::max<int64_t>(p.threads.cores, 1));
  settings.lanes = 32 * static_cast<double>(warps);
  settings.stages = static_cast<int>(stages);
  settings.timeline = timeline;
  settings.warm = !l_.how.cold;
  settings.folds = folds;
  if (folds && !gpu && l_.devices.size() == 1 && l_.options.grid_order.empty())
    settings.axes = folded_axes(p, call.grid);
  TimedOutcome r;
  int64_t skipped_waves = 0;
  if (gpu && who.programs > 0) {
    find_residency(costs, pressure, &who, &settings.per_core);
    wait_for_products(*model, settings.per_core, pressure.spills(), &costs);
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
    r.sample.sms = chip.device_cores;
    if (folds && l_.samples && folds->alike()) take_sample(&who, &settings, &r.sample);
    r.run = who.programs;
  }
  if (folds && r.sample.stride == 1) folds->may_differ();

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
  ex.rows_apart = false;  // the engine has them as one stream
  ex.host.announces = false;
  ex.joined = false;
  ex.elides_copies = false;
  Clocks clocks(ex, costs, settings);
  struct Restore {
    Execution& ex;
    ~Restore() {
      ex.events = &Events::nobody();
      ex.makes_values = true;
      ex.rows_apart = true;
      ex.observed = false;
    }
  } restore{ex};
  ex.events = &clocks;
  ex.observed = true;
  TimedRun how;
  how.skips = l_.values ? std::vector<bool>(p.steps.size()) : value_steps(p);
  how.most_steps = l_.how.most_steps;
  if (who.programs > 0 && costs.model().spreads_last && l_.devices.size() == 1 && !programs_differ(p))
    how.ends = costs.model().end_together && settings.per_core == 2 ? TimedRun::Ends::Together : TimedRun::Ends::Spread;
  run_timed(ex, clocks, how);
  clocks.end_picture();

  const double end = end_of_all(clocks, r, who.resident, skipped_waves);
  r.seconds = end + (gpu ? f_("kernel_end") : 0);
  if (out)
    describe(clocks, costs, r, r.programs > 0 ? static_cast<double>(r.programs) / static_cast<double>(r.run) : 1, out);
  return r;
}

// Seconds that what is shared is busy, in the mean of those of a name.
std::vector<std::pair<std::string, double>> TimedLaunch::shared_busy(const Clocks& c) {
  std::vector<std::pair<std::string, std::pair<double, int>>> sums;
  for (size_t i = 0; i < c.transfers().resources(); ++i) {
    const std::string& name = c.transfers().name(static_cast<int>(i));
    auto it = std::find_if(sums.begin(), sums.end(), [&](const auto& x) { return x.first == name; });
    if (it == sums.end()) it = sums.insert(sums.end(), {name, {0, 0}});
    it->second.first += c.transfers().busy(static_cast<int>(i));
    ++it->second.second;
  }
  std::vector<std::pair<std::string, double>> r;
  for (const auto& [name, sum] : sums)
    if (sum.first > 0) r.emplace_back(name, sum.first / sum.second);
  return r;
}

static double peak_rate(const hw::TimingFigures& f, bool gpu) { return f(gpu ? "f16_rate" : "bf16_rate"); }

void TimedLaunch::describe(const Clocks& c, const StepCosts& costs, const TimedOutcome& r, double scale,
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
  for (size_t i = 0; i < names.size(); ++i) add(names[i], c.path().cause(i) * whole / ran);
  out->critical = std::move(critical);

  const double cores = gpu ? static_cast<double>(l_.options.chip->device_cores)
                           : static_cast<double>(std::max<int64_t>(l_.plan.threads.cores, 1));
  const double everywhere = cores * static_cast<double>(l_.devices.size());
  for (int u = 0; u < hw::kUnits; ++u)
    if (const double busy = c.busy()[static_cast<size_t>(u)] * scale / everywhere; busy > 0)
      out->bounds.push_back({names[static_cast<size_t>(u)], busy, busy / whole});
  for (const auto& [name, sum] : shared_busy(c)) {
    const double seconds = sum * scale * r.sample.share;
    out->bounds.push_back({name, seconds, seconds / whole});
  }
  sort_shares(out);

  for (size_t i = 1; i < costs.lines().size(); ++i) {
    const double seconds = c.path().line(i) * whole / ran;
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
    wait.seconds = w.seconds / r.sample.share;
    wait.longest = w.longest;
    wait.count = std::llround(static_cast<double>(w.count) / r.sample.share);
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

}  // namespace pallasim::interp
