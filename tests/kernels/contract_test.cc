// Every backend against plain loops in f64, over shapes, strides, batches and types.
#include <sys/wait.h>
#include <unistd.h>

#include <complex>
#include <thread>

#include "data.h"

namespace pallasim::interp {
namespace {

struct Operand {
  std::vector<char> bytes;
  int64_t offset = 0, batch = 0, row = 0, col = 0;
  const void* data(DType d) const { return bytes.data() + offset * ir::byte_size(d); }
};

enum Form { RowMajor, ColumnMajor, RowGap, ColumnGap, Strided, Reversed, Broadcast };

// Small values that every type holds exactly, so that only sums round.
Operand make(DType d, int64_t batch, int64_t rows, int64_t cols, Form form, std::mt19937_64& rng) {
  Operand o;
  const int64_t gap = form == RowGap || form == ColumnGap ? 3 : 0;
  if (form == ColumnMajor || form == ColumnGap) o.row = 1, o.col = rows + gap;
  else if (form == Strided) o.col = 2, o.row = 2 * cols + 1;
  else if (form == Reversed) o.col = -1, o.row = cols;
  else if (form == Broadcast) o.col = 1, o.row = 0;
  else o.col = 1, o.row = cols + gap;
  const int64_t span = 2 * (rows + 3) * (cols + 3);
  o.batch = form == Broadcast ? 0 : span;
  o.offset = form == Reversed ? cols - 1 : 0;
  const int64_t n = span * batch + cols;
  std::vector<float> f(static_cast<size_t>(n));
  std::vector<int32_t> i32(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const int v = static_cast<int>(rng() % 6 + 1) * (rng() % 2 ? 1 : -1);
    f[static_cast<size_t>(i)] = d == DType::F32 || d == DType::F64
                                    ? static_cast<float>(static_cast<double>(rng() % 2001) / 1000 - 1)
                                    : static_cast<float>(v) * 0.25f;
    i32[static_cast<size_t>(i)] = v;
  }
  o.bytes.resize(static_cast<size_t>(n * ir::byte_size(d)));
  const bool is_float = ir::is_float(d);
  std::vector<char> reg(static_cast<size_t>(n * 8));
  reference_kernels().convert(is_float ? DType::F32 : DType::I32, d)(
      reg.data(), is_float ? static_cast<void*>(f.data()) : i32.data(), n, {});
  reference_kernels().store(d)(o.bytes.data(), reg.data(), n, 1);
  return o;
}

double at(const Operand& o, DType d, int64_t batch, int64_t i, int64_t j) {
  char reg[16];
  const char* p = static_cast<const char*>(o.data(d)) + (batch * o.batch + i * o.row + j * o.col) * ir::byte_size(d);
  reference_kernels().load(d)(reg, p, 1, 1);
  double v;
  reference_kernels().convert(d, DType::F64)(&v, reg, 1, {});
  return v;
}

struct Case {
  DType in, rhs, out;
  double unit;   // of the accumulator; 0: exact
  double round;  // of the result, relative
};

void check(const Case& t, GemmBackend backend, int64_t batch, int64_t m, int64_t n, int64_t k, Form fa, Form fb,
           bool accumulate, std::mt19937_64& rng) {
  const Operand a = make(t.in, batch, m, k, fa, rng), b = make(t.rhs, batch, k, n, fb, rng);
  Operand c = make(t.out, batch, m, n, RowGap, rng);
  const Operand before = c;
  Contraction x;
  x.batch = batch, x.m = m, x.n = n, x.k = k;
  x.in = t.in, x.in_rhs = t.rhs, x.out = t.out;
  x.a_batch = a.batch, x.a_row = a.row, x.a_col = a.col;
  x.b_batch = b.batch, x.b_row = b.row, x.b_col = b.col;
  x.c_batch = c.batch, x.c_row = c.row;
  x.accumulate = accumulate;
  ASSERT_TRUE(contract(x, c.bytes.data(), a.data(t.in), b.data(t.rhs), backend));
  double largest = 0;
  for (int64_t g = 0; g < batch; ++g) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double want = accumulate ? at(before, t.out, g, i, j) : 0, sum = std::fabs(want);
        for (int64_t p = 0; p < k; ++p) {
          const double v = at(a, t.in, g, i, p) * at(b, t.rhs, g, p, j);
          want += v, sum += std::fabs(v);
        }
        const double got = at(c, t.out, g, i, j);
        largest = std::max(largest, std::fabs(want));
        ASSERT_LE(std::fabs(got - want), sum * t.unit * static_cast<double>(k + 1) + std::fabs(want) * t.round)
            << ir::name(t.in) << 'x' << ir::name(t.rhs) << "->" << ir::name(t.out) << " backend "
            << static_cast<int>(backend) << ' ' << batch << 'x' << m << 'x' << n << 'x' << k << " forms " << fa << ' '
            << fb << " at " << g << ',' << i << ',' << j << ": " << got << " not " << want;
      }
      // The gap between rows is not touched.
      if (i + 1 < m) {
        ASSERT_EQ(std::memcmp(&c.bytes[static_cast<size_t>((g * c.batch + i * c.row + n) * ir::byte_size(t.out))],
                              &before.bytes[static_cast<size_t>((g * c.batch + i * c.row + n) * ir::byte_size(t.out))],
                              static_cast<size_t>(3 * ir::byte_size(t.out))),
                  0);
      }
    }
  }
  if (k > 0 && m * n > 1) { EXPECT_GT(largest, 0); }
}

