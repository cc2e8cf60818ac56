// Largest error of the transcendental strips in units of the last place, against long double.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "pallasim/interp/kernels.h"

namespace pallasim::interp::ulp {

using Exact1 = long double (*)(long double);
using Exact2 = long double (*)(long double, long double);

struct Function {
  ir::OpCode op;
  const char* name;
  double lo, hi;  // where arguments are drawn from, besides random bits over the whole range
  Exact1 one;
  Exact2 two;
};

inline long double logistic_exact(long double x) { return x >= 0 ? 1 / (1 + expl(-x)) : expl(x) / (1 + expl(x)); }
inline long double rsqrt_exact(long double x) { return 1 / sqrtl(x); }

inline const std::vector<Function>& functions() {
  using ir::OpCode;
  static const std::vector<Function> list = {
      {OpCode::exp, "exp", -100, 100, expl, nullptr},
      {OpCode::exp2, "exp2", -140, 130, exp2l, nullptr},
      {OpCode::expm1, "expm1", -20, 20, expm1l, nullptr},
      {OpCode::log, "log", 0, 10, logl, nullptr},
      {OpCode::log1p, "log1p", -1, 10, log1pl, nullptr},
      {OpCode::logistic, "logistic", -20, 20, logistic_exact, nullptr},
      {OpCode::tanh, "tanh", -10, 10, tanhl, nullptr},
      {OpCode::sin, "sin", -20, 20, sinl, nullptr},
      {OpCode::cos, "cos", -20, 20, cosl, nullptr},
      {OpCode::tan, "tan", -20, 20, tanl, nullptr},
      {OpCode::sinh, "sinh", -20, 20, sinhl, nullptr},
      {OpCode::cosh, "cosh", -20, 20, coshl, nullptr},
      {OpCode::asin, "asin", -1, 1, asinl, nullptr},
      {OpCode::acos, "acos", -1, 1, acosl, nullptr},
      {OpCode::atan, "atan", -10, 10, atanl, nullptr},
      {OpCode::asinh, "asinh", -10, 10, asinhl, nullptr},
      {OpCode::acosh, "acosh", 1, 20, acoshl, nullptr},
      {OpCode::atanh, "atanh", -1, 1, atanhl, nullptr},
      {OpCode::cbrt, "cbrt", -10, 10, cbrtl, nullptr},
      {OpCode::rsqrt, "rsqrt", 0, 10, rsqrt_exact, nullptr},
      {OpCode::erf, "erf", -5, 5, erfl, nullptr},
      {OpCode::erfc, "erfc", -5, 9, erfcl, nullptr},
      {OpCode::lgamma, "lgamma", 0.01, 60, lgammal, nullptr},
      {OpCode::pow, "pow", 0, 20, nullptr, powl},
      {OpCode::atan2, "atan2", -10, 10, nullptr, atan2l},
  };
  return list;
}

// Distance of `got` from the exact value in units of the last place of T there. Infinite when one is NaN and the other
// is not, or when an infinity is missed.
template <class T>
double error(T got, long double exact) {
  const T rounded = static_cast<T>(exact);
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) == std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    // Next to the overflow threshold either neighbour is within one unit.
    const T big = std::numeric_limits<T>::max();
    return fabsl(exact) < big * 1.0000005L && fabsl(static_cast<long double>(got)) >= big ? 1 : INFINITY;
  }
  int e = 0;
  std::frexp(rounded == 0 ? std::numeric_limits<T>::min() : rounded, &e);
  const int digits = std::numeric_limits<T>::digits;
  const int lowest = std::numeric_limits<T>::min_exponent - digits;
  const long double unit = ldexpl(1.0L, e - digits < lowest ? lowest : e - digits);
  return static_cast<double>(fabsl(static_cast<long double>(got) - exact) / unit);
}

struct Worst {
  double ulp = 0;
  double x = 0, y = 0;
};

template <class T>
Worst measure(const KernelTable& table, const Function& f, int strips, unsigned seed) {
  Worst worst;
  const StripFn fn = table.strip(f.op, sizeof(T) == 4 ? ir::DType::F32 : ir::DType::F64);
  if (!fn) return {-1, 0, 0};
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> u(f.lo, f.hi);
  std::vector<T> a(kStrip), b(kStrip), r(kStrip);
  StripParams p;
  p.dtype = sizeof(T) == 4 ? ir::DType::F32 : ir::DType::F64;
  auto draw = [&](int mode) {
    if (mode % 3 == 0) {
      const uint64_t bits = rng();
      T v;
      std::memcpy(&v, &bits, sizeof v);
      return v;
    }
    if (mode % 3 == 1) return static_cast<T>(u(rng) * std::ldexp(1.0, -static_cast<int>(rng() % 24)));
    return static_cast<T>(u(rng));
  };
  for (int s = 0; s < strips; ++s) {
    for (int i = 0; i < kStrip; ++i) a[i] = draw(s), b[i] = draw(f.two ? s + 2 : 2);
    fn(r.data(), a.data(), b.data(), nullptr, kStrip, p);
    for (int i = 0; i < kStrip; ++i) {
      if (f.op == ir::OpCode::lgamma && a[i] < 0) continue;  // crosses zero there: no bound in ulp
      const double e = error<T>(r[i], f.one ? f.one(a[i]) : f.two(a[i], b[i]));
      if (e > worst.ulp) worst = {e, static_cast<double>(a[i]), static_cast<double>(b[i])};
    }
  }
  return worst;
}

}  // namespace pallasim::interp::ulp
