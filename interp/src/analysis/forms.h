// What 32-bit integers and truths of a body are known to be before anything runs. Arrays count as all of their
// elements.
#pragma once
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

struct Range {
  int64_t least = 0, greatest = 0;
};

// A number between the sums of both ends of a range and of multiples of the grid's coordinates.
struct Form {
  std::vector<int64_t> coefficient;  // per grid axis; empty: none
  Range rest;
  int64_t of(size_t axis) const { return axis < coefficient.size() ? coefficient[axis] : 0; }
  bool exact() const { return rest.least == rest.greatest; }  // one number at each point
  bool constant() const { return coefficient.empty() && exact(); }
};

class Forms {
 public:
  Forms(const ir::Graph&, std::span<const ir::GridAxis> grid);

  // Null, none: nothing is known. Forms hold where no coordinate lets them leave 32 bits.
  const Form* form(ir::ValueId) const;
  std::optional<bool> truth(ir::ValueId) const;
  // Of an operation's view: where an entry begins; of an array all of its elements. None: nothing is known.
  std::optional<Form> start(const ir::Op&, const ir::view::Entry&) const;
  // Whatever the coordinates are.
  Range range(const Form&) const;

 private:
  void visit(const ir::Region&);
  void learn_loop(const ir::Op&);
  bool grows(const ir::Region& body, const ir::Op& loop, size_t carry) const;
  bool same_step(ir::ValueId amount, ir::ValueId step, const ir::Region& body) const;
  void define(const ir::Op&);
  std::optional<bool> answer(const ir::Op&) const;
  std::optional<bool> compare(ir::OpCode, const Form&, const Form&) const;
  std::optional<bool> of_truths(const ir::Op&) const;
  bool never_rounds(ir::ValueId signs, ir::ValueId rest) const;
  const ir::Op* made_by(ir::ValueId, ir::OpCode) const;  // null where another operation makes it
  std::optional<Form> result(const ir::Op&) const;
  std::optional<Form> of_two(ir::OpCode, const Form&, const Form&) const;
  std::optional<Form> of_index(const ir::Op&) const;
  std::optional<Form> chosen(const ir::Op&) const;
  std::optional<Form> united(const Form&, const Form&) const;
  bool is(ir::ValueId v, ir::DType t) const { return !graph_.type(v)->is_ref && graph_.type(v)->dtype == t; }

  const ir::Graph& graph_;
  std::vector<Range> coordinates_;  // of the grid
  std::vector<size_t> visible_;     // axis of program_id -> grid axis: vmapped ones are hidden from the kernel
  std::unordered_map<ir::ValueId, Form> forms_;
  std::unordered_map<ir::ValueId, bool> truths_;
  std::unordered_map<ir::ValueId, const ir::Op*> made_by_;  // while the constructor visits the graph
};

}  // namespace pallasim::interp::analysis
