// Scalar operations on slots. One function per operation and type; bits equal those of the strip bodies.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "bodies.h"

namespace pallasim::interp::ops {
namespace {

using ir::OpCode;

template <typename T>
using Unsigned = typename std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::make_unsigned<T>,
                                             std::type_identity<T>>::type;

template <OpCode op, typename T>
struct Body {
  static constexpr bool kInt = std::is_integral_v<T> && !std::is_same_v<T, uint8_t>;
  static constexpr bool kBool = std::is_same_v<T, uint8_t>;

  static auto eval(T a, T b, T c, bool rem_zero_is_x) {
    using U = Unsigned<T>;
    if constexpr (op == OpCode::add) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    else if constexpr (op == OpCode::sub) return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
    else if constexpr (op == OpCode::mul) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    else if constexpr (op == OpCode::neg) {
      if constexpr (kInt) return static_cast<T>(U{0} - static_cast<U>(a));
      else return -a;
    } else if constexpr (op == OpCode::square) return static_cast<T>(static_cast<U>(a) * static_cast<U>(a));
    else if constexpr (op == OpCode::div) {
      if constexpr (kInt) {
        if (b == 0) return static_cast<T>(~U{0});
        if constexpr (std::is_signed_v<T>)
          if (b == -1) return static_cast<T>(U{0} - static_cast<U>(a));
      }
      return static_cast<T>(a / b);
    } else if constexpr (op == OpCode::rem) {
      if (b == 0) return rem_zero_is_x ? a : static_cast<T>(~U{0});
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return T{0};
      return static_cast<T>(a % b);
    } else if constexpr (op == OpCode::max) return a > b ? a : b;
    else if constexpr (op == OpCode::min) return a < b ? a : b;
    else if constexpr (op == OpCode::and_) return static_cast<T>(a & b);
    else if constexpr (op == OpCode::or_) return static_cast<T>(a | b);
    else if constexpr (op == OpCode::xor_) return static_cast<T>(a ^ b);
    else if constexpr (op == OpCode::not_) return kBool ? static_cast<T>(!a) : static_cast<T>(~a);
    else if constexpr (op == OpCode::shift_left)
      return static_cast<U>(b) >= sizeof(T) * 8 ? T{0} : static_cast<T>(static_cast<U>(a) << static_cast<U>(b));
    else if constexpr (op == OpCode::shift_right_logical)
      return static_cast<U>(b) >= sizeof(T) * 8 ? T{0} : static_cast<T>(static_cast<U>(a) >> static_cast<U>(b));
    else if constexpr (op == OpCode::clamp) return std::min(std::max(a, b), c);
    else if constexpr (op == OpCode::eq) return static_cast<uint8_t>(a == b);
    else if constexpr (op == OpCode::ne) return static_cast<uint8_t>(a != b);
    else if constexpr (op == OpCode::lt) return static_cast<uint8_t>(a < b);
    else if constexpr (op == OpCode::le) return static_cast<uint8_t>(a <= b);
    else if constexpr (op == OpCode::gt) return static_cast<uint8_t>(a > b);
    else if constexpr (op == OpCode::ge) return static_cast<uint8_t>(a >= b);
    else return static_cast<T>(std::sqrt(a));
  }

