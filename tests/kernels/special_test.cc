// Special functions at points computed to 40 digits (mpmath), and complex functions against std::complex.
#include <complex>

#include "data.h"

namespace pallasim::interp {
namespace {

struct Point {
  OpCode op;
  double in[3];
  double out;
};
const Point kPoints[] = {
    {OpCode::lgamma, {0.001}, 6.907178885383853},
    {OpCode::lgamma, {0.3}, 1.0957979948180756},
    {OpCode::lgamma, {0.9375}, 0.039390901734582304},
    {OpCode::lgamma, {1.125}, -0.06002318412603958},
    {OpCode::lgamma, {1.5}, -0.12078223763524522},
    {OpCode::lgamma, {1.9375}, -0.02514761940298887},
    {OpCode::lgamma, {2.25}, 0.1248717148923966},
    {OpCode::lgamma, {3.5}, 1.2009736023470743},
    {OpCode::lgamma, {9.0}, 10.60460290274525},
    {OpCode::lgamma, {14.5}, 23.862765841689086},
    {OpCode::lgamma, {123.25}, 468.6144829505166},
    {OpCode::lgamma, {10000000000.0}, 220258509288.81058},
    {OpCode::lgamma, {-0.5}, 1.2655121234846454},
    {OpCode::lgamma, {-2.75}, 0.004487897535955773},
    {OpCode::lgamma, {-10.125}, -13.29384514038954},
    {OpCode::digamma, {0.01}, -100.56088545786868},
    {OpCode::digamma, {0.5}, -1.9635100260214235},
    {OpCode::digamma, {1.0}, -0.5772156649015329},
    {OpCode::digamma, {1.4375}, -0.023613544005297898},
    {OpCode::digamma, {3.0}, 0.9227843350984671},
    {OpCode::digamma, {15.0}, 2.6743466616607936},
    {OpCode::digamma, {1000000.0}, 13.815510057964191},
    {OpCode::digamma, {-0.5}, 0.03648997397857652},
    {OpCode::digamma, {-3.25}, 4.46627587235028},
    {OpCode::bessel_i0e, {0.0}, 1.0},
    {OpCode::bessel_i0e, {0.5}, 0.6450352704491501},
    {OpCode::bessel_i0e, {3.0}, 0.2430003541618254},
    {OpCode::bessel_i0e, {-7.5}, 0.14831583007739552},
    {OpCode::bessel_i0e, {39.0}, 0.06408967575058333},
    {OpCode::bessel_i0e, {41.0}, 0.06249694375681889},
    {OpCode::bessel_i0e, {1000.0}, 0.012617240455891257},
    {OpCode::bessel_i1e, {0.5}, 0.1564208031848717},
    {OpCode::bessel_i1e, {3.0}, 0.19682671329730086},
    {OpCode::bessel_i1e, {-7.5}, -0.1380412115485542},
    {OpCode::bessel_i1e, {39.0}, 0.06326260540048712},
    {OpCode::bessel_i1e, {41.0}, 0.06173002069951816},
    {OpCode::bessel_i1e, {1000.0}, 0.012610930256928629},
    {OpCode::erf_inv, {1e-12}, 8.86226925452758e-13},
    {OpCode::erf_inv, {0.01}, 0.008862501280950598},
    {OpCode::erf_inv, {0.25}, 0.2253120550121781},
    {OpCode::erf_inv, {-0.5}, -0.4769362762044699},
    {OpCode::erf_inv, {0.75}, 0.8134198475976185},
    {OpCode::erf_inv, {0.96875}, 1.523019401996956},
    {OpCode::erf_inv, {-0.9990234375}, -2.331467773621948},
    {OpCode::erf_inv, {0.99999999}, 4.052237243268763},
    {OpCode::igamma, {0.5, 0.25}, 0.5204998778130465},
    {OpCode::igamma, {2.0, 1.0}, 0.26424111765711533},
    {OpCode::igamma, {3.0, 7.0}, 0.9703638361194782},
    {OpCode::igamma, {30.0, 25.0}, 0.18210391597745512},
    {OpCode::igamma, {100.0, 120.0}, 0.9721362601094793},
    {OpCode::igamma, {10000.0, 9900.0}, 0.15865119219356466},
    {OpCode::igammac, {0.5, 0.25}, 0.4795001221869535},
    {OpCode::igammac, {2.0, 1.0}, 0.7357588823428847},
    {OpCode::igammac, {3.0, 7.0}, 0.029636163880521777},
    {OpCode::igammac, {30.0, 25.0}, 0.8178960840225449},
    {OpCode::igammac, {100.0, 120.0}, 0.027863739890520663},
    {OpCode::igammac, {10000.0, 9900.0}, 0.8413488078064354},
    {OpCode::zeta, {2.0, 1.0}, 1.6449340668482264},
    {OpCode::zeta, {1.5, 0.25}, 10.213055360466601},
    {OpCode::zeta, {3.0, 10.5}, 0.004987572123857585},
    {OpCode::zeta, {10.0, 2.0}, 0.0009945751278180853},
    {OpCode::zeta, {30.0, 1.5}, 5.215096203815732e-06},
    {OpCode::polygamma, {1.0, 1.0}, 1.6449340668482264},
    {OpCode::polygamma, {2.0, 0.5}, -16.82879664423432},
    {OpCode::polygamma, {3.0, 4.25}, 0.03665372575986459},
    {OpCode::polygamma, {0.0, 2.5}, 0.7031566406452432},
    {OpCode::regularized_incomplete_beta, {0.5, 0.5, 0.25}, 0.3333333333333333},
    {OpCode::regularized_incomplete_beta, {2.0, 3.0, 0.5}, 0.6875},
    {OpCode::regularized_incomplete_beta, {10.0, 4.0, 0.875}, 0.9310409062672989},
    {OpCode::regularized_incomplete_beta, {30.0, 50.0, 0.375}, 0.5076919308912146},
    {OpCode::regularized_incomplete_beta, {1.0, 1.0, 0.125}, 0.125},
};

TEST(Special, KnownValues) {
  for (const Point& p : kPoints) {
    double r = 0;
    StripParams params;
    params.dtype = DType::F64;
    const StripFn f = kernels().strip(p.op, DType::F64);
    ASSERT_TRUE(f) << ir::name(p.op);
    f(&r, &p.in[0], &p.in[1], &p.in[2], 1, params);
    EXPECT_LE(std::fabs(r - p.out), 2e-13 * std::fabs(p.out))
        << ir::name(p.op) << ' ' << p.in[0] << ", " << p.in[1] << ", " << p.in[2] << ": " << r << " not " << p.out;
    const float a = static_cast<float>(p.in[0]), b = static_cast<float>(p.in[1]), c = static_cast<float>(p.in[2]);
    if (a != p.in[0] || b != p.in[1] || c != p.in[2]) continue;
    float s = 0;
    params.dtype = DType::F32;
    kernels().strip(p.op, DType::F32)(&s, &a, &b, &c, 1, params);
    if (p.op == OpCode::erf_inv)
      EXPECT_NEAR(s, p.out, 5e-6 * std::fabs(p.out)) << p.in[0];  // the machines' formula in f32
    else EXPECT_EQ(s, static_cast<float>(p.out)) << ir::name(p.op) << ' ' << p.in[0];
  }
}

TEST(Special, Edges) {
  auto one = [](OpCode op, double a, double b = 0, double c = 0) {
    double r = 0;
    kernels().strip(op, DType::F64)(&r, &a, &b, &c, 1, {});
    return r;
  };
  EXPECT_EQ(one(OpCode::lgamma, 0), INFINITY);
  EXPECT_EQ(one(OpCode::lgamma, -3), INFINITY);
  EXPECT_EQ(one(OpCode::lgamma, 1), 0);
  EXPECT_EQ(one(OpCode::lgamma, 2), 0);
  EXPECT_TRUE(std::isnan(one(OpCode::digamma, -2)));
  EXPECT_EQ(one(OpCode::erf_inv, 1), INFINITY);
  EXPECT_EQ(one(OpCode::erf_inv, -1), -INFINITY);
  EXPECT_TRUE(std::isnan(one(OpCode::erf_inv, 1.5)));
  EXPECT_EQ(one(OpCode::igamma, 2, 0), 0);
  EXPECT_EQ(one(OpCode::igammac, 2, INFINITY), 0);
  EXPECT_EQ(one(OpCode::zeta, 1, 2), INFINITY);
  EXPECT_EQ(one(OpCode::regularized_incomplete_beta, 2, 3, 1), 1);
}

using Z = std::complex<double>;
TEST(Complex, AgreesWithTheStandardLibrary) {
  std::mt19937_64 rng(9);
  std::uniform_real_distribution<double> u(-3, 3);
  const std::pair<OpCode, Z (*)(Z, Z)> list[] = {{OpCode::add, [](Z a, Z b) { return a + b; }},
                                                 {OpCode::sub, [](Z a, Z b) { return a - b; }},
                                                 {OpCode::mul, [](Z a, Z b) { return a * b; }},
                                                 {OpCode::div, [](Z a, Z b) { return a / b; }},
                                                 {OpCode::pow, [](Z a, Z b) { return std::pow(a, b); }},
                                                 {OpCode::exp, [](Z a, Z) { return std::exp(a); }},
                                                 {OpCode::log, [](Z a, Z) { return std::log(a); }},
                                                 {OpCode::sqrt, [](Z a, Z) { return std::sqrt(a); }},
                                                 {OpCode::sin, [](Z a, Z) { return std::sin(a); }},
                                                 {OpCode::cos, [](Z a, Z) { return std::cos(a); }},
                                                 {OpCode::tan, [](Z a, Z) { return std::tan(a); }},
                                                 {OpCode::tanh, [](Z a, Z) { return std::tanh(a); }},
                                                 {OpCode::sinh, [](Z a, Z) { return std::sinh(a); }},
                                                 {OpCode::cosh, [](Z a, Z) { return std::cosh(a); }},
                                                 {OpCode::rsqrt, [](Z a, Z) { return 1.0 / std::sqrt(a); }},
                                                 {OpCode::logistic, [](Z a, Z) { return 1.0 / (1.0 + std::exp(-a)); }},
                                                 {OpCode::expm1, [](Z a, Z) { return std::exp(a) - 1.0; }},
                                                 {OpCode::log1p, [](Z a, Z) { return std::log(1.0 + a); }},
                                                 {OpCode::conj, [](Z a, Z) { return std::conj(a); }},
                                                 {OpCode::sign, [](Z a, Z) { return a / std::abs(a); }}};
  for (auto [op, exact] : list) {
    for (int i = 0; i < 200; ++i) {
      const Z a{u(rng), u(rng)}, b{u(rng), u(rng)}, want = exact(a, b);
      Z r;
      kernels().strip(op, DType::C128)(&r, &a, &b, &b, 1, {});
      ASSERT_GT(std::abs(want), 0);
      ASSERT_LE(std::abs(r - want), 1e-13 * (std::abs(want) + 1)) << ir::name(op) << a << b << r << want;
      const std::complex<float> af(a), bf(b);
      std::complex<float> rf;
      kernels().strip(op, DType::C64)(&rf, &af, &bf, &bf, 1, {});
      const Z wantf = exact(Z(af), Z(bf));
      ASSERT_LE(std::abs(Z(rf) - wantf), 1e-6 * std::abs(wantf)) << ir::name(op) << a << b;
    }
  }
}

}  // namespace
}  // namespace pallasim::interp
