// Strip bodies from functors: one vectorised loop per (functor, register types), then the rounding of narrow types.
#pragma once
#include "body.h"

namespace pallasim::interp::PALLASIM_KNS {

inline void finish(void* dst, int64_t n, const StripParams& p) {
  if (needs_rounding(p.dtype)) round_register(p.dtype, dst, n, p.semantics);
}

template <class F, class R, class T, bool Rounds = true>
void unary(void* dst, const void* a, const void*, const void*, int64_t n, const StripParams& p) {
  auto* d = static_cast<R*>(dst);
  auto* x = static_cast<const T*>(a);
  PALLASIM_VLOOP(i, n) d[i] = F::f(x[i]);
  if constexpr (Rounds) finish(dst, n, p);
}

template <class F, class R, class T, bool Rounds = true>
void binary(void* dst, const void* a, const void* b, const void*, int64_t n, const StripParams& p) {
  auto* d = static_cast<R*>(dst);
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  PALLASIM_VLOOP(i, n) d[i] = F::f(x[i], y[i]);
  if constexpr (Rounds) finish(dst, n, p);
}

// The same where either operand may be one element.
template <class F, class R, class T, bool Rounds = true>
void pairwise(void* dst, const void* a, const void* b, const void* c, int64_t n, const StripParams& p) {
  if (p.scalars == 0) return binary<F, R, T, Rounds>(dst, a, b, c, n, p);
  auto* d = static_cast<R*>(dst);
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  if (p.scalars == 2) {
    const T v = *y;
    PALLASIM_VLOOP(i, n) d[i] = F::f(x[i], v);
  } else if (p.scalars == 1) {
    const T v = *x;
    PALLASIM_VLOOP(i, n) d[i] = F::f(v, y[i]);
  } else {
    const R v = F::f(*x, *y);
    PALLASIM_VLOOP(i, n) d[i] = v;
  }
  if constexpr (Rounds) finish(dst, n, p);
}

template <class F, class T, bool Rounds = true>
void ternary(void* dst, const void* a, const void* b, const void* c, int64_t n, const StripParams& p) {
  auto* d = static_cast<T*>(dst);
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  auto* z = static_cast<const T*>(c);
  PALLASIM_VLOOP(i, n) d[i] = F::f(x[i], y[i], z[i]);
  if constexpr (Rounds) finish(dst, n, p);
}

// A body that a flag of the semantics chooses.
template <StripFn On, StripFn Off, auto Flag>
void either(void* dst, const void* a, const void* b, const void* c, int64_t n, const StripParams& p) {
  (p.semantics.*Flag ? On : Off)(dst, a, b, c, n, p);
}

// Functors that mean the same for every element type. Ties of max and min give the first operand, as XLA does; only
// zeros of different sign tell.
struct Eq {
  template <class T>
  static uint8_t f(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <class T>
  static uint8_t f(T a, T b) {
    return a != b;
  }
};
struct Lt {
  template <class T>
  static uint8_t f(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static uint8_t f(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <class T>
  static uint8_t f(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <class T>
  static uint8_t f(T a, T b) {
    return a >= b;
  }
};
struct MaxOf {
  template <class T>
  static T f(T a, T b) {
    return b > a ? b : a;
  }
};
struct MinOf {
  template <class T>
  static T f(T a, T b) {
    return b < a ? b : a;
  }
};
struct MaxNan {
  template <class T>
  static T f(T a, T b) {
    T m = b > a ? b : a;
    return b != b ? b : m;
  }
};
struct MinNan {
  template <class T>
  static T f(T a, T b) {
    T m = b < a ? b : a;
    return b != b ? b : m;
  }
};
struct MaxNum {
  template <class T>
  static T f(T a, T b) {
    T m = b > a ? b : a;
    return a != a ? b : m;
  }
};
struct MinNum {
  template <class T>
  static T f(T a, T b) {
    T m = b < a ? b : a;
    return a != a ? b : m;
  }
};
struct Clamp {
  template <class T>
  static T f(T lo, T x, T hi) {
    T m = lo > x ? lo : x;
    return hi < m ? hi : m;
  }
};
// NaN of any operand (IEEE machines), and of x only.
struct ClampNan {
  template <class T>
  static T f(T lo, T x, T hi) {
    return MinNan::f(MaxNan::f(x, lo), hi);
  }
};

}  // namespace pallasim::interp::PALLASIM_KNS
