#include "debug_watch.h"

#include <algorithm>

#include "../ops/bases.h"
#include "../ops/footprint.h"
#include "pallasim/memory/shadow/box.h"

namespace pallasim::interp {

const std::byte* WatchedElements::base(const Execution& ex) const {
  if (buffer >= kFirstOperandBuffer && buffer - kFirstOperandBuffer < ex.plan->module.operands.size())
    return ex.operand(ex.device_of(ex.threads[static_cast<size_t>(thread)]), buffer);
  const Thread& t = ex.threads[static_cast<size_t>(thread)];
  return t.bases ? t.bases[buffer] : nullptr;
}

// What an operation in flight writes when its bytes move.
class WatchedSides : public ops::Boxes {
 public:
  WatchedSides(WatchObserver& to, const Thread& t, const Step& s) : Boxes(t, s), to_(to) {}

 private:
  void box(const Access& a) override { to_.see(a); }
  WatchObserver& to_;
};

void WatchObserver::on_access(const Access& a) {
  if (!watched.empty() && !a.internal) see(a);
}

void WatchObserver::see(const Access& a) {
  const std::byte* base = ops::base_of(ex_, a);
  if (!base) return;
  const memory::shadow::Box box(a.offset, a.dims, a.strides, a.rank, a.element_bytes);
  const memory::shadow::Range hull = box.hull();
  for (size_t i = 0; i < watched.size(); ++i) {
    const WatchedElements* w = watched[i];
    const std::byte* at = w ? w->base(ex_) : nullptr;
    if (!at || w->offsets.empty()) continue;
    const int64_t apart = at - base;  // another view of the same memory may begin elsewhere
    const int64_t first = w->offsets.front() + apart, last = w->offsets.back() + apart + w->bytes;
    if (hull.end <= first || hull.begin >= last) continue;
    const auto touches = [&](const memory::shadow::Range& r) {
      const auto it = std::lower_bound(w->offsets.begin(), w->offsets.end(), r.begin - apart - w->bytes + 1);
      return it != w->offsets.end() && *it < r.end - apart;
    };
    const auto rows = box.rows();
    if (std::none_of(rows.begin(), rows.end(), touches)) continue;
    const auto same = [&](const Hit& h) { return h.which == i && h.write == a.write; };
    if (const auto it = std::find_if(hits.begin(), hits.end(), same); it != hits.end())
      *it = {i, a.write, a.thread, a.loc};
    else hits.push_back({i, a.write, a.thread, a.loc});
  }
}

void WatchObserver::on_operation(const OperationEvent& e) {
  if (watched.empty() || e.what != OperationEvent::What::Moved || ex_.copies_move == Options::Copies::AtIssue) return;
  const memory::AsyncOperation& op = e.operation;
  WatchedSides sides(*this, ex_.threads[static_cast<size_t>(op.thread)], ex_.plan->steps[static_cast<size_t>(op.step)]);
  for (const memory::Side& side : op.writes) ops::side_boxes(op, side, true, side.dims, sides);
}

void WatchObserver::on_finding(const ir::Diagnostic& d) { findings.push_back(d); }

}  // namespace pallasim::interp
