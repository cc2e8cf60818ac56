#include "pallasim/memory/async.h"

#include <algorithm>

namespace pallasim::memory {

AsyncCopy CopyQueue::take(size_t i) {
  AsyncCopy c = std::move(copies_[i]);
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
  return c;
}

size_t CopyQueue::first_completing(Completion::Kind kind, int64_t object, int64_t last_group) const {
  const auto completes = [&](const AsyncCopy& c) {
    if (kind == Completion::Kind::Group) return c.stream == object && c.group <= last_group;
    return (c.after_read.kind == kind && c.after_read.object == object) ||
           (c.after_write.kind == kind && c.after_write.object == object);
  };
  size_t i = 0;
  while (i < copies_.size() && !completes(copies_[i])) ++i;
  return i;
}

size_t CopyQueue::first_using(int32_t thread, uint32_t buffer, int64_t begin, int64_t end) const {
  const auto touches = [&](const Place& p, const Span& s) {
    return p.offset + s.begin < end && begin < p.offset + s.end;
  };
  const auto lies_there = [&](const Place& p) { return p.thread == thread && p.buffer == buffer; };
  const auto uses = [&](const AsyncCopy& c, bool dst) {
    if (c.kind == AsyncCopy::Kind::Product)
      return std::any_of(c.sides.begin(), c.sides.end(), [&](const ProductSide& s) {
        return s.held.empty() && lies_there(s.side.place) && touches(s.side.place, s.side.span(s.element_bytes));
      });
    const Place& p = dst ? c.dst : c.src;
    return lies_there(p) && touches(p, span_of(c, dst));
  };
  size_t i = 0;
  while (i < copies_.size() && !uses(copies_[i], false) && !uses(copies_[i], true)) ++i;
  return i;
}

Span span_of(const AsyncCopy& c, bool dst) {
  const int64_t *strides = dst ? c.dst_strides : c.src_strides, *dims = dst ? c.dst_dims() : c.dims;
  const int64_t size = ir::byte_size(c.dtype);
  Span s{0, size};
  for (int d = 0; d < c.rank; ++d) {
    if (dims[d] == 0) return {0, 0};
    int64_t least = 0, most = dims[d] - 1;
    if (d == c.row_dim && dst == c.rows_of_dst && !c.rows.empty()) {
      const auto [first, last] = std::minmax_element(c.rows.begin(), c.rows.end());
      if (*last < 0) return {0, 0};
      least = std::max<int64_t>(*first, 0), most = *last;
    }
    const int64_t a = least * strides[d] * size, b = most * strides[d] * size;
    s.begin += std::min(a, b), s.end += std::max(a, b);
  }
  return s;
}

int64_t Side::elements() const {
  int64_t n = 1;
  for (size_t d = 0; d < dims.size(); ++d) n *= d == 0 && by_rows ? static_cast<int64_t>(rows.size()) : dims[d];
  return n;
}

Span Side::span(int64_t size) const {
  if (elements() <= 0) return {0, 0};
  Span s{0, size};
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d == 0 && by_rows) {
      const auto [least, most] = std::minmax_element(rows.begin(), rows.end());
      const int64_t a = *least * strides[0] * size, b = *most * strides[0] * size;
      s.begin += std::min(a, b), s.end += std::max(a, b);
      continue;
    }
    const int64_t reach = (dims[d] - 1) * strides[d] * size;
    (reach < 0 ? s.begin : s.end) += reach;
  }
  return s;
}

bool AsyncOperation::completes(Completion::Kind k, int64_t object) const {
  const auto match = [&](const Completion& c) {
    return c.kind == k && (k == Completion::Kind::Group ? stream : c.object) == object;
  };
  return std::any_of(after_read.begin(), after_read.end(), match) ||
         std::any_of(after_write.begin(), after_write.end(), match);
}

AsyncOperation AsyncQueue::take(size_t i) {
  AsyncOperation op = std::move(operations_[i]);
  operations_.erase(operations_.begin() + static_cast<std::ptrdiff_t>(i));
  return op;
}

size_t AsyncQueue::head_of(size_t i) const {
  if (!operations_[i].in_order || operations_[i].stream < 0) return i;
  size_t first = 0;
  while (operations_[first].stream != operations_[i].stream) ++first;
  return first;
}

std::vector<size_t> AsyncQueue::eligible(CopyCompletion policy, const Awaited* awaited) const {
  std::vector<size_t> r;
  switch (policy) {
    case CopyCompletion::AtIssue:
      if (!empty()) r.push_back(0);
      return r;
    case CopyCompletion::AtWait:
      for (size_t i = 0; awaited && i < size() && r.empty(); ++i) {
        const AsyncOperation& op = operations_[i];
        const bool late = awaited->kind == Completion::Kind::Group && op.group > awaited->last_group;
        if (!late && op.completes(awaited->kind, awaited->object)) r.push_back(head_of(i));
      }
      return r;
    case CopyCompletion::Scheduled:
      for (size_t i = 0; i < size(); ++i)
        if (head_of(i) == i) r.push_back(i);
      return r;
  }
  return r;
}

size_t AsyncQueue::first_using(int32_t thread, uint32_t buffer, int64_t begin, int64_t end) const {
  const auto uses = [&](const AsyncOperation& op, const Side& side) {
    if (side.place.thread != thread || side.place.buffer != buffer) return false;
    Span s = side.span(ir::byte_size(op.dtype));
    if (op.fills && !op.writes.empty() && &side == &op.writes.front()) {
      Side whole = side;
      whole.dims = op.whole;
      s = whole.span(ir::byte_size(op.dtype));
    }
    return side.place.offset + s.begin < end && begin < side.place.offset + s.end;
  };
  size_t i = 0;
  for (; i < size(); ++i) {
    const AsyncOperation& op = operations_[i];
    const auto any = [&](const std::vector<Side>& sides) {
      return std::any_of(sides.begin(), sides.end(), [&](const Side& side) { return uses(op, side); });
    };
    if (any(op.reads) || any(op.writes)) break;
  }
  return i;
}

}  // namespace pallasim::memory
