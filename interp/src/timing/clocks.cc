#include "clocks.h"

#include "../ops/dispatch_order.h"
#include "../plan/kinds.h"
#include "../plan/steps.h"

#include <algorithm>

#include "pallasim/hw/chips.h"

namespace pallasim::interp {

using hw::Unit;

const char* const Clocks::kRateNames[] = {
#define X(name) #name,
    PALLASIM_RATES(X)
#undef X
};

// Whether no two programs have the same block: its index map takes every axis of the grid.
static bool has_blocks_of_its_own(const ir::Operand& o, const ir::Module& m) {
  if (!o.index_map || o.kind == ir::Operand::Kind::Output) return false;  // what is written goes to memory as well
  const ir::Region& r = o.index_map->region;
  for (size_t axis = 0; axis < m.grid.size() && axis < r.args.size(); ++axis) {
    const auto takes = [&](const ir::Op& op) {
      return std::find(op.operands.begin(), op.operands.end(), r.args[axis]) != op.operands.end();
    };
    if (m.grid[axis].size != 1 && std::none_of(r.ops.begin(), r.ops.end(), takes)) return false;
  }
  return true;
}

// Whether it lies near, in the SM's own cache, once a program has read it: few bytes, which all programs read.
static bool stays_near(const ir::Operand& o, const ir::Module& m) {
  constexpr int64_t kNearBytes = 64 << 10;
  return o.array->num_bytes() <= kNearBytes && !has_blocks_of_its_own(o, m);
}

bool stays_in_cache(const Plan& p, const hw::TimingFigures& f) {
  // Each half of the cache holds what its SMs ask for; which SM a program comes to changes from launch to launch.
  double all = 0;
  for (const ir::Operand& o : p.module.operands)
    all += static_cast<double>(o.array->num_bytes()) *
           (has_blocks_of_its_own(o, p.module) ? f("l2_own_copies") : f("l2_partitions"));
  return all <= f("l2_held") * f("l2_bytes");
}

Clocks::Clocks(Execution& ex, const StepCosts& costs, const ClockSettings& settings)
    : ex_(ex), costs_(costs), settings_(settings), f_(*settings.figures) {
  gpu_ = settings.chip->family == hw::Family::Gpu;
  in_step_ = gpu_ && ex.plan->first().model->programs == hw::Programs::Concurrent;
  for (const ir::Operand& o : ex.plan->module.operands) own_.push_back(has_blocks_of_its_own(o, ex.plan->module));
  rates_.assign(std::size(kRateNames), -1);
  clocks_.resize(ex.threads.size());
  const auto devices = static_cast<size_t>(ex.devices);
  const auto cores = static_cast<size_t>(settings.cores);
  cores_.resize(cores * devices);
  programs_on_.resize(cores_.size());
  for (size_t d = 0; d < devices; ++d) {
    const auto order = gpu_ ? hw::Transfers::Order::Queued : hw::Transfers::Order::Shared;
    hbm_.push_back(transfers_.add("HBM", f_(gpu_ ? "hbm_read_bandwidth" : "hbm_bandwidth") * settings.share, order));
    if (gpu_) l2_.push_back(transfers_.add("L2", f_("l2_read_bandwidth") * settings.share, order));
    const double link = gpu_ ? f_.value_or("nvlink_bandwidth", 9e11) / 2 : f_.value_or("ici_link_bandwidth", 4.5e10);
    link_.push_back(transfers_.add(gpu_ ? "NVLink" : "ICI", link));
    if (gpu_) atomics_.emplace_back(f_, settings.share);
    if (gpu_) caches_.emplace_back(f_("l2_bytes") / f_("l2_partitions"));
    for (size_t c = 0; c < cores && gpu_; ++c)
      ports_.push_back(transfers_.add("SM port", f_("tma_sm_bandwidth"), order));
  }
  for (size_t i = 0; i < transfers_.resources(); ++i) {
    const std::string& n = transfers_.name(static_cast<int>(i));
    const auto it = std::find(resource_names_.begin(), resource_names_.end(), n);
    resource_causes_.push_back(Causes::kResources + static_cast<int>(it - resource_names_.begin()));
    if (it == resource_names_.end()) resource_names_.push_back(n);
  }
  const Path none(Causes::kResources + resource_names_.size(), costs.lines().size());
  path_ = told_path_ = none;
  line_busy_.resize(costs.lines().size());
  missed_.resize(ex.plan->module.operands.size());
  for (const ir::Operand& o : ex.plan->module.operands) near_.push_back(stays_near(o, ex.plan->module));
  warp_issue_ = f_.value_or("warp_issue", 1);
  held_ = gpu_ && settings.warm && stays_in_cache(*ex.plan, f_);
  if (gpu_ && settings.filled > 0) power_ = (1 / f_.value_or("tensor_power", 1) - 1) * std::min(1.0, settings.filled);
  const double launch = f_(gpu_ ? "kernel_time" : "launch_time") - (gpu_ ? f_("kernel_end") : 0);
  for (Clock& c : clocks_) {
    c.path = none;
    c.at = launch;
    c.packed.close(launch);
    c.path.add(Causes::kLaunch, 0, launch);
  }
  if (settings_.timeline) begin_picture();
}

void Clocks::begin_picture() {
  Picture::Launch l{ex_.plan, ex_.locs, ex_.devices, {}, {}, {}, {}};
  l.place = [this](int32_t thread) {
    const Thread& t = ex_.threads[static_cast<size_t>(thread)];
    const int64_t core = core_of(t);
    const std::string name = ex_.units.name(memory::Level::Thread, t.unit);
    const std::string of =
        gpu_ ? "SM " + std::to_string(core % std::max<int64_t>(1, static_cast<int64_t>(settings_.cores)))
             : ex_.units.name(memory::Level::Core, ex_.units.unit_of(memory::Level::Core, t.unit));
    return Picture::Place{core, ex_.device_of(t), of, name};
  };
  l.semaphore = [this](int64_t id) {
    int block = -1;
    return ex_.semaphore_layout.name(id, ex_.devices, &block);
  };
  l.barrier = [this](int64_t id) {
    int block = -1;
    return ex_.barrier_layout.name(id, &block);
  };
  if (ex_.devices > 1)
    l.owner = [this](int64_t id) {
      const int64_t thread = ex_.semaphore_layout.first_thread(id, ex_.devices);
      const bool known = thread >= 0 && thread < static_cast<int64_t>(ex_.threads.size());
      return known && ex_.threads[static_cast<size_t>(thread)].unit == thread ? thread : -1;
    };
  picture_ = std::make_unique<Picture>(settings_.timeline, std::move(l));
}

void Clocks::show_wait(int32_t thread, double until, int cause) {
  const Clock& c = of(thread);
  if (until <= c.at || !picture_->slices()) return;
  const Step* s = c.blocked_step < 0 ? nullptr : &ex_.plan->steps[static_cast<size_t>(c.blocked_step)];
  if (wait_words_.empty())
    for (const std::string& name : cause_names()) wait_words_.push_back(picture_->word("wait for " + name));
  const int32_t what = cause == Causes::kSync ? picture_->word("wait") : wait_words_[static_cast<size_t>(cause)];
  picture_->slice(thread, c.at, until, what, s ? ex_.plan->loc_of(*s) : -1);
}

int32_t Clocks::step_word(int32_t step) {
  const auto i = static_cast<size_t>(step);
  if (i >= step_words_.size()) step_words_.resize(ex_.plan->steps.size(), -1);
  int32_t& word = step_words_[i];
  return word >= 0 ? word : word = picture_->word(row(ex_.plan->steps[i]).name);
}

void Clocks::show_unit(const Thread& t, int32_t step, Unit u, double begin, double end, int line) {
  if (!picture_->slices()) return;
  const std::string_view unit = hw::name(u, settings_.chip->family);
  picture_->unit(t.index, unit.data(), begin, end, step_word(step), loc_of(line));
}

std::vector<std::string> Clocks::cause_names() const {
  std::vector<std::string> r;
  for (int u = 0; u < hw::kUnits; ++u) r.emplace_back(hw::name(static_cast<Unit>(u), settings_.chip->family));
  for (const char* n : {"latency of memory", "synchronisation", "steps", "launch"}) r.emplace_back(n);
  r.insert(r.end(), resource_names_.begin(), resource_names_.end());
  return r;
}

int64_t Clocks::core_of(const Thread& t) const {
  const int64_t per_device = static_cast<int64_t>(settings_.cores), device = ex_.device_of(t);
  const int64_t core = ex_.units.unit_of(memory::Level::Core, t.unit) % ex_.units.per_device(memory::Level::Core);
  return device * per_device + core % per_device;
}

void Clocks::advance(Clock& c, int cause, int line, double seconds) {
  if (seconds <= 0) return;
  c.at += seconds;
  c.path.add(cause, line, seconds);
}

void Clocks::begin(int32_t thread, double earliest) {
  Clock& c = of(thread);
  const Thread& t = ex_.threads[static_cast<size_t>(thread)];
  const double at = c.at;
  Path path = source_ >= 0 && earliest > 0 ? of(source_).path : c.path;
  if (in_step_) ++programs_on_[static_cast<size_t>(core_of(t))];
  c = {};
  c.path = std::move(path);
  c.at = std::max(at, earliest);
  if (gpu_) {
    const double before = t.point < 0 ? 0 : static_cast<double>(turn_of(*ex_.plan, ex_.grid, t.point));
    const double launched = rate(Rate::kernel_time) - rate(Rate::kernel_end) + before / rate(Rate::block_launch_rate);
    advance(c, Causes::kLaunch, 0, launched - c.at);
    advance(c, Causes::kLaunch, 0, rate(Rate::block_start));
  }
  if (!gpu_ && t.parent < 0) move_whole_arrays(t, c, false);
  c.packed.close(c.at);
  if (picture_ && c.at > at) picture_->slice(thread, at, c.at, picture_->word(gpu_ ? "start" : "arrays"), -1);
  if (picture_ && t.point >= 0 && thread % std::max<int64_t>(ex_.population.crew, 1) == 0)
    picture_->point(thread, c.at, {t.point});
}

// -- computing --

// A warp of a warpgroup that does something else than the others need not wait for them.
double Clocks::issue_share(const Thread& t) const { return t.parent < 0 ? 1 : warp_issue_; }

// The chip holds its power below a limit that only tensor cores reach which rest little.
double Clocks::throttled(const hw::Server& pipe, double now) const {
  constexpr double kBusy = 0.7;  // from here on
  if (power_ <= 0 || now <= 0) return 1;
  return 1 + power_ * std::clamp((pipe.busy() / now - kBusy) / (1 - kBusy), 0.0, 1.0);
}

// One unit behind the other.
void Clocks::follow(const Thread& t, Clock& c, const hw::Work& w, int line, int32_t step) {
  auto& core = cores_[static_cast<size_t>(core_of(t))];
  const double share = costs_.model().issue_share;
  for (size_t u = 0; u < hw::kUnits; ++u) {
    if (w.busy[u] <= 0) continue;
    const bool own = static_cast<Unit>(u) == Unit::Scalar;
    const double part = static_cast<Unit>(u) == Unit::Vector || static_cast<Unit>(u) == Unit::Special ? share : 1;
    auto& server = core[in_step_ && static_cast<Unit>(u) != Unit::Access ? static_cast<size_t>(Unit::Vector) : u];
    const double start = own ? c.at : std::max(c.at, server.free());
    const double seconds = w.busy[u] * (static_cast<Unit>(u) == Unit::Matrix ? throttled(core[u], c.at) : 1);
    if (!own) server.take(c.at, seconds * part);
    if (!own && &server != &core[u]) core[u].take(c.at, seconds * part);
    if (picture_ && !own) show_unit(t, step, static_cast<Unit>(u), start, start + seconds * part, line);
    advance(c, static_cast<int>(u), line, start + seconds - c.at);
  }
}

// As far as units and what it is made of allow, beside what came before it.
void Clocks::pack(const Thread& t, Clock& c, const hw::Work& w, int line, int32_t step) {
  for (size_t u = 0; u < hw::kUnits; ++u) {
    busy_[u] += w.busy[u];
    const double begin = c.packed.begun() + c.packed.busy(u);
    if (picture_ && w.busy[u] > 0) show_unit(t, step, static_cast<Unit>(u), begin, begin + w.busy[u], line);
  }
  for (const StepPart& p : costs_.of(ex_.plan->steps[static_cast<size_t>(step)]).parts) {
    const Packed::End end = c.packed.add(p, costs_.parts_named());
    advance(c, static_cast<int>(end.unit), line, end.at - c.at);
  }
}

void Clocks::charge(const Thread& t, Clock& c, const hw::Work& w, int line, int32_t step) {
  flops_ += w.flops;
  const double before = c.at;
  if (costs_.model().overlap == hw::Overlap::Packed) {
    pack(t, c, w, line, step);
  } else {
    follow(t, c, w, line, step);
    for (size_t u = 0; u < hw::kUnits; ++u) busy_[u] += w.busy[u] * costs_.model().issue_share;
    const bool product = w.busy[static_cast<size_t>(Unit::Matrix)] > 0;
    if (in_step_ && w.latency > 0 && programs_on_[static_cast<size_t>(core_of(t))] == 2)
      cores_[static_cast<size_t>(core_of(t))][static_cast<size_t>(Unit::Vector)].take(
          c.at, w.latency * costs_.model().together_latency);
    advance(c, static_cast<int>(product ? Unit::Matrix : Unit::Vector), line, w.latency);
  }
  line_busy_[static_cast<size_t>(line)] += c.at - before;
}

std::vector<int64_t> Clocks::point_of(const Thread& t) const {
  std::vector<int64_t> r;
  for (const uint32_t slot : t.body->pid_slots) r.push_back(t.slot<int64_t>(slot));
  if (r.empty() && t.point >= 0) r.push_back(t.point);
  return r;
}

// Trips of a loop that is unrolled lie in one block.
bool Clocks::unrolled(const Clock& c, const StepCost& cost) {
  if (!cost.loop_next) return false;
  const ir::Attr* n = cost.loop_next->attr("unroll");
  const auto trips = c.trips.find(cost.loop_next);
  return n && n->is_int() && n->i > 1 && trips != c.trips.end() && trips->second.now % n->i != 0;
}

void Clocks::ran(Thread& t, const Step& s) {
  const StepCost& cost = costs_.of(s);
  Clock& c = of(t.index);
  c.fetched = -1;
  if (row(s).visible == Visible::Always && (gpu_ || !starts_operation(s))) {
    c.packed.close(c.at);
    if (!starts_operation(s) && s.kind != Kind::finish && gpu_)
      advance(c, Causes::kSync, cost.line, rate(Rate::barrier_issue) * issue_share(t));
  }
  if (gpu_ && s.kind == Kind::atomic) atomic(t, c, s, cost.line);
  if (cost.empty) {
    if (cost.closes) c.packed.close(c.at);
    return;
  }
  const double before = c.at;
  if (cost.loop_begin) begin_loop(t, s, cost.loop_begin);
  if (cost.counts) count_trip(t, s, cost.counts);
  if (cost.loop_next) {
    next_trip(t, s, cost.loop_next);
    if (gpu_) advance(c, static_cast<int>(Unit::Scalar), cost.line, rate(Rate::step_cycles) / rate(Rate::clock));
  }
  for (const StepLoad& l : cost.loads)
    if (l.writes) {
      Flight w;
      w.thread = t.index;
      w.line = cost.line;
      w.issued = c.at;
      w.path = c.path;
      w.operand = l.operand;
      w.bytes = l.bytes;
      w.writes = true;
      const int64_t tag = new_flight(std::move(w));
      if (!held_)  // it takes the place of others
        caches_[static_cast<size_t>(ex_.device_of(t))].touch(~static_cast<uint64_t>(tag), l.bytes * c.inner * c.outer,
                                                             c.at);
      far_transfer(tag, c.at, {core_of(t), ex_.device_of(t), l.bytes, l.bytes, l.bytes, l.bytes, true, true, 0});
    }
  charge(t, c, cost.work, cost.line, s.id);
  if (cost.closes && !unrolled(c, cost)) c.packed.close(c.at);
  if (picture_ && c.at > before) picture_->slice(t.index, before, c.at, step_word(s.id), loc_of(cost.line));
}

// -- waiting --

void Clocks::count(int32_t step, int cause, double seconds) {
  if (seconds <= 0) return;
  Wait& w = waits_[{step, cause}];
  w.seconds += seconds;
  w.longest = std::max(w.longest, seconds);
  ++w.count;
  w.cause = cause;
}

void Clocks::wake(int32_t thread, double time, const Path& path, int cause) {
  Clock& c = of(thread);
  if (time <= c.at) return;
  count(c.blocked_step, cause, time - c.at);
  if (picture_) show_wait(thread, time, cause);
  c.at = time;
  c.path = path;
  c.packed.close(time);
}

void Clocks::sync(const SyncEvent& e) {
  if (picture_) picture_->sync(e, source_ < 0 ? now_ : at(source_));
  if (e.what != SyncEvent::What::Groups || e.last < 0) return;
  const auto it = groups_.find({e.object, e.last});
  if (it == groups_.end()) return;
  Clock& c = of(e.thread);
  const Thread& t = ex_.threads[static_cast<size_t>(e.thread)];
  c.blocked_step = t.pc ? t.pc->id : -1;
  const auto [end, path] = it->second;
  groups_.erase(groups_.lower_bound({e.object, 0}), std::next(it));
  wake(e.thread, end, path, static_cast<int>(Unit::Matrix));
}

void Clocks::thread(ThreadEvent::What what, int32_t thread) {
  Clock& c = of(thread);
  if (what == ThreadEvent::What::Blocks) {
    c.blocked = c.at;
    const Step* pc = ex_.threads[static_cast<size_t>(thread)].pc;
    c.blocked_step = pc ? pc->id : -1;
  }
  if (what == ThreadEvent::What::Wakes) {
    if (source_ < 0) return wake(thread, now_, told_path_, source_cause_);
    const Thread &from = ex_.threads[static_cast<size_t>(source_)], &to = ex_.threads[static_cast<size_t>(thread)];
    const bool far = ex_.device_of(from) != ex_.device_of(to);
    const double latency = rate(gpu_  ? (far ? Rate::nvlink_latency : Rate::barrier_latency)
                                : far ? Rate::ici_latency
                                      : Rate::semaphore_latency);
    Path path = of(source_).path;
    path.add(Causes::kSync, 0, latency);
    wake(thread, now_ + latency, path, Causes::kSync);
  }
  if (what == ThreadEvent::What::Ends && !gpu_ && ex_.threads[static_cast<size_t>(thread)].parent < 0)
    move_whole_arrays(ex_.threads[static_cast<size_t>(thread)], c, true);
  if (what == ThreadEvent::What::Ends && c.at >= end_) {
    end_ = c.at;
    path_ = c.path;
  }
}

void Clocks::completed(const memory::AsyncOperation& op) {
  if (picture_) picture_->completed(op, now_);
}

void Clocks::memory(const MemoryEvent& e) {
  if (picture_) picture_->memory(e, at(e.thread));
}

void Clocks::point(const Thread& t) {
  if (gpu_) return;
  if (settings_.folds && t.point < 0)
    for (const bool inner : {false, true})
      if (const int axis = inner ? settings_.axes.inner : settings_.axes.outer; axis >= 0)
        leave_out_points(ex_.threads[static_cast<size_t>(t.index)], inner, axis);
  Clock& c = of(t.index);
  const double before = c.at;
  advance(c, Causes::kStep, 0, rate(Rate::step_time));
  if (picture_ && picture_->slices()) {
    picture_->point(t.index, before, point_of(t));
    picture_->slice(t.index, before, c.at, picture_->word("grid step"), -1);
  }
  c.packed.close(c.at);
}

}  // namespace pallasim::interp
