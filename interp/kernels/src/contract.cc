// Contractions: packing into a backend's form, choice of the backend, rounding of the result.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "module.h"
#include "onednn_gemm.h"

#define PALLASIM_KNS common
#include "body.h"

namespace pallasim::interp {
namespace {

using common::bytes_of;
using ir::DType;
using ir::DTypeClass;

// Grow-only scratch, aligned to a cache line.
struct Scratch {
  std::unique_ptr<char, decltype(&std::free)> data{nullptr, &std::free};
  size_t size = 0;
  void* get(size_t bytes) {
    if (bytes > size) {
      const size_t n = (bytes + bytes / 4 + 4095) / 4096 * 4096;
      data.reset(static_cast<char*>(std::aligned_alloc(64, n)));
      size = n;
    }
    return data.get();
  }
};
enum { kPackA, kPackB, kPackC, kTurn, kScratches };
void* scratch(int which, size_t bytes) {
  thread_local Scratch s[kScratches];
  return s[which].get(bytes);
}

struct Matrix {
  const char* data;
  DType type;
  int64_t rows, cols, row, col;  // sizes and strides in elements
};

// The matrix as `to`, row-major, rows `ld` elements apart.
void pack(void* dst, DType to, Matrix x, int64_t ld) {
  if (x.type == to) {
    const int64_t dims[] = {x.rows, x.cols}, from[] = {x.row, x.col}, into[] = {ld, 1};
    return copy_strided(dst, into, x.data, from, dims, 2, bytes_of(to));
  }
  const KernelTable& t = kernels();
  const LoadFn load = t.load(x.type);
  const ConvertFn convert = compute_type(x.type) == compute_type(to) ? nullptr : t.convert(x.type, to);
  const StoreFn narrow = bytes_of(to) < byte_size(compute_type(to)) ? t.store(to) : nullptr;
  const int64_t esize = bytes_of(x.type), osize = bytes_of(to);
  const Semantics sem;
  alignas(64) char reg[kStrip * 16];
  auto* out = static_cast<char*>(dst);
  if (x.col == 1 && x.row == x.cols && ld == x.cols)  // longer strips
    x = {x.data, x.type, 1, x.rows * x.cols, x.rows * x.cols, 1};
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.cols; j += kStrip) {
      const int64_t n = std::min<int64_t>(kStrip, x.cols - j);
      const char* from = x.data + (i * x.row + j * x.col) * esize;
      char* at = out + (i * ld + j) * osize;
      if (narrow) {  // both are held in registers of one type
        load(reg, from, n, x.col);
        narrow(at, reg, n, 1);
      } else if (convert) {
        load(reg, from, n, x.col);
        convert(at, reg, n, sem);
      } else {
        load(at, from, n, x.col);
      }
    }
  }
}

// Operands of onednn_reads_in_place, as measured on an EPYC with AVX2: 256 columns of 256 numbers that lie 4 KiB apart
// go 2.0 times as fast from a copy whose rows lie otherwise, 1.4 times from 2 KiB; from 16 uses of a number on.
constexpr int64_t kCrowdedBytes = 2048, kApartBytes = 64, kUsesWorthCopies = 16;
// oneDNN's AVX-512 kernels cut k otherwise where rows of the right operand lie a multiple of 4 KiB apart, and the sums
// differ in their last bits: such rows never reach them, so that a result does not depend on where a plan holds its
// operands. Seen on an EPYC of Zen 4 from 128 rows of the left operand on, of one that is turned from 3 on.
constexpr int64_t kOtherSumsBytes = 4096, kUsesOfOtherSums = 64, kUsesOfOtherSumsTurned = 3;
bool crowded(DType t, int64_t ld) {
  return ld * bytes_of(t) % (onednn_reads_in_place() ? kCrowdedBytes : kOtherSumsBytes) == 0;
}
// Whether crowded rows are spread out in a copy; uses: of each element.
bool spreads_left(int64_t uses) { return onednn_reads_in_place() && uses >= kUsesWorthCopies; }
bool spreads_right(int64_t uses, bool left_turned) {
  if (onednn_reads_in_place()) return uses >= kUsesWorthCopies;
  return uses >= (left_turned ? kUsesOfOtherSumsTurned : kUsesOfOtherSums);
}
int64_t apart(DType t, int64_t columns, bool spreads) {
  return columns + (spreads && crowded(t, columns) ? kApartBytes / bytes_of(t) : 0);
}

