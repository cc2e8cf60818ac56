// Atomic read-modify-write operations. A step is never interrupted, so each element's operation is atomic; the elements
// of one operation follow each other in row-major order.
#include <bit>
#include <cmath>
#include <type_traits>

#include "../plan/payload/movement.h"
#include "elements.h"
#include "footprint.h"

namespace pallasim::interp::ops {
namespace {

template <typename T>
T read(const std::byte* at) {
  T v;
  std::memcpy(&v, at, sizeof(T));
  return v;
}

// `T` is the type in which F combines what memory has with the value.
template <typename T, typename F>
bool modify(const AtomicRow& r, F f) {
  bool changed = false;
  for (int64_t i = 0; i < r.count; ++i) {
    std::byte* const at = r.at(i, sizeof(T));
    const T before = read<T>(at), after = f(before, read<T>(r.values + static_cast<size_t>(i) * sizeof(T)));
    if (r.old) std::memcpy(r.old + static_cast<size_t>(i) * sizeof(T), &before, sizeof(T));
    std::memcpy(at, &after, sizeof(T));
    changed |= std::memcmp(&before, &after, sizeof(T)) != 0;
  }
  return changed;
}

template <typename T>
bool exchange(const AtomicRow& r) {
  return modify<T>(r, [](T, T b) { return b; });
}

template <typename T>
bool compare_and_swap(const AtomicRow& r) {
  const T expected = read<T>(r.compare);
  return modify<T>(r, [=](T a, T b) { return a == expected ? b : a; });
}

template <typename T>
T flushed(T x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(T{0}, x) : x;
}

// Integers wrap. f32 flushes subnormal operands and results, as the hardware's atomic does and its other additions do
// not.
template <typename T>
bool add(const AtomicRow& r) {
  return modify<T>(r, [](T a, T b) -> T {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    else if constexpr (std::is_same_v<T, float>) return flushed(flushed(a) + flushed(b));
    else return a + b;
  });
}

template <ir::DType D>
bool add_narrow(const AtomicRow& r) {
  static const LoadFn load = kernels().load(D);
  static const StoreFn store = kernels().store(D);
  return modify<uint16_t>(r, [](uint16_t a, uint16_t b) {
    float x, y;
    load(&x, reinterpret_cast<const std::byte*>(&a), 1, 1);
    load(&y, reinterpret_cast<const std::byte*>(&b), 1, 1);
    const float sum = x + y;
    uint16_t bits;
    store(reinterpret_cast<std::byte*>(&bits), &sum, 1, 1);
    return bits;
  });
}

template <typename T>
bool maximum(const AtomicRow& r) {
  return modify<T>(r, [](T a, T b) { return b > a ? b : a; });
}
template <typename T>
bool minimum(const AtomicRow& r) {
  return modify<T>(r, [](T a, T b) { return b < a ? b : a; });
}

// Floats by the order of their bits, as Triton does it: a value without a sign is compared signed, one with a sign
// unsigned and the other way round. So a NaN in memory stays in a maximum, and a minimum ignores it.
template <typename Signed, bool Max>
bool float_extreme(const AtomicRow& r) {
  using Unsigned = std::make_unsigned_t<Signed>;
  return modify<Signed>(r, [](Signed a, Signed b) {
    const bool greater = b >= 0 ? b > a : static_cast<Unsigned>(b) < static_cast<Unsigned>(a),
               less = b >= 0 ? b < a : static_cast<Unsigned>(b) > static_cast<Unsigned>(a);
    return (Max ? greater : less) ? b : a;
  });
}

template <typename T>
AtomicFn bitwise(std::string_view kind) {
  if (kind == "and") return [](const AtomicRow& r) { return modify<T>(r, [](T a, T b) -> T { return a & b; }); };
  if (kind == "or") return [](const AtomicRow& r) { return modify<T>(r, [](T a, T b) -> T { return a | b; }); };
  if (kind == "xor") return [](const AtomicRow& r) { return modify<T>(r, [](T a, T b) -> T { return a ^ b; }); };
  return nullptr;
}

template <typename T>
AtomicFn number(std::string_view kind) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  if (kind == "cas") return compare_and_swap<Bits>;
  if (kind == "xchg") return exchange<Bits>;
  if (kind == "add") return add<T>;
  if constexpr (std::is_integral_v<T>) {
    if (kind == "max") return maximum<T>;
    if (kind == "min") return minimum<T>;
    return bitwise<T>(kind);
  } else {
    using Signed = std::make_signed_t<Bits>;
    if (kind == "max") return float_extreme<Signed, true>;
    if (kind == "min") return float_extreme<Signed, false>;
    return nullptr;
  }
}

}  // namespace

