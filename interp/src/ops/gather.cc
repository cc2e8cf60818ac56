// Loads, stores and swaps through array indices, masks, or bounds per element.
#include <algorithm>

#include "elements.h"

namespace pallasim::interp::ops {
namespace {

using Mode = GatherPayload::Mode;

// Everything is inside and nothing is masked: strided copies.
void copy_regular(Thread& t, const GatherPayload& p, const Elements& e, std::byte* value, std::byte* old) {
  const int rank = static_cast<int>(p.dims.size());
  const std::vector<int64_t> dense = dense_strides(p.dims);
  if (p.mode == Mode::Load)
    return copy_strided(value, dense.data(), e.base(), e.strides(), p.dims.data(), rank, p.size);
  if (old) copy_strided(old, dense.data(), e.base(), e.strides(), p.dims.data(), rank, p.size);
  copy_strided(e.base(), e.strides(), value, dense.data(), p.dims.data(), rank, p.size);
}

template <size_t N>
void masked_row(Mode mode, int64_t n, std::byte* at, int64_t stride, std::byte* v, const std::byte* mask,
                int64_t mask_stride, const std::byte* other, int64_t other_stride, const std::byte* fill) {
  for (int64_t i = 0; i < n; ++i, at += stride * static_cast<int64_t>(N), v += N, mask += mask_stride) {
    const bool on = static_cast<bool>(*mask);
    if (mode == Mode::Load)
      std::memcpy(v, on ? at : other ? other + i * other_stride * static_cast<int64_t>(N) : fill, N);
    else if (on) std::memcpy(at, v, N);
  }
}

// Calls f(at, elements, stride) for every run of elements along the last dimension that the mask lets through, where
// everything is inside.
template <typename F>
void for_masked_runs(Thread& t, const GatherPayload& p, const Elements& e, const F& f) {
  const std::byte* mask = t.resolve(p.mask);
  const size_t last = p.dims.size() - 1;
  const int64_t n = p.dims[last], stride = e.strides()[last], mask_stride = p.mask_strides[last];
  int64_t index[16] = {};
  for (int64_t done = 0; done < e.count(); done += n) {
    int64_t at = 0, m = 0;
    for (size_t d = 0; d < last; ++d) at += index[d] * e.strides()[d], m += index[d] * p.mask_strides[d];
    for (int64_t i = 0; i < n;) {
      const int64_t begin = i;
      while (i < n && static_cast<bool>(mask[m + i * mask_stride])) ++i;
      if (i > begin) f(e.base() + (at + begin * stride) * p.size, i - begin, stride);
      else ++i;
    }
    memory::next_index(index, last, p.dims);
  }
}

void note_masked(Thread& t, const Step* s, const GatherPayload& p, const Elements& e) {
  ChosenElements chosen(t, s, p.ref.buffer, p.mode != Mode::Load);
  for_masked_runs(t, p, e,
                  [&](const std::byte* at, int64_t n, int64_t stride) { chosen.add_row(at, n, stride, p.size); });
  chosen.flush();
}

// Everything is inside: only the mask decides. Loads and stores. False: nothing was done.
bool masked_regular(Thread& t, const Step* s, const GatherPayload& p, const Elements& e, std::byte* value) {
  if (p.dims.empty() || p.mode == Mode::Swap) return false;
  const auto row = p.size == 1   ? masked_row<1>
                   : p.size == 2 ? masked_row<2>
                   : p.size == 4 ? masked_row<4>
                   : p.size == 8 ? masked_row<8>
                                 : nullptr;
  if (!row) return false;
  if (!t.exec->listeners.empty()) note_masked(t, s, p, e);
  const std::byte* mask = t.resolve(p.mask);
  const std::byte* other = p.has_other ? t.resolve(p.other) : nullptr;
  const size_t last = p.dims.size() - 1;
  const int64_t n = p.dims[last];
  int64_t index[16] = {};
  for (int64_t done = 0; done < e.count(); done += n) {
    int64_t at = 0, m = 0, o = 0;
    for (size_t d = 0; d < last; ++d) {
      at += index[d] * e.strides()[d];
      m += index[d] * p.mask_strides[d];
      if (other) o += index[d] * p.other_strides[d];
    }
    row(p.mode, n, e.base() + at * p.size, e.strides()[last], value + done * p.size, mask + m, p.mask_strides[last],
        other ? other + o * p.size : nullptr, other ? p.other_strides[last] : 0,
        reinterpret_cast<const std::byte*>(p.fill));
    memory::next_index(index, last, p.dims);
  }
  return true;
}

// What a masked-off element gives: `other`, or the fill.
void masked_off(const GatherPayload& p, const Elements& e, const std::byte* other, std::byte* into) {
  const auto size = static_cast<size_t>(p.size);
  if (other) std::memcpy(into, other + e.dot(p.other_strides) * p.size, size);
  else std::memcpy(into, p.fill, std::min<size_t>(size, 16));
}

// The operands beside the ref itself.
void note_operands(Thread& t, const Step* s, const GatherPayload& p) {
  const std::vector<int64_t> dense = dense_strides(p.dims);
  note_temporary(t, s, p.value, p.dims, dense, p.size, p.mode == Mode::Load);
  if (p.mode == Mode::Swap) note_temporary(t, s, p.old, p.dims, dense, p.size, true);
  if (p.has_mask) note_temporary(t, s, p.mask, p.dims, p.mask_strides, 1, false);
  if (p.has_other) note_temporary(t, s, p.other, p.dims, p.other_strides, p.size, false);
  for (const GatherDim& g : p.ref_dims)
    if (g.kind == GatherDim::Kind::Array)
      note_temporary(t, s, g.array, p.dims, g.array_strides, ir::byte_size(g.array_dtype), false);
}

}  // namespace

const Step* gather(Thread& t, const Step* s) {
  const auto& p = *static_cast<const GatherPayload*>(s->payload);
  Elements e(t, s, p);
  std::byte* value = t.resolve(p.value);
  std::byte* old = p.mode == Mode::Swap ? t.resolve(p.old) : nullptr;
  t.exec->progressed |= p.mode != Mode::Load;
  if (e.count() == 0) return s + 1;
  const bool listened = !t.exec->listeners.empty();
  if (listened) note_operands(t, s, p);
  if (e.regular()) {
    if (!p.has_mask) {
      if (listened) {
        const Addr at{p.ref.buffer, Addr::kNoSlot, e.base() - t.bases[p.ref.buffer]};
        note_access(t, s, at, p.dims, {e.strides(), e.strides() + p.dims.size()}, p.size, p.mode != Mode::Load);
      }
      copy_regular(t, p, e, value, old);
      return s + 1;
    }
    if (masked_regular(t, s, p, e, value)) return s + 1;
  }
  const std::byte* other = p.has_other ? t.resolve(p.other) : nullptr;
  const auto size = static_cast<size_t>(p.size);
  ChosenElements chosen(t, s, p.ref.buffer, p.mode != Mode::Load);
  for (int64_t n = 0; n < e.count(); ++n, e.next()) {
    std::byte* v = value + n * p.size;
    std::byte* into = p.mode == Mode::Load ? v : old ? old + n * p.size : nullptr;
    if (!e.on()) {
      // A swap gives back the value that it did not store.
      if (into) old ? static_cast<void>(std::memcpy(into, v, size)) : masked_off(p, e, other, into);
      continue;
    }
    std::byte* at = e.address();
    if (!at) {
      if (into) poison(into, 1, p.dtype, t.exec->options->uninitialized);
      continue;
    }
    chosen.add(at, p.size);
    if (into) std::memcpy(into, at, size);
    if (p.mode != Mode::Load) std::memcpy(at, v, size);
  }
  chosen.flush();
  return s + 1;
}

}  // namespace pallasim::interp::ops