const Case kCases[] = {{DType::F32, DType::F32, DType::F32, 0x1p-24, 0},
                       {DType::BF16, DType::BF16, DType::F32, 0x1p-24, 0},
                       {DType::BF16, DType::BF16, DType::BF16, 0x1p-24, 0x1p-8},
                       {DType::F16, DType::F16, DType::F16, 0x1p-24, 0x1p-10},
                       {DType::F8E4M3FN, DType::F8E5M2, DType::F32, 0x1p-24, 0},
                       {DType::F32, DType::BF16, DType::F32, 0x1p-24, 0},
                       {DType::F64, DType::F64, DType::F64, 0x1p-53, 0},
                       {DType::I32, DType::I32, DType::I32, 0, 0},
                       {DType::I8, DType::I8, DType::I32, 0, 0},
                       {DType::I4, DType::I4, DType::I32, 0, 0},
                       {DType::U8, DType::I8, DType::I32, 0, 0},
                       {DType::I8, DType::U8, DType::I32, 0, 0},
                       {DType::I8, DType::U4, DType::I32, 0, 0},
                       {DType::U4, DType::I4, DType::I32, 0, 0},
                       {DType::U8, DType::U8, DType::U32, 0, 0},
                       {DType::I64, DType::I64, DType::I64, 0, 0},
                       {DType::BF16, DType::BF16, DType::F64, 0x1p-53, 0}};

