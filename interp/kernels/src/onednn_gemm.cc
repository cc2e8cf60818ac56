#include "onednn_gemm.h"

#include <cstdlib>
#include <list>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int);

namespace pallasim::interp {
namespace {

// Debian's oneDNN runs on OpenMP. The setting belongs to the calling thread; one thread starts no pool, so fork stays
// safe.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }

 private:
  int before_;
};

struct Key {
  int64_t m, n, k, lda, ldb, ldc;
  bool ta, tb, accumulate;
  auto tie() const { return std::tie(m, n, k, lda, ldb, ldc, ta, tb, accumulate); }
  bool operator==(const Key& o) const { return tie() == o.tie(); }
};
struct Entry {
  Key key;
  dnnl::memory a, b, c, scratch;
  dnnl::matmul primitive;
};
constexpr size_t kEntries = 48;  // per thread; a primitive holds a few KiB of code

struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::list<Entry> entries;  // most recent first
};
Library& library() {
  thread_local Library l;
  return l;
}

dnnl::memory::desc describe(int64_t rows, int64_t cols, int64_t ld, bool transposed, dnnl::memory::data_type t) {
  return {{rows, cols}, t, transposed ? dnnl::memory::dims{1, ld} : dnnl::memory::dims{ld, 1}};
}

Entry& entry_for(const Key& key) {
  Library& l = library();
  for (auto it = l.entries.begin(); it != l.entries.end(); ++it) {
    if (!(it->key == key)) continue;
    l.entries.splice(l.entries.begin(), l.entries, it);
    return l.entries.front();
  }
  using Type = dnnl::memory::data_type;
  const auto a = describe(key.m, key.k, key.lda, key.ta, Type::bf16),
             b = describe(key.k, key.n, key.ldb, key.tb, Type::bf16),
             c = describe(key.m, key.n, key.ldc, false, Type::f32);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (key.accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1.0f);
    attr.set_post_ops(ops);
  }
  const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), attr, l.engine);
  if (l.entries.size() >= kEntries) l.entries.pop_back();
  l.entries.push_front({key, dnnl::memory(a, l.engine, nullptr), dnnl::memory(b, l.engine, nullptr),
                        dnnl::memory(c, l.engine, nullptr), dnnl::memory(desc.scratchpad_desc(), l.engine),
                        dnnl::matmul(desc)});
  return l.entries.front();
}

}  // namespace

bool onednn_sgemm(int64_t m, int64_t n, int64_t k, GemmOperand a, GemmOperand b, float* c, int64_t ldc,
                  bool accumulate) {
  const OneThread guard;
  return dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f,
                    static_cast<const float*>(a.data), a.ld, static_cast<const float*>(b.data), b.ld,
                    accumulate ? 1.0f : 0.0f, c, ldc) == dnnl_success;
}

namespace {
bool has(dnnl::cpu_isa wanted, const char* variable) {
  if (const char* env = std::getenv(variable)) return env[0] == '1';  // for tests
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & static_cast<int>(wanted)) == static_cast<int>(wanted);
}
}  // namespace

bool onednn_has_bf16() {
  static const bool r = has(dnnl::cpu_isa::avx512_core_bf16, "PALLASIM_ONEDNN_BF16");
  return r;
}

bool onednn_reads_in_place() {
  static const bool r = !has(dnnl::cpu_isa::avx512_core, "PALLASIM_ONEDNN_COPIES");
  return r;
}

bool onednn_has_int8() {
  static const bool r = has(dnnl::cpu_isa::avx512_core_vnni, "PALLASIM_ONEDNN_INT8");
  return r;
}

// A factor of 1 and offsets of 0: the library stays with whole numbers.
bool onednn_int8(int64_t m, int64_t n, int64_t k, GemmOperand a, bool a_unsigned, GemmOperand b, int32_t* c,
                 int64_t ldc, bool accumulate) {
  const OneThread guard;
  const char ta = a.transposed ? 'T' : 'N', tb = b.transposed ? 'T' : 'N', one_offset = 'F';
  const auto* right = static_cast<const int8_t*>(b.data);
  const float beta = accumulate ? 1.0f : 0.0f;
  const int32_t offset = 0;
  const auto status = a_unsigned
                          ? dnnl_gemm_u8s8s32(ta, tb, one_offset, m, n, k, 1.0f, static_cast<const uint8_t*>(a.data),
                                              a.ld, 0, right, b.ld, 0, beta, c, ldc, &offset)
                          : dnnl_gemm_s8s8s32(ta, tb, one_offset, m, n, k, 1.0f, static_cast<const int8_t*>(a.data),
                                              a.ld, 0, right, b.ld, 0, beta, c, ldc, &offset);
  return status == dnnl_success;
}

bool onednn_bf16(int64_t m, int64_t n, int64_t k, GemmOperand a, GemmOperand b, float* c, int64_t ldc,
                 bool accumulate) {
  const OneThread guard;
  try {
    Entry& e = entry_for({m, n, k, a.ld, b.ld, ldc, a.transposed, b.transposed, accumulate});
    e.a.set_data_handle(const_cast<void*>(a.data));
    e.b.set_data_handle(const_cast<void*>(b.data));
    e.c.set_data_handle(c);
    e.primitive.execute(
        library().stream,
        {{DNNL_ARG_SRC, e.a}, {DNNL_ARG_WEIGHTS, e.b}, {DNNL_ARG_DST, e.c}, {DNNL_ARG_SCRATCHPAD, e.scratch}});
    library().stream.wait();
    return true;
  } catch (const dnnl::error&) { return false; }
}

}  // namespace pallasim::interp
