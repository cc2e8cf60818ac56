#include "advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "../plan/plan.h"
#include "pallasim/hw/rules.h"
#include "time_text.h"

namespace pallasim::interp {
namespace {

using Advice = Prediction::Advice;

constexpr double kMatters = 0.05;  // of the time: less is no advice
constexpr double kFull = 0.85;     // busy: it is what bounds
constexpr double kGain = 0.97;     // of the time, which a change has to come below

bool is_memory(const std::string& name) {
  return name == "HBM" || name == "L2" || name == "SM port" || name == "ICI" || name == "NVLink";
}

std::string bytes_text(double n) {
  const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  int u = 0;
  while (n >= 1024 && u < 3) n /= 1024, ++u;
  return fmt::format("{:.4g} {}", n, kUnits[u]);
}

class Adviser {
 public:
  Adviser(const Prediction& p, const AdviceGround& g) : p_(p), g_(g) {}

  std::vector<Advice> all() {
    near_the_roof();
    rings();
    windows();
    parameters();
    last_wave();
    small_steps();
    std::stable_sort(all_.begin(), all_.end(), [](const Advice& a, const Advice& b) { return a.seconds > b.seconds; });
    return std::move(all_);
  }

 private:
  void add(Advice a) { all_.push_back(std::move(a)); }
  double share(const std::string& name) const {
    for (const auto& s : p_.critical)
      if (s.name == name) return s.seconds;
    return 0;
  }
  // The memory or link that is busy all the time; null: none is.
  const Prediction::Bound* full_memory() const {
    for (const auto& b : p_.bounds)
      if (is_memory(b.name) && b.busy >= kFull) return &b;
    return nullptr;
  }

  // Nothing but less work makes it faster.
  void near_the_roof() {
    if (p_.peak_seconds < kFull * p_.seconds) return;
    const bool memory = p_.flops / p_.peak_flops < p_.peak_seconds;
    Advice a;
    a.text = fmt::format("{:.0f} % of the time is what {} takes at its peak rate: {} makes it faster, and little else",
                         100 * p_.peak_seconds / p_.seconds,
                         memory ? fmt::format("moving {}", bytes_text(p_.bytes_read + p_.bytes_written))
                                : fmt::format("multiplying {:.4g} Gflop", p_.flops / 1e9),
                         memory ? "moving fewer bytes" : "multiplying less, or a narrower type,");
    a.numbers = {{"peak_seconds", p_.peak_seconds}, {"seconds", p_.seconds}};
    add(std::move(a));
  }

  // What waits for memory at a line, by the number of times: how late is what it waits for.
  struct Late {
    const Prediction::Wait* wait = nullptr;
    double each = 0;
  };
  Late latest() const {
    Late r;
    for (const auto& w : p_.waits) {
      const size_t at = w.what.rfind(" for ");
      const std::string cause = at == std::string::npos ? "" : w.what.substr(at + 5);
      if ((is_memory(cause) || cause == "latency of memory") && (!r.wait || w.seconds > r.wait->seconds))
        r = {&w, w.seconds / static_cast<double>(std::max<int64_t>(w.count, 1))};
    }
    return r;
  }
  double waited() const {
    double r = share("latency of memory");
    for (const auto& s : p_.critical)
      if (is_memory(s.name)) r += s.seconds;
    return r;
  }

