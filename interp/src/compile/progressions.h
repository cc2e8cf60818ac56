// Index arrays and masks that need no memory: elements that are base + strides * position (iota, sums and products of
// it with scalars, as kernels of pointers write them), and comparisons of such elements with a scalar.
#pragma once
#include <optional>
#include <unordered_map>
#include <vector>

#include "../plan/payload/movement.h"
#include "emitter.h"

namespace pallasim::interp {

// An array of i32 or u32. Its elements wrap around as sums of that type do.
struct Progression {
  Val base;                      // scalar, constant or in a slot that nothing else writes
  std::vector<int64_t> dims;     // of the array
  std::vector<int64_t> strides;  // per dimension, from one element to the next
};

// Where all hold, the mask takes an element.
struct Condition {
  Progression values;
  GatherCondition::Relation relation;
  Val bound;  // scalar as `base`
};

// Of one body. Learns from each operation whose result an access may use as index or mask, and from no other.
class Progressions {
 public:
  // Before the operations of a graph.
  void read(const ir::Graph&);
  // Behind the lowering of an operation: what its result is. Emits the scalars of new bases.
  void learn(Emitter&, const Op&);
  bool wanted(ir::ValueId v) const { return uses_.contains(v); }
  // Whether the value is needed as memory at most once, or is none that anybody asks for here.
  bool stays_pending(ir::ValueId v, int uses) const;

  const Progression* find(ir::ValueId) const;
  const std::vector<Condition>* find_conditions(ir::ValueId) const;  // null: none are known

 private:
  void read_roles(const Region&);
  void want(ir::ValueId, const std::unordered_map<ir::ValueId, const Op*>& defs);
  std::optional<Progression> progression(Emitter&, const Op&) const;
  std::optional<std::vector<Condition>> conditions(Emitter&, const Op&) const;
  std::optional<Progression> operand(Emitter&, const Op&, size_t i) const;

  std::unordered_map<ir::ValueId, int> uses_;  // of wanted values: those as index, mask or part of a wanted value
  std::unordered_map<ir::ValueId, Progression> progressions_;
  std::unordered_map<ir::ValueId, std::vector<Condition>> conditions_;
};

// The value of an i32, u32 or i64 that is known while the plan is made.
std::optional<int64_t> known_int(const Val&);

// The numbers of a progression along the dims of an access, which it is broadcast to: its last dim at `last`.
std::vector<int64_t> strides_along(const Progression&, size_t rank, size_t last);
// The condition on elements of an access of that rank.
GatherCondition condition_of(const Condition&, size_t rank);

}  // namespace pallasim::interp
