// What the regions of a graph may write, known before anything is emitted. Refs born inside regions, views, calls and
// choices count as the memory that they show.
#pragma once
#include <unordered_map>
#include <vector>

#include "pallasim/ir/module.h"

namespace pallasim::interp::analysis {

// A set of origins. An origin is the value with which a piece of memory was born as a ref: an argument of the body, of
// a run_scoped, or the result of an allocation.
struct WriteSet {
  bool everything = false;  // whatever another unit or a pending operation may reach, or memory that is not known
  std::vector<ir::ValueId> origins;  // ascending

  void add(ir::ValueId origin);
  void add(const WriteSet&);
  bool empty() const { return !everything && origins.empty(); }
};

class Writes {
 public:
  explicit Writes(const ir::Graph&);

  // The memory that a ref may show. `everything`: it is not known.
  const WriteSet& origins(ir::ValueId ref) const;
  // What one operation may write, its regions included.
  const WriteSet& of(const ir::Op&) const;

 private:
  void visit(const ir::Region&);
  void visit(const ir::Op&);
  WriteSet shown_by_operands(const ir::Op&) const;

  const ir::Graph& graph_;
  std::unordered_map<ir::ValueId, WriteSet> origins_;
  std::unordered_map<const ir::Op*, WriteSet> writes_;
};

}  // namespace pallasim::interp::analysis