  // Rings that the kernel itself fills: memory with slots that copies go to one after the other.
  void rings() {
    const Late late = latest();
    if (!late.wait || waited() < kMatters * p_.seconds || by_itself()) return;
    struct Ring {
      double flight = 0, first = 1e30, last = 0;
      int64_t copies = 0;
    };
    std::map<int32_t, Ring> all;  // of one core
    int32_t core = -1;
    for (const Timeline::Move& m : g_.timeline->moves) {
      const Timeline::Room& to = g_.timeline->rooms[static_cast<size_t>(m.to)];
      if (to.core < 0 || to.slots < 2 || to.space == "tensor core" || to.space == "registers" || is_window(to.name))
        continue;
      if (core < 0) core = to.core;
      if (to.core != core) continue;
      Ring& r = all[m.to];
      r.flight += m.end - m.begin, r.first = std::min(r.first, m.begin), r.last = std::max(r.last, m.end);
      ++r.copies;
    }
    if (all.empty()) return;
    const int64_t slots = g_.timeline->rooms[static_cast<size_t>(all.begin()->first)].slots;
    double each = 0, flight = 0, step = 1e30;
    std::string names;
    for (const auto& [room, r] : all) {
      const Timeline::Room& x = g_.timeline->rooms[static_cast<size_t>(room)];
      if (x.slots != slots || r.copies < 2 * slots) continue;
      each += static_cast<double>(x.bytes) / static_cast<double>(x.slots);
      flight = std::max(flight, r.flight / static_cast<double>(r.copies));
      step = std::min(step, (r.last - r.first) / static_cast<double>(r.copies));
      names += (names.empty() ? "" : ", ") + x.name;
    }
    if (names.empty()) return;
    Advice a;
    a.site = late.wait->site;
    a.seconds = waited();
    const std::string is_late = fmt::format("{} slots of {}: the copy of the next tile is {} late at each step", slots,
                                            names, time_text(late.each));
    a.numbers = {{"slots", static_cast<double>(slots)},
                 {"late_seconds", late.each},
                 {"copy_seconds", flight},
                 {"step_seconds", step},
                 {"slot_bytes", each}};
    if (const Prediction::Bound* full = full_memory()) {
      a.text = fmt::format(
          "{}, as {} is busy {:.0f} % of the time: further slots do not help, tiles that are used more often do",
          is_late, full->name, 100 * full->busy);
      a.numbers.push_back({"busy", full->busy});
      return add(std::move(a));
    }
    // Copies under way together have to cover what one of them takes, while a step takes what it does without waiting,
    // and no less than the busiest unit or memory does.
    const double busy = p_.bounds.empty() ? 0 : std::min(p_.bounds.front().busy, 1.0);
    const double work = std::max({step - late.each, step * busy, step / 64});
    const int64_t wanted = std::max<int64_t>(slots + 1, static_cast<int64_t>(std::ceil(flight / work)) + 1);
    const auto [used, has] = near_memory();
    const auto fit = each > 0 && has > 0 ? slots + static_cast<int64_t>(std::floor((has - used) / each)) : wanted;
    const int64_t to = std::min(wanted, fit);
    const std::string memory = g_.chip->family == hw::Family::Gpu ? "SMEM" : "VMEM";
    if (to > slots)
      a.text = fmt::format("{}; {} slots would cover it and fit in {} ({} of {})", is_late, to, memory,
                           bytes_text(used + each * static_cast<double>(to - slots)), bytes_text(has));
    else
      a.text =
          fmt::format("{}, and a further slot of {} does not fit in {} ({} of {} are taken): smaller tiles leave room",
                      is_late, bytes_text(each), memory, bytes_text(used), bytes_text(has));
    a.numbers.insert(a.numbers.end(), {{"slots_wanted", static_cast<double>(wanted)},
                                       {"slots_that_fit", static_cast<double>(fit)},
                                       {"bytes_used", used},
                                       {"bytes_there", has}});
    add(std::move(a));
  }
  bool is_window(const std::string& name) const {
    for (const Window& w : g_.plan->first().windows)
      if (w.modelled() && g_.plan->module.operands[static_cast<size_t>(w.operand)].name == name) return true;
    return false;
  }
  bool by_itself() const { return g_.plan->first().model->programs == hw::Programs::Concurrent; }

  // Bytes of the core's own memory that are taken, and that there are.
  std::pair<double, double> near_memory() const {
    const bool gpu = g_.chip->family == hw::Family::Gpu;
    const ir::Space space = gpu ? ir::Space::Smem : ir::Space::Vmem;
    double used = 0;
    for (const hw::SpaceUse& u : hw::space_use(g_.plan->module, 0, *g_.chip))
      if (u.space == space) used = std::max(used, static_cast<double>(u.bytes));
    const double has = static_cast<double>(g_.chip->capacity(gpu ? "smem_bytes" : "vmem_bytes"));
    return {used, has > 0 ? has : static_cast<double>(gpu ? g_.chip->smem_per_sm_bytes : -1)};
  }

  // Windows of a grid's pipeline with another number of slots.
  void windows() {
    if (!g_.again || !g_.plan->first().modelled || g_.plan->module.grid.empty()) return;
    double best = kGain * p_.seconds;
    std::optional<Advice> found;
    for (const Window& w : g_.plan->first().windows) {
      const auto& o = g_.plan->module.operands[static_cast<size_t>(w.operand)];
      if (!w.modelled() || !o.has_block) continue;
      const int slots = w.modelled()->slots;
      const auto n = static_cast<size_t>(w.operand);
      const std::optional<double> seconds = g_.again([&](ir::Module& m) {
        ir::Attr buffered = ir::Attr::call("buffered", {ir::Attr::integer(slots + 1)});
        for (auto& [name, value] : m.operands[n].attrs)
          if (name == "pipeline") {
            value = buffered;
            return;
          }
        m.operands[n].attrs.push_back({"pipeline", buffered});
      });
      if (!seconds || *seconds >= best) continue;
      best = *seconds;
      found = Advice{};
      found->seconds = p_.seconds - best;
      found->predicted = best;
      found->text = fmt::format("{} slots for the blocks of {} instead of {}: {} instead of {}, predicted again",
                                slots + 1, o.name, slots, time_text(best), time_text(p_.seconds));
      found->numbers = {{"slots", slots + 1.0}, {"predicted", best}, {"seconds", p_.seconds}};
    }
    if (found) add(std::move(*found));
  }

  static ir::Attr* parameter(ir::Module& m, const std::string& name) {
    for (auto& [key, params] : m.attrs)
      if (key == "params")
        for (size_t i = 0; i < params.keys.size(); ++i)
          if (params.keys[i] == name) return &params.items[i];
    return nullptr;
  }