  static const Step* run(Thread& t, const Step* s) {
    const auto r = eval(t.slot<T>(s->a), t.slot<T>(s->b), t.slot<T>(s->c), s->imm != 0);
    t.slot<std::remove_const_t<decltype(r)>>(s->dst) = r;
    return s + 1;
  }
};

template <typename T>
StepFn common(OpCode op) {
  switch (op) {
#define CASE(x) \
  case OpCode::x: return Body<OpCode::x, T>::run;
    CASE(eq) CASE(ne) CASE(lt) CASE(le) CASE(gt) CASE(ge) default : return nullptr;
  }
}

template <typename T>
StepFn arithmetic(OpCode op) {
  switch (op) { CASE(add) CASE(sub) CASE(mul) CASE(neg) CASE(square) CASE(div) default : return common<T>(op); }
}

template <typename T>
StepFn integer(OpCode op) {
  switch (op) {
    CASE(rem)
    CASE(max)
    CASE(min)
    CASE(and_)
    CASE(or_)
    CASE(xor_) CASE(not_) CASE(shift_left) CASE(shift_right_logical) CASE(clamp) default : return arithmetic<T>(op);
  }
}

template <typename T>
StepFn floating(OpCode op) {
  return op == OpCode::sqrt ? Body<OpCode::sqrt, T>::run : arithmetic<T>(op);
}

StepFn boolean(OpCode op) {
  using T = uint8_t;
  switch (op) { CASE(and_) CASE(or_) CASE(xor_) CASE(not_) CASE(eq) CASE(ne) default : return nullptr; }
}
#undef CASE

// By 2 to the power of `imm`, rounded towards zero.
template <OpCode op, typename T>
const Step* by_power(Thread& t, const Step* s) {
  using U = Unsigned<T>;
  const T x = t.slot<T>(s->a);
  const U below = static_cast<U>((U{1} << s->imm) - 1);
  const U bias = std::is_signed_v<T> && x < 0 ? below : U{0};
  const U sum = static_cast<U>(static_cast<U>(x) + bias);
  if constexpr (op == OpCode::div) t.slot<T>(s->dst) = static_cast<T>(static_cast<T>(sum) >> s->imm);
  else t.slot<T>(s->dst) = static_cast<T>(static_cast<U>(x) - (sum & static_cast<U>(~below)));
  return s + 1;
}

template <typename T>
StepFn by_power_function(OpCode op) {
  return op == OpCode::div ? by_power<OpCode::div, T> : op == OpCode::rem ? by_power<OpCode::rem, T> : nullptr;
}

template <typename From, typename To>
const Step* cast(Thread& t, const Step* s) {
  const From v = t.slot<From>(s->a);
  t.slot<To>(s->dst) = static_cast<To>(v);
  return s + 1;
}
template <typename From>
const Step* to_bool(Thread& t, const Step* s) {
  t.slot<uint8_t>(s->dst) = t.slot<From>(s->a) != From{0};
  return s + 1;
}

template <typename From>
StepFn cast_from(CType to) {
  switch (to) {
    case CType::Bool: return to_bool<From>;
    case CType::F32: return cast<From, float>;
    case CType::F64: return cast<From, double>;
    default: break;
  }
  if constexpr (std::is_integral_v<From>) {
    switch (to) {
      case CType::I32: return cast<From, int32_t>;
      case CType::U32: return cast<From, uint32_t>;
      case CType::I64: return cast<From, int64_t>;
      case CType::U64: return cast<From, uint64_t>;
      default: break;
    }
  }
  return nullptr;  // float to integer saturates: the strip body does it
}

}  // namespace

StepFn scalar(OpCode op, CType c) {
  switch (c) {
    case CType::Bool: return boolean(op);
    case CType::I32: return integer<int32_t>(op);
    case CType::U32: return integer<uint32_t>(op);
    case CType::I64: return integer<int64_t>(op);
    case CType::U64: return integer<uint64_t>(op);
    case CType::F32: return floating<float>(op);
    case CType::F64: return floating<double>(op);
    default: return nullptr;
  }
}

StepFn scalar_by_power(OpCode op, CType c) {
  switch (c) {
    case CType::I32: return by_power_function<int32_t>(op);
    case CType::U32: return by_power_function<uint32_t>(op);
    case CType::I64: return by_power_function<int64_t>(op);
    case CType::U64: return by_power_function<uint64_t>(op);
    default: return nullptr;
  }
}

StepFn scalar_convert(CType from, CType to) {
  switch (from) {
    case CType::Bool: return to == CType::Bool ? nullptr : cast_from<uint8_t>(to);
    case CType::I32: return cast_from<int32_t>(to);
    case CType::U32: return cast_from<uint32_t>(to);
    case CType::I64: return cast_from<int64_t>(to);
    case CType::U64: return cast_from<uint64_t>(to);
    case CType::F32: return cast_from<float>(to);
    case CType::F64: return cast_from<double>(to);
    default: return nullptr;
  }
}

namespace {
template <typename T>
const Step* mul_add(Thread& t, const Step* s) {
  t.slot<T>(s->dst) = t.slot<T>(s->a) * t.slot<T>(s->b) + t.slot<T>(s->c);
  return s + 1;
}
}  // namespace

StepFn scalar_mul_add(CType t) {
  return t == CType::I32 || t == CType::U32   ? mul_add<uint32_t>
         : t == CType::I64 || t == CType::U64 ? mul_add<uint64_t>
                                              : nullptr;
}

const Step* scalar_strip(Thread& t, const Step* s) {
  const auto& p = *static_cast<const ScalarStrip*>(s->payload);
  if (p.convert) p.convert(t.arena + s->dst, t.arena + s->a, 1, p.params.semantics);
  else p.fn(t.arena + s->dst, t.arena + s->a, t.arena + s->b, t.arena + s->c, 1, p.params);
  return s + 1;
}

namespace {
template <size_t N>
const Step* select_bytes(Thread& t, const Step* s) {
  const uint32_t from = t.slot<uint8_t>(s->a) ? s->c : s->b;
  std::memmove(t.arena + s->dst, t.arena + from, N);
  return s + 1;
}
}  // namespace

StepFn scalar_select(int bytes) {
  return bytes == 1 ? select_bytes<1> : bytes == 4 ? select_bytes<4> : bytes == 8 ? select_bytes<8> : select_bytes<16>;
}

}  // namespace pallasim::interp::ops
