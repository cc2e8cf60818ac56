#include "race_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "../ops/elements.h"
#include "../plan/kinds.h"
#include "causes.h"
#include "report.h"

namespace pallasim::interp {
namespace {

std::vector<int64_t> index_of(int64_t element, const std::vector<int64_t>& dims) {
  std::vector<int64_t> at(dims.size());
  for (size_t d = dims.size(); d-- > 0;) at[d] = element % dims[d], element /= dims[d];
  return at;
}

std::string element_at(int64_t element, const std::vector<int64_t>& dims) {
  return ops::shape_text(index_of(element, dims));
}

// An array as the kernel knows it, and where it begins.
struct Known {
  int64_t begin = 0;
  int64_t element_bytes = 0;
  std::vector<int64_t> dims;
};

Known known_at(const Plan& p, uint32_t buffer, int64_t offset) {
  const size_t operand = buffer - kFirstOperandBuffer;
  if (buffer >= kFirstOperandBuffer && operand < p.module.operands.size()) {
    const Window& w = p.first().windows[operand];
    return {0, w.element_bytes, w.dims};
  }
  const memory::Allocation* a = p.memory.allocations.at(buffer, offset);
  if (!a || a->elements() <= 0 || a->bytes % a->elements() != 0) return {};
  return {a->offset, a->bytes / a->elements(), a->dims};
}

bool names_thread(const Execution& ex, const memory::Place& place) {
  const Plan& p = *ex.plan;
  return ex.threads.size() > 1 && (p.threads.num_devices() > 1 || p.memory.is_private(place.buffer));
}

bool is_array(const Execution& ex, uint32_t buffer) {
  return buffer >= kFirstOperandBuffer && buffer - kFirstOperandBuffer < ex.plan->module.operands.size();
}

std::string place_of(const Execution& ex, const memory::Place& place, const std::string& name) {
  const std::string what = name.empty() ? "memory" : name;
  if (names_thread(ex, place))
    return place.thread < 0 || (!ex.plan->first().model->in_order() && is_array(ex, place.buffer))
               ? fmt::format("{} of device {}", what, ex.first_device + ex.thread_of(place) / ex.device_threads)
               : fmt::format("{} of {}", what, name_of(ex.threads[static_cast<size_t>(place.thread)]));
  return what;
}

}  // namespace

std::string elements_text(const Plan& p, uint32_t buffer, memory::shadow::Range bytes) {
  const Known k = known_at(p, buffer, bytes.begin);
  int64_t all = 1;
  for (const int64_t d : k.dims) all = memory::mul(all, d);
  if (k.element_bytes <= 0 || all <= 0 || bytes.end <= bytes.begin) return "";
  const int64_t first = (bytes.begin - k.begin) / k.element_bytes;
  const int64_t last = (bytes.end - 1 - k.begin) / k.element_bytes;
  if (first < 0 || last >= all) return "";
  if (first == last) return fmt::format("element {}", element_at(first, k.dims));
  return fmt::format("elements {} to {}", element_at(first, k.dims), element_at(last, k.dims));
}

std::string element_name(const Plan& p, uint32_t buffer, int64_t offset) {
  const Known k = known_at(p, buffer, offset);
  const std::string name = allocation_name(p, buffer, offset);
  if (name.empty() || k.element_bytes <= 0 || offset < k.begin) return "";
  return fmt::format("{}[{}]", name, fmt::join(index_of((offset - k.begin) / k.element_bytes, k.dims), ", "));
}

CopyWay::CopyWay(const Execution& ex, const memory::AsyncOperation& op, const memory::Side& receiver)
    : step(op.step), src(op.reads.empty() ? receiver.place : op.reads.front().place), dst(receiver.place) {
  if (ex.points > 0 && (names_thread(ex, src) || names_thread(ex, dst))) said = text(ex);
}

std::string CopyWay::text(const Execution& ex) const {
  if (!said.empty()) return said;
  const Step& s = ex.plan->steps[static_cast<size_t>(step)];
  const SideNames names = row(s).sides(s);
  if (src == dst) return "to " + place_of(ex, dst, names.writes);
  return fmt::format("from {} to {}", place_of(ex, src, names.reads), place_of(ex, dst, names.writes));
}

std::vector<std::string> about_sync(const Step& s) {
  std::vector<std::string> r;
  for (const SyncUse& u : sync_uses(s))
    if (u.block >= 0)
      r.push_back(u.object == Wait::Kind::Barrier ? about_barriers(u.block) : about_semaphores(u.block));
  return r;
}

namespace {

bool overlap(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const std::string& k) { return std::find(b.begin(), b.end(), k) != b.end(); });
}

void merge(std::vector<std::string>* into, const std::vector<std::string>& more) {
  for (const std::string& k : more)
    if (std::find(into->begin(), into->end(), k) == into->end()) into->push_back(k);
}

// "b_smem is read … (k.py:20, k.py:12)".
std::string line_of(const ir::Diagnostic& d) {
  return fmt::format("also: {} ({}{})", d.message, where(d.site), d.also.empty() ? "" : ", " + where(d.also.front()));
}

ir::Diagnostic report_of(const std::vector<const Meeting*>& group) {
  constexpr size_t kMost = 6;
  ir::Diagnostic d = group.front()->found;
  std::vector<std::string> lines;
  for (const Meeting* m : group) {
    merge(&d.about, m->found.about);
    if (m == group.front()) continue;
    std::string line = line_of(m->found);
    if (line != line_of(group.front()->found) && std::find(lines.begin(), lines.end(), line) == lines.end())
      lines.push_back(std::move(line));
  }
  const size_t shown = lines.size() > kMost + 1 ? kMost : lines.size();
  d.numbers.insert(d.numbers.end(), lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(shown));
  if (shown < lines.size()) d.numbers.push_back(fmt::format("also: {} more pairs of lines", lines.size() - shown));
  return d;
}

}  // namespace

std::vector<ir::Diagnostic> joined(std::vector<Meeting> all) {
  struct Group {
    std::vector<const Meeting*> members;
    std::vector<std::string> keys;
  };
  std::vector<Group> groups;
  for (const Meeting& m : all) {
    Group now{{&m}, m.keys};
    // It may bring groups together that had nothing in common.
    for (auto g = groups.begin(); g != groups.end();) {
      if (!overlap(g->keys, now.keys)) {
        ++g;
        continue;
      }
      g->members.insert(g->members.end(), now.members.begin(), now.members.end());
      merge(&g->keys, now.keys);
      now = std::move(*g);
      g = groups.erase(g);
    }
    groups.push_back(std::move(now));
  }
  std::vector<ir::Diagnostic> r;
  for (Group& g : groups) {
    std::sort(g.members.begin(), g.members.end());  // as they were found
    r.push_back(report_of(g.members));
  }
  return r;
}

ir::Diagnostic the_same(ir::Diagnostic race) {
  race.severity = ir::Severity::Note;
  race.message += "; both write the same bytes";
  race.numbers.push_back("the same bytes each time in this run: no result depends on which of the two comes last");
  race.hint = "if other arguments could make them differ: " + race.hint;
  return race;
}

}  // namespace pallasim::interp
