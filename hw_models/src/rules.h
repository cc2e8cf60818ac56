// One checker per compiler.
#pragma once
#include <cstdlib>

#include "pallasim/hw/rules.h"

namespace pallasim::hw {

void check_triton(const ir::Module&);  // throws for the first rule
void check_mosaic_gpu(const ir::Module&, const Profile&, std::vector<ir::Diagnostic>*);
void check_tensor_memory(const ir::Module&, const Profile&, std::vector<ir::Diagnostic>*);
void check_registers(const ir::Module&, const Profile&, std::vector<ir::Diagnostic>*);  // of a GPU's warpgroups
void check_scopes(const ir::Module&, std::vector<ir::Diagnostic>*);  // of a GPU: whose allocations are
void check_tpu_launch(const ir::Module&, const Profile&, std::vector<ir::Diagnostic>*);
void check_tpu_operations(const ir::Module&, const Profile&, std::vector<ir::Diagnostic>*);
void check_sparsecore(const ir::Module&, const Profile&, std::vector<ir::Diagnostic>*);
void check_capacity(const ir::Module&, const Profile&, std::vector<ir::Diagnostic>*);
// After the others: what is refused already needs no further word.
void check_fit(const ir::Module&, const Profile&, std::vector<ir::Diagnostic>*);

// Operations that the compilers have: of TPUs by the minor version of JAX.
bool tpu_has(ir::OpCode, int64_t jax);
bool triton_has(ir::OpCode);

// Rows of the tiles that an array of so many rows lies in on a TPU: narrow elements fill large ones (jax
// pallas/mosaic/tpu_info.py, get_sublane_tiling, 0.10.2) where these divide the rows (libtpu 0.0.42).
inline int64_t tile_rows(ir::DType t, int64_t rows) {
  const int bits = ir::bit_width(t);
  const int64_t large = 8 * (32 / bits);
  return bits < 16 && rows % large == 0 ? large : bits == 2 ? 16 : 8;
}

// The minor version of the JAX whose compiler is held: 12 for 0.12.0; 10, the oldest known, for a module that names
// none (`jax`).
inline int64_t jax_minor(const ir::Module& m) {
  const ir::Attr* version = ir::find(m.attrs, "jax");
  const size_t dot = version ? version->s.find('.') : std::string::npos;
  return dot == std::string::npos ? 10 : std::strtoll(version->s.c_str() + dot + 1, nullptr, 10);
}

// The block is the whole array and the index map is all zeros.
bool is_trivial_window(const ir::Operand&);

// A broken rule of the kernel. Warnings are what a compiler may still accept.
inline ir::Diagnostic& report(const ir::Module& m, std::vector<ir::Diagnostic>* out, ir::Code code, std::string message,
                              ir::LocId loc = -1, std::string hint = {}) {
  out->push_back(ir::Diagnostic(code, std::move(message)).of(m.name).at(ir::site_of(m, loc)).hinted(std::move(hint)));
  return out->back();
}

}  // namespace pallasim::hw
