// Element types. The list covers every dtype of ml_dtypes that Pallas accepts, PRNG keys and the
// synchronisation objects that live in refs.
#pragma once
#include <cstdint>
#include <string_view>

namespace pallasim::ir {

// PALLASIM_DTYPE(enumerator, text, class, bits). `bits` is the machine width of one element; the
// buffers that XLA hands over hold sub-byte types one element per byte.
#define PALLASIM_DTYPES(X)                       \
  X(Bool, "bool", Bool, 8)                       \
  X(I2, "i2", Int, 2)                            \
  X(I4, "i4", Int, 4)                            \
  X(I8, "i8", Int, 8)                            \
  X(I16, "i16", Int, 16)                         \
  X(I32, "i32", Int, 32)                         \
  X(I64, "i64", Int, 64)                         \
  X(U2, "u2", UInt, 2)                           \
  X(U4, "u4", UInt, 4)                           \
  X(U8, "u8", UInt, 8)                           \
  X(U16, "u16", UInt, 16)                        \
  X(U32, "u32", UInt, 32)                        \
  X(U64, "u64", UInt, 64)                        \
  X(BF16, "bf16", Float, 16)                     \
  X(F16, "f16", Float, 16)                       \
  X(F32, "f32", Float, 32)                       \
  X(F64, "f64", Float, 64)                       \
  X(F8E3M4, "f8e3m4", Float, 8)                  \
  X(F8E4M3, "f8e4m3", Float, 8)                  \
  X(F8E4M3B11FNUZ, "f8e4m3b11fnuz", Float, 8)    \
  X(F8E4M3FN, "f8e4m3fn", Float, 8)              \
  X(F8E4M3FNUZ, "f8e4m3fnuz", Float, 8)          \
  X(F8E5M2, "f8e5m2", Float, 8)                  \
  X(F8E5M2FNUZ, "f8e5m2fnuz", Float, 8)          \
  X(F8E8M0FNU, "f8e8m0fnu", Float, 8)            \
  X(F4E2M1FN, "f4e2m1fn", Float, 4)              \
  X(C64, "c64", Complex, 64)                     \
  X(C128, "c128", Complex, 128)                  \
  X(KeyFry, "key_fry", Key, 64)                  \
  X(KeyRbg, "key_rbg", Key, 128)                 \
  X(KeyUrbg, "key_urbg", Key, 128)               \
  X(KeyTpu, "key_tpu", Key, 64)                  \
  X(KeyStateful, "key_stateful", Key, 64)        \
  X(Sem, "sem", Sync, 32)                        \
  X(DmaSem, "dma_sem", Sync, 32)                 \
  X(BarrierSem, "barrier_sem", Sync, 32)         \
  X(Mbarrier, "mbarrier", Sync, 64)              \
  X(ClusterBarrier, "cluster_barrier", Sync, 64) \
  X(Token, "token", Sync, 0)

enum class DType : uint8_t {
#define X(e, t, c, b) e,
  PALLASIM_DTYPES(X)
#undef X
};
inline constexpr int kNumDTypes = 0
#define X(e, t, c, b) +1
    PALLASIM_DTYPES(X)
#undef X
    ;

enum class DTypeClass : uint8_t { Bool, Int, UInt, Float, Complex, Key, Sync };

struct DTypeInfo {
  std::string_view name;
  DTypeClass cls;
  int bits;       // machine width
  int byte_size;  // bytes of one element in an unpacked buffer (>= 1, 0 for token)
};

const DTypeInfo& info(DType);
inline std::string_view name(DType t) { return info(t).name; }
inline int byte_size(DType t) { return info(t).byte_size; }
inline int bit_width(DType t) { return info(t).bits; }
inline bool is_float(DType t) { return info(t).cls == DTypeClass::Float; }
inline bool is_signed_int(DType t) { return info(t).cls == DTypeClass::Int; }
inline bool is_unsigned_int(DType t) { return info(t).cls == DTypeClass::UInt; }
inline bool is_int(DType t) { return is_signed_int(t) || is_unsigned_int(t); }
inline bool is_complex(DType t) { return info(t).cls == DTypeClass::Complex; }
inline bool is_key(DType t) { return info(t).cls == DTypeClass::Key; }
inline bool is_sync(DType t) { return info(t).cls == DTypeClass::Sync; }
// Types whose elements carry a value that lax operations accept.
inline bool is_value(DType t) { return !is_sync(t); }

// Returns false when `text` names no dtype.
bool parse_dtype(std::string_view text, DType* out);

}  // namespace pallasim::ir
