#include "atomics.h"

#include <algorithm>
#include <unordered_map>

#include "../ops/footprint.h"
#include "../plan/kinds.h"
#include "../plan/payload/movement.h"

namespace pallasim::interp {
namespace {

constexpr int64_t kLine = 128, kSector = 32;  // bytes

// Requests of a step by line, and of those by element what comes more than once.
class Requests : public ops::Boxes {
 public:
  Requests(const Thread& t, const Step& s, uint32_t buffer, double side_by_side)
      : Boxes(t, s), buffer_(buffer), side_by_side_(side_by_side) {}
  bool wants(uint32_t buffer) const override { return buffer == buffer_; }
  bool wants_internal() const override { return false; }
  bool wants_each_visit() const override { return true; }
  std::unordered_map<int64_t, double> lines;
  std::unordered_map<int64_t, int64_t> elements;

 protected:
  void box(const Access& a) override {
    if (!a.write || !a.atomic) return;
    const int last = a.rank - 1;
    const bool dense = a.rank > 0 && a.strides[last] == 1;
    int64_t rows = 1;
    for (int d = 0; d < (dense ? last : a.rank); ++d) rows *= a.dims[d];
    const int64_t bytes = a.element_bytes * (dense ? a.dims[last] : 1);
    for (int64_t r = 0; r < rows; ++r) {
      int64_t at = a.offset, rest = r;
      for (int d = (dense ? last : a.rank); d-- > 0; rest /= a.dims[d])
        at += rest % a.dims[d] * a.strides[d] * a.element_bytes;
      const bool alone = bytes == a.element_bytes;
      for (int64_t sector = at / kSector; sector * kSector < at + bytes; ++sector)
        lines[sector * kSector / kLine] += alone ? 1 : side_by_side_;
      if (alone) ++elements[at];
    }
  }

 private:
  uint32_t buffer_;
  double side_by_side_;
};

uint64_t scattered(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x7fb5d329728ea185u;
  x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44du;
  return x ^ (x >> 33);
}

}  // namespace

AtomicUnits::AtomicUnits(const hw::TimingFigures& f, double share)
    : seconds_(1 / (f("atomic_unit_rate") * share)),
      same_seconds_(1 / (f("atomic_same_rate") * share)),
      units_(static_cast<size_t>(f("atomic_units"))) {}

double AtomicUnits::take(Thread& t, const Step& s, Indices indices, double side_by_side, double now, double times) {
  const auto& p = payload<Kind::atomic>(s);
  const bool listed = std::any_of(p.ref_dims.begin(), p.ref_dims.end(),
                                  [](const GatherDim& g) { return g.kind == GatherDim::Kind::Array; });
  double end = now;
  if (listed && indices != Indices::Known) {
    double n =
        indices == Indices::Rows ? times * std::min(side_by_side * static_cast<double>(p.size) / kSector, 1.0) : times;
    for (const int64_t d : p.dims) n *= static_cast<double>(d);
    for (hw::Server& u : units_) end = std::max(end, u.take(now, n * seconds_ / static_cast<double>(units_.size())));
    return end;
  }
  Requests asked(t, s, p.ref.buffer, side_by_side);
  ops::footprint(t, s, asked);
  std::vector<double> busy(units_.size());
  const auto unit = [&](int64_t line) {
    return scattered(static_cast<uint64_t>(line) * 0x9e3779b97f4a7c15u + p.ref.buffer) % units_.size();
  };
  for (const auto& [line, n] : asked.lines) busy[unit(line)] += n * seconds_;
  if (ir::is_float(p.dtype))
    for (const auto& [at, n] : asked.elements)
      busy[unit(at / kLine)] += static_cast<double>(n - 1) * (same_seconds_ - seconds_);
  for (size_t i = 0; i < units_.size(); ++i)
    if (busy[i] > 0) end = std::max(end, units_[i].take(now, busy[i] * times));
  return end;
}

}  // namespace pallasim::interp
