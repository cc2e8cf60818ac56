#include "lowering.h"

#include "../compile.h"

#include <array>
#include <stdexcept>

namespace pallasim::interp {
namespace {

constexpr Rows (*kFamilies[])() = {array_rows,    asm_rows,    async_rows,       barrier_rows, control_rows,
                                   convolve_rows, debug_rows,  elementwise_rows, gather_rows,  memory_rows,
                                   mxu_rows,      random_rows, reduce_rows,      shape_rows,   sparsecore_rows,
                                   spawn_rows,    sync_rows};

std::array<Lowering, ir::kNumOps> table() {
  std::array<Lowering, ir::kNumOps> r{};
  for (const auto& rows : kFamilies)
    for (const Row& row : rows()) {
      Lowering& place = r[static_cast<size_t>(row.code)];
      if (place) throw std::logic_error("two lowerings of " + std::string(ir::name(row.code)));
      place = row.lower;
    }
  return r;
}

}  // namespace

Lowering lowering(OpCode code) {
  static const std::array<Lowering, ir::kNumOps> lowerings = table();
  return lowerings[static_cast<size_t>(code)];
}

bool runs(OpCode code) { return lowering(code) != nullptr; }

}  // namespace pallasim::interp
