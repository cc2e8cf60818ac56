#include "debug_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace pallasim::interp {
namespace {

int64_t slot_number(const Thread& t, uint32_t slot) { return t.slot<int64_t>(slot); }

// The memory of the host around an address: none where nothing lies there.
std::span<const std::byte> memory_around(const Execution& ex, const std::byte* at) {
  const auto holds = [&](const std::byte* p, size_t n) { return p && at >= p && at < p + n; };
  const std::vector<ir::Operand>& operands = ex.plan->module.operands;
  for (const auto& device : ex.operands)
    for (size_t i = 0; i < operands.size(); ++i)
      if (const auto n = static_cast<size_t>(operands[i].array->num_bytes()); holds(device[i], n))
        return {device[i], n};
  for (const auto& a : ex.arenas)
    if (a && holds(a->memory.data(), a->memory.size())) return {a->memory.data(), a->memory.size()};
  for (const auto& m : ex.shared_memory)
    for (const Bytes& one : m.of_units)
      if (holds(one.data(), one.size())) return {one.data(), one.size()};
  const auto& constants = ex.plan->memory.constants;
  if (holds(constants.data(), constants.size())) return {constants.data(), constants.size()};
  return {};
}

const std::byte* base_of(const Execution& ex, const DebugView& v) {
  WatchedElements w;
  w.thread = v.thread;
  w.buffer = v.buffer;
  return w.base(ex);
}

std::string space_note(const Plan& p, const ValuePlace& v) {
  const ir::Type* t = p.module.bodies[static_cast<size_t>(v.body)].graph.type(v.value);
  return t->is_ref ? std::string(ir::name(t->space)) : "";
}

void place_edge(const DebugScope& s, const ValuePlace& v, DebugView* r) {
  const Window& w = s.thread.body->windows[static_cast<size_t>(v.edge)];
  const Window::Edge* edge = w.edge();
  if (!edge) return;
  for (size_t a = 0, d = 0; a < w.dims.size() && d < r->dims.size(); ++a) {
    const int64_t place = slot_number(s.thread, edge->place + static_cast<uint32_t>(a * 16));
    if (w.map.extent[a] == 1 && r->dims[d].size != 1) continue;  // squeezed
    r->dims[d].first = place, r->dims[d].limit = w.dims[a];
    ++d;
  }
}

}  // namespace

std::vector<int64_t> DebugView::shape() const {
  std::vector<int64_t> r;
  for (const Dim& d : dims) r.push_back(d.size);
  return r;
}

int64_t DebugView::elements() const {
  int64_t n = 1;
  for (const Dim& d : dims) n *= d.size;
  return n;
}

DebugView view_of(const DebugScope& s, const std::string& name, const ValuePlace& v) {
  DebugView r;
  r.name = name;
  r.dtype = v.dtype;
  r.is_ref = v.what >= ValuePlace::What::Ref;
  r.note = space_note(*s.ex.plan, v);
  r.thread = s.thread.index;
  const int64_t bytes = ir::byte_size(v.dtype);
  for (size_t d = 0; d < v.dims.size(); ++d)
    r.dims.push_back(
        {v.dims[d], v.what == ValuePlace::What::Scalar || d >= v.strides.size() ? 0 : v.strides[d] * bytes});
  if (v.what == ValuePlace::What::Scalar) {
    r.element.resize(static_cast<size_t>(bytes));
    r.slot = v.slot;
    if (s.thread.arena) kernels().store(v.dtype)(r.element.data(), s.thread.arena + v.slot, 1, 1);
    else r.elsewhere = true;
    return r;
  }
  if (v.what == ValuePlace::What::Semaphore || v.what == ValuePlace::What::Barrier ||
      v.what == ValuePlace::What::Elsewhere || !s.thread.arena) {
    r.elsewhere = true;
    return r;
  }
  r.buffer = v.addr.buffer;
  r.offset = v.addr.offset + (v.addr.dyn == Addr::kNoSlot ? 0 : slot_number(s.thread, v.addr.dyn));
  if (v.what != ValuePlace::What::Ref) return r;
  const std::vector<Window>& windows = s.thread.body->windows;
  for (const Window& w : windows)
    if (s.ex.plan->module.operands[static_cast<size_t>(w.operand)].name == name) r.operand = w.operand;
  if (v.edge >= 0) place_edge(s, v, &r);
  for (size_t d = 0; d < v.extents.size() && d < r.dims.size(); ++d)
    if (v.extents[d] != Addr::kNoSlot) r.dims[d].first = 0, r.dims[d].limit = slot_number(s.thread, v.extents[d]);
  return r;
}

DebugView array_of(const DebugScope& s, const DebugView& ref) {
  if (ref.operand < 0) throw DebugError((ref.name.empty() ? "this" : ref.name) + " is no operand, which has an array");
  const Window& w = s.thread.body->windows[static_cast<size_t>(ref.operand)];
  DebugView r;
  r.name = ref.name + ".array";
  r.note = "the caller's array";
  r.dtype = w.dtype;
  r.is_ref = true;
  r.thread = s.thread.index;
  r.buffer = kFirstOperandBuffer + static_cast<uint32_t>(w.operand);
  for (size_t d = 0; d < w.dims.size(); ++d) r.dims.push_back({w.dims[d], w.strides[d] * ir::byte_size(w.dtype)});
  return r;
}

