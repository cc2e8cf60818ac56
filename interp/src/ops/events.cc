// Memory events for checked runs.
#include <algorithm>

#include "bodies.h"

namespace pallasim::interp::ops {

void note_access(Thread& t, const Step* s, const Addr& a, const std::vector<int64_t>& dims,
                 const std::vector<int64_t>& strides, int element_bytes, bool write, int owner, bool atomic) {
  if (a.buffer < kTempBuffer || !t.exec->tells(a.buffer)) return;
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;  // no element is touched
  const int64_t offset = a.offset + (a.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(a.dyn));
  Access access{t.index,       a.buffer, write, offset, dims.data(), strides.data(), static_cast<int>(dims.size()),
                element_bytes, s,        owner};
  access.atomic = atomic;
  access.loc = a.loc >= 0 ? a.loc : t.exec->plan->loc_of(*s);
  for (Listener* l : t.exec->listeners) l->on_access(*t.exec, access);
}

void ChosenElements::append(int64_t offset, int bytes) {
  if (count_ > 0 && bytes == bytes_ && offset == row_ + count_ * bytes) {
    ++count_;
    return;
  }
  if (count_ > 0 && bytes == bytes_ && offset == row_ + (count_ - 1) * bytes)
    return;  // once more, or another part of it
  if (bytes != bytes_) flush();
  else end_row();
  bytes_ = bytes;
  row_ = offset;
  count_ = 1;
}

// The row that grew joins the block, or begins another one.
void ChosenElements::end_row() {
  if (count_ == 0) return;
  Block& b = block_;
  const int64_t distance = row_ - b.first;
  if (b.rows > 0 && count_ == b.elements && distance % bytes_ == 0 &&
      (b.rows == 1 || distance == b.rows * b.distance)) {
    if (b.rows++ == 1) b.distance = distance;
  } else {
    tell();
    b = {row_, 1, count_, 0};
  }
  count_ = 0;
}

void ChosenElements::add_row(const std::byte* at, int64_t count, int64_t stride, int bytes) {
  if (!listened_) return;
  for (int64_t i = 0; i < count; i += stride == 1 ? count : 1) {
    append(at - t_.bases[buffer_] + i * stride * bytes, bytes);
    if (stride == 1) count_ += count - 1;
  }
}

void ChosenElements::flush() {
  end_row();
  tell();
  block_ = {};
}

void ChosenElements::tell() const {
  if (block_.rows == 0 || buffer_ < kTempBuffer || !t_.exec->tells(buffer_)) return;
  const int64_t dims[] = {block_.rows, block_.elements}, strides[] = {block_.distance / bytes_, 1};
  Access access{t_.index, buffer_, write_, block_.first, dims, strides, 2, bytes_, s_};
  access.atomic = atomic_;
  access.chosen = true;
  access.loc = t_.exec->plan->loc_of(*s_);
  for (Listener* l : t_.exec->listeners) l->on_access(*t_.exec, access);
}

void note_unwritten(Thread& t, const Step* s, const Addr& a, const std::vector<int64_t>& dims,
                    const std::vector<int64_t>& strides, int element_bytes, int owner) {
  if (a.buffer < kTempBuffer || !t.exec->tells(a.buffer)) return;
  const auto rank = static_cast<int>(dims.size());
  Access access{t.index, a.buffer, true, a.offset, dims.data(), strides.data(), rank, element_bytes, s, owner, true};
  access.loc = t.exec->plan->loc_of(*s);
  for (Listener* l : t.exec->listeners) l->on_access(*t.exec, access);
}

}  // namespace pallasim::interp::ops
