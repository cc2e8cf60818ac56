// Scalar operations on slots. One body per operation and type; bits equal those of the strip bodies.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "bodies.h"
#include "threaded.h"

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

  using First = T;
  using Second = T;
  using Made = decltype(eval(T{}, T{}, T{}, false));
  static constexpr uint8_t kGives = sizeof(Made);
  static constexpr auto operands = slots_ab;

  static const Step* run(Thread& t, const Step* s) {
    t.slot<Made>(s->dst) = eval(t.slot<T>(s->a), t.slot<T>(s->b), t.slot<T>(s->c), s->imm != 0);
    return s + 1;
  }
  template <unsigned given>
  static const Step* threaded(Thread& t, const Step* s, uint64_t value) {
    const T a = operand<(given & 1) != 0, T>(t, s->a, value), b = operand<(given & 2) != 0, T>(t, s->b, value);
    return go_on<Made>(t, s, eval(a, b, t.slot<T>(s->c), s->imm != 0));
  }
};

struct Truth {};
// The compute type of a C++ type; bytes are truth values.
template <typename T>
constexpr CType ctype_of() {
  if constexpr (std::is_same_v<T, int32_t>) return CType::I32;
  else if constexpr (std::is_same_v<T, uint32_t>) return CType::U32;
  else if constexpr (std::is_same_v<T, int64_t>) return CType::I64;
  else if constexpr (std::is_same_v<T, uint64_t>) return CType::U64;
  else if constexpr (std::is_same_v<T, float>) return CType::F32;
  else if constexpr (std::is_same_v<T, double>) return CType::F64;
  else return CType::Bool;
}
template <Kind kind, typename B>
constexpr StepForm scalar_form(OpCode op, CType type, CType made) {
  return {kind, B::run, &kFormsOf<B>, op, type, made};
}

template <OpCode op, typename T>
constexpr StepForm kScalarForm = scalar_form<Kind::scalar, Body<op, T>>(op, ctype_of<T>(),
                                                                        ctype_of<typename Body<op, T>::Made>());

template <typename T>
const StepForm* common(OpCode op) {
  switch (op) {
#define CASE(x) \
  case OpCode::x: return &kScalarForm<OpCode::x, T>;
    CASE(eq) CASE(ne) CASE(lt) CASE(le) CASE(gt) CASE(ge) default : return nullptr;
  }
}

template <typename T>
const StepForm* arithmetic(OpCode op) {
  switch (op) { CASE(add) CASE(sub) CASE(mul) CASE(neg) CASE(square) CASE(div) default : return common<T>(op); }
}

template <typename T>
const StepForm* integer(OpCode op) {
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
const StepForm* floating(OpCode op) {
  return op == OpCode::sqrt ? &kScalarForm<OpCode::sqrt, T> : arithmetic<T>(op);
}

const StepForm* boolean(OpCode op) {
  using T = uint8_t;
  switch (op) { CASE(and_) CASE(or_) CASE(xor_) CASE(not_) CASE(eq) CASE(ne) default : return nullptr; }
}
#undef CASE

// By 2 to the power of `imm`, rounded towards zero.
template <OpCode op, typename T>
struct ByPower {
  static T eval(T x, int64_t power) {
    using U = Unsigned<T>;
    const U below = static_cast<U>((U{1} << power) - 1);
    const U bias = std::is_signed_v<T> && x < 0 ? below : U{0};
    const U sum = static_cast<U>(static_cast<U>(x) + bias);
    if constexpr (op == OpCode::div) return static_cast<T>(static_cast<T>(sum) >> power);
    else return static_cast<T>(static_cast<U>(x) - (sum & static_cast<U>(~below)));
  }
};

// From -> To; truth values are 0 and 1.
template <typename From, typename To>
struct Cast {
  static auto eval(From x, int64_t) {
    if constexpr (std::is_same_v<To, Truth>) return static_cast<uint8_t>(x != From{0});
    else return static_cast<To>(x);
  }
};

template <OpCode op, typename T>
constexpr StepForm kPowerForm = scalar_form<Kind::scalar_by_power, OfOne<ByPower<op, T>, T>>(op, ctype_of<T>(),
                                                                                             ctype_of<T>());
template <typename From, typename To>
constexpr StepForm kCastForm = scalar_form<Kind::scalar_convert, OfOne<Cast<From, To>, From>>(OpCode::convert,
                                                                                              ctype_of<From>(),
                                                                                              ctype_of<To>());

template <typename T>
const StepForm* by_power_of(OpCode op) {
  return op == OpCode::div ? &kPowerForm<OpCode::div, T> : op == OpCode::rem ? &kPowerForm<OpCode::rem, T> : nullptr;
}

template <typename From, typename To>
const StepForm* cast() {
  return &kCastForm<From, To>;
}

template <typename From>
const StepForm* cast_from(CType to) {
  switch (to) {
    case CType::Bool: return cast<From, Truth>();
    case CType::F32: return cast<From, float>();
    case CType::F64: return cast<From, double>();
    default: break;
  }
  if constexpr (std::is_integral_v<From>) {
    switch (to) {
      case CType::I32: return cast<From, int32_t>();
      case CType::U32: return cast<From, uint32_t>();
      case CType::I64: return cast<From, int64_t>();
      case CType::U64: return cast<From, uint64_t>();
      default: break;
    }
  }
  return nullptr;  // float to integer saturates: the strip body does it
}

}  // namespace

