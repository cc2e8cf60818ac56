// Index arrays and masks that need no memory: elements that are a scalar and an affine expression of their position
// (iota, sums and products of it with scalars, as kernels of pointers write them), and comparisons of such with a
// scalar.
#pragma once
#include <optional>
#include <unordered_map>
#include <vector>

#include "../../analysis/expressions.h"
#include "../../plan/payload/movement.h"
#include "emitter.h"

namespace pallasim::interp {

// An array of i32 or u32. Its elements wrap around as sums of that type do.
struct AffineArray {
  Val base;                        // scalar, constant or in a slot that nothing else writes
  analysis::AffineExpr positions;  // what an element adds to it
  std::vector<int64_t> dims;

  bool is_uniform() const { return positions.is_constant(); }
};

// What a mask asks of its element.
struct Predicate {
  AffineArray values;
  GatherCondition::Relation relation;
  Val bound;  // scalar as `base`
};

// Of one body. Learns from each operation whose result an access may use as index or mask, and from no other.
class AffineArrays {
 public:
  // Before the operations of a graph.
  void read(const ir::Graph&);
  // Behind the lowering of an operation: what its result is. Emits the scalars of new bases.
  void learn(Emitter&, const Op&);
  bool wanted(ir::ValueId v) const { return uses_.contains(v); }
  // Whether the value is needed as memory at most once, or is none that anybody asks for here.
  bool stays_pending(ir::ValueId v, int uses) const;

  const AffineArray* find(ir::ValueId) const;
  const std::vector<Predicate>* find_mask(ir::ValueId) const;  // where all hold; null: nobody knows

 private:
  void read_roles(const Region&);
  void want(ir::ValueId, const std::unordered_map<ir::ValueId, const Op*>& defs);
  std::optional<AffineArray> array(Emitter&, const Op&) const;
  std::optional<std::vector<Predicate>> mask(Emitter&, const Op&) const;
  std::optional<AffineArray> operand(Emitter&, const Op&, size_t i) const;

  std::unordered_map<ir::ValueId, int> uses_;  // of wanted values: those as index, mask or part of a wanted value
  std::unordered_map<ir::ValueId, AffineArray> arrays_;
  std::unordered_map<ir::ValueId, std::vector<Predicate>> masks_;
};

// The value of an i32, u32 or i64 that is known while the plan is made.
std::optional<int64_t> known_int(const Val&);

// What elements add along the dims of an access, which the array is broadcast to: its last dim at `last`.
std::vector<int64_t> strides_along(const AffineArray&, size_t rank, size_t last);
// The condition on elements of an access of that rank.
GatherCondition condition_of(const Predicate&, size_t rank);

}  // namespace pallasim::interp
