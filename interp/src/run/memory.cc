#include <fmt/format.h>

#include <algorithm>

#include "pallasim/memory/saturate.h"
#include "steps.h"

namespace pallasim::interp::run {
namespace {

std::string shape_text(const std::vector<int64_t>& dims) {
  std::string r = "(";
  for (size_t i = 0; i < dims.size(); ++i) r += (i ? ", " : "") + std::to_string(dims[i]);
  return r + (dims.size() == 1 ? ",)" : ")");
}

[[noreturn]] void out_of_bounds(const Thread& t, const Step* s, const IndexTerm& term, int64_t index, const std::string& ref,
                                const std::vector<int64_t>& shape) {
  const std::string name = ref.empty() ? "a ref" : ref;
  std::vector<std::string> numbers;
  if (term.size > 1)
    numbers.push_back(fmt::format("indices {} to {} of dimension {}", index, index + term.size - 1, term.dim));
  else
    numbers.push_back(fmt::format("index {} of dimension {}", index, term.dim));
  numbers.push_back(fmt::format("{} has shape {}", name, shape_text(shape)));
  fail(t, s, "PS-OOB-001",
       fmt::format("out-of-bounds access: index {} is outside dimension {} of {} (size {})", index, term.dim, name, term.extent),
       std::move(numbers), "mask the access, clamp the index, or choose a grid and block shape that divide the array");
}

int64_t index_value(const Thread& t, const IndexTerm& term) {
  return term.wide ? t.slot<int64_t>(term.slot) : t.slot<int32_t>(term.slot);
}

int64_t checked_offset(const Thread& t, const Step* s, const IndexTerm& term, const std::string& ref,
                       const std::vector<int64_t>& shape) {
  int64_t i = index_value(t, term);
  if (i < 0 || i > term.last) [[unlikely]] {
    if (term.size == 0) return 0;
    if (t.exec->options->out_of_bounds == Options::Oob::Error || term.last < 0) out_of_bounds(t, s, term, i, ref, shape);
    i = std::clamp<int64_t>(i, 0, term.last);
  }
  return i * term.stride;
}

}  // namespace

const Step* index_bounds(Thread& t, const Step* s) {
  const auto& p = *static_cast<const IndexPayload*>(s->payload);
  int64_t offset = s->a == Addr::kNoSlot ? 0 : t.slot<int64_t>(s->a);
  for (const IndexTerm& term : p.terms) offset += checked_offset(t, s, term, p.ref, p.shape);
  t.slot<int64_t>(s->dst) = offset;
  return s + 1;
}

const Step* clamp_index(Thread& t, const Step* s) {
  const auto& p = *static_cast<const IndexPayload*>(s->payload);
  int64_t offset = s->a == Addr::kNoSlot ? 0 : t.slot<int64_t>(s->a);
  for (const IndexTerm& term : p.terms) offset += std::clamp<int64_t>(index_value(t, term), 0, term.last) * term.stride;
  t.slot<int64_t>(s->dst) = offset;
  return s + 1;
}

namespace {
std::byte* scalar_address(Thread& t, const Step* s, const ScalarAccess& p) {
  std::byte* at = t.resolve(p.addr);
  return p.has_term ? at + checked_offset(t, s, p.term, p.ref, p.shape) : at;
}
void note_scalar(Thread& t, const Step* s, const ScalarAccess& p, const std::byte* at, int bytes, bool write) {
  if (t.exec->listeners.empty()) return;
  Addr a = p.addr;
  a.offset = at - t.bases[a.buffer];
  a.dyn = Addr::kNoSlot;
  note_access(t, s, a, {1}, {1}, bytes, write);
}
}  // namespace

const Step* load_scalar(Thread& t, const Step* s) {
  const auto& p = *static_cast<const ScalarAccess*>(s->payload);
  const std::byte* at = scalar_address(t, s, p);
  note_scalar(t, s, p, at, p.bytes, false);
  p.load(t.arena + s->dst, at, 1, 1);
  return s + 1;
}

const Step* store_scalar(Thread& t, const Step* s) {
  const auto& p = *static_cast<const ScalarAccess*>(s->payload);
  std::byte* at = scalar_address(t, s, p);
  note_scalar(t, s, p, at, p.bytes, true);
  p.store(at, t.arena + s->a, 1, 1);
  t.exec->progressed = true;
  return s + 1;
}

namespace {
template <typename T>
const Step* load_fast(Thread& t, const Step* s) {
  const auto& p = *static_cast<const ScalarAccess*>(s->payload);
  t.slot<T>(s->dst) = *reinterpret_cast<const T*>(scalar_address(t, s, p));
  return s + 1;
}
}  // namespace

StepFn fast_load_scalar(int bytes) {
  return bytes == 1 ? load_fast<uint8_t> : bytes == 4 ? load_fast<uint32_t> : bytes == 8 ? load_fast<uint64_t> : load_scalar;
}

const Step* copy(Thread& t, const Step* s) {
  const auto& p = *static_cast<const CopyPayload*>(s->payload);
  std::byte* dst = t.resolve(p.dst);
  const std::byte* src = t.resolve(p.src);
  t.exec->progressed |= s->b != 0;
  if (!t.exec->listeners.empty()) {
    note_access(t, s, p.src, p.dims, p.src_strides, p.size, false);
    note_access(t, s, p.dst, p.dims, p.dst_strides, p.size, true);
  }
  if (p.contiguous) std::memmove(dst, src, static_cast<size_t>(p.bytes));
  else copy_strided(dst, p.dst_strides.data(), src, p.src_strides.data(), p.dims.data(), static_cast<int>(p.dims.size()), p.size);
  return s + 1;
}

const Step* fill(Thread& t, const Step* s) {
  const auto& p = *static_cast<const FillPayload*>(s->payload);
  fill_strided(t.resolve(p.dst), p.strides.data(), &p.element, p.dims.data(), static_cast<int>(p.dims.size()), p.size);
  return s + 1;
}

namespace {

int64_t integer_element(const std::byte* at, ir::DType t) {
  switch (t) {
    case ir::DType::I8: return *reinterpret_cast<const int8_t*>(at);
    case ir::DType::U8: return *reinterpret_cast<const uint8_t*>(at);
    case ir::DType::I16: return *reinterpret_cast<const int16_t*>(at);
    case ir::DType::U16: return *reinterpret_cast<const uint16_t*>(at);
    case ir::DType::I32: return *reinterpret_cast<const int32_t*>(at);
    case ir::DType::U32: return *reinterpret_cast<const uint32_t*>(at);
    default: return *reinterpret_cast<const int64_t*>(at);
  }
}

int64_t dot(const std::vector<int64_t>& strides, const int64_t* index) {
  int64_t r = 0;
  for (size_t i = 0; i < strides.size(); ++i) r += strides[i] * index[i];
  return r;
}

}  // namespace

// Element by element: array indices, masks, bounds per element.
const Step* gather(Thread& t, const Step* s) {
  const auto& p = *static_cast<const GatherPayload*>(s->payload);
  std::byte* ref = t.resolve(p.ref);
  std::byte* value = t.resolve(p.value);
  std::byte* old = p.mode == GatherPayload::Mode::Swap ? t.resolve(p.old) : nullptr;
  const std::byte* mask = p.has_mask ? t.resolve(p.mask) : nullptr;
  const std::byte* other = p.has_other ? t.resolve(p.other) : nullptr;
  const auto size = static_cast<size_t>(p.size);
  t.exec->progressed |= p.mode != GatherPayload::Mode::Load;
  int64_t count = 1, index[16] = {};
  for (int64_t d : p.dims) count *= d;
  int64_t start[16];
  for (size_t d = 0; d < p.ref_dims.size(); ++d) {
    const GatherDim& g = p.ref_dims[d];
    start[d] = g.start_slot == Addr::kNoSlot ? g.start : g.wide ? t.slot<int64_t>(g.start_slot) : t.slot<int32_t>(g.start_slot);
  }
  for (int64_t n = 0; n < count; ++n) {
    std::byte* v = value + n * p.size;
    const bool on = !mask || static_cast<bool>(mask[dot(p.mask_strides, index)]);
    if (on) {
      int64_t offset = 0;
      for (size_t d = 0; d < p.ref_dims.size(); ++d) {
        const GatherDim& g = p.ref_dims[d];
        int64_t i;
        if (g.kind == GatherDim::Kind::Array)
          i = integer_element(t.resolve(g.array) + dot(g.array_strides, index) * ir::byte_size(g.array_dtype), g.array_dtype);
        else
          i = memory::add(start[d], g.result_dim < 0 ? 0 : memory::mul(index[g.result_dim], g.step));
        if (i < 0 && g.wraps) i += g.extent;
        if (i < 0 || i >= g.extent) {
          const IndexTerm term{0, false, 0, g.extent - 1, static_cast<int>(d), g.extent, 1};
          if (t.exec->options->out_of_bounds == Options::Oob::Error || g.extent == 0) out_of_bounds(t, s, term, i, p.name, p.shape);
          i = std::clamp<int64_t>(i, 0, g.extent - 1);
        }
        offset += i * g.stride;
      }
      std::byte* at = ref + offset * p.size;
      if (!t.exec->listeners.empty()) {
        Addr a = p.ref;
        a.dyn = Addr::kNoSlot;
        a.offset = at - t.bases[a.buffer];
        note_access(t, s, a, {1}, {1}, p.size, p.mode != GatherPayload::Mode::Load);
      }
      if (p.mode == GatherPayload::Mode::Load) std::memcpy(v, at, size);
      if (old) std::memcpy(old + n * p.size, at, size);
      if (p.mode != GatherPayload::Mode::Load) std::memcpy(at, v, size);
    } else {
      std::byte* into = p.mode == GatherPayload::Mode::Load ? v : old ? old + n * p.size : nullptr;
      if (into && other) std::memcpy(into, other + dot(p.other_strides, index) * p.size, size);
      else if (into) std::memcpy(into, p.fill, std::min<size_t>(size, 16));
    }
    for (size_t d = p.dims.size(); d-- > 0;) {
      if (++index[d] < p.dims[d]) break;
      index[d] = 0;
    }
  }
  return s + 1;
}

}  // namespace pallasim::interp::run
