#include "lattice.h"

#include "../plan/payload/movement.h"
#include "pieces.h"

namespace pallasim::interp::ops {
namespace {

using Level = ReinterpretPayload::Level;

std::vector<int64_t> indices(int64_t flat, std::span<const int64_t> shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d]) at[d] = flat % shape[d];
  return at;
}

// A view of a dense array whose elements are wider or narrower than those of the memory that it shows: both have the
// same dims but for the rows, of which some lie in one.
class Recast {
 public:
  Recast(const Level& view, const Level& memory)
      : view_(view), memory_(memory), shape_(memory.dims), rows_(memory.dims.size() - 2) {
    shape_[rows_] = view.rows;
    wide_ = view.bits > memory.bits;
    ratio_ = wide_ ? view.bits / memory.bits : memory.bits / view.bits;
    unit_ = std::min(view.bits, memory.bits) / 8;
    per_element_ = memory.bytes / unit_;
  }

  bool empty() const {
    return std::any_of(shape_.begin(), shape_.end(), [](int64_t d) { return d <= 0; });
  }

  std::optional<Lattice> from(const Pieces& pieces, int32_t thread, int64_t skip, std::span<const int64_t> dims) const {
    const std::vector<int64_t> at = indices(pieces.start(0) / view_.bytes + skip, shape_);
    Lattice l;
    l.unit = unit_;
    int64_t units = 0;
    for (size_t d = 0; d < at.size(); ++d) units += memory_.strides[d] * per_element_ * row(d, at[d]);
    if (!wide_) units += at[rows_] % ratio_;
    l.first = {thread, memory_.addr.buffer, pieces.start(1) + units * unit_};
    for (size_t i = 0; i < dims.size(); ++i) {
      const std::optional<int64_t> s = stride(view_.strides[i], dims[i], at);
      if (!s) return std::nullopt;
      l.strides.push_back(*s);
    }
    if (wide_) l.split = ratio_, l.split_stride = memory_.strides[rows_] * per_element_;
    return l;
  }

 private:
  // Of memory, of what is at index `i` of dimension `d` of the dense array.
  int64_t row(size_t d, int64_t i) const { return d != rows_ ? i : wide_ ? i * ratio_ : i / ratio_; }

  // Units from each of `n` elements to the next, which lie `elements` of the dense array apart.
  std::optional<int64_t> stride(int64_t elements, int64_t n, const std::vector<int64_t>& at) const {
    if (n <= 1) return 0;
    if (elements < 0) return std::nullopt;
    const std::vector<int64_t> step = indices(elements, shape_);
    const auto moves = [](int64_t s) { return s != 0; };
    const auto d = static_cast<size_t>(std::find_if(step.begin(), step.end(), moves) - step.begin());
    if (std::count_if(step.begin(), step.end(), moves) != 1 || at[d] + (n - 1) * step[d] >= shape_[d])
      return std::nullopt;
    if (d != rows_ || wide_) return row(d, step[d]) * memory_.strides[d] * per_element_;
    if (step[d] != 1 || at[d] % ratio_ + n > ratio_) return std::nullopt;
    return 1;  // parts of one element of memory
  }

  const Level &view_, &memory_;
  std::vector<int64_t> shape_;  // of the dense array
  size_t rows_;
  bool wide_;
  int64_t ratio_, unit_, per_element_;
};

}  // namespace

std::optional<Lattice> lattice(const Thread& t, std::span<const Level> levels, int64_t skip,
                               std::span<const int64_t> dims) {
  const Pieces pieces(t, levels, t.bases);
  const Level& view = levels.front();
  if (levels.size() == 1) {
    Lattice l;
    l.unit = view.bytes;
    l.first = {t.index, view.addr.buffer, pieces.start(0) + skip * view.bytes};
    l.strides = view.strides;
    return l;
  }
  const Level& memory = levels[1];
  if (levels.size() > 2 || view.bits < 8 || memory.bits < 8 || memory.bits == view.bits || memory.dims.size() < 2)
    return std::nullopt;
  const Recast recast(view, memory);
  return recast.empty() ? std::nullopt : recast.from(pieces, t.index, skip, dims);
}

bool match(Lattice* a, Lattice* b) {
  const auto divide = [](Lattice* l, int64_t unit) {
    if (l->split != 1 || l->unit % unit != 0) return false;
    l->split = l->unit / unit;
    for (int64_t& s : l->strides) s *= l->split;
    l->split_stride = 1;
    l->unit = unit;
    return true;
  };
  if (a->unit > b->unit && !divide(a, b->unit)) return false;
  if (b->unit > a->unit && !divide(b, a->unit)) return false;
  if (a->split == b->split) return true;
  // Units are the same, and elements too: one of the two has elements that are no more than a unit.
  return false;
}

}  // namespace pallasim::interp::ops