std::vector<int64_t> block_of(const DebugScope& s, const DebugView& ref) {
  const DebugView array = array_of(s, ref);
  const std::byte *first = base_of(s.ex, array), *at = base_of(s.ex, ref);
  int64_t apart = first && at && !ref.elsewhere ? at - first + ref.offset : -1;
  if (apart < 0 || apart >= array.elements() * ir::byte_size(array.dtype))
    throw DebugError(ref.name + " shows a copy of its block, or one that begins outside of the array");
  std::vector<int64_t> r;
  for (const DebugView::Dim& d : array.dims) {  // row-major
    r.push_back(d.stride > 0 ? apart / d.stride : 0);
    apart -= r.back() * d.stride;
  }
  return r;
}

namespace {

// Calls f(element's number, its offset from the base, whether it is inside) in row-major order.
template <typename F>
void for_elements(const DebugView& v, const F& f) {
  const int64_t n = v.elements();
  std::vector<int64_t> at(v.dims.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    int64_t offset = v.offset;
    bool inside = !v.outside;
    for (size_t d = 0; d < at.size(); ++d) {
      offset += at[d] * v.dims[d].stride;
      const int64_t place = v.dims[d].first + at[d] * v.dims[d].step;
      inside &= place >= 0 && place < v.dims[d].limit;
    }
    f(static_cast<size_t>(i), offset, inside);
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < v.dims[d].size) break;
      at[d] = 0;
    }
  }
}

void mark(std::vector<bool>* marks, size_t i, int64_t n) {
  if (marks->empty()) marks->resize(static_cast<size_t>(n));
  (*marks)[i] = true;
}

}  // namespace

DebugValue read(const DebugScope& s, const DebugView& v) {
  DebugValue r{v.name, v.note, v.dtype, v.shape(), {}, {}, {}, v.is_ref};
  if (v.elsewhere) return r;
  const int64_t n = v.elements();
  const auto size = static_cast<size_t>(ir::byte_size(v.dtype));
  if (n < 0 || n > (int64_t{1} << 31)) throw DebugError("too many elements to look at");
  r.bytes.resize(static_cast<size_t>(n) * size);
  if (!v.element.empty()) {
    for (int64_t i = 0; i < n; ++i) std::memcpy(r.bytes.data() + static_cast<size_t>(i) * size, v.element.data(), size);
    if (s.checks && s.checks->undefined(v.thread, memory::kSlotBuffer, v.slot))
      r.undefined.assign(static_cast<size_t>(n), true);
    return r;
  }
  const std::byte* base = base_of(s.ex, v);
  if (!base) {
    r.bytes.clear();
    return r;
  }
  std::span<const std::byte> around;
  for_elements(v, [&](size_t i, int64_t offset, bool inside) {
    const std::byte* at = base + offset;
    if (inside && (around.empty() || at < around.data() || at + size > around.data() + around.size())) {
      around = memory_around(s.ex, at);
      inside = !around.empty() && at + size <= around.data() + around.size();
    }
    if (!inside) return mark(&r.outside, i, n);
    std::memcpy(r.bytes.data() + i * size, at, size);
    if (s.checks && s.checks->undefined(v.thread, v.buffer, offset)) mark(&r.undefined, i, n);
  });
  return r;
}

WatchedElements elements_of(const DebugScope& s, const DebugView& v) {
  if (v.elsewhere || !v.element.empty())
    throw DebugError("elements of refs can be watched: " + (v.name.empty() ? "this" : v.name) + " has no memory");
  WatchedElements w;
  w.thread = v.thread;
  w.buffer = v.buffer;
  w.dtype = v.dtype;
  w.bytes = ir::byte_size(v.dtype);
  if (v.elements() > (1 << 20)) throw DebugError("at most 1,048,576 elements can be watched");
  const std::byte* base = base_of(s.ex, v);
  for_elements(v, [&](size_t, int64_t offset, bool inside) {
    if (inside && base && !memory_around(s.ex, base + offset).empty()) w.offsets.push_back(offset);
  });
  std::sort(w.offsets.begin(), w.offsets.end());
  if (w.offsets.empty()) throw DebugError("none of these elements is there");
  return w;
}

std::string type_text(ir::DType t, const std::vector<int64_t>& dims) {
  return fmt::format("{}[{}]", ir::name(t), fmt::join(dims, ","));
}

bool debug_is_integer(ir::DType t) { return ir::is_int(t) || t == ir::DType::Bool; }

int64_t debug_integer(const std::byte* element, ir::DType t) {
  alignas(16) std::byte reg[16] = {};
  kernels().load(t)(reg, element, 1, 1);
  const auto as = [&]<typename T>(T) {
    T v;
    std::memcpy(&v, reg, sizeof v);
    return static_cast<int64_t>(v);
  };
  switch (compute_type(t)) {
    case CType::Bool: return as(uint8_t{});
    case CType::I32: return as(int32_t{});
    case CType::U32: return as(uint32_t{});
    case CType::I64: return as(int64_t{});
    case CType::U64: return as(uint64_t{});
    default: return static_cast<int64_t>(debug_number(element, t));
  }
}

double debug_number(const std::byte* element, ir::DType t) {
  alignas(16) std::byte reg[16] = {};
  kernels().load(t)(reg, element, 1, 1);
  switch (compute_type(t)) {
    case CType::F32:
    case CType::C64: {
      float v;
      std::memcpy(&v, reg, sizeof v);
      return v;
    }
    case CType::F64:
    case CType::C128: {
      double v;
      std::memcpy(&v, reg, sizeof v);
      return v;
    }
    case CType::U64: return static_cast<double>(static_cast<uint64_t>(debug_integer(element, t)));
    default: return static_cast<double>(debug_integer(element, t));
  }
}

}  // namespace pallasim::interp
