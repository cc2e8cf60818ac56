// Loads, stores, conversions and bitcasts. Narrow floats are checked against a decoder and a search of our own.
#include "data.h"

#include <map>

namespace pallasim::interp {
namespace {

struct Spec {
  int e, m, bias;
  enum { Ieee, Fn, Fnuz, Finite, Scale } kind;
};
const std::map<DType, Spec>& specs() {
  static const std::map<DType, Spec> s = {
      {DType::BF16, {8, 7, 127, Spec::Ieee}},         {DType::F16, {5, 10, 15, Spec::Ieee}},
      {DType::F8E3M4, {3, 4, 3, Spec::Ieee}},         {DType::F8E4M3, {4, 3, 7, Spec::Ieee}},
      {DType::F8E4M3B11FNUZ, {4, 3, 11, Spec::Fnuz}}, {DType::F8E4M3FN, {4, 3, 7, Spec::Fn}},
      {DType::F8E4M3FNUZ, {4, 3, 8, Spec::Fnuz}},     {DType::F8E5M2, {5, 2, 15, Spec::Ieee}},
      {DType::F8E5M2FNUZ, {5, 2, 16, Spec::Fnuz}},    {DType::F8E8M0FNU, {8, 0, 127, Spec::Scale}},
      {DType::F4E2M1FN, {2, 1, 1, Spec::Finite}}};
  return s;
}

double decode(const Spec& s, uint32_t code) {
  if (s.kind == Spec::Scale) return code == 255 ? NAN : std::ldexp(1.0, static_cast<int>(code) - 127);
  const uint32_t sign = code >> (s.e + s.m) & 1, exp = code >> s.m & ((1u << s.e) - 1), man = code & ((1u << s.m) - 1);
  if (s.kind == Spec::Fnuz && sign && !exp && !man) return NAN;
  if (s.kind == Spec::Fn && exp == (1u << s.e) - 1 && man == (1u << s.m) - 1) return NAN;
  double v;
  if (s.kind == Spec::Ieee && exp == (1u << s.e) - 1) v = man ? NAN : INFINITY;
  else if (exp == 0) v = std::ldexp(man, 1 - s.bias - s.m);
  else v = std::ldexp(static_cast<double>((1u << s.m) | man), static_cast<int>(exp) - s.bias - s.m);
  return sign ? -v : v;
}

// The nearest value, ties to the even code, by search; overflow as the format says.
double nearest(const Spec& s, double x, bool sat) {
  const uint32_t codes = s.kind == Spec::Scale ? 255 : 1u << (s.e + s.m);
  if (x != x) return s.kind == Spec::Finite ? 0 : NAN;
  if (s.kind == Spec::Scale && !(x > 0)) return NAN;
  static std::map<const Spec*, std::vector<double>> cache;
  std::vector<double>& table = cache[&s];
  if (table.empty())
    for (uint32_t c = 0; c < codes; ++c)
      if (const double v = decode(s, c); std::isfinite(v)) table.push_back(v);
  const double a = std::fabs(x), top = table.back();
  // Past the largest value by half a step or more there is no finite result.
  const double step = s.kind == Spec::Scale ? top : top - table[table.size() - 2];
  const bool even_next = table.size() % 2 == 0 || s.kind == Spec::Scale;
  const bool over = a > top + step / 2 || (a == top + step / 2 && even_next);
  double r;
  if (over || std::isinf(a)) {
    r = sat || s.kind == Spec::Finite ? top : s.kind == Spec::Ieee ? INFINITY : NAN;
  } else {
    const size_t hi = static_cast<size_t>(std::lower_bound(table.begin(), table.end(), a) - table.begin());
    if (hi == table.size()) r = top;
    else if (hi == 0) r = table[0];
    else {
      const double dl = a - table[hi - 1], dh = table[hi] - a;
      r = dl < dh                                  ? table[hi - 1]
          : dh < dl                                ? table[hi]
          : (s.kind == Spec::Scale || hi % 2 == 0) ? table[hi]
                                                   : table[hi - 1];
    }
  }
  if (x != x || r != r) return NAN;
  if (s.kind == Spec::Fnuz && r == 0) return 0;
  return std::signbit(x) ? -r : r;
}

TEST(Load, EveryNarrowCode) {
  for (auto [d, spec] : specs()) {
    const uint32_t codes = 1u << ir::bit_width(d);
    for (const KernelTable* t :
         {kernels_for("avx512"), kernels_for("avx2"), kernels_for("baseline"), &reference_kernels()}) {
      if (!t) continue;
      std::vector<uint16_t> m16(codes);
      std::vector<uint8_t> m8(codes), back8(codes);
      std::vector<uint16_t> back16(codes);
      for (uint32_t c = 0; c < codes; ++c) m16[c] = static_cast<uint16_t>(c), m8[c] = static_cast<uint8_t>(c);
      const bool wide = ir::byte_size(d) == 2;
      const char* m = wide ? reinterpret_cast<char*>(m16.data()) : reinterpret_cast<char*>(m8.data());
      char* back = wide ? reinterpret_cast<char*>(back16.data()) : reinterpret_cast<char*>(back8.data());
      std::vector<float> r(codes);
      for (uint32_t at = 0; at < codes; at += kStrip) {
        const int64_t n = std::min<int64_t>(kStrip, codes - at);
        t->load(d)(&r[at], m + at * static_cast<uint32_t>(ir::byte_size(d)), n, 1);
        t->store(d)(back + at * static_cast<uint32_t>(ir::byte_size(d)), &r[at], n, 1);
      }
      for (uint32_t c = 0; c < codes; ++c) {
        ASSERT_TRUE(same_float<double>(r[c], decode(spec, c)))
            << t->isa << ' ' << ir::name(d) << ' ' << c << ": " << r[c];
        ASSERT_EQ(wide ? back16[c] : back8[c], c) << t->isa << ' ' << ir::name(d);  // payloads survive too
      }
    }
  }
}

TEST(Convert, EveryPairOfSixteenBitsOrFewer) {
  for (auto [from, fs] : specs()) {
    for (auto [to, ts] : specs()) {
      const Spec& target = specs().at(to);
      const uint32_t codes = 1u << ir::bit_width(from);
      for (const KernelTable* t : {&kernels(), &reference_kernels()}) {
        for (bool sat : {false, true}) {
          Semantics sem;
          sem.fp8_saturates = sat;
          for (uint32_t at = 0; at < codes; at += kStrip) {
            const int64_t n = std::min<int64_t>(kStrip, codes - at);
            float x[kStrip], y[kStrip];
            for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(decode(fs, at + static_cast<uint32_t>(i)));
            t->convert(from, to)(y, x, n, sem);
            for (int64_t i = 0; i < n; ++i) {
              const double want = nearest(target, x[i], sat && ir::bit_width(to) <= 8);
              if (want == 0 && x[i] != x[i]) continue;
              ASSERT_TRUE(same_float<double>(y[i], want)) << t->isa << ' ' << ir::name(from) << "->" << ir::name(to)
                                                          << ' ' << x[i] << ": " << y[i] << " not " << want;
            }
          }
        }
      }
    }
  }
}

// Integers of at most 16 bits from every code of the narrow floats and back, and among each other.
TEST(Convert, EveryNarrowIntegerAndFloat) {
  std::vector<DType> ints;
  for (DType d : value_dtypes())
    if (ir::is_int(d) && ir::bit_width(d) <= 16) ints.push_back(d);
  ASSERT_EQ(ints.size(), 8u);
  for (const KernelTable* t :
       {kernels_for("avx512"), kernels_for("avx2"), kernels_for("baseline"), &reference_kernels()}) {
    if (!t) continue;
    for (DType i : ints) {
      const int bits = ir::bit_width(i);
      const bool sgn = ir::is_signed_int(i);
      const int64_t lo = sgn ? -(int64_t{1} << (bits - 1)) : 0, hi = lo + (int64_t{1} << bits) - 1;
      for (const auto& [d, spec] : specs()) {
        const uint32_t codes = 1u << ir::bit_width(d);
        for (uint32_t at = 0; at < codes; at += kStrip) {  // floats to integers
          const int64_t n = std::min<int64_t>(kStrip, codes - at);
          float x[kStrip];
          int32_t y[kStrip];
          for (int64_t k = 0; k < n; ++k) x[k] = static_cast<float>(decode(spec, at + static_cast<uint32_t>(k)));
          t->convert(d, i)(y, x, n, {});
          for (int64_t k = 0; k < n; ++k) {
            const double v = std::trunc(static_cast<double>(x[k]));
            const int64_t want = x[k] != x[k]                   ? 0
                                 : v <= static_cast<double>(lo) ? lo
                                 : v >= static_cast<double>(hi) ? hi
                                                                : static_cast<int64_t>(v);
            ASSERT_EQ(sgn ? y[k] : static_cast<int64_t>(static_cast<uint32_t>(y[k])), want)
                << t->isa << ' ' << ir::name(d) << "->" << ir::name(i) << ' ' << x[k];
          }
        }
        for (bool sat : {false, true}) {
          Semantics sem;
          sem.fp8_saturates = sat;
          for (int64_t at = lo; at <= hi; at += kStrip) {  // integers to floats
            const int64_t n = std::min<int64_t>(kStrip, hi + 1 - at);
            int32_t x[kStrip];
            float y[kStrip];
            for (int64_t k = 0; k < n; ++k) x[k] = static_cast<int32_t>(at + k);
            t->convert(i, d)(y, x, n, sem);
            for (int64_t k = 0; k < n; ++k)
              ASSERT_TRUE(same_float<double>(y[k], nearest(spec, x[k], sat && ir::bit_width(d) <= 8)))
                  << t->isa << ' ' << ir::name(i) << "->" << ir::name(d) << ' ' << x[k] << ": " << y[k];
          }
        }
      }
      for (DType to : ints) {  // integers to integers wrap
        const int width = ir::bit_width(to);
        for (int64_t at = lo; at <= hi; at += kStrip) {
          const int64_t n = std::min<int64_t>(kStrip, hi + 1 - at);
          int32_t x[kStrip], y[kStrip];
          for (int64_t k = 0; k < n; ++k) x[k] = static_cast<int32_t>(at + k);
          t->convert(i, to)(y, x, n, {});
          for (int64_t k = 0; k < n; ++k) {
            const uint64_t low = static_cast<uint64_t>(at + k) & ((uint64_t{1} << width) - 1);
            const int64_t want = ir::is_signed_int(to) && low >> (width - 1)
                                     ? static_cast<int64_t>(low) - (int64_t{1} << width)
                                     : static_cast<int64_t>(low);
            ASSERT_EQ(y[k], want) << t->isa << ' ' << ir::name(i) << "->" << ir::name(to) << ' ' << x[k];
          }
        }
      }
    }
  }
}

// Every tie between two neighbours of a narrow format, and the f32 values on either side of it, of both signs.
TEST(Convert, EveryTieFromF32) {
  for (auto [to, unused] : specs()) {
    const Spec& s = specs().at(to);
    std::vector<float> xs = {0,         -0.0f,      INFINITY,        -INFINITY,       NAN,
                             0x1p-149f, -0x1p-149f, 0x1.fffffep127f, -0x1.fffffep127f};
    for (uint32_t c = 0; c < 1u << (s.e + s.m); ++c) {
      const double a = decode(s, c);
      if (!std::isfinite(a)) continue;
      // Beyond the largest value the next step of its binade.
      const double next = c + 1 < 1u << (s.e + s.m) ? decode(s, c + 1) : INFINITY;
      const double b = std::isfinite(next) ? next : s.kind == Spec::Scale ? 2 * a : 2 * a - decode(s, c - 1);
      const auto tie = static_cast<float>(a + (b - a) / 2);
      if (!std::isfinite(tie) || static_cast<double>(tie) != a + (b - a) / 2)
        continue;  // bf16 next to the end of f32, its subnormals
      for (float v : {static_cast<float>(a), tie, std::nextafter(tie, -INFINITY), std::nextafter(tie, INFINITY)})
        xs.push_back(v), xs.push_back(-v);
    }
    ASSERT_GT(xs.size(), 20u);
    for (const KernelTable* t :
         {kernels_for("avx512"), kernels_for("avx2"), kernels_for("baseline"), &reference_kernels()}) {
      if (!t) continue;
      for (bool sat : {false, true}) {
        Semantics sem;
        sem.fp8_saturates = sat;
        for (size_t at = 0; at < xs.size(); at += kStrip) {
          const auto n = static_cast<int64_t>(std::min<size_t>(kStrip, xs.size() - at));
          float y[kStrip];
          t->convert(DType::F32, to)(y, &xs[at], n, sem);
          for (int64_t k = 0; k < n; ++k) {
            const float x = xs[at + static_cast<size_t>(k)];
            const double want = nearest(s, x, sat && ir::bit_width(to) <= 8);
            if (want == 0 && x != x) continue;  // the sign of f4's zero
            ASSERT_TRUE(same_float<double>(y[k], want))
                << t->isa << " f32->" << ir::name(to) << ' ' << x << ": " << y[k] << " not " << want;
          }
        }
      }
    }
  }
}

TEST(Convert, RoundsOnceFromEveryWideType) {
  for (auto [to, unused] : specs()) {
    const Spec& s = specs().at(to);
    // Values at, just below and just above every rounding boundary.
    std::vector<double> xs = {0, -0.0, 1e300, -1e300, 1e-300, INFINITY, -INFINITY, NAN, 3.3e38, 4e38};
    const uint32_t codes = 1u << (s.e + s.m), step = codes > 4096 ? 37 : 1;
    for (uint32_t c = 0; c + 1 < codes; c += step) {
      const double a = decode(s, c), b = decode(s, c + 1);
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      const double mid = a + (b - a) / 2;
      for (double v : {a, mid, std::nextafter(mid, -INFINITY), std::nextafter(mid, INFINITY), mid * (1 + 0x1p-24),
                       mid * (1 - 0x1p-25)})
        xs.push_back(v), xs.push_back(-v);
    }
    for (double x : xs) {
      double got;
      float y;
      for (const KernelTable* t : {&kernels(), &reference_kernels()}) {
        t->convert(DType::F64, to)(&y, &x, 1, {});
        got = y;
        const double want = nearest(s, x, false);
        if (want == 0 && x != x) continue;
        ASSERT_TRUE(same_float(got, want))
            << t->isa << " f64->" << ir::name(to) << ' ' << x << ": " << got << " not " << want;
        if (std::fabs(x) < 9e18 && std::floor(x) == x) {
          const int64_t k = static_cast<int64_t>(x);
          t->convert(DType::I64, to)(&y, &k, 1, {});
          const double from_int = nearest(s, static_cast<double>(k), false);
          ASSERT_TRUE(same_float<double>(y, from_int)) << "i64->" << ir::name(to) << ' ' << k;
        }
      }
    }
  }
  // 64-bit integers that f64 cannot hold: a tie in bf16, decided by the last bit.
  const int64_t tie = (int64_t{1} << 62) + (int64_t{1} << 54), above = tie + 1;
  float r;
  for (const KernelTable* t : {&kernels(), &reference_kernels()}) {
    t->convert(DType::I64, DType::BF16)(&r, &tie, 1, {});
    EXPECT_EQ(r, 0x1p62f);
    t->convert(DType::I64, DType::BF16)(&r, &above, 1, {});
    EXPECT_EQ(r, 0x1.02p62f);
    const uint64_t big = ~uint64_t{0};
    t->convert(DType::U64, DType::BF16)(&r, &big, 1, {});
    EXPECT_EQ(r, 0x1p64f);
  }
}

TEST(Convert, FloatToIntegerTruncatesAndSaturates) {
  const double xs[] = {0,
                       -0.0,
                       0.9,
                       -0.9,
                       1.5,
                       -1.5,
                       127.9,
                       128,
                       -128.9,
                       -129,
                       255.5,
                       256,
                       7.5,
                       8,
                       -8.5,
                       -9,
                       1.5e9,
                       2147483647.0,
                       2147483648.0,
                       -2147483648.0,
                       -2147483649.0,
                       4294967295.0,
                       4294967296.0,
                       9.2e18,
                       9.3e18,
                       -9.3e18,
                       1.9e19,
                       INFINITY,
                       -INFINITY,
                       NAN};
  for (DType to : {DType::I2, DType::I4, DType::I8, DType::I16, DType::I32, DType::I64, DType::U2, DType::U4, DType::U8,
                   DType::U16, DType::U32, DType::U64}) {
    const int b = ir::bit_width(to);
    const bool sgn = ir::is_signed_int(to);
    const long double hi = sgn ? std::ldexp(1.0L, b - 1) - 1 : std::ldexp(1.0L, b) - 1,
                      lo = sgn ? -std::ldexp(1.0L, b - 1) : 0;
    for (double x : xs) {
      for (DType from : {DType::F64, DType::F32}) {
        const float f = static_cast<float>(x);
        const long double v = from == DType::F32 ? static_cast<long double>(f) : static_cast<long double>(x);
        const long double want = std::isnan(v) ? 0 : std::min(hi, std::max(lo, std::trunc(v)));
        for (const KernelTable* t : {&kernels(), &reference_kernels()}) {
          uint64_t r = 0;
          t->convert(from, to)(&r, from == DType::F32 ? static_cast<const void*>(&f) : &x, 1, {});
          const long double got =
              b == 64 ? (sgn ? static_cast<long double>(static_cast<int64_t>(r)) : static_cast<long double>(r))
                      : (sgn ? static_cast<long double>(static_cast<int32_t>(r))
                             : static_cast<long double>(static_cast<uint32_t>(r)));
          EXPECT_EQ(got, want) << ir::name(from) << "->" << ir::name(to) << ' ' << x;
        }
      }
    }
  }
}

TEST(Convert, TablesAgree) {
  std::mt19937_64 rng(3);
  for (const KernelTable* t : fast_tables()) {
    for (DType from : value_dtypes()) {
      for (DType to : value_dtypes()) {
        const ConvertFn f = t->convert(from, to), r = reference_kernels().convert(from, to);
        ASSERT_TRUE(f && r) << ir::name(from) << "->" << ir::name(to);
        const int size = byte_size(compute_type(to));
        bool any = false;
        for (int64_t n : {1, 17, 512}) {
          const auto a = register_of(from, n, rng);
          std::vector<char> x(static_cast<size_t>(n * size), 1), y(static_cast<size_t>(n * size), 2);
          f(x.data(), a.data(), n, {});
          r(y.data(), a.data(), n, {});
          any |= !all_zero(y);
          ASSERT_EQ(first_difference(compute_type(to), x.data(), y.data(), n), -1)
              << t->isa << ' ' << ir::name(from) << "->" << ir::name(to);
        }
        EXPECT_TRUE(any);
      }
    }
  }
}

TEST(LoadStore, StridesAgree) {
  std::mt19937_64 rng(5);
  for (const KernelTable* t : fast_tables()) {
    for (DType d : value_dtypes()) {
      const int size = ir::byte_size(d), reg = byte_size(compute_type(d));
      const int64_t n = 300;
      const auto m = memory_of(d, n * 3, rng);
      for (int64_t stride : {1, 0, 2, 3, -1, -2}) {
        const char* start = m.data() + (stride < 0 ? -stride * (n - 1) * size : 0);
        std::vector<char> x(static_cast<size_t>(n * reg), 1), y(static_cast<size_t>(n * reg), 2);
        t->load(d)(x.data(), start, n, stride);
        for (int64_t i = 0; i < n; ++i)
          reference_kernels().load(d)(&y[static_cast<size_t>(i * reg)], start + i * stride * size, 1, 1);
        ASSERT_EQ(std::memcmp(x.data(), y.data(), x.size()), 0) << t->isa << ' ' << ir::name(d) << ' ' << stride;
        if (stride != 0) { EXPECT_FALSE(all_zero(y)); }
        if (stride == 0) continue;
        std::vector<char> out(m.size(), 'o'), want(m.size(), 'o');
        const size_t base = stride < 0 ? static_cast<size_t>(-stride * (n - 1) * size) : 0;
        t->store(d)(&out[base], x.data(), n, stride);
        for (int64_t i = 0; i < n; ++i)
          std::memcpy(&want[static_cast<size_t>(static_cast<int64_t>(base) + i * stride * size)],
                      start + i * stride * size, static_cast<size_t>(size));
        ASSERT_EQ(out, want) << t->isa << ' ' << ir::name(d) << ' ' << stride;  // bits of memory survive a round trip
      }
    }
  }
}

// A store to bf16 or f16 rounds by itself: the same bits as of a value that was converted before, NaNs as well.
TEST(LoadStore, AStoreRoundsAsAConversionDoes) {
  std::mt19937 rng(9);
  for (const KernelTable* t : fast_tables())
    for (const DType d : {DType::BF16, DType::F16}) {
      int rounded = 0;
      for (int round = 0; round < 20000; ++round) {
        constexpr int64_t kCount = 100;
        uint32_t bits[kCount];
        for (uint32_t& b : bits) {
          b = static_cast<uint32_t>(rng());
          if (round % 3 == 0) b = (b & 0x80ffffffu) | (0x34000000u + (b >> 5 & 0x3f800000u) % 0x14000000u);  // of f16
          if (round % 4 == 0) b &= 0xfffff000u;                                                              // ties
          if (round % 5 == 0 && b % 7 == 0) b |= 0x7f800000u;  // NaNs and infinities
        }
        float converted[kCount];
        uint16_t two[kCount] = {}, one[kCount] = {};
        t->convert(DType::F32, d)(converted, bits, kCount, {});
        t->store(d)(two, converted, kCount, 1);
        t->rounding_store(d)(one, bits, kCount, 1);
        for (int64_t i = 0; i < kCount; ++i) {
          ASSERT_EQ(one[i], two[i]) << t->isa << ' ' << ir::name(d) << ' ' << std::hex << bits[i];
          rounded += std::memcmp(&converted[i], &bits[i], 4) != 0;
        }
      }
      EXPECT_GT(rounded, 100000);
    }
}

TEST(Bitcast, ThroughMemory) {
  std::mt19937_64 rng(6);
  int pairs = 0;
  for (const KernelTable* t : {&kernels(), &reference_kernels()}) {
    for (DType from : value_dtypes()) {
      for (DType to : value_dtypes()) {
        const StripFn f = t->bitcast(from, to);
        ASSERT_EQ(f != nullptr, ir::bit_width(from) == ir::bit_width(to));
        if (!f || to == DType::Bool) continue;
        const int64_t n = 100;
        const auto m = memory_of(from, n, rng);
        const int a = byte_size(compute_type(from)), b = byte_size(compute_type(to));
        std::vector<char> x(static_cast<size_t>(n * a)), y(static_cast<size_t>(n * b)), back(m.size());
        t->load(from)(x.data(), m.data(), n, 1);
        f(y.data(), x.data(), nullptr, nullptr, n, {});
        t->store(to)(back.data(), y.data(), n, 1);
        ASSERT_EQ(m, back) << ir::name(from) << "->" << ir::name(to);
        ++pairs;
      }
    }
  }
  EXPECT_GT(pairs, 200);
}

TEST(Iota, EveryType) {
  for (const KernelTable* t : {&kernels(), &reference_kernels()}) {
    int32_t i32[700];
    t->iota(i32, DType::I32, -5, 700);
    EXPECT_EQ(i32[0], -5);
    EXPECT_EQ(i32[699], 694);
    uint8_t u8[700];
    t->iota(u8, DType::U8, 0, 700);
    EXPECT_EQ(u8[699], 699 % 256);
    float f[3];
    t->iota(f, DType::F32, 16777216, 3);
    EXPECT_EQ(f[1], 16777216.0f);
    EXPECT_EQ(f[2], 16777218.0f);
    uint16_t bf[300];
    t->iota(bf, DType::BF16, 0, 300);
    EXPECT_EQ(bf[257], 0x4380);  // 257 rounds to 256
    EXPECT_EQ(bf[259], 0x4382);
  }
}

}  // namespace
}  // namespace pallasim::interp