// How a backend takes an operand.
struct Taken {
  DType type;
  bool may_transpose;
  bool along_rows;  // k goes along rows; else from row to row
  bool spreads;     // rows that are crowded
};

// The operand in a form that the backend takes, in place if it has one.
GemmOperand operand(int slot, const Taken& as, Matrix x) {
  const DType to = as.type;
  if (x.rows == 1) x.row = x.col == 1 ? std::max<int64_t>(1, x.cols) : x.row;
  if (x.cols == 1 && x.row != 1) x.col = 1;
  const bool plain = x.col == 1 && x.row >= std::max<int64_t>(1, x.cols);
  const bool turned = x.row == 1 && x.col >= std::max<int64_t>(1, x.rows);
  const bool spreads_plain = as.spreads && !as.along_rows && x.rows > 1,
             spreads_turned = as.spreads && as.along_rows && x.cols > 1;
  const auto room = [&](int64_t rows, int64_t ld) {
    return scratch(slot, static_cast<size_t>(rows) * ld * bytes_of(to));
  };
  if (x.type == to && plain && !(spreads_plain && crowded(to, x.row))) return {x.data, x.row, false};
  if (x.type == to && turned && as.may_transpose && !(spreads_turned && crowded(to, x.col)))
    return {x.data, x.col, true};
  if (x.row == 1 && x.col != 1) {  // read along memory, then turn if need be
    const Matrix y{x.data, x.type, x.cols, x.rows, x.col, x.row};
    if (as.may_transpose) {
      const int64_t ld = apart(to, x.rows, spreads_turned);
      void* p = room(x.cols, ld);
      pack(p, to, y, ld);
      return {p, ld, true};
    }
    const void* from = x.data;
    int64_t ld = x.col;
    if (x.type != to) {
      void* p = scratch(kTurn, static_cast<size_t>(x.rows) * x.cols * bytes_of(to));
      pack(p, to, y, x.rows);
      from = p, ld = x.rows;
    }
    void* p = room(x.rows, x.cols);
    isa_module().transpose(p, x.cols, from, ld, x.cols, x.rows, bytes_of(to));
    return {p, x.cols, false};
  }
  const int64_t ld = apart(to, x.cols, spreads_plain);
  void* p = room(x.rows, ld);
  pack(p, to, x, ld);
  return {p, ld, false};
}

// The type that sums are held in; Token for pairs without a meaning.
DType accumulator(const Contraction& c) {
  auto value = [](DType t) {
    return ir::DType::Token != t && (common::class_of(t) != DTypeClass::Key) &&
           (common::class_of(t) != DTypeClass::Sync);
  };
  if (!value(c.in) || !value(c.in_rhs) || !value(c.out)) return DType::Token;
  auto cls = [](DType t) {
    const DTypeClass k = common::class_of(t);
    return k == DTypeClass::UInt ? DTypeClass::Int : k;
  };
  DTypeClass a = cls(c.in), b = cls(c.in_rhs), o = cls(c.out);
  // A float and an integer: matrix units take the integer as a float, which f32 holds exactly up to 16 bits.
  const auto exact = [&](DTypeClass k, DType t) { return k == DTypeClass::Int && common::bits_of(t) <= 16; };
  if (a == DTypeClass::Float && exact(b, c.in_rhs)) b = a;
  if (b == DTypeClass::Float && exact(a, c.in)) a = b;
  if (a != b) return DType::Token;
  if (a == DTypeClass::Float && o == DTypeClass::Float)
    return c.in == DType::F64 || c.in_rhs == DType::F64 || c.out == DType::F64 ? DType::F64 : DType::F32;
  if (a == DTypeClass::Complex && o == DTypeClass::Complex)
    return c.in == DType::C64 && c.in_rhs == DType::C64 && c.out == DType::C64 ? DType::C64 : DType::C128;
  if (a == DTypeClass::Int && (o == DTypeClass::Int || o == DTypeClass::Float)) {
    const bool wide = common::bits_of(c.in) == 64 || common::bits_of(c.in_rhs) == 64 ||
                      (o == DTypeClass::Int && common::bits_of(c.out) == 64);
    const bool is_unsigned =
        common::class_of(c.in) == DTypeClass::UInt && common::class_of(c.in_rhs) == DTypeClass::UInt;
    return wide ? (is_unsigned ? DType::U64 : DType::I64) : (is_unsigned ? DType::U32 : DType::I32);
  }
  return DType::Token;
}

