// Operands of Mosaic GPU's operations, as rules see them.
#pragma once
#include <optional>
#include <vector>

#include "rules.h"

namespace pallasim::hw {

using Shape = std::vector<int64_t>;

inline constexpr int64_t kWarpgroup = 128;  // CUDA threads

// The operand of an attribute, its type and its extents as far as they are known here.
struct Operand {
  const ir::Type* type = nullptr;
  ir::DType dtype = ir::DType::F32;
  std::optional<Shape> shape;
};
Operand operand_of(const ir::Graph&, const ir::Op&, const char* key);

// How an operand lies in shared memory: rows of `swizzle` bytes, in tiles of `tiling`.
struct Tags {
  bool shared = false;
  int64_t swizzle = 0;
  Shape tiling;
  // Of whole rows of the swizzle, 8 of them, whatever else is 1.
  bool fits(ir::DType) const;
};
Tags tags_of(const ir::Op&, const char* key, const Operand&);

// Under the other semantics the compiler chooses how memory is tiled and swizzled where the kernel does not say.
bool by_lanes(const ir::Module&);

}  // namespace pallasim::hw