  // Stages and warps of Triton: their neighbours, predicted again.
  void parameters() {
    if (!g_.again || !by_itself()) return;
    struct Try {
      const char* name;
      int64_t otherwise;
      std::vector<std::function<int64_t(int64_t)>> to;
    };
    const Try tries[] = {{"num_stages", 3, {[](int64_t n) { return n + 1; }, [](int64_t n) { return n - 1; }}},
                         {"num_warps", 4, {[](int64_t n) { return 2 * n; }, [](int64_t n) { return n / 2; }}}};
    const std::string limit = why_resident();
    for (const Try& t : tries) {
      double best = kGain * p_.seconds;
      std::optional<Advice> found;
      const int64_t now = value(t.name, t.otherwise);
      for (const auto& to : t.to) {
        const int64_t other = to(now);
        if (other < 1 || other > 16) continue;
        const std::optional<double> seconds = g_.again([&](ir::Module& m) {
          if (ir::Attr* a = parameter(m, t.name)) *a = ir::Attr::integer(other);
        });
        if (!seconds || *seconds >= best) continue;
        best = *seconds;
        found = Advice{};
        found->seconds = p_.seconds - best;
        found->predicted = best;
        found->text = fmt::format("{}={} instead of {}: {} instead of {}, predicted again{}", t.name, other, now,
                                  time_text(best), time_text(p_.seconds), limit);
        found->numbers = {{t.name, static_cast<double>(other)}, {"predicted", best}, {"seconds", p_.seconds}};
      }
      if (found) add(std::move(*found));
    }
  }
  int64_t value(const std::string& name, int64_t otherwise) const {
    if (const ir::Attr* params = ir::find(g_.plan->module.attrs, "params"))
      for (size_t i = 0; i < params->keys.size(); ++i)
        if (params->keys[i] == name && params->items[i].is_int()) return params->items[i].i;
    return otherwise;
  }
  std::string why_resident() const {
    if (!g_.residency || g_.residency->limits.empty() || g_.residency->per_sm < 1) return "";
    const auto& l = g_.residency->limits.front();
    return fmt::format(" (now {} {} on an SM, by {}: {})", g_.residency->per_sm,
                       g_.residency->per_sm == 1 ? "program" : "programs", l.resource, l.why);
  }

  // Programs that do not fill their last wave.
  void last_wave() {
    if (p_.programs <= 0 || p_.resident <= 0 || p_.waves <= 1) return;
    const double whole = std::ceil(p_.waves), part = p_.waves - std::floor(p_.waves);
    if (part == 0) return;
    const double idle = (whole - p_.waves) / whole;
    if (idle < kMatters) return;
    Advice a;
    a.seconds = idle * p_.seconds;
    a.text = fmt::format(
        "{} programs are {:.2f} waves of {}: the last wave fills {:.0f} % of the places, about {} go to waste; {} "
        "programs would fill {} waves{}",
        p_.programs, p_.waves, p_.resident, 100 * part, time_text(a.seconds),
        static_cast<int64_t>(whole - 1) * p_.resident, whole - 1, why_resident());
    a.numbers = {{"programs", static_cast<double>(p_.programs)},
                 {"resident", static_cast<double>(p_.resident)},
                 {"waves", p_.waves},
                 {"idle", idle}};
    add(std::move(a));
  }

  // What each step of a grid costs besides its work.
  void small_steps() {
    int64_t points = 1;
    for (const ir::GridAxis& x : g_.plan->module.grid) points *= std::max<int64_t>(x.size, 1);
    // Those whose blocks are late lie beside the latency that is waited for, and not on the critical path themselves.
    double steps = share("steps");
    if (steps <= 0 || points < 2) return;
    const auto& threads = g_.plan->threads;
    const auto cores = static_cast<double>(threads.core_axis < 0 ? 1 : std::max(threads.count, 1));
    for (const auto& f : p_.figures)
      if (f.figure.name == "step_time")
        steps = std::max(
            steps, std::min(static_cast<double>(points) / cores * f.figure.value, steps + share("latency of memory")));
    if (steps < 4 * kMatters * p_.seconds) return;
    const auto [used, has] = near_memory();
    Advice a;
    a.seconds = steps / 2;
    a.text = fmt::format(
        "{} steps of the grid cost {} by themselves, {:.0f} % of the time: blocks of twice the size halve that", points,
        time_text(steps), 100 * steps / p_.seconds);
    if (has > 0) a.text += fmt::format(" (VMEM has {}, {} are taken)", bytes_text(has), bytes_text(used));
    a.numbers = {
        {"steps", static_cast<double>(points)}, {"step_seconds", steps}, {"bytes_used", used}, {"bytes_there", has}};
    add(std::move(a));
  }

  const Prediction& p_;
  const AdviceGround& g_;
  std::vector<Advice> all_;
};

}  // namespace

std::vector<Prediction::Advice> advise(const Prediction& p, const AdviceGround& g) { return Adviser(p, g).all(); }

}  // namespace pallasim::interp
