// Every strip of every fast table against the reference table, bit for bit.
#include "data.h"

namespace pallasim::interp {
namespace {

bool gives_bool(OpCode op) {
  switch (op) {
    case OpCode::eq:
    case OpCode::ne:
    case OpCode::lt:
    case OpCode::le:
    case OpCode::gt:
    case OpCode::ge:
    case OpCode::eq_total:
    case OpCode::lt_total:
    case OpCode::le_total:
    case OpCode::is_finite: return true;
    default: return false;
  }
}

CType result_type(OpCode op, DType d) {
  if (gives_bool(op)) return CType::Bool;
  const CType c = compute_type(d);
  if (op == OpCode::abs || op == OpCode::real || op == OpCode::imag)
    return c == CType::C64 ? CType::F32 : c == CType::C128 ? CType::F64 : c;
  if (op == OpCode::complex || (op == OpCode::conj && (c == CType::F32 || c == CType::F64)))
    return c == CType::F32 ? CType::C64 : CType::C128;
  return c;
}

std::vector<int64_t> immediates(OpCode op) {
  if (op == OpCode::integer_pow) return {-3, -1, 0, 1, 2, 3, 7, 10};
  if (op == OpCode::round) return {0, 1};
  if (op == OpCode::reduce_precision) return {5 << 8 | 10, 8 << 8 | 7, 4 << 8 | 3, 11 << 8 | 20, 2 << 8 | 1};
  return {0};
}

// One element for all n is as good as n times that element.
void compare_scalars(const KernelTable& fast, OpCode op, DType d, std::mt19937_64& rng) {
  const CType out = result_type(op, d);
  const auto width = static_cast<size_t>(byte_size(compute_type(d))), size = static_cast<size_t>(byte_size(out));
  const StripFn f = fast.strip(op, d), r = reference_kernels().strip(op, d);
  const uint8_t may = takes_scalars(op, d);
  bool told = false;  // of some results the elements differ
  for (uint8_t scalars = 1; scalars < 8; ++scalars)
    for (int64_t n : {1, 5, 100, 512}) {
      if (scalars & ~may) continue;
      std::vector<char> given[3], spread[3];
      for (int k = 0; k < 3; ++k) {
        given[k] = register_of(op == OpCode::select_n && k == 0 ? DType::Bool : d, n, rng);
        // Some are equal to the one.
        for (size_t i = 0; k == 1 && op != OpCode::select_n && i < static_cast<size_t>(n); i += 3)
          if (scalars & 1) std::memcpy(&given[1][i * width], given[0].data(), width);
          else std::memcpy(&given[0][i * width], given[1].data(), width);
      }
      for (int k = 0; k < 3; ++k) {
        spread[k] = given[k];
        for (size_t i = 1; (scalars >> k & 1) && i < static_cast<size_t>(n); ++i)
          std::memcpy(&spread[k][i * width], given[k].data(), width);
      }
      StripParams p;
      p.dtype = d;
      std::vector<char> x(static_cast<size_t>(n) * size, 'x'), y(static_cast<size_t>(n) * size, 'y');
      r(y.data(), spread[0].data(), spread[1].data(), spread[2].data(), n, p);
      p.scalars = scalars;
      f(x.data(), given[0].data(), given[1].data(), given[2].data(), n, p);
      ASSERT_EQ(first_difference(out, x.data(), y.data(), n), -1)
          << fast.isa << ' ' << ir::name(op) << ' ' << ir::name(d) << " scalars " << int{scalars} << " of " << n;
      for (size_t i = size; i < y.size(); i += size) told |= std::memcmp(&y[i], y.data(), size) != 0;
    }
  EXPECT_TRUE(told || may == 0) << ir::name(op) << ' ' << ir::name(d);
}

// Arguments of the predicate type come first in select_n; the others have the dtype.
void compare(const KernelTable& fast, OpCode op, DType d, std::mt19937_64& rng) {
  const KernelTable& ref = reference_kernels();
  const StripFn f = fast.strip(op, d), r = ref.strip(op, d);
  ASSERT_EQ(f == nullptr, r == nullptr) << fast.isa << ' ' << ir::name(op) << ' ' << ir::name(d);
  if (!f) return;
  const CType out = result_type(op, d);
  const int size = byte_size(out);
  bool any = false;
  for (int64_t imm : immediates(op)) {
    for (int64_t n : {1, 5, 16, 100, 511, 512, 512}) {
      for (int variant = 0; variant < 2; ++variant) {
        StripParams p;
        p.dtype = d;
        p.imm = imm;
        if (variant) p.semantics = {false, true, false, true};
        const auto a = register_of(op == OpCode::select_n ? DType::Bool : d, n, rng), c = register_of(d, n, rng);
        auto b = register_of(d, n, rng);
        if (op != OpCode::select_n) {  // some equal elements
          const auto width = static_cast<int64_t>(byte_size(compute_type(d)));
          for (int64_t i = 0; i < n; i += 1 + static_cast<int64_t>(rng() % 7))
            std::memcpy(&b[static_cast<size_t>(i * width)], &a[static_cast<size_t>(i * width)],
                        static_cast<size_t>(width));
        }
        std::vector<char> x(static_cast<size_t>(n * size), 'x'), y(static_cast<size_t>(n * size), 'y');
        f(x.data(), a.data(), b.data(), c.data(), n, p);
        r(y.data(), a.data(), b.data(), c.data(), n, p);
        any |= !all_zero(y);
        const int64_t i = first_difference(out, x.data(), y.data(), n);
        const int in = byte_size(compute_type(d));
        if (i >= 0) {
          FAIL() << fast.isa << ' ' << ir::name(op) << ' ' << ir::name(d) << " imm " << imm << " variant " << variant
                 << " element " << i << " of " << n << ": " << hex(&x[static_cast<size_t>(i * size)], size)
                 << " instead of " << hex(&y[static_cast<size_t>(i * size)], size) << " for "
                 << hex(&a[static_cast<size_t>(i * (op == OpCode::select_n ? 1 : in))], op == OpCode::select_n ? 1 : in)
                 << ", " << hex(&b[static_cast<size_t>(i * in)], in) << ", "
                 << hex(&c[static_cast<size_t>(i * in)], in);
        }
        // In place, where the result has the operand's size or is smaller.
        if (op != OpCode::select_n && size <= in) {
          auto z = a;
          f(z.data(), z.data(), b.data(), c.data(), n, p);
          ASSERT_EQ(first_difference(out, z.data(), y.data(), n), -1)
              << "in place: " << fast.isa << ' ' << ir::name(op) << ' ' << ir::name(d);
        }
      }
    }
  }
  EXPECT_TRUE(any) << "only zeros: " << ir::name(op) << ' ' << ir::name(d);
}

class Tables : public ::testing::TestWithParam<const char*> {};
TEST_P(Tables, StripsAgreeWithTheReference) {
  const KernelTable* t = kernels_for(GetParam());
  if (!t) GTEST_SKIP() << "this CPU has no " << GetParam();
  EXPECT_STREQ(t->isa, GetParam());
  std::mt19937_64 rng(7);
  int count = 0;
  for (int o = 0; o < ir::kNumOps; ++o) {
    const auto op = static_cast<OpCode>(o);
    for (DType d : value_dtypes()) {
      if (t->strip(op, d)) ++count;
      if (ir::info(op).family == ir::Family::Elementwise) compare(*t, op, d, rng);
      if (t->strip(op, d) && !HasFatalFailure()) compare_scalars(*t, op, d, rng);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(count, 900);
}
INSTANTIATE_TEST_SUITE_P(Isa, Tables, ::testing::Values("avx512", "avx2", "baseline"));

// The reference itself on cases worked out by hand.
template <class T>
T run(OpCode op, DType d, T a, T b = T{}, T c = T{}, Semantics s = {}, int64_t imm = 0) {
  T r{};
  StripParams p;
  p.dtype = d, p.imm = imm, p.semantics = s;
  reference_kernels().strip(op, d)(&r, &a, &b, &c, 1, p);
  return r;
}

TEST(Strips, IntegerEdges) {
  const int32_t lo = INT32_MIN;
  EXPECT_EQ(run<int32_t>(OpCode::div, DType::I32, 7, 0), -1);
  EXPECT_EQ(run<int32_t>(OpCode::div, DType::I32, lo, -1), lo);
  EXPECT_EQ(run<int32_t>(OpCode::div, DType::I32, -7, 2), -3);
  EXPECT_EQ(run<int32_t>(OpCode::rem, DType::I32, -7, 2), -1);
  EXPECT_EQ(run<int32_t>(OpCode::rem, DType::I32, -7, 0), -7);
  Semantics gpu;
  gpu.int_rem_zero_is_x = false;
  EXPECT_EQ(run<int32_t>(OpCode::rem, DType::I32, -7, 0, 0, gpu), -1);
  EXPECT_EQ(run<uint32_t>(OpCode::div, DType::U8, 7, 0), 255u);
  EXPECT_EQ(run<int32_t>(OpCode::div, DType::I8, -128, -1), -128);
  EXPECT_EQ(run<int32_t>(OpCode::add, DType::I8, 127, 1), -128);
  EXPECT_EQ(run<int32_t>(OpCode::mul, DType::I4, 7, 7), 1);
  EXPECT_EQ(run<uint32_t>(OpCode::sub, DType::U2, 0, 1), 3u);
  EXPECT_EQ(run<int32_t>(OpCode::shift_left, DType::I32, 1, 32), 0);
  EXPECT_EQ(run<int32_t>(OpCode::shift_left, DType::I8, 1, 7), -128);
  EXPECT_EQ(run<int32_t>(OpCode::shift_right_arithmetic, DType::I8, -128, 9), -1);
  EXPECT_EQ(run<int32_t>(OpCode::shift_right_logical, DType::I8, -1, 4), 15);
  EXPECT_EQ(run<uint32_t>(OpCode::shift_right_arithmetic, DType::U8, 0x80, 1), 0xc0u);
  EXPECT_EQ(run<int32_t>(OpCode::clz, DType::I8, 1), 7);
  EXPECT_EQ(run<int32_t>(OpCode::clz, DType::I8, 0), 8);
  EXPECT_EQ(run<int32_t>(OpCode::population_count, DType::I16, -1), 16);
  EXPECT_EQ(run<int32_t>(OpCode::not_, DType::I8, 5), -6);
  EXPECT_EQ(run<uint32_t>(OpCode::not_, DType::U4, 5), 10u);
  EXPECT_EQ(run<uint32_t>(OpCode::mulhi, DType::U32, 0xffffffffu, 0xffffffffu), 0xfffffffeu);
  EXPECT_EQ(run<int64_t>(OpCode::div, DType::I64, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(run<int32_t>(OpCode::pow, DType::I32, 3, 4), 81);
}

TEST(Strips, FloatEdges) {
  Semantics triton;
  triton.nan_propagates_in_minmax = false;
  EXPECT_TRUE(std::isnan(run<float>(OpCode::max, DType::F32, NAN, 1)));
  EXPECT_TRUE(std::isnan(run<float>(OpCode::min, DType::F32, 1, NAN)));
  EXPECT_EQ(run<float>(OpCode::max, DType::F32, NAN, 1, 0, triton), 1);
  EXPECT_EQ(run<float>(OpCode::min, DType::F32, 1, NAN, 0, triton), 1);
  EXPECT_TRUE(std::isnan(run<float>(OpCode::clamp, DType::F32, 0, NAN, 1)));
  EXPECT_EQ(run<float>(OpCode::clamp, DType::F32, 0, 5, 1), 1);
  EXPECT_EQ(run<float>(OpCode::clamp, DType::F32, 0, -5, 1), 0);
  EXPECT_TRUE(std::isnan(run<float>(OpCode::sign, DType::F32, NAN)));
  Semantics mosaic;
  mosaic.sign_of_nan_is_one = true;
  EXPECT_EQ(run<float>(OpCode::sign, DType::F32, NAN, 0, 0, mosaic), 1);
  EXPECT_TRUE(std::signbit(run<float>(OpCode::sign, DType::F32, -0.0f)));
  EXPECT_EQ(run<float>(OpCode::round, DType::F32, 2.5f), 3);
  EXPECT_EQ(run<float>(OpCode::round, DType::F32, 2.5f, 0, 0, {}, 1), 2);
  EXPECT_EQ(run<float>(OpCode::round, DType::F32, 0.49999997f), 0);
  EXPECT_EQ(run<float>(OpCode::round, DType::F32, 8388609.0f), 8388609.0f);
  EXPECT_EQ(run<float>(OpCode::integer_pow, DType::F32, 2, 0, 0, {}, -3), 0.125f);
  EXPECT_EQ(run<float>(OpCode::add, DType::BF16, 256, 1), 256);  // rounds to the type
  EXPECT_EQ(run<float>(OpCode::add, DType::F16, 65504, 65504), INFINITY);
  Semantics gpu;
  gpu.fp8_saturates = true;
  EXPECT_EQ(run<float>(OpCode::add, DType::F8E4M3FN, 448, 448, 0, gpu), 448);
  EXPECT_TRUE(std::isnan(run<float>(OpCode::add, DType::F8E4M3FN, 448, 448)));
  EXPECT_EQ(run<float>(OpCode::nextafter, DType::F32, 0, -1), -bits_as<float>(1));
  EXPECT_EQ(run<float>(OpCode::nextafter, DType::BF16, 1, 2), 1.0078125f);
  EXPECT_EQ(run<float>(OpCode::nextafter, DType::F32, 1, 0), std::nextafter(1.0f, 0.0f));
  EXPECT_EQ(run<float>(OpCode::reduce_precision, DType::F32, 1.0f + 0x1p-8f, 0, 0, {}, 8 << 8 | 7), 1.0f);
  EXPECT_EQ(run<double>(OpCode::pow, DType::F64, -2, 3), -8);
  EXPECT_EQ(run<double>(OpCode::pow, DType::F64, 0, -1), INFINITY);
  EXPECT_TRUE(std::isnan(run<double>(OpCode::pow, DType::F64, -2, 0.5)));
  EXPECT_EQ(run<double>(OpCode::atan2, DType::F64, 0.0, -1.0), M_PI);
  EXPECT_EQ(run<double>(OpCode::atan2, DType::F64, -0.0, -1.0), -M_PI);
  EXPECT_EQ(run<float>(OpCode::logistic, DType::F32, -INFINITY), 0);
  EXPECT_EQ(run<float>(OpCode::logistic, DType::F32, INFINITY), 1);
  EXPECT_EQ(run<float>(OpCode::exp, DType::F32, -INFINITY), 0);
  EXPECT_EQ(run<float>(OpCode::exp, DType::F32, INFINITY), INFINITY);
  EXPECT_EQ(run<float>(OpCode::log, DType::F32, 0), -INFINITY);
}

// pow, atan2 and the rest at the corners that C specifies; libm is the oracle.
TEST(Strips, PowAndAtan2Corners) {
  const double v[] = {0.0,
                      -0.0,
                      1,
                      -1,
                      2,
                      -2,
                      3,
                      -3,
                      0.5,
                      -0.5,
                      1e300,
                      -1e300,
                      1e-300,
                      INFINITY,
                      -INFINITY,
                      NAN,
                      9007199254740993.0,
                      4503599627370497.5};
  for (double x : v) {
    for (double y : v) {
      const double p = run<double>(OpCode::pow, DType::F64, x, y), q = std::pow(x, y);
      EXPECT_TRUE(same_float(p, q) || std::fabs(p - q) <= 1e-15 * std::fabs(q))
          << x << "^" << y << ": " << p << " " << q;
      const double s = run<double>(OpCode::atan2, DType::F64, x, y), t = std::atan2(x, y);
      EXPECT_TRUE(same_float(s, t) || std::fabs(s - t) <= 1e-15 * std::fabs(t))
          << x << ", " << y << ": " << s << " " << t;
      const float f = run<float>(OpCode::pow, DType::F32, static_cast<float>(x), static_cast<float>(y)),
                  g = std::pow(static_cast<float>(x), static_cast<float>(y));
      EXPECT_TRUE(same_float(f, g) || std::fabs(f - g) <= 2e-7f * std::fabs(g))
          << x << "^" << y << ": " << f << " " << g;
    }
  }
}

}  // namespace
}  // namespace pallasim::interp