// Whole numbers of one byte: the right ones fit in one with a sign.
bool are_bytes(const Contraction& c, DType acc) {
  const auto narrow = [](DType t) {
    const DTypeClass k = common::class_of(t);
    return (k == DTypeClass::Int || k == DTypeClass::UInt) && common::bits_of(t) <= 8;
  };
  return acc == DType::I32 && narrow(c.in) && narrow(c.in_rhs) && c.in_rhs != DType::U8;
}

GemmBackend choose(const Contraction& c, DType acc) {
  const double work = static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
  // A call takes 0.9 us at least, in which loops of our own make 20,000 products.
  if (are_bytes(c, acc) && work > 32768 && onednn_has_int8()) return GemmBackend::OneDnn;
  // Auto here: loops of our own. They are best at columns that fill vectors.
  if (acc != DType::F32 && acc != DType::F64) return GemmBackend::Auto;
  if (work <= 8192) return c.n % 16 == 0 || work <= 256 ? GemmBackend::Auto : GemmBackend::Eigen;
  return acc == DType::F64 ? GemmBackend::Eigen : GemmBackend::OneDnn;
}

void store_result(void* dst, int64_t row, DType out, const void* src, DType acc, int64_t m, int64_t n) {
  const KernelTable& t = kernels();
  const ConvertFn convert = t.convert(acc, out);
  const StoreFn store = t.store(out);
  const int64_t asize = bytes_of(acc), osize = bytes_of(out);
  const Semantics sem;
  alignas(64) char reg[kStrip * 16];
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; j += kStrip) {
      const int64_t k = std::min<int64_t>(kStrip, n - j);
      convert(reg, static_cast<const char*>(src) + (i * n + j) * asize, k, sem);
      store(static_cast<char*>(dst) + (i * row + j) * osize, reg, k, 1);
    }
  }
}

template <class T>
void reference_gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                    int64_t ldc, bool accumulate) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T sum = accumulate ? c[i * ldc + j] : T{0};
      for (int64_t p = 0; p < k; ++p) sum = sum + a[i * lda + p] * b[p * ldb + j];
      c[i * ldc + j] = sum;
    }
  }
}

template <class T>
void plain(PlainGemm<T> f, const Contraction& c, GemmOperand a, GemmOperand b, void* out, int64_t ldc) {
  f(c.m, c.n, c.k, static_cast<const T*>(a.data), a.ld, static_cast<const T*>(b.data), b.ld, static_cast<T*>(out), ldc,
    c.accumulate);
}

