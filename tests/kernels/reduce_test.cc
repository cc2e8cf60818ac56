// Reductions, argument reductions and running reductions against the reference table and, for sums, against f64.
#include "data.h"

namespace pallasim::interp {
namespace {

struct Shape {
  int64_t outer, reduce, inner;
};
const Shape kShapes[] = {{1, 1, 1},     {3, 5, 1},     {2, 64, 1},  {70, 130, 1}, {1, 4096, 1},
                         {1, 4133, 1},  {2, 12300, 1}, {1, 1, 7},   {2, 130, 3},  {1, 70, 64},
                         {2, 200, 100}, {1, 400, 65},  {1, 3, 200}, {2, 0, 3},    {3, 0, 1}};

void expect_same(DType d, const std::vector<char>& a, const std::vector<char>& b, const std::string& what) {
  // Compared as registers, so that a NaN equals a NaN.
  const int size = ir::byte_size(d), reg = byte_size(compute_type(d));
  const int64_t n = static_cast<int64_t>(a.size()) / size;
  std::vector<char> x(static_cast<size_t>(n * reg)), y(x.size());
  reference_kernels().load(d)(x.data(), a.data(), n, 1);
  reference_kernels().load(d)(y.data(), b.data(), n, 1);
  const int64_t i = first_difference(compute_type(d), x.data(), y.data(), n);
  ASSERT_EQ(i, -1) << what << ": " << hex(&x[static_cast<size_t>(std::max<int64_t>(i, 0) * reg)], reg) << " instead of "
                   << hex(&y[static_cast<size_t>(std::max<int64_t>(i, 0) * reg)], reg);
}

TEST(Reduce, TablesAgree) {
  std::mt19937_64 rng(11);
  for (const KernelTable* t : fast_tables()) {
    int count = 0;
    for (OpCode op : {OpCode::reduce_sum, OpCode::reduce_prod, OpCode::reduce_max, OpCode::reduce_min,
                      OpCode::reduce_and, OpCode::reduce_or, OpCode::reduce_xor}) {
      for (DType d : value_dtypes()) {
        const ReduceFn f = t->reduce(op, d), r = reference_kernels().reduce(op, d);
        ASSERT_EQ(f == nullptr, r == nullptr) << ir::name(op) << ' ' << ir::name(d);
        if (!f) continue;
        ++count;
        bool any = false;
        for (const Shape& s : kShapes) {
          for (bool nan : {true, false}) {
            Semantics sem;
            sem.nan_propagates_in_minmax = nan;
            auto m = memory_of(d, s.outer * s.reduce * s.inner, rng);
            if (op == OpCode::reduce_prod)  // keeps products away from zero
              for (size_t i = 0; i < m.size(); ++i)
                if (ir::is_int(d)) m[i] |= 1;
            m.resize(m.size() + 1);
            std::vector<char> x(static_cast<size_t>(s.outer * s.inner * ir::byte_size(d)), 1), y(x.size(), 2);
            f(x.data(), m.data(), s.outer, s.reduce, s.inner, sem);
            r(y.data(), m.data(), s.outer, s.reduce, s.inner, sem);
            any |= !all_zero(y);
            expect_same(d, x, y,
                        std::string(t->isa) + ' ' + std::string(ir::name(op)) + ' ' + std::string(ir::name(d)) + ' ' +
                            std::to_string(s.outer) + 'x' + std::to_string(s.reduce) + 'x' + std::to_string(s.inner));
            if (HasFatalFailure()) return;
          }
        }
        EXPECT_TRUE(any) << ir::name(op) << ' ' << ir::name(d);
      }
    }
    EXPECT_GT(count, 130);
  }
}

TEST(Reduce, SumIsAccurate) {
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<float> u(0, 1);
  for (const Shape s : {Shape{1, 1 << 20, 1}, Shape{1, 1 << 16, 8}}) {
    std::vector<float> x(static_cast<size_t>(s.reduce * s.inner)), r(static_cast<size_t>(s.inner));
    for (float& v : x) v = u(rng);
    kernels().reduce(OpCode::reduce_sum, DType::F32)(r.data(), x.data(), 1, s.reduce, s.inner, {});
    for (int64_t j = 0; j < s.inner; ++j) {
      double want = 0;
      for (int64_t i = 0; i < s.reduce; ++i) want += x[static_cast<size_t>(i * s.inner + j)];
      EXPECT_GT(want, 1000);
      EXPECT_NEAR(r[static_cast<size_t>(j)] / want, 1, 1e-5);
    }
  }
}

TEST(Reduce, NarrowSumsRoundOnce) {
  std::vector<uint16_t> ones(1000, 0x3f80);  // bf16: adding 1 to 256 would stay there
  uint16_t r = 0;
  for (const KernelTable* t : fast_tables()) {
    t->reduce(OpCode::reduce_sum, DType::BF16)(&r, ones.data(), 1, 1000, 1, {});
    EXPECT_EQ(r, 0x447a);  // 1000
  }
  std::vector<int8_t> i8(300, 1);
  int8_t s = 0;
  kernels().reduce(OpCode::reduce_sum, DType::I8)(&s, i8.data(), 1, 300, 1, {});
  EXPECT_EQ(s, 44);
}

TEST(ArgReduce, TablesAgree) {
  std::mt19937_64 rng(12);
  for (const KernelTable* t : fast_tables()) {
    for (OpCode op : {OpCode::argmax, OpCode::argmin}) {
      for (DType d : value_dtypes()) {
        const ArgReduceFn f = t->arg_reduce(op, d), r = reference_kernels().arg_reduce(op, d);
        ASSERT_EQ(f == nullptr, r == nullptr) << ir::name(d);
        if (!f) continue;
        bool any = false;
        for (const Shape& s : kShapes) {
          if (s.reduce == 0) continue;
          const auto m = memory_of(d, s.outer * s.reduce * s.inner, rng);
          for (DType index : {DType::I32, DType::I64, DType::U8}) {
            std::vector<char> x(static_cast<size_t>(s.outer * s.inner * ir::byte_size(index)), 1), y(x.size(), 2);
            f(x.data(), index, m.data(), s.outer, s.reduce, s.inner);
            r(y.data(), index, m.data(), s.outer, s.reduce, s.inner);
            any |= !all_zero(y);
            ASSERT_EQ(x, y) << t->isa << ' ' << ir::name(op) << ' ' << ir::name(d) << ' ' << s.outer << 'x' << s.reduce
                            << 'x' << s.inner;
          }
        }
        EXPECT_TRUE(any);
      }
    }
  }
  const float x[] = {1, 3, 3, NAN, 5, NAN};
  int32_t at = -1;
  kernels().arg_reduce(OpCode::argmax, DType::F32)(&at, DType::I32, x, 1, 6, 1);
  EXPECT_EQ(at, 3);
  kernels().arg_reduce(OpCode::argmax, DType::F32)(&at, DType::I32, x, 1, 3, 1);
  EXPECT_EQ(at, 1);
}

TEST(Cumulative, TablesAgree) {
  std::mt19937_64 rng(13);
  for (const KernelTable* t : fast_tables()) {
    for (OpCode op : {OpCode::cumsum, OpCode::cumprod, OpCode::cummax, OpCode::cummin, OpCode::cumlogsumexp}) {
      for (DType d : value_dtypes()) {
        const CumulativeFn f = t->cumulative(op, d), r = reference_kernels().cumulative(op, d);
        ASSERT_EQ(f == nullptr, r == nullptr) << ir::name(op) << ' ' << ir::name(d);
        if (!f) continue;
        bool any = false;
        for (const Shape s : {Shape{1, 1, 1}, Shape{2, 5, 1}, Shape{2, 700, 1}, Shape{2, 9, 70}, Shape{1, 130, 3}}) {
          for (int variant = 0; variant < 3; ++variant) {
            Semantics sem;
            sem.nan_propagates_in_minmax = variant != 2;
            const auto m = memory_of(d, s.outer * s.reduce * s.inner, rng);
            std::vector<char> x(m.size(), 1), y(m.size(), 2);
            f(x.data(), m.data(), s.outer, s.reduce, s.inner, variant == 1, sem);
            r(y.data(), m.data(), s.outer, s.reduce, s.inner, variant == 1, sem);
            any |= !all_zero(y);
            expect_same(d, x, y,
                        std::string(t->isa) + ' ' + std::string(ir::name(op)) + ' ' + std::string(ir::name(d)) +
                            " reverse " + std::to_string(variant == 1));
            if (HasFatalFailure()) return;
          }
        }
        EXPECT_TRUE(any);
      }
    }
  }
  const float x[] = {0, 1, -INFINITY, 2};
  float r[4];
  kernels().cumulative(OpCode::cumlogsumexp, DType::F32)(r, x, 1, 4, 1, false, {});
  EXPECT_EQ(r[0], 0);
  EXPECT_NEAR(r[1], std::log(1 + std::exp(1.0)), 1e-6);
  EXPECT_EQ(r[2], r[1]);
  EXPECT_NEAR(r[3], std::log(1 + std::exp(1.0) + std::exp(2.0)), 1e-6);
}

}  // namespace
}  // namespace pallasim::interp
