#include "pallasim/memory/async.h"

#include <algorithm>
#include <array>
#include <utility>

namespace pallasim::memory {
namespace {

constexpr bool generic = false, asynchronous = true;
constexpr std::array kRows{
#define ASYNC(kind, word, moves, engine, order, proxy, after_read, after_write) \
  AsyncRow{#kind,                                                               \
           word,                                                                \
           AsyncEngine::engine,                                                 \
           StreamOrder::order,                                                  \
           proxy,                                                               \
           Completion::Kind::after_read,                                        \
           Completion::Kind::after_write},
#include "pallasim/memory/async.def"
};

}  // namespace

const AsyncRow& row(AsyncKind kind) { return kRows[static_cast<size_t>(kind)]; }

std::vector<AsyncKind> async_kinds() {
  std::vector<AsyncKind> r;
  for (size_t i = 0; i < kRows.size(); ++i) r.push_back(static_cast<AsyncKind>(i));
  return r;
}

Side& Side::operator=(const Side& o) {
  place = o.place, dtype = o.dtype, row_dim = o.row_dim, rank = o.rank, held = o.held;
  std::copy(o.dims, o.dims + rank, dims);
  std::copy(o.strides, o.strides + rank, strides);
  return *this;
}

bool Side::operator==(const Side& o) const {
  return place == o.place && dtype == o.dtype && row_dim == o.row_dim && rank == o.rank && held == o.held &&
         std::equal(dims, dims + rank, o.dims) && std::equal(strides, strides + rank, o.strides);
}

bool AsyncOperation::completes(Completion::Kind of, int64_t object) const {
  const auto match = [&](const Completion& c) { return c.kind == of && c.object == object; };
  return after_write.any(match) || after_read.any(match);
}

Span AsyncOperation::span(const Side& side) const {
  const int64_t size = side.element_bytes();
  Span s{0, size};
  for (int d = 0; d < side.rank; ++d) {
    if (side.dims[d] <= 0) return {0, 0};
    int64_t least = 0, most = side.dims[d] - 1;
    if (d == side.row_dim) {
      const auto [first, last] = std::minmax_element(rows.begin(), rows.end());
      if (rows.empty() || *last < 0) return {0, 0};
      least = std::max<int64_t>(*first, 0), most = *last;
    }
    const int64_t a = least * side.strides[d] * size, b = most * side.strides[d] * size;
    s.begin += std::min(a, b), s.end += std::max(a, b);
  }
  return s;
}

AsyncOperation::Rows AsyncOperation::rows_of(const Side& side) const {
  Rows r;
  if (rows.empty()) return r;
  const auto note = [&](const Side& s) { r.dim = std::max<int>(r.dim, s.row_dim); };
  for (const Side& s : reads) note(s);
  for (const Side& s : writes) note(s);
  const bool all = std::none_of(rows.begin(), rows.end(), [](int64_t row) { return row < 0; });
  if (r.dim < 0 || (side.row_dim < 0 && all)) return {};
  const int64_t distance = side.strides[r.dim] * side.element_bytes();
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i] >= 0)
      r.places.push_back(side.place.offset + (side.row_dim < 0 ? static_cast<int64_t>(i) : rows[i]) * distance);
  return r;
}