bool run(const Contraction& c, void* out, const void* lhs, const void* rhs, GemmBackend backend, bool may_bf16) {
  const DType acc = accumulator(c);
  if (acc == DType::Token) return false;
  const bool same_bits =
      c.out == acc || (common::is_word(c.out) && common::is_word(acc) && bytes_of(c.out) == bytes_of(acc));
  if (c.accumulate && !same_bits) return false;
  if (c.m == 0 || c.n == 0 || c.batch == 0) return true;
  if (backend == GemmBackend::Auto) backend = choose(c, acc);
  const bool bytes = backend == GemmBackend::OneDnn && are_bytes(c, acc) && onednn_has_int8();
  if (acc != DType::F32 && backend == GemmBackend::OneDnn && !bytes) backend = GemmBackend::Eigen;
  if (acc != DType::F32 && acc != DType::F64 && backend == GemmBackend::Eigen) backend = GemmBackend::Auto;
  const bool bf16 = backend == GemmBackend::OneDnn && c.in == DType::BF16 && c.in_rhs == DType::BF16 && may_bf16;
  const bool a_unsigned = common::class_of(c.in) == DTypeClass::UInt;
  const auto need = [&](DType byte) { return bf16 ? DType::BF16 : bytes ? byte : acc; };
  const DType need_a = need(a_unsigned ? DType::U8 : DType::I8), need_b = need(DType::I8);
  const bool transposes = backend == GemmBackend::OneDnn, in_place = transposes && !bf16 && !bytes;
  const Taken left{need_a, transposes, true, in_place && spreads_left(c.n)};
  const int64_t ldc = same_bits ? (c.m == 1 ? c.n : c.c_row) : c.n;
  const IsaModule& isa = isa_module();
  GemmOperand a{}, b{};
  for (int64_t i = 0; i < c.batch; ++i) {
    char* target = static_cast<char*>(out) + i * c.c_batch * bytes_of(c.out);
    void* sum = same_bits ? target : scratch(kPackC, static_cast<size_t>(c.m) * c.n * bytes_of(acc));
    if (c.k == 0) {
      if (!c.accumulate)
        for (int64_t r = 0; r < c.m; ++r)
          std::memset(static_cast<char*>(sum) + r * ldc * bytes_of(acc), 0, static_cast<size_t>(c.n) * bytes_of(acc));
    } else {
      if (i == 0 || c.a_batch != 0)
        a = operand(kPackA, left,
                    {static_cast<const char*>(lhs) + i * c.a_batch * bytes_of(c.in), c.in, c.m, c.k, c.a_row, c.a_col});
      if (i == 0 || c.b_batch != 0)
        b = operand(
            kPackB, {need_b, transposes, false, in_place && spreads_right(c.m, a.transposed)},
            {static_cast<const char*>(rhs) + i * c.b_batch * bytes_of(c.in_rhs), c.in_rhs, c.k, c.n, c.b_row, c.b_col});
      switch (acc) {
        case DType::F32:
          if (bf16) {
            // Refused at the first matrix or never: nothing was written yet.
            if (!onednn_bf16(c.m, c.n, c.k, a, b, static_cast<float*>(sum), ldc, c.accumulate))
              return run(c, out, lhs, rhs, backend, false);
          } else if (backend == GemmBackend::OneDnn) {
            if (!onednn_sgemm(c.m, c.n, c.k, a, b, static_cast<float*>(sum), ldc, c.accumulate)) return false;
          } else {
            plain<float>(backend == GemmBackend::Reference ? reference_gemm<float>
                         : backend == GemmBackend::Eigen   ? isa.eigen_f32
                                                           : isa.small_f32,
                         c, a, b, sum, ldc);
          }
          break;
        case DType::F64:
          plain<double>(backend == GemmBackend::Reference ? reference_gemm<double>
                        : backend == GemmBackend::Eigen   ? isa.eigen_f64
                                                          : isa.small_f64,
                        c, a, b, sum, ldc);
          break;
        case DType::I32:
        case DType::U32:
          if (bytes) {
            if (!onednn_int8(c.m, c.n, c.k, a, a_unsigned, b, static_cast<int32_t*>(sum), ldc, c.accumulate))
              return false;
            break;
          }
          plain<uint32_t>(backend == GemmBackend::Reference ? reference_gemm<uint32_t> : isa.small_u32, c, a, b, sum,
                          ldc);
          break;
        case DType::C64: plain<common::C64>(reference_gemm<common::C64>, c, a, b, sum, ldc); break;
        case DType::C128: plain<common::C128>(reference_gemm<common::C128>, c, a, b, sum, ldc); break;
        default:
          plain<uint64_t>(backend == GemmBackend::Reference ? reference_gemm<uint64_t> : isa.small_u64, c, a, b, sum,
                          ldc);
          break;
      }
    }
    if (!same_bits) store_result(target, c.c_row, c.out, sum, acc, c.m, c.n);
  }
  return true;
}

}  // namespace

bool contract(const Contraction& c, void* out, const void* lhs, const void* rhs, GemmBackend backend) {
  return run(c, out, lhs, rhs, backend, onednn_has_bf16());
}

}  // namespace pallasim::interp
