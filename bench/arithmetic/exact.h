// Functions that libm lacks, in long double: what the kernels' f64 bodies are measured against. Other expansions or
// more terms than those bodies have, and eleven more bits.
#pragma once
#include <cmath>

namespace pallasim::interp::exact {

using L = long double;
constexpr L kPi = 3.14159265358979323846264338327950288L;
// B(2k), k = 1 ...
constexpr L kBernoulli[] = {1.0L / 6,       -1.0L / 30,       1.0L / 42,       -1.0L / 30,
                            5.0L / 66,      -691.0L / 2730,   7.0L / 6,        -3617.0L / 510,
                            43867.0L / 798, -174611.0L / 330, 854513.0L / 138, -236364091.0L / 2730,
                            8553103.0L / 6};

inline L logistic(L x) { return x >= 0 ? 1 / (1 + expl(-x)) : expl(x) / (1 + expl(x)); }
inline L rsqrt(L x) { return 1 / sqrtl(x); }
inline L reciprocal(L x) { return 1 / x; }

inline L erf_inv(L y) {
  const L a = fabsl(y);
  if (!(a <= 1)) return NAN;
  if (a == 1) return copysignl(INFINITY, y);
  if (a < 1e-12L) return y * sqrtl(kPi) / 2;
  const L l = log1pl(-a * a), c = 2 / (kPi * 0.147L) + l / 2;
  L x = sqrtl(sqrtl(c * c - l / 0.147L) - c);
  for (int i = 0; i < 5; ++i) {  // Newton, on the side that does not cancel
    const L error = a < 0.5L ? erfl(x) - a : (1 - a) - erfcl(x);
    x -= error * sqrtl(kPi) / 2 * expl(x * x);
  }
  return copysignl(x, y);
}

inline L digamma(L x) {
  L sum = 0;
  for (; x < 40; x += 1) sum -= 1 / x;
  L power = 1 / (x * x), term = power;
  sum += logl(x) - 1 / (2 * x);
  for (int k = 1; k <= 13; ++k, term *= power) sum -= kBernoulli[k - 1] / (2 * k) * term;
  return sum;
}

// e^-|x| I_order(x) by its integral over [0, pi]: the trapezoid rule converges faster than any power of the step.
inline L bessel_ie(L x, int order) {
  const L a = fabsl(x);
  if (std::isinf(x)) return 0;
  const int n = 400;
  // Beyond this the integrand is narrower than the steps; the asymptotic series has 40 good terms there.
  if (a > 300) {
    L term = 1, sum = 1;
    for (int k = 1; k < 40; ++k) sum += term *= -(4.0L * order - (2.0L * k - 1) * (2 * k - 1)) / (8 * a * k);
    const L v = sum / sqrtl(2 * kPi * a);
    return order && x < 0 ? -v : v;
  }
  L sum = 0;
  for (int i = 0; i <= n; ++i) {
    const L t = kPi * i / n;
    sum += expl(a * (cosl(t) - 1)) * (order ? cosl(t) : 1) * (i == 0 || i == n ? 0.5L : 1);
  }
  const L v = sum / n;
  return order && x < 0 ? -v : v;
}
inline L bessel_i0e(L x) { return bessel_ie(x, 0); }
inline L bessel_i1e(L x) {
  if (fabsl(x) > 0.5L) return bessel_ie(x, 1);
  L term = x / 2, sum = term;  // near zero the integral cancels
  for (int k = 1; k < 30; ++k) sum += term *= x * x / (4.0L * k * (k + 1));
  return sum * expl(-fabsl(x));
}

// x^a e^-x / gamma(a + 1) times sums of positive terms.
inline L igamma_series(L a, L x) {
  L sum = 1, term = 1;
  for (L n = a + 1; term > sum * 1e-22L; n += 1) sum += term *= x / n;
  return sum * expl(a * logl(x) - x - lgammal(a + 1));
}
inline L igammac_fraction(L a, L x) {  // from its end
  L v = 0;
  for (int i = 4000; i >= 1; --i) v = i * (i - a) / (x + 2 * i + 1 - a - v);
  return expl(a * logl(x) - x - lgammal(a)) / (x + 1 - a - v);
}
inline L igamma(L a, L x) { return x < a + 1 ? igamma_series(a, x) : 1 - igammac_fraction(a, x); }
inline L igammac(L a, L x) { return x < a + 1 ? 1 - igamma_series(a, x) : igammac_fraction(a, x); }

inline L zeta(L s, L q) {
  L sum = 0;
  for (; q < 30; q += 1) sum += powl(q, -s);
  const L power = powl(q, -s);
  sum += power * q / (s - 1) + power / 2;
  L factor = s * power / q / 2;  // rising factorial of s over (2k)!
  for (int k = 1; k <= 13; ++k) {
    sum += kBernoulli[k - 1] * factor;
    factor *= (s + 2 * k - 1) * (s + 2 * k) / ((2.0L * k + 1) * (2.0L * k + 2) * q * q);
  }
  return sum;
}
inline L polygamma(L n, L x) {
  if (n == 0) return digamma(x);
  const L v = expl(lgammal(n + 1)) * zeta(n + 1, x);
  return fmodl(n, 2) == 0 ? -v : v;
}

inline L beta_fraction(L a, L b, L x) {  // from its end
  L v = 0;
  for (int m = 2000; m >= 1; --m) {
    v = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)) / (1 + v);
    v = -(a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1)) / (1 + v);
  }
  return 1 / (1 + v);
}
inline L beta(L a, L b, L x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  const L front = expl(lgammal(a + b) - lgammal(a) - lgammal(b) + a * logl(x) + b * log1pl(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace pallasim::interp::exact
