// How Triton's compiler spreads the arrays of a program over its warps and their lanes.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "cost.h"

namespace pallasim::hw {

class TritonLayouts {
 public:
  // `wgmma`: the chip multiplies by whole warpgroups.
  TritonLayouts(const ir::Module&, int64_t warps, bool wgmma);

  // Warps along the rows and along the columns of a product's result.
  struct Warps {
    int64_t rows = 1, columns = 1;
  };
  Warps warps_of(const ProductShape&) const;
  // Whether whole warpgroups multiply, with operands from shared memory; else each warp does, from its registers.
  bool by_warpgroups(const ProductShape&) const;
  // Whether a product multiplies what another one made.
  bool has_chain() const { return chained_; }
  // Of the first product of those, 64 at a time; at least 1.
  int64_t blocks_of_chain() const { return chained_ && first_ ? std::max<int64_t>(1, first_->m / 64) : 1; }
  // Whether a product of a loop is added to what the loop carries, so that nobody waits for it in its trip.
  bool is_added(const ir::Op& product) const { return added_.contains(&product); }
  // Bits of an element that goes through shared memory, since the operation takes a tile from memory and what is made
  // of a product, which lie differently in registers; 0: none does.
  int moved_bits(const ir::Op& op) const {
    const auto it = moved_.find(&op);
    return it == moved_.end() ? 0 : it->second;
  }
  // Warps beyond those that have 16 rows each of a chain of products do what others do.
  int64_t rows_of_warps() const { return repeats_ ? 16 * warps_ : 0; }

  // How the lanes that have parts of one result come together.
  struct Reduction {
    int64_t results = 1;  // that a warp works out one after the other
    int steps = 0;        // between lanes of a warp, each of half as many
    int64_t warps = 1;    // that have parts of a result
  };
  // Of an operation that reduces axes of its operand; nothing where that is no array.
  std::optional<Reduction> reduction(const ir::Op&, const ir::Graph&) const;

  // Elements side by side that a lane has of an array of this type; of a product's result two.
  int64_t side_by_side(const ir::Type&, bool of_a_product) const;
  bool is_of_a_product(ir::ValueId v, const ir::Graph& g) const;

 private:
  void look(const ir::Region&, const ir::Graph&);
  void follow_load(const ir::Op&, const ir::Graph&, bool of_product);
  Reduction of_product(const ir::Type&, bool along_rows) const;
  Reduction of_block(const ir::Type&, bool last, bool others) const;
  int64_t warps_;
  bool wgmma_, chained_ = false, repeats_ = false;
  std::unordered_set<const ir::Op*> added_;
  std::unordered_map<const ir::Graph*, std::unordered_map<ir::ValueId, int>>
      loaded_;  // tiles, and what is made of them
  std::unordered_map<const ir::Op*, int> moved_;
  std::optional<ProductShape> first_;                                               // product of the kernel
  std::unordered_map<const ir::Graph*, std::unordered_set<ir::ValueId>> products_;  // and what is made of them
};

}  // namespace pallasim::hw
