// Which operation made NaN or infinity: Options::nans.
#include "../plan/payload/nans.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "made_of.h"

namespace pallasim::interp::ops {
namespace {

using Array = NanPayload::Array;
using Take = NanPayload::Lane::Take;
using Index = std::vector<int64_t>;

struct Odd {
  bool nan = false, inf = false;
  bool any() const { return nan || inf; }
};

bool may_be_odd(ir::DType t) { return ir::is_float(t) || ir::is_complex(t); }

template <typename T>
Odd odd(const std::byte* reg, int parts) {
  Odd r;
  for (int i = 0; i < parts; ++i) {
    const T v = reinterpret_cast<const T*>(reg)[i];
    r.nan |= std::isnan(v), r.inf |= std::isinf(v);
  }
  return r;
}

// Of an element in register form.
Odd odd(const std::byte* reg, ir::DType t) {
  switch (compute_type(t)) {
    case CType::F32: return odd<float>(reg, 1);
    case CType::F64: return odd<double>(reg, 1);
    case CType::C64: return odd<float>(reg, 2);
    case CType::C128: return odd<double>(reg, 2);
    default: return {};
  }
}

template <typename Bits>
bool all_finite(const std::byte* reg, int64_t n, Bits exponent) {
  const auto* at = reinterpret_cast<const Bits*>(reg);
  bool r = true;
  for (int64_t i = 0; i < n; ++i) r &= (at[i] & exponent) != exponent;
  return r;
}

bool all_finite(const std::byte* reg, ir::DType t, int64_t n) {
  constexpr uint32_t kSingle = 0x7f800000;
  constexpr uint64_t kDouble = 0x7ff0000000000000;
  switch (compute_type(t)) {
    case CType::F32: return all_finite(reg, n, kSingle);
    case CType::C64: return all_finite(reg, 2 * n, kSingle);
    case CType::F64: return all_finite(reg, n, kDouble);
    case CType::C128: return all_finite(reg, 2 * n, kDouble);
    default: return true;
  }
}

// Calls f(index, element in register form) for the elements that are not finite.
template <typename F>
void for_each_odd(const Thread& t, const Array& a, const F& f) {
  Index at(a.dims.size());
  if (a.scalar) {
    if (odd(t.arena + a.slot, a.dtype).any()) f(at, t.arena + a.slot);
    return;
  }
  alignas(64) std::byte strip[kStrip * 8];
  const int width = byte_size(compute_type(a.dtype));
  const int64_t most = std::min<int64_t>(kStrip, static_cast<int64_t>(sizeof strip) / width);
  const LoadFn load = kernels().load(a.dtype);
  const size_t outer = a.dims.empty() ? 0 : a.dims.size() - 1;
  const int64_t row = a.dims.empty() ? 1 : a.dims.back(), stride = a.dims.empty() ? 1 : a.strides.back();
  do {
    for (int64_t i = 0; i < row; i += most) {
      const int64_t n = std::min(most, row - i);
      if (outer < at.size()) at[outer] = i;
      load(strip, t.resolve(a.addr) + offset_of(a, at), n, stride);
      if (all_finite(strip, a.dtype, n)) continue;
      for (int64_t k = 0; k < n; ++k) {
        if (!odd(strip + k * width, a.dtype).any()) continue;
        if (outer < at.size()) at[outer] = i + k;
        f(at, strip + k * width);
      }
    }
    if (outer < at.size()) at[outer] = 0;
  } while (memory::next_index(at.data(), outer, a.dims));
}

// An operand, and what of it an element of the result is made of.
class Operand : public MadeOf {
 public:
  using MadeOf::MadeOf;
  Odd made_of(const Index& result) {
    if (!may_be_odd(a_.dtype)) return {};
    if (a_.scalar) return odd(t_.arena + a_.slot, a_.dtype);
    if (free_.empty()) return odd(element(start(result)), a_.dtype);
    const First& f = first_of(result);
    const int64_t last = last_position(result);
    return {f.nan <= last, f.inf <= last};
  }

 private:
  struct First {  // positions along the lane
    int64_t nan = std::numeric_limits<int64_t>::max(), inf = nan;
  };

  // Many elements of the result are made of one lane.
  const First& first_of(const Index& result) {
    const Index at = start(result);
    size_t key = 0, lanes = 1;
    for (size_t d = 0; d < at.size(); ++d)
      if (a_.lanes[d].take == Take::Same) {
        key = key * static_cast<size_t>(a_.dims[d]) + static_cast<size_t>(at[d]);
        lanes *= static_cast<size_t>(a_.dims[d]);
      }
    if (firsts_.empty()) firsts_.resize(lanes);
    std::optional<First>& known = firsts_[key];
    if (!known) known = look_along(at);
    return *known;
  }
  First look_along(Index at) {
    First r;
    Index place(free_.size());
    int64_t position = 0;
    for (const int64_t n : free_dims_)
      if (n == 0) return r;
    do {
      const Odd o = odd(element(moved(at, place)), a_.dtype);
      if (o.nan) r.nan = std::min(r.nan, position);
      if (o.inf) r.inf = std::min(r.inf, position);
      ++position;
    } while (memory::next_index(place.data(), free_.size(), free_dims_));
    return r;
  }
  std::vector<std::optional<First>> firsts_;  // per lane
};

}  // namespace

const Step* find_nans(Thread& t, const Step* s) {
  if (t.exec->log.noted.contains(s)) return s + 1;
  const NanPayload& p = payload<Kind::find_nans>(s);
  if (!may_be_odd(p.result.dtype)) return find_overflow(t, s, p), s + 1;
  std::vector<Operand> operands;
  NonFinite found;
  for_each_odd(t, p.result, [&](const Index& at, const std::byte* reg) {
    if (operands.empty())
      for (const Array& a : p.operands) operands.emplace_back(t, a);
    Odd of;
    for (Operand& o : operands) {
      const Odd one = o.made_of(at);
      of.nan |= one.nan, of.inf |= one.inf;
    }
    const Odd made = odd(reg, p.result.dtype);
    if (of.nan || (of.inf && !made.nan)) return;
    if (found.elements++ > 0) return;
    found.nan = made.nan;
    found.of_infinities = of.inf;
    found.negative = compute_type(p.result.dtype) == CType::F64 ? std::signbit(*reinterpret_cast<const double*>(reg))
                                                                : std::signbit(*reinterpret_cast<const float*>(reg));
    found.element = at;
    for (Operand& o : operands) found.sources.push_back(o.seen(at));
  });
  if (found.elements > 0) diagnose(t).not_finite(t, s, p, found);
  return s + 1;
}

}  // namespace pallasim::interp::ops
