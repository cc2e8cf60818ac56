// Largest error of elementwise functions in units of the last place, against long double.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "exact.h"
#include "pallasim/interp/kernels.h"

namespace pallasim::interp::ulp {

using L = long double;

struct Function {
  ir::OpCode op;
  const char* name;
  double lo, hi;          // where arguments are drawn from
  L (*one)(L) = nullptr;  // one of these
  L (*two)(L, L) = nullptr;
  L (*three)(L, L, L) = nullptr;
  // Wide: also random bits over the whole range. Range: the interval only; its functions are slow, or have zeros
  // outside. Order: the first argument is a positive integer. Unit: the last argument lies in [0, 1].
  enum class Draw : uint8_t { Wide, Range, Order, Unit } draw = Draw::Wide;
};

inline const std::vector<Function>& functions() {
  using ir::OpCode;
  using enum Function::Draw;
  static const std::vector<Function> list = {
      {OpCode::exp, "exp", -100, 100, expl},
      {OpCode::exp2, "exp2", -140, 130, exp2l},
      {OpCode::expm1, "expm1", -20, 20, expm1l},
      {OpCode::log, "log", 0, 10, logl},
      {OpCode::log2, "log2", 0, 10, log2l},
      {OpCode::log1p, "log1p", -1, 10, log1pl},
      {OpCode::logistic, "logistic", -20, 20, exact::logistic},
      {OpCode::tanh, "tanh", -10, 10, tanhl},
      {OpCode::sin, "sin", -20, 20, sinl},
      {OpCode::cos, "cos", -20, 20, cosl},
      {OpCode::tan, "tan", -20, 20, tanl},
      {OpCode::sinh, "sinh", -20, 20, sinhl},
      {OpCode::cosh, "cosh", -20, 20, coshl},
      {OpCode::asin, "asin", -1, 1, asinl},
      {OpCode::acos, "acos", -1, 1, acosl},
      {OpCode::atan, "atan", -10, 10, atanl},
      {OpCode::asinh, "asinh", -10, 10, asinhl},
      {OpCode::acosh, "acosh", 1, 20, acoshl},
      {OpCode::atanh, "atanh", -1, 1, atanhl},
      {OpCode::sqrt, "sqrt", 0, 10, sqrtl},
      {OpCode::cbrt, "cbrt", -10, 10, cbrtl},
      {OpCode::rsqrt, "rsqrt", 0, 10, exact::rsqrt},
      {OpCode::reciprocal, "reciprocal", -10, 10, exact::reciprocal},
      {OpCode::erf, "erf", -5, 5, erfl},
      {OpCode::erfc, "erfc", -5, 9, erfcl},
      {OpCode::erf_inv, "erf_inv", -1, 1, exact::erf_inv},
      {OpCode::lgamma, "lgamma", 0.01, 60, lgammal, nullptr, nullptr, Range},
      {OpCode::digamma, "digamma", 2, 60, exact::digamma, nullptr, nullptr, Range},
      {OpCode::bessel_i0e, "bessel_i0e", -60, 60, exact::bessel_i0e, nullptr, nullptr, Range},
      {OpCode::bessel_i1e, "bessel_i1e", -60, 60, exact::bessel_i1e, nullptr, nullptr, Range},
      {OpCode::pow, "pow", 0, 20, nullptr, powl},
      {OpCode::atan2, "atan2", -10, 10, nullptr, atan2l},
      {OpCode::igamma, "igamma", 0.1, 20, nullptr, exact::igamma, nullptr, Range},
      {OpCode::igammac, "igammac", 0.1, 20, nullptr, exact::igammac, nullptr, Range},
      {OpCode::zeta, "zeta", 1.5, 20, nullptr, exact::zeta, nullptr, Range},
      {OpCode::polygamma, "polygamma", 0.5, 12, nullptr, exact::polygamma, nullptr, Order},
      {OpCode::regularized_incomplete_beta, "regularized_incomplete_beta", 0.2, 12, nullptr, nullptr, exact::beta,
       Unit},
  };
  return list;
}

struct Format {
  ir::DType dtype;
  int digits, min_exponent;  // as in numeric_limits
  double max;
};
inline constexpr Format kFormats[] = {{ir::DType::F32, 24, -125, 0x1.fffffep127},
                                      {ir::DType::F64, 53, -1021, 0x1.fffffffffffffp1023},
                                      {ir::DType::BF16, 8, -125, 0x1.fep127},
                                      {ir::DType::F16, 11, -13, 65504}};

// Distance of `got` from the exact value in units of the format's last place there. Infinite when one is NaN and the
// other is not, or when an infinity is missed.
inline double error(const Format& f, double got, L exact) {
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) == std::isnan(got) ? 0 : INFINITY;
  const L edge = f.max + ldexpl(1.0L, std::ilogb(f.max) - f.digits);  // rounds to infinity from here on
  const bool over = fabsl(exact) >= edge;
  if (over || std::isinf(got)) {
    if (over == std::isinf(got)) return std::signbit(exact) == std::signbit(got) ? 0 : INFINITY;
    // Next to the threshold either neighbour is within one unit.
    return std::fabs(static_cast<double>(fabsl(exact) / edge - 1)) < std::ldexp(1.0, 1 - f.digits) ? 1 : INFINITY;
  }
  int e = f.min_exponent;
  if (exact != 0) {
    frexpl(exact, &e);
    e = std::max(e, f.min_exponent);
  }
  return static_cast<double>(fabsl(static_cast<L>(got) - exact) / ldexpl(1.0L, e - f.digits));
}

