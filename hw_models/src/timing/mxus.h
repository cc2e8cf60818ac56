// Which of a TensorCore's MXUs the products of a kernel go to.
#pragma once
#include <unordered_map>

#include "pallasim/hw/timing.h"

namespace pallasim::hw {

// What lies between two branches is dealt out together, so that all MXUs have as much to do: tiles of right operands in
// turn, the largest first. Where a unit adds up results itself, what a column of tiles adds to stays in one unit,
// unless that unit would be the last to be done.
class Mxus {
 public:
  using Shares = decltype(ProductShape::shares);
  Mxus(const ir::Module&, const TimingFigures&);
  Shares of(const ir::Op&) const;  // of its rows and tiles, by unit

 private:
  void deal(const ir::Region&, const ir::Graph&, const TimingFigures&);
  size_t units_;
  std::unordered_map<const ir::Op*, Shares> shares_;
};

}  // namespace pallasim::hw
