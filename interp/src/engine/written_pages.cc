#include "written_pages.h"

#include "../ops/bases.h"
#include "../ops/footprint.h"
#include "pallasim/memory/shadow/box.h"

namespace pallasim::interp {
namespace {

// The boxes that an operation wrote, as accesses.
class WrittenSides : public ops::Boxes {
 public:
  WrittenSides(WrittenPages& to, const Thread& t, const Step& s) : Boxes(t, s), to_(to) {}

 private:
  void box(const Access& a) override { to_.on_access(a); }
  WrittenPages& to_;
};

}  // namespace

void WrittenPages::on_access(const Access& a) {
  if (!a.write) return;
  const std::byte* base = ops::base_of(ex_, a);
  if (!base) return;
  for (const memory::shadow::Range& r :
       memory::shadow::Box(a.offset, a.dims, a.strides, a.rank, a.element_bytes).rows())
    mark(base, r.begin, r.end);
}

void WrittenPages::on_operation(const OperationEvent& e) {
  const memory::AsyncOperation& op = e.operation;
  if (e.what != OperationEvent::What::Moved) return;
  WrittenSides sides(*this, ex_.threads[static_cast<size_t>(op.thread)], ex_.plan->steps[static_cast<size_t>(op.step)]);
  for (const memory::Side& side : op.writes) ops::side_boxes(op, side, true, side.dims, sides);
}

void WrittenPages::on_memory(const MemoryEvent& e) {
  if (e.what != MemoryEvent::What::Given && e.what != MemoryEvent::What::Fresh) return;
  const Thread& of = ex_.threads[static_cast<size_t>(e.thread)];
  if (e.what == MemoryEvent::What::Fresh || ex_.plan->memory.is_private(e.buffer))
    return mark(of.bases[e.buffer], e.offset, e.offset + e.bytes);
  // The thread has no table of what it shares yet.
  for (const Execution::SharedMemory& m : ex_.shared_memory)
    if (const memory::Allocation& a = ex_.plan->memory.allocations[m.allocation]; a.buffer == e.buffer)
      mark(m.of_units[static_cast<size_t>(ex_.units.unit_of(a.owner, of.unit))].data(), 0, a.bytes);
}

void WrittenPages::mark(const std::byte* at, int64_t begin, int64_t end) {
  auto it = regions_.upper_bound(at + begin);
  if (it == regions_.begin()) return;
  --it;
  const int64_t from = at - it->first;
  it->second.marks.mark(from + begin, from + end);
}

void WrittenPages::watch(const std::byte* at, int64_t bytes) {
  const auto it = regions_.find(at);
  if (it == regions_.end() || it->second.bytes != bytes)
    regions_.insert_or_assign(at, Region{bytes, memory::PageMarks(bytes)});
}

const memory::PageMarks* WrittenPages::marks(const std::byte* at, int64_t bytes) const {
  const auto it = regions_.find(at);
  return it == regions_.end() || it->second.bytes != bytes ? nullptr : &it->second.marks;
}

void WrittenPages::clear() {
  for (auto& [at, region] : regions_) region.marks.clear();
}

}  // namespace pallasim::interp
