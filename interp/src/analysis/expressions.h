// What integers and truth values of a graph are, before anything runs: affine expressions of the grid's coordinates,
// trips of loops and positions in arrays. Of an array it is the expression of the element at a position.
#pragma once
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "../plan/plan.h"
#include "affine.h"

namespace pallasim::interp::analysis {

// Where all are >= 0.
using Conditions = std::vector<AffineExpr>;

class Expressions {
 public:
  // Of the body of a kernel, or of an index map, whose first arguments are the coordinates.
  enum class Of : uint8_t { Body, IndexMap };
  Expressions(const ir::Graph&, std::span<const ir::GridAxis> grid, Of = Of::Body);

  const AffineExpr* of(ir::ValueId) const;  // null: nothing is known. Its type holds it, nothing wraps around
  // Where a truth value, or an integer that is one, is true, and nowhere else; null: nobody knows.
  const Conditions* conditions(ir::ValueId) const;
  std::optional<bool> truth(ir::ValueId) const;  // everywhere

 private:
  using Kind = Symbol::Kind;
  void visit(const ir::Region&);
  void learn_loop(const ir::Op&);
  void learn_carry(const ir::Op& loop, size_t carry, const AffineExpr& index, const AffineExpr* trip);
  void set(ir::ValueId, std::optional<AffineExpr>);
  void set(ir::ValueId, std::optional<Conditions>);
  AffineExpr number(Interval, bool of_array = false);
  std::optional<AffineExpr> result(const ir::Op&);
  std::optional<AffineExpr> of_index(const ir::Op&);
  std::optional<AffineExpr> chosen(const ir::Op&, bool of_array);
  std::optional<Interval> bounded(const ir::Op&) const;
  std::optional<AffineExpr> of_two(ir::OpCode, const AffineExpr&, const AffineExpr&, bool of_array);
  std::optional<AffineExpr> divided(const AffineExpr&, const AffineExpr&, bool quotient, bool of_array);
  std::optional<Conditions> answer(const ir::Op&);
  std::optional<Conditions> of_truths(const ir::Op&) const;
  std::optional<Conditions> of_truth_integers(const ir::Op&) const;
  bool never_rounds(ir::ValueId signs, ir::ValueId rest) const;
  const ir::Op* made_by(ir::ValueId, ir::OpCode) const;  // null where another operation makes it
  // Of operations whose results' elements are some of the operand's: where its dimensions go, -1 where nobody follows.
  std::optional<std::vector<int>> moves(const ir::Op&) const;
  AffineExpr moved(const AffineExpr&, std::span<const int> dims);
  bool is_int(ir::ValueId) const;
  bool is_bool(ir::ValueId v) const { return !graph_.type(v)->is_ref && graph_.type(v)->dtype == ir::DType::Bool; }

  const ir::Graph& graph_;
  std::vector<AffineExpr> visible_;  // coordinates by program_id: vmapped axes are hidden from the kernel
  std::unordered_map<ir::ValueId, AffineExpr> values_;
  std::unordered_map<ir::ValueId, Conditions> conditions_;
  std::unordered_map<ir::ValueId, const ir::Op*> made_by_;
  int symbols_ = 0;
};

AffineExpr coordinate(size_t axis, const ir::GridAxis&);  // of the grid
AffineExpr position(size_t dim, int64_t size);

// What a carry of a loop grows by in each trip; nothing where something else becomes of it.
std::optional<ir::ValueId> increment_of(const ir::Op& loop, size_t carry);

// Where dimensions go in a reshape that adds and drops some of one element alone, which go nowhere (-1); nothing for
// other reshapes.
std::optional<std::vector<int>> unit_reshape(std::span<const int64_t> from, std::span<const int64_t> to);
// The same of the operand of a broadcast or a reshape.
std::optional<std::vector<int>> moved_dims(const ir::Op&, const ir::Type& operand, const ir::Type& result);
AffineExpr with_dims(const AffineExpr&, std::span<const int> dims);

// The index map of an operand with a block as constant + coefficients, per result of the map; `known` is false where it
// is anything else, where its integers may wrap for some grid point, and for all results where the map prints or
// checks: it then runs at every grid point.
std::vector<Affine> affine_map(const ir::Module&, const ir::Operand&);

// The axes of the grid, ascending, whose coordinates are all 0 exactly where `pred` chooses the second of two regions:
// it is true, or the integer 1. Nothing where `pred` is anything else, or nobody can tell.
std::optional<std::vector<int>> zero_axes(const Expressions&, ir::ValueId pred);

}  // namespace pallasim::interp::analysis
