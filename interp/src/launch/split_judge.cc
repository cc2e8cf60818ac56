#include "split_judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "../ops/bodies.h"
#include "../ops/elements.h"
#include "../report/checked.h"
#include "../report/report.h"

namespace pallasim::interp {

SplitJudge::SplitJudge(const Plan& plan, const std::vector<int64_t>& grid, bool split)
    : plan_(plan), grid_(grid), split_(split) {}

void SplitJudge::begin(const GridBox& unit) {
  ++unit_;
  point_ = 0;
  for (size_t g = 0; g < grid_.size(); ++g) point_ = point_ * grid_[g] + unit.lo[g];
}

void SplitJudge::on_point(const PointEvent& e) {
  point_ = 0;
  for (size_t g = 0; g < grid_.size(); ++g) point_ = point_ * grid_[g] + e.ids[g];
}

SplitJudge::Mark& SplitJudge::mark(const std::byte* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  if (address / kPageBytes != last_at_) {
    std::unique_ptr<Page>& p = pages_[address / kPageBytes];
    if (!p) p = std::make_unique<Page>();
    last_ = p.get();
    last_at_ = address / kPageBytes;
  }
  return last_->marks[address % kPageBytes];
}

uint32_t SplitJudge::event(int32_t step) {
  const Event& e = events_.back();
  if (events_.size() == 1 || e.unit != unit_ || e.point != point_ || e.step != step)
    events_.push_back({unit_, point_, step});
  return static_cast<uint32_t>(events_.size() - 1);
}

// The earlier access of another unit that this one must not meet, 0 where there is none. `kept`: memory of the thread,
// of which each worker has its own: only what a unit finds there matters.
uint32_t SplitJudge::conflict(const Mark& m, bool write, bool kept) const {
  auto other = [&](uint32_t e) { return e != 0 && events_[e].unit != unit_; };
  if (other(m.written) && !(kept && write)) return m.written;
  if (!write || kept) return 0;
  return other(m.read) ? m.read : other(m.before) ? m.before : 0;
}

void SplitJudge::touch(const Access& a, const std::byte* begin, const std::byte* end) {
  const bool kept = a.buffer == kTempBuffer;
  const size_t operand = a.buffer - kFirstOperandBuffer;
  const bool unpoisoned = a.buffer >= kFirstOperandBuffer && operand < plan_.first().windows.size() &&
                          plan_.first().windows[operand].fully_written;
  const uint32_t now = event(a.step);
  for (const std::byte* at = begin; at < end; ++at) {
    Mark& m = mark(at);
    const bool unborn = !a.write && !m.written && unpoisoned;
    const uint32_t before = split_ ? conflict(m, a.write, kept) : 0;
    if (before || unborn) {
      const std::byte* base = address(*ex_, a) - a.offset;
      const std::byte* last = at + 1;
      while (last < end && (before ? conflict(mark(last), a.write, kept) == before : mark(last).written == 0)) ++last;
      const Event earlier = events_[before];
      ir::Diagnostic d = diagnostic_at(ex_->threads[static_cast<size_t>(a.thread)], &step_of(a.step), "PS-BUG-002", "");
      std::vector<std::string> numbers{fmt::format("{}, bytes {} to {}", name_of(a), at - base, last - base - 1)};
      if (before) {
        const bool wrote = before == m.written;
        numbers.push_back(fmt::format("{} at grid point {}, {} at grid point {} of another unit",
                                      a.write ? "written" : "read", point_text(point_),
                                      wrote ? "written before" : "read before", point_text(earlier.point)));
        ir::Site side = ir::site_of(*ex_->locs, earlier.step >= 0 ? step_line(plan_, earlier.step) : -1);
        side.what = wrote ? "written before here" : "read before here";
        d.also.push_back(std::move(side));
      } else {
        numbers.push_back(fmt::format("read at grid point {}, written by nobody before", point_text(point_)));
      }
      d.site.what = a.write ? "written here" : "read here";
      stop(std::move(d),
           unborn && !before                ? "an output without poison is written before it is read"
           : kept                           ? "what a thread keeps is written before it is read inside each unit"
           : a.write && before == m.written ? "units write disjoint memory"
                                            : "no unit reads what another one writes",
           std::move(numbers));
    }
    if (a.write) {
      m.written = now;
    } else {
      if (m.read && events_[m.read].unit != unit_) m.before = m.read;
      m.read = now;
    }
  }
}

void SplitJudge::on_access(const Access& a) {
  for (int d = 0; d < a.rank; ++d)
    if (a.dims[d] <= 0) return;
  const std::byte* const at = address(*ex_, a);
  for (const ByteRun& r : byte_runs(0, a.dims, a.strides, a.rank, a.element_bytes)) touch(a, at + r.begin, at + r.end);
}

// What nobody wrote is the same in every unit.
void SplitJudge::on_memory(const MemoryEvent& e) {
  if (e.what != MemoryEvent::What::Fresh) return;
  const int64_t one = 1;
  Access a{e.thread, e.buffer, true, e.offset, &e.bytes, &one, 1, 1, -1};
  on_access(a);
}

void SplitJudge::on_operation(const OperationEvent& e) {
  if (e.what == OperationEvent::What::Issued) synchronises(e.operation.thread, "copies");
}

void SplitJudge::on_sync(const SyncEvent& e) {
  if (e.what == SyncEvent::What::Signal) synchronises(e.thread, "signals");
  if (e.what == SyncEvent::What::Taken || e.what == SyncEvent::What::Looked) synchronises(e.thread, "waits");
}

void SplitJudge::synchronises(int32_t thread, const char* what) {
  if (!split_) return;
  stop(diagnostic_at(ex_->threads[static_cast<size_t>(thread)], plan_.first().entry, "PS-BUG-002", ""),
       "units do not synchronise", {fmt::format("the unit of grid point {} {}", point_text(point_), what)});
}

void SplitJudge::end(const std::vector<std::byte*>& operands) {
  for (const Window& w : plan_.first().windows) {
    if (!w.fully_written) continue;
    int64_t bytes = w.element_bytes;
    for (int64_t n : w.dims) bytes *= n;
    const std::byte* begin = operands[static_cast<size_t>(w.operand)];
    for (int64_t at = 0; at < bytes; ++at) {
      if (mark(begin + at).written) continue;
      int64_t last = at + 1;
      while (last < bytes && !mark(begin + last).written) ++last;
      stop(unplaced(), "an output without poison is written as a whole",
           {fmt::format("{}, bytes {} to {}", plan_.module.operands[static_cast<size_t>(w.operand)].name, at, last - 1),
            "no grid point wrote them"});
    }
  }
}

void SplitJudge::compare_stops(const std::optional<ir::DiagnosticError>& one_piece,
                               const std::optional<ir::DiagnosticError>& units) {
  const std::string want = one_piece ? one_piece->what() : "the run ends", got = units ? units->what() : "the run ends";
  if (want == got) return;
  stop(unplaced(), "units stop where the grid in one piece does", {"in one piece: " + want, "in units: " + got});
}

void SplitJudge::compare(const Report& one_piece, const std::vector<std::vector<std::byte>>& wanted,
                         const Report& units, const std::vector<std::span<const std::byte>>& got) {
  size_t output = 0;
  for (const Window& w : plan_.first().windows) {
    if (!w.is_output) continue;
    const auto& a = wanted[output];
    const auto& b = got[output++];
    const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
    if (at == static_cast<std::ptrdiff_t>(a.size())) continue;
    stop(unplaced(), "units leave the bytes that the grid in one piece leaves",
         {fmt::format("{}, from byte {} on", plan_.module.operands[static_cast<size_t>(w.operand)].name, at)});
  }
  auto texts = [](const Report& r) {
    std::vector<std::string> t = r.prints;
    for (const ir::Diagnostic& f : r.findings) t.push_back(ir::render(f));
    return t;
  };
  const std::vector<std::string> want = texts(one_piece), have = texts(units);
  if (want == have) return;
  size_t i = 0;
  while (i < want.size() && i < have.size() && want[i] == have[i]) ++i;
  stop(unplaced(), "prints and findings come in the order of the grid",
       {"in one piece: " + (i < want.size() ? want[i] : "nothing more"),
        "in units: " + (i < have.size() ? have[i] : "nothing more")});
}

std::string SplitJudge::name_of(const Access& a) const {
  if (a.buffer != kTempBuffer) {
    const size_t operand = a.buffer - kFirstOperandBuffer;
    return operand < plan_.module.operands.size() ? plan_.module.operands[operand].name : "shared memory";
  }
  const memory::Allocation* scratch = plan_.memory.allocations.at(a.buffer, a.offset);
  if (scratch && scratch->lifetime == memory::Allocation::Lifetime::Launch) return scratch->name;
  for (const Window& w : plan_.first().windows)
    if (w.stage() && a.offset >= w.stage()->offset &&
        a.offset < w.stage()->offset + w.stage()->elements * w.element_bytes)
      return "the window of " + plan_.module.operands[static_cast<size_t>(w.operand)].name;
  return "a temporary";
}

std::string SplitJudge::point_text(int64_t point) const {
  std::vector<int64_t> ids(grid_.size());
  for (size_t g = grid_.size(); g-- > 0;) ids[g] = point % grid_[g], point /= grid_[g];
  return ops::shape_text(ids);
}

void SplitJudge::stop(ir::Diagnostic d, std::string obligation, std::vector<std::string> numbers) {
  d.message = "internal: a split that is not legal: " + obligation + ", which is false here";
  d.numbers = std::move(numbers);
  d.hint = "please report this with the kernel; one worker (workers=1) gives the result in the order of the grid";
  verdict_.emplace(std::move(d));
  throw *verdict_;
}

}  // namespace pallasim::interp