AtomicFn atomic_function(std::string_view kind, ir::DType t) {
  switch (t) {
    case ir::DType::I32: return number<int32_t>(kind);
    case ir::DType::U32: return number<uint32_t>(kind);
    case ir::DType::I64: return number<int64_t>(kind);
    case ir::DType::U64: return number<uint64_t>(kind);
    case ir::DType::F32: return number<float>(kind);
    case ir::DType::F64: return number<double>(kind);
    case ir::DType::F16:
      return kind == "cas" ? compare_and_swap<uint16_t> : kind == "add" ? add_narrow<ir::DType::F16> : nullptr;
    case ir::DType::BF16:
      return kind == "cas" ? compare_and_swap<uint16_t> : kind == "add" ? add_narrow<ir::DType::BF16> : nullptr;
    default: return nullptr;
  }
}

const Step* atomic(Thread& t, const Step* s) {
  const auto& p = payload<Kind::atomic>(s);
  Elements e(t, s, p);
  std::byte* value = t.resolve(p.value);
  std::byte* old = p.has_old ? t.resolve(p.old) : nullptr;
  const bool compares = p.compare.buffer != kSlotBuffer;
  const std::byte* compare = compares ? t.resolve(p.compare) : nullptr;
  bool changed = false;
  // The k-th element; null: the mask does not take it, or it is nowhere.
  const auto one = [&](int64_t k, std::byte* at) {
    std::byte* into = old ? old + k * p.size : nullptr;
    if (!at) {
      if (into) std::memset(into, 0, static_cast<size_t>(p.size));
      return;
    }
    changed |= p.atomic({at, nullptr, 0, 1, value + k * p.size, compare, into});
  };
  const int64_t n = p.dims.empty() ? 1 : p.dims.back();
  ElementRow row;
  for (int64_t k = 0; k < e.count(); k += n) {
    if (!p.dims.empty() && e.row(&row)) {
      const std::byte* const mask = e.mask_row();
      const int64_t stride = mask ? p.mask_strides.back() : 0;
      const bool all = row.begin == 0 && row.end == n && !mask;
      if (all)
        changed |= p.atomic({row.first, row.offsets.empty() ? nullptr : row.offsets.data(), row.step, n,
                             value + k * p.size, compare, old ? old + k * p.size : nullptr});
      for (int64_t i = 0; i < n && !all; ++i) {
        const bool taken = i >= row.begin && i < row.end && (!mask || static_cast<bool>(mask[i * stride]));
        one(k + i, taken ? row.first + row.offset(i) * p.size : nullptr);
      }
      e.next_row();
    } else {
      for (int64_t i = 0; i < n; ++i, e.next()) one(k + i, e.on() ? e.address() : nullptr);
    }
  }
  t.exec->progressed |= changed;
  if (changed || !p.spins) return s + 1;
  // Somebody else must write what this loop waits for.
  ++t.exec->spins;
  t.pc = s + 1;
  t.stop = Stop::Yielded;
  return nullptr;
}

void atomic_footprint(Thread& t, const Step& s, Boxes& out) {
  const auto& p = payload<Kind::atomic>(s);
  Elements e(t, &s, p);
  const std::vector<int64_t> dense = dense_strides(p.dims);
  out.internal(p.value, p.dims, dense, p.size, false);
  if (p.compare.buffer != kSlotBuffer) out.add(p.compare, {}, {}, p.size, {.internal = true});
  index_boxes(p, out);
  if (p.has_old) out.internal(p.old, p.dims, dense, p.size, true);
  const uint32_t buffer = p.ref.buffer;
  if (!out.wants(buffer)) return;
  ChosenElements chosen = ChosenElements::modified(out, t, buffer, {.atomic = true});
  chosen_boxes(p, e, &chosen);
  chosen.flush();
}

}  // namespace pallasim::interp::ops