const StepForm* scalar(OpCode op, CType c) {
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

const StepForm* scalar_by_power(OpCode op, CType c) {
  switch (c) {
    case CType::I32: return by_power_of<int32_t>(op);
    case CType::U32: return by_power_of<uint32_t>(op);
    case CType::I64: return by_power_of<int64_t>(op);
    case CType::U64: return by_power_of<uint64_t>(op);
    default: return nullptr;
  }
}

const StepForm* scalar_convert(CType from, CType to) {
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
struct MulAdd {
  using First = T;
  using Second = T;
  static constexpr uint8_t kGives = sizeof(T);
  static constexpr auto operands = slots_ac;

  static const Step* run(Thread& t, const Step* s) {
    t.slot<T>(s->dst) = t.slot<T>(s->a) * t.slot<T>(s->b) + t.slot<T>(s->c);
    return s + 1;
  }
  template <unsigned given>
  static const Step* threaded(Thread& t, const Step* s, uint64_t value) {
    const T a = operand<(given & 1) != 0, T>(t, s->a, value), c = operand<(given & 2) != 0, T>(t, s->c, value);
    return go_on<T>(t, s, a * t.slot<T>(s->b) + c);
  }
};
}  // namespace

const StepForm* scalar_mul_add(CType t) {
  return t == CType::I32 || t == CType::U32   ? &kFormOf<Kind::scalar_mul_add, MulAdd<uint32_t>>
         : t == CType::I64 || t == CType::U64 ? &kFormOf<Kind::scalar_mul_add, MulAdd<uint64_t>>
                                              : nullptr;
}

const Step* scalar_strip(Thread& t, const Step* s) {
  const auto& p = payload<Kind::scalar_strip>(s);
  if (p.convert) p.convert(t.arena + s->dst, t.arena + s->a, 1, p.params.semantics);
  else p.fn(t.arena + s->dst, t.arena + s->a, t.arena + s->b, t.arena + s->c, 1, p.params);
  return s + 1;
}

namespace {
// Of elements of N bytes.
template <size_t N>
struct Select {
  using First = uint8_t;
  using Second = uint8_t;
  static constexpr uint8_t kGives = N <= 8 ? N : 0;
  static constexpr auto operands = slot_a;

  static const Step* run(Thread& t, const Step* s) {
    move(t, s, t.slot<uint8_t>(s->a));
    return s + 1;
  }
  template <unsigned given>
  static const Step* threaded(Thread& t, const Step* s, uint64_t value) {
    return s[1].threaded(t, s + 1, move(t, s, operand<(given & 1) != 0, uint8_t>(t, s->a, value)));
  }

 private:
  static uint64_t move(Thread& t, const Step* s, uint8_t truth) {
    const std::byte* from = t.arena + (truth ? s->c : s->b);
    uint64_t value[2] = {};
    std::memcpy(value, from, N);
    std::memcpy(t.arena + s->dst, value, N);
    return value[0];
  }
};
}  // namespace

const StepForm& scalar_select(int bytes) {
  return bytes == 1   ? kFormOf<Kind::scalar_select, Select<1>>
         : bytes == 4 ? kFormOf<Kind::scalar_select, Select<4>>
         : bytes == 8 ? kFormOf<Kind::scalar_select, Select<8>>
                      : kFormOf<Kind::scalar_select, Select<16>>;
}

}  // namespace pallasim::interp::ops
