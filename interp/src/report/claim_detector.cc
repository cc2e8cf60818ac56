// Checked runs: whether `parallel` axes keep their promise, and programs that run at once stay apart.
#include <fmt/format.h>

#include <algorithm>

#include "causes.h"
#include "checked.h"
#include "pallasim/hw/machine.h"
#include "race_words.h"
#include "report.h"

namespace pallasim::interp {

ClaimDetector::ClaimDetector(const Plan& plan, const Options& o, Instances& instances)
    : plan_(plan), instances_(instances), programs_(!plan.first().model->in_order()), claims_(o.max_memory, programs_) {
  for (size_t g = 0; g < plan.module.grid.size(); ++g)
    if (programs_ ? !plan.programs_meet() : plan.module.grid[g].semantics == "parallel") axes_.push_back(g);
}

void ClaimDetector::on_point(const PointEvent& e) {
  const auto thread = static_cast<size_t>(e.thread);
  if (thread >= units_.size()) units_.resize(thread + 1, 0);
  units_[thread] = 0;
  for (size_t g : axes_) units_[thread] = units_[thread] * ex().grid[g] + e.ids[g];
}

// Operands, and scratch: every core has its own, so that only a value carried from one coordinate to another tells.
void ClaimDetector::see(Seen& seen) {
  const Access& a = seen.access;
  const bool operand = a.buffer >= kFirstOperandBuffer;
  if (operand && a.buffer - kFirstOperandBuffer >= plan_.module.operands.size()) return;
  if (!operand) {
    const memory::Allocation* scratch = plan_.memory.allocations.at(a.buffer, a.offset);
    if (!scratch || scratch->lifetime != memory::Allocation::Lifetime::Launch) return;
  }
  const auto thread = static_cast<size_t>(a.thread);
  const int64_t unit = thread < units_.size() ? units_[thread] : 0;
  const size_t before = claims_.found().size();
  const bool fits = claims_.access(unit, seen.shadow(), !operand);
  if (before == claims_.found().size() && claims_.writes().empty() && fits) return;
  const std::string name = allocation_name(plan_, a.buffer, a.offset);
  for (size_t i = before; i < claims_.found().size(); ++i)
    if (std::optional<SharedRef> s = note(ex(), a, claims_.found()[i], unit, name, !operand))
      keep(&shared_, std::move(*s));
  for (const memory::shadow::Shared& s : claims_.writes()) {
    std::optional<SharedRef> found = note(ex(), a, s, unit, name, false);
    if (!found) continue;
    BytePlaces place(a.owner < 0 ? a.thread : a.owner, a.buffer, seen.shadow(), s.bytes);
    std::vector<std::byte> bytes = place.read(ex());
    writes_.push_back({std::move(*found), std::move(place), std::move(bytes)});
  }
  if (!fits) too_much_remembered(ex(), name, claims_.limit()->bytes);
}

// The axes of the claim on which two units differ.
std::vector<size_t> ClaimDetector::differing(const Execution& ex, int64_t a, int64_t b) const {
  std::vector<size_t> r;
  for (size_t i = axes_.size(); i-- > 0;) {
    const int64_t n = ex.grid[axes_[i]];
    if (a % n != b % n) r.insert(r.begin(), axes_[i]);
    a /= n;
    b /= n;
  }
  return r;
}

// "(0, 3)" of axes 0 and 2.
std::string ClaimDetector::coordinates(const Execution& ex, int64_t unit) const {
  std::string r;
  for (size_t i = axes_.size(); i-- > 0;) {
    const int64_t n = ex.grid[axes_[i]];
    r = fmt::format("axis {} = {}{}{}", axes_[i], unit % n, r.empty() ? "" : ", ", r);
    unit /= n;
  }
  return r;
}

void ClaimDetector::on_step(const StepEvent&) {
  if (!writes_.empty()) compare();
}

// Steps that were about to run have run. Programs that write what is there already share it without harm.
void ClaimDetector::compare() {
  for (Writes& w : writes_) {
    if (w.place.read(ex()) != w.before) keep(&shared_, std::move(w.found));
    else keep(&same_, std::move(w.found));
  }
  writes_.clear();
}

// Into the place of what says less of the same.
void ClaimDetector::keep(std::vector<SharedRef>* all, SharedRef now) {
  const auto told = std::find_if(all->begin(), all->end(), [&](const SharedRef& s) { return s.is_of(now); });
  if (told == all->end()) all->push_back(std::move(now));
  else if (told->says < now.says) *told = std::move(now);
}

// Nothing: as much was told of the ref before.
std::optional<ClaimDetector::SharedRef> ClaimDetector::note(Execution& ex, const Access& a,
                                                            const memory::shadow::Shared& found, int64_t unit,
                                                            const std::string& name, bool kept) const {
  std::vector<size_t> axes = programs_ ? axes_ : differing(ex, found.earlier.unit, unit);
  const bool carries = kept || found.carries;
  const int says = carries ? 2 : !a.write && found.earlier_wrote ? 1 : 0;
  SharedRef now{name, std::move(axes), carries, says, {"PS-PAR-002", ""}, {}};
  const auto told = std::find_if(shared_.begin(), shared_.end(), [&](const SharedRef& s) { return s.is_of(now); });
  // A read of what another point left there says more than one where another point wrote, and that more than two
  // writes, which other orders of the grid show first.
  if (told != shared_.end() && told->says >= says) return {};
  ir::Diagnostic& d = now.found;
  d = diagnostic_at(ex.threads[static_cast<size_t>(a.thread)], a.loc,
                    programs_ ? ir::Code("PS-PAR-002") : ir::Code("PS-PAR-001"), "");
  d.site.what = fmt::format("{} is {} here", name, a.write ? "written" : "read");
  const std::string_view did = found.earlier_wrote ? "written" : "read";
  d.numbers.push_back(fmt::format("{} before by the {} with {}", did, programs_ ? "program" : "grid points",
                                  coordinates(ex, found.earlier.unit)));
  if (const std::string at = elements_text(plan_, a.buffer, found.bytes); !at.empty())
    d.numbers.push_back(fmt::format("they meet at {} of {}", at, name));
  ir::Site side = ir::site_of(*ex.locs, instances_.line(plan_, found.earlier.site).loc);
  side.what = fmt::format("and {} before here", did);
  d.also.push_back(std::move(side));
  return now;
}

void ClaimDetector::starts_late(const ir::Diagnostic& read, const std::string& name, std::string sets) {
  ir::Diagnostic d = read;
  d.code = "PS-PAR-001";
  d.severity = d.code.severity();
  d.site.what = fmt::format("{} is read here", name);
  d.numbers.clear();
  shared_.push_back({name, {static_cast<size_t>(plan_.threads.core_axis)}, true, 2, std::move(d), std::move(sets)});
}

namespace {

// As the kernel counts them: that of a vmap is none of its own.
std::string axes_text(const Plan& p, const std::vector<size_t>& axes) {
  const auto& grid = p.module.grid;
  std::vector<std::string> names;
  for (const size_t g : axes) {
    const auto hidden = std::count_if(grid.begin(), grid.begin() + static_cast<std::ptrdiff_t>(g),
                                      [](const ir::GridAxis& a) { return a.vmapped; });
    names.push_back(grid[g].vmapped ? "of vmap" : std::to_string(static_cast<int64_t>(g) - hidden));
  }
  return (axes.size() == 1 ? "axis " : "axes ") + listed(names);
}

// dimension_semantics as they would be right.
std::string semantics_text(const Plan& p, const std::vector<size_t>& wrong) {
  std::string r;
  for (size_t g = 0; g < p.module.grid.size(); ++g) {
    const ir::GridAxis& axis = p.module.grid[g];
    if (axis.vmapped) continue;
    const bool arbitrary = axis.semantics != "parallel" || std::find(wrong.begin(), wrong.end(), g) != wrong.end();
    r += fmt::format("{}\"{}\"", r.empty() ? "" : ", ", arbitrary ? "arbitrary" : axis.semantics);
  }
  return fmt::format("dimension_semantics=({}{})", r, p.module.grid.size() == 1 ? "," : "");
}

}  // namespace

// Of one axis, or of those that are wrong together, one report: of what differs on more axes a part is to blame.
void ClaimDetector::finish(std::vector<ir::Diagnostic>& out) {
  compare();
  std::stable_sort(shared_.begin(), shared_.end(),
                   [](const SharedRef& a, const SharedRef& b) { return a.axes.size() < b.axes.size(); });
  std::vector<std::vector<SharedRef*>> groups;
  for (SharedRef& s : shared_) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
      const std::vector<size_t>& axes = g.front()->axes;
      return std::includes(s.axes.begin(), s.axes.end(), axes.begin(), axes.end());
    });
    if (group == groups.end()) groups.push_back({&s});
    else group->push_back(&s);
  }
  for (const auto& group : groups) out.push_back(report(group));
  std::vector<SharedRef*> same;
  for (SharedRef& s : same_)
    if (std::none_of(shared_.begin(), shared_.end(), [&](const SharedRef& d) { return d.name == s.name; }))
      same.push_back(&s);
  if (!same.empty()) out.push_back(the_same(report(same)));
}

