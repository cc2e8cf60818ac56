// Static types: tensors (rank 0 included) and refs. Types are interned per module, so two types of one
// module are equal exactly when their pointers are.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pallasim/ir/dtype.h"

namespace pallasim::ir {

// Memory spaces of every machine. `any` is chosen by the compiler; `deflt` follows the kernel's core type.
#define PALLASIM_SPACES(X)                                                                                          \
  X(Any, "any")                                                                                                     \
  X(Default, "deflt") X(Hbm, "hbm") X(Vmem, "vmem") X(VmemShared, "vmem_shared") X(Smem, "smem") X(Cmem, "cmem")    \
      X(Semaphore, "semaphore") X(Host, "host") X(Gmem, "gmem") X(GpuSmem, "gsmem") X(Tmem, "tmem") X(Regs, "regs") \
          X(Index, "index") X(Key, "key") X(Error, "error")

enum class Space : uint8_t {
#define X(e, t) e,
  PALLASIM_SPACES(X)
#undef X
};
std::string_view name(Space);
bool parse_space(std::string_view text, Space* out);

// Who owns an allocation. `Thread` is a TPU core or a GPU warpgroup.
#define PALLASIM_SCOPES(X)                                                                             \
  X(Thread, "thread")                                                                                  \
  X(Warp, "warp") X(Cta, "cta") X(Cluster, "cluster") X(SubcoreGroup, "subcore_group") X(Grid, "grid") \
      X(Device, "device") X(Session, "session")
enum class Scope : uint8_t {
#define X(e, t) e,
  PALLASIM_SCOPES(X)
#undef X
};
std::string_view name(Scope);
bool parse_scope(std::string_view text, Scope* out);

// A dimension: a number, or an expression over the module's shape parameters kept as canonical text
// ("n", "add(mul(2,n),1)"; operations add, sub, mul, floordiv, mod, max, min) until the call binds it.
struct Dim {
  int64_t size = 0;
  std::string symbol;  // empty: `size` is the extent
  Dim() = default;
  Dim(int64_t n) : size(n) {}  // NOLINT: a number is a dimension
  explicit Dim(std::string s) : size(-1), symbol(std::move(s)) {}
  bool is_static() const { return symbol.empty(); }
  bool operator==(const Dim&) const = default;
};

struct Type {
  bool is_ref = false;
  DType dtype = DType::F32;
  std::vector<Dim> dims;
  // Refs only.
  Space space = Space::Any;
  Scope scope = Scope::Thread;       // printed only where it is not Thread
  std::string mesh;                  // `X @ mesh`: empty when untied
  std::vector<const Type*> members;  // ref union / multi-ref: the overlaid refs; empty for a plain ref

  bool operator==(const Type&) const = default;
  int rank() const { return static_cast<int>(dims.size()); }
  bool is_scalar() const { return !is_ref && dims.empty(); }
  bool is_static() const;
  // Product of the dims; the caller knows that the type is static and was checked against overflow.
  int64_t num_elements() const;
  int64_t num_bytes() const { return num_elements() * byte_size(dtype); }
};

std::string to_string(const Type&);  // f32[8,128], ref<f32[8,128], vmem>
inline std::string to_string(const Type* t) { return to_string(*t); }

// Owns the types of a module; addresses are stable.
class TypeTable {
 public:
  const Type* intern(const Type&);
  const Type* tensor(DType, std::vector<Dim>);
  const Type* scalar(DType t) { return tensor(t, {}); }
  const Type* ref(DType, std::vector<Dim>, Space);

 private:
  std::deque<Type> types_;
  std::unordered_map<std::string, const Type*> by_text_;
};

}  // namespace pallasim::ir