std::vector<AsyncOperation> AsyncOperation::runs(size_t most) const {
  std::vector<AsyncOperation> r;
  AsyncOperation whole = *this;
  whole.rows.clear();
  int dim = -1;
  const auto sides = [](AsyncOperation* op) { return std::array{&op->reads.front(), &op->writes.front()}; };
  for (Side* s : sides(&whole)) dim = std::max<int>(dim, std::exchange(s->row_dim, int8_t{-1}));
  int64_t bytes = whole.writes.front().element_bytes(), moved = 0;  // of a row
  for (int d = 0; d < whole.writes.front().rank; ++d)
    if (d != dim) bytes *= whole.writes.front().dims[d];
  const auto add = [&](int64_t n, int64_t units) -> AsyncOperation& {
    r.push_back(whole);
    for (Side* s : sides(&r.back())) s->dims[dim] = n;
    for (Few<Completion>* of : {&r.back().after_read, &r.back().after_write})
      for (Completion& c : *of) c.count = units < 0 ? c.count - moved : units;
    return r.back();
  };
  const size_t count = rows.size();
  for (size_t i = 0, end; i < count; i = end) {
    end = i + 1;
    if (rows[i] < 0) continue;
    const bool last = r.size() + 1 == most;
    while (end < count && (last || rows[end] == rows[end - 1] + 1)) ++end;
    const auto n = static_cast<int64_t>(end - i);
    AsyncOperation& op = add(n, n * bytes);
    if (last) op.rows.assign(rows.begin() + static_cast<std::ptrdiff_t>(i), rows.end());
    const std::array<Side*, 2> to = sides(&op);
    const std::array<const Side*, 2> from{&reads.front(), &writes.front()};
    for (size_t k = 0; k < to.size(); ++k) {
      if (last && from[k]->row_dim >= 0) to[k]->row_dim = from[k]->row_dim;
      else
        to[k]->place.offset +=
            (from[k]->row_dim < 0 ? static_cast<int64_t>(i) : rows[i]) * to[k]->strides[dim] * to[k]->element_bytes();
    }
    moved += n * bytes;
  }
  add(0, -1);
  const Completion& left = r.back().after_write.front();
  if (left.count == 0) r.pop_back();
  return r;
}

bool AsyncOperation::uses(int32_t of, uint32_t buffer, int64_t begin, int64_t end) const {
  const auto touches = [&](const Side& side) {
    if (side.place.thread != of || side.place.buffer != buffer || side.held >= 0) return false;
    const Span s = span(side);
    return side.place.offset + s.begin < end && begin < side.place.offset + s.end;
  };
  return reads.any(touches) || writes.any(touches);
}

void AsyncQueue::push(AsyncOperation op) {
  in_order_ += op.in_order();
  if (free_.empty()) {
    order_.push_back({static_cast<uint32_t>(slots_.size()), op.stream});
    slots_.push_back(std::move(op));
    return;
  }
  order_.push_back({free_.back(), op.stream});
  free_.pop_back();
  slots_[order_.back().slot] = std::move(op);
}

AsyncOperation AsyncQueue::take(size_t i) {
  const uint32_t slot = order_[i].slot;
  order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(i));
  free_.push_back(slot);
  in_order_ -= slots_[slot].in_order();
  return std::move(slots_[slot]);
}

void AsyncQueue::clear() {
  for (const Entry& e : order_) free_.push_back(e.slot);
  order_.clear();
  in_order_ = 0;
}

bool AsyncQueue::operator==(const AsyncQueue& o) const {
  if (size() != o.size()) return false;
  for (size_t i = 0; i < size(); ++i)
    if (!((*this)[i] == o[i])) return false;
  return true;
}

size_t AsyncQueue::head_of(size_t i) const {
  const AsyncOperation& op = (*this)[i];
  if (!op.in_order() || op.stream < 0) return i;
  size_t first = 0;
  while (order_[first].stream != op.stream) ++first;
  return first;
}

size_t AsyncQueue::next(const Awaited& what) const {
  const bool group = what.kind == Completion::Kind::Group;  // of its own stream, which is the group's object
  for (size_t i = 0; i < size(); ++i) {
    if (group && order_[i].stream != what.object) continue;
    const AsyncOperation& op = (*this)[i];
    if (!(group && op.group > what.last_group) && op.completes(what.kind, what.object)) return head_of(i);
  }
  return size();
}

size_t AsyncQueue::choices() const {
  if (in_order_ < 2) return size();
  size_t n = 0;
  for (size_t i = 0; i < size(); ++i) n += head_of(i) == i;
  return n;
}

size_t AsyncQueue::choice(size_t n) const {
  if (in_order_ < 2) return n;
  for (size_t i = 0; i < size(); ++i)
    if (head_of(i) == i && n-- == 0) return i;
  return size();
}

size_t AsyncQueue::first_using(int32_t thread, uint32_t buffer, int64_t begin, int64_t end) const {
  size_t i = 0;
  while (i < size() && !(*this)[i].uses(thread, buffer, begin, end)) ++i;
  return i;
}

}  // namespace pallasim::memory