ir::Diagnostic ClaimDetector::report(const std::vector<SharedRef*>& group) const {
  const SharedRef& first = *group.front();
  ir::Diagnostic d = first.found;
  std::vector<std::string> names;
  std::vector<std::pair<std::string, std::vector<std::string>>> late;  // what one branch sets is one line
  for (const SharedRef* s : group) {
    if (!s->late.empty()) {
      auto at = std::find_if(late.begin(), late.end(), [&](const auto& l) { return l.first == s->late; });
      if (at == late.end()) at = late.insert(at, {s->late, {}});
      at->second.push_back(s->name);
    }
    if (std::find(names.begin(), names.end(), s->name) != names.end()) continue;
    names.push_back(s->name);
    d.about.push_back(about_ref(s->name));
    if (s == &first) continue;
    std::string line = fmt::format("{} ({})", s->found.site.what, where(s->found.site));
    for (const std::string& n : s->found.numbers) line += ", " + n;
    d.numbers.push_back(std::move(line));
  }
  for (const auto& [sets, refs] : late) d.numbers.push_back(fmt::format("{} {}", sets, listed(refs)));
  for (const size_t g : first.axes) d.about.push_back(about_axis(g));
  const std::string refs = listed(names);
  if (programs_) {
    d.message = fmt::format("race: programs that run at once share elements of {}", refs);
    d.hint = "give every program elements of its own, or use atomics; this run kept the order of the grid";
    return d;
  }
  const bool carries = std::all_of(group.begin(), group.end(), [](const SharedRef* s) { return s->carries; });
  const bool one = names.size() == 1, axis = first.axes.size() == 1;
  d.message = fmt::format("{} {} not parallel: {} {} between {} points; declare {} arbitrary",
                          axes_text(plan_, first.axes), axis ? "is" : "are", refs,
                          carries ? (one ? "carries a value" : "carry values") : (one ? "is shared" : "are shared"),
                          axis ? "its" : "their", axis ? "it" : "them");
  d.hint = fmt::format(
      "declare {} arbitrary, {}, or give each point a block of its own; this run kept the order of the grid",
      axes_text(plan_, first.axes), semantics_text(plan_, first.axes));
  return d;
}

}  // namespace pallasim::interp