class Backends : public ::testing::TestWithParam<int> {};
TEST_P(Backends, AgreeWithPlainLoops) {
  const auto backend = static_cast<GemmBackend>(GetParam());
  std::mt19937_64 rng(21);
  for (const Case& t : kCases) {
    for (auto [m, n, k] :
         {std::tuple{1, 1, 1}, {1, 7, 5}, {7, 1, 5}, {3, 5, 2}, {8, 8, 8}, {17, 33, 9}, {31, 70, 40}, {4, 4, 0}}) {
      for (Form f : {RowMajor, ColumnMajor, RowGap, ColumnGap, Strided, Reversed, Broadcast}) {
        check(t, backend, 1, m, n, k, f, RowMajor, false, rng);
        check(t, backend, 2, m, n, k, RowGap, f, false, rng);
        const bool may = t.out == DType::F32 || t.out == DType::F64 || t.out == DType::I32;
        if (may) check(t, backend, 2, m, n, k, f, ColumnMajor, true, rng);
        if (HasFatalFailure()) return;
      }
    }
    check(t, backend, 1, 96, 80, 130, ColumnMajor, RowMajor, false, rng);
    if (HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(All, Backends, ::testing::Values(0, 1, 2, 3));

// Rows that lie a multiple of 2 KiB apart, in place or in copies of another type.
TEST(Contract, CrowdedRows) {
  std::mt19937_64 rng(22);
  for (const Case& t : {kCases[0], kCases[1], kCases[3], kCases[5]}) {
    for (const bool accumulate : {false, t.out == DType::F32}) {
      for (const int64_t k : {1, 9}) {
        check(t, GemmBackend::OneDnn, 2, 20, 512, k, RowMajor, RowMajor, accumulate, rng);
        check(t, GemmBackend::OneDnn, 1, 512, 20, k, ColumnMajor, RowMajor, accumulate, rng);
        check(t, GemmBackend::OneDnn, 1, 512, 1024, k, ColumnMajor, RowMajor, accumulate, rng);
        check(t, GemmBackend::OneDnn, 1, 20, 509, k, Strided, RowGap, accumulate, rng);
        if (HasFatalFailure()) return;
      }
      check(t, GemmBackend::OneDnn, 1, 20, 20, 512, RowMajor, ColumnMajor, accumulate, rng);
      check(t, GemmBackend::OneDnn, 1, 20, 512, 20, RowMajor, Strided, accumulate, rng);
      if (HasFatalFailure()) return;
    }
  }
}

// Two plans of a kernel hold an operand in places of their own, and agree to the bit.
TEST(Contract, SumsDoNotDependOnHowFarRowsLieApart) {
  std::mt19937_64 rng(23);
  for (const bool turned : {false, true}) {
    for (const auto& [m, n, k] :
         {std::tuple{3, 130, 1030}, {16, 16, 770}, {64, 256, 2048}, {128, 512, 1024}, {256, 1024, 1024}}) {
      Contraction x;
      x.m = m, x.n = n, x.k = k, x.in = x.in_rhs = x.out = DType::F32;
      x.a_row = turned ? 1 : k, x.a_col = turned ? m : 1, x.b_col = 1, x.c_row = n;
      std::vector<float> a(static_cast<size_t>(m * k)), values(static_cast<size_t>(n * k)), first;
      for (float& v : a) v = static_cast<float>(static_cast<double>(rng() % 2001) / 1000 - 1);
      for (float& v : values) v = static_cast<float>(static_cast<double>(rng() % 2001) / 1000 - 1);
      for (const int64_t row : {n + 7, n, (n + 511) / 512 * 512, (n + 1023) / 1024 * 1024, 2048}) {
        std::vector<float> b(static_cast<size_t>(row * k)), c(static_cast<size_t>(m * n));
        for (int i = 0; i < k; ++i)
          std::copy_n(&values[static_cast<size_t>(i * n)], n, &b[static_cast<size_t>(i * row)]);
        x.b_row = row;
        ASSERT_TRUE(contract(x, c.data(), a.data(), b.data()));
        if (first.empty()) first = c;
        ASSERT_EQ(std::memcmp(c.data(), first.data(), c.size() * sizeof(float)), 0)
            << m << 'x' << n << 'x' << k << (turned ? " turned" : "") << ", rows " << row << " apart";
      }
      EXPECT_NE(*std::max_element(first.begin(), first.end()), 0);
    }
  }
}

template <class T>
void complex_product(DType d) {
  using Z = std::complex<T>;
  const int m = 5, n = 7, k = 9;
  std::vector<Z> a(m * k), b(k * n), c(m * n, Z(1, -2));
  for (size_t i = 0; i < a.size(); ++i) a[i] = Z(static_cast<T>(i % 11) - 5, static_cast<T>(i % 7) - 3);
  for (size_t i = 0; i < b.size(); ++i) b[i] = Z(static_cast<T>(i % 5) - 2, static_cast<T>(i % 13) - 6);
  Contraction x;
  x.m = m, x.n = n, x.k = k, x.a_row = 1, x.a_col = m, x.b_row = n, x.b_col = 1, x.c_row = n;  // a is column-major
  x.in = x.in_rhs = x.out = d;
  x.accumulate = true;
  ASSERT_TRUE(contract(x, c.data(), a.data(), b.data()));
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      Z sum(1, -2);
      for (int p = 0; p < k; ++p) sum += a[static_cast<size_t>(p * m + i)] * b[static_cast<size_t>(p * n + j)];
      EXPECT_EQ(c[static_cast<size_t>(i * n + j)], sum);  // small integers: exact
    }
  }
}
TEST(Contract, ComplexNumbers) {
  complex_product<float>(DType::C64);
  complex_product<double>(DType::C128);
}

TEST(Contract, IntegersWrap) {
  const int32_t a[] = {INT32_MAX, 2}, b[] = {2, 3};
  int32_t c = 7;
  Contraction x;
  x.m = x.n = 1, x.k = 2, x.a_row = 2, x.a_col = 1, x.b_row = 1, x.b_col = 1, x.c_row = 1;
  x.in = x.in_rhs = x.out = DType::I32;
  ASSERT_TRUE(contract(x, &c, a, b));
  EXPECT_EQ(c, 4);
  x.accumulate = true;
  ASSERT_TRUE(contract(x, &c, a, b));
  EXPECT_EQ(c, 8);
}

// Products of bytes at their limits: sums wrap around, none of two saturates, and what is beyond 24 bits is exact.
template <class A>
void extreme_bytes(DType in, A a, int8_t b, int64_t k) {
  constexpr int64_t m = 17, n = 35;
  const std::vector<A> x(static_cast<size_t>(m * k), a);
  const std::vector<int8_t> y(static_cast<size_t>(k * n), b);
  std::vector<int32_t> z(static_cast<size_t>(m * n), 5);
  Contraction c;
  c.m = m, c.n = n, c.k = k, c.a_row = k, c.a_col = 1, c.b_row = n, c.b_col = 1, c.c_row = n;
  c.in = in, c.in_rhs = DType::I8, c.out = DType::I32;
  auto want = static_cast<uint32_t>(static_cast<int64_t>(a) * b * k);
  ASSERT_TRUE(contract(c, z.data(), x.data(), y.data()));
  for (const int32_t v : z) ASSERT_EQ(static_cast<uint32_t>(v), want) << +a << " * " << +b << " * " << k;
  c.accumulate = true;
  ASSERT_TRUE(contract(c, z.data(), x.data(), y.data()));
  for (const int32_t v : z) ASSERT_EQ(static_cast<uint32_t>(v), 2 * want) << +a << " * " << +b << " * " << k;
}
TEST(Contract, BytesWrapAndDoNotSaturate) {
  for (const int64_t k : {2, 64, 4099, 140000})
    for (const int8_t b : {INT8_MIN, INT8_MAX}) {
      for (const int8_t a : {INT8_MIN, INT8_MAX}) extreme_bytes<int8_t>(DType::I8, a, b, k);
      extreme_bytes<uint8_t>(DType::U8, UINT8_MAX, b, k);
    }
}

TEST(Contract, RefusesWhatHasNoMeaning) {
  float v = 0;
  Contraction x;
  x.m = x.n = x.k = 1;
  x.in = DType::KeyFry;
  EXPECT_FALSE(contract(x, &v, &v, &v));
  x.in = DType::F32, x.in_rhs = DType::I32;
  EXPECT_FALSE(contract(x, &v, &v, &v));
  x.in_rhs = DType::F32, x.out = DType::BF16, x.accumulate = true;
  EXPECT_FALSE(contract(x, &v, &v, &v));
}

float one_product(int n) {
  std::vector<float> a(static_cast<size_t>(n * n), 1), b(a), c(a);
  Contraction x;
  x.m = x.n = x.k = n, x.a_row = x.b_row = x.c_row = n, x.a_col = x.b_col = 1;
  return contract(x, c.data(), a.data(), b.data(), GemmBackend::OneDnn) ? c[static_cast<size_t>(n * n - 1)] : -1;
}

TEST(Contract, ThreadsAndForkedChildren) {
  EXPECT_EQ(one_product(200), 200);
  std::vector<std::thread> threads;
  std::vector<float> got(8);
  for (size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] { got[i] = one_product(64 + static_cast<int>(i)); });
  for (auto& t : threads) t.join();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], 64 + static_cast<float>(i));
  const pid_t child = fork();
  if (child == 0) _exit(one_product(300) == 300 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace pallasim::interp