struct Worst {
  double ulp = 0;
  double x[3] = {};
};

// The largest error over `strips` strips of arguments, which are the first ones of any larger number of them. -1: no
// body.
inline Worst measure(const KernelTable& table, const Function& f, const Format& format, int strips, unsigned seed) {
  const StripFn fn = table.strip(f.op, format.dtype);
  if (!fn) return {-1, {}};
  const bool f64 = format.dtype == ir::DType::F64;
  const int arity = f.one ? 1 : f.two ? 2 : 3;
  Worst worst;
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> u(f.lo, f.hi), unit(0, 1);
  const ConvertFn round = table.convert(ir::DType::F64, format.dtype),
                  back = table.convert(format.dtype, ir::DType::F64);
  std::vector<double> wide[3] = {std::vector<double>(kStrip), std::vector<double>(kStrip), std::vector<double>(kStrip)},
                      got(kStrip);
  std::vector<double> args[3] = {wide[0], wide[0], wide[0]}, result(kStrip);  // registers of 4 or 8 bytes
  StripParams p;
  p.dtype = format.dtype;
  const auto draw = [&](int mode, bool first, bool last) {
    if (f.draw == Function::Draw::Unit && last) return unit(rng);
    if (f.draw == Function::Draw::Order && first) return std::floor(u(rng)) + 1;
    if (f.draw == Function::Draw::Wide && mode % 3 == 0) {
      const uint64_t bits = rng();
      double d;
      float s;
      std::memcpy(&d, &bits, 8);
      std::memcpy(&s, &bits, 4);
      return f64 ? d : static_cast<double>(s);
    }
    if (f.draw == Function::Draw::Wide && mode % 3 == 1) return u(rng) * std::ldexp(1.0, -static_cast<int>(rng() % 24));
    return u(rng);
  };
  for (int s = 0; s < strips; ++s) {
    for (int k = 0; k < arity; ++k) {
      for (double& v : wide[k]) v = draw(k == 0 ? s : s + 2, k == 0, k + 1 == arity);
      round(args[k].data(), wide[k].data(), kStrip, {});
      back(wide[k].data(), args[k].data(), kStrip, {});
    }
    fn(result.data(), args[0].data(), args[1].data(), args[2].data(), kStrip, p);
    back(got.data(), result.data(), kStrip, {});
    for (size_t i = 0; i < static_cast<size_t>(kStrip); ++i) {
      const L x = wide[0][i], y = wide[1][i], z = wide[2][i];
      const L want = f.one ? f.one(x) : f.two ? f.two(x, y) : f.three(x, y, z);
      const double e = error(format, got[i], want);
      if (e > worst.ulp) worst = {e, {wide[0][i], wide[1][i], wide[2][i]}};
    }
  }
  return worst;
}
// As many strips of a function as fit into the time: libm's own are fast.
inline int share(const Function& f, int strips) {
  return f.draw == Function::Draw::Wide ? strips : std::max(1, strips / 40);
}
inline constexpr unsigned kSeed = 1;

}  // namespace pallasim::interp::ulp
