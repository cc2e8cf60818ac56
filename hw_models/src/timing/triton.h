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
  // Where a warpgroup's product has its left operand: in shared memory, where loads bring it; in registers, since it is
  // made of a product; or lanes fetch it from shared memory each time, since it is made of what was loaded.
  enum class Left : uint8_t { Shared, Registers, Fetched };
  Left left_of(const ir::Op& product) const {
    const auto it = left_.find(&product);
    return it == left_.end() ? Left::Shared : it->second;
  }
  // What was loaded of which a product's left operand is made that lanes fetch; -1: they do not.
  ir::ValueId fetched_by(const ir::Op& product) const {
    const auto it = fetched_.find(&product);
    return it == fetched_.end() ? -1 : it->second;
  }
  // Whether registers do not suffice for products that are under way at a time, so that ptxas lets a warpgroup wait for
  // each of its instructions (its warning C7512).
  bool waits_for_each() const { return in_flight_ + kOtherRegisters > kRegisters; }
  double in_flight() const { return in_flight_; }  // registers of a lane
  // Bits of an element that goes through shared memory, since the operation takes a tile from memory and what is made
  // of a product, which lie differently in registers; 0: none does.
  int moved_bits(const ir::Op& op) const {
    const auto it = moved_.find(&op);
    return it == moved_.end() ? 0 : it->second;
  }
  // Elements of rows or columns that the operation takes from memory to what is made of a product: lanes that have
  // parts of a product's result fetch them from shared memory. Each once, where it is loaded in that trip.
  int64_t moved_row(const ir::Op& op) const {
    const auto it = moved_rows_.find(&op);
    return it == moved_rows_.end() ? 0 : it->second;
  }
  // Whether an addition's other operand is a row or a column that has to be spread over an accumulator first.
  bool is_spread(ir::ValueId v, const ir::Graph& g) const {
    const auto it = spread_.find(&g);
    return it != spread_.end() && it->second.contains(v) && !g.type(it->second.at(v).from)->is_scalar();
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
  // Of a division by what is broadcast, how many divisors a lane has for each of its elements: it works out the
  // reciprocal of each, before the loop where they are made there. Nothing: every element has its own.
  std::optional<double> divisors(const ir::Op& division) const {
    const auto it = divisors_.find(&division);
    return it == divisors_.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  void look(const ir::Region&, const ir::Graph&);
  void follow_load(const ir::Op&, const ir::Graph&, bool of_product);
  void follow_row(const ir::Op&, const ir::Graph&, const ir::Region& around, bool of_product);
  void follow_broadcast(const ir::Op&, const ir::Graph&);
  void find_divisors(const ir::Op& division, const ir::Graph&, const ir::Region& around);
  void find_left(const ir::Op& product, const ir::Graph&);
  void count_in_flight(const ir::Region& body, const ir::Graph&);
  Reduction of_product(const ir::Type&, bool along_rows) const;
  Reduction of_block(const ir::Type&, bool last, bool others) const;
  // Of a lane: that there are, and those for addresses and the like. With 240 for products under way all attentions of
  // tests/truth/compiled_h100.json wait, with 224 none.
  static constexpr double kRegisters = 255, kOtherRegisters = 16;
  int64_t warps_;
  double in_flight_ = 0;  // registers of a lane
  bool wgmma_, chained_ = false, repeats_ = false;
  std::unordered_set<const ir::Op*> added_;
  std::unordered_map<const ir::Graph*, std::unordered_map<ir::ValueId, int>>
      loaded_;  // tiles, and what is made of them
  std::unordered_map<const ir::Op*, int> moved_;
  std::unordered_map<const ir::Op*, Left> left_;
  std::unordered_map<const ir::Op*, ir::ValueId> fetched_;
  std::unordered_map<const ir::Graph*, std::unordered_map<ir::ValueId, ir::ValueId>> origins_;  // by what loads made
  std::unordered_map<const ir::Graph*, std::unordered_set<ir::ValueId>> turned_;                // transposed
  struct Spread {
    ir::ValueId from;
    int64_t axis;  // along which it differs
  };
  std::unordered_map<const ir::Graph*, std::unordered_map<ir::ValueId, Spread>> spread_;  // what is broadcast
  std::unordered_map<const ir::Op*, double> divisors_;
  std::unordered_map<const ir::Graph*, std::unordered_map<ir::ValueId, const ir::Op*>>
      rows_;  // and what is made of them
  std::unordered_map<const ir::Op*, int64_t> moved_rows_;
  std::unordered_set<const ir::Op*> fetched_rows_;
  std::optional<ProductShape> first_;                                               // product of the kernel
  std::unordered_map<const ir::Graph*, std::unordered_set<ir::ValueId>> products_;  // and what is made of them
};

}  // namespace pallasim::hw
