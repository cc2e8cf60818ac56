// What the steps of a plan stand for, in work: every operation of the module once, at the first step that names it, or
// where none does, at the next one of its region. So costs are those of the operations, however they were rewritten.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../plan/plan.h"
#include "pallasim/hw/timing.h"

namespace pallasim::interp {

// A load of a GPU's thread from the device's memory.
struct StepLoad {
  const ir::Op* op;
  ir::ValueId value;  // -1: a store
  double bytes;
  bool writes;
  const ir::Op* loop = nullptr;  // around it, if its compiler fetches ahead there
  int operand = -1;              // of the kernel, whose array it is; -1: nobody knows
  double row = 0;                // bytes side by side, as far as the last dimension tells; 0: it does not
};

// An operation of a step, where its compiler packs them: what it is made of, and what is made of it.
struct StepPart {
  hw::Work work;
  std::vector<int32_t> from, to;  // values and places of memory, as StepCosts numbers them
};

struct StepCost {
  hw::Work work;
  std::vector<StepPart> parts;  // of that, where operations overlap
  int line = 0;                 // into StepCosts::lines
  std::vector<StepLoad> loads;
  std::vector<ir::ValueId> uses;       // values that loads make
  const ir::Op* loop_begin = nullptr;  // it begins this loop
  const ir::Op* loop_next = nullptr;   // or its next trip
  const ir::Op* counts = nullptr;      // or tests whether this one has another trip (counting_test)
  double row_bytes = 0;                // of tiles of shared memory that it copies to or from; 0: they have none
  bool closes = false;                 // nothing is packed across it
  bool empty = true;
};

// Values that compilers take for another one: what is multiplied by one, and transposed operands of products that
// loads bring, which products read the other way round.
std::unordered_map<ir::ValueId, ir::ValueId> same_values(const ir::Graph&);

class StepCosts {
 public:
  StepCosts(const Plan&, const hw::CostModel&, bool loads_are_transfers, bool fetches_ahead);
  const StepCost& of(const Step& s) const { return all_[static_cast<size_t>(s.id)]; }
  const std::vector<ir::LocId>& lines() const { return lines_; }
  const hw::CostModel& model() const { return model_; }
  // Numbers of 4 or 8 bytes that a loop carries from trip to trip.
  struct Carried {
    uint32_t slot;
    bool wide;
  };
  const std::vector<Carried>& carried(const ir::Op* loop) const {
    static const std::vector<Carried> kNone;
    const auto it = carried_.find(loop);
    return it == carried_.end() ? kNone : it->second;
  }
  // Whether lists in memory say to which elements an atomic operation goes.
  bool scattered(const ir::Op* op) const { return scattered_.contains(op); }
  // How often a lane of one asks for elements side by side (CostModel::side_by_side).
  double side_by_side(const ir::Op* op) const {
    const auto it = side_by_side_.find(op);
    return it == side_by_side_.end() ? 1 : it->second;
  }
  // Bytes of shared memory that a program takes: what loops load so many stages ahead and, where `operands`, those of
  // their products that lie there while they run. Loops that follow each other take the same.
  double shared_bytes(int64_t stages, bool operands) const;
  // How many numbers parts name.
  size_t parts_named() const { return named_; }
  // Of what loops with products load: addresses that a lane of so many has. What lies side by side has one, else each
  // 16 bytes, which one instruction fetches.
  double addresses(double lanes) const { return boxes_ + apart_bytes_ / (16 * lanes); }
  void add(const ir::Op&, hw::Unit, double seconds);  // whenever it runs
  void wait(const ir::Op&, double seconds);           // behind it, without work

 private:
  struct Scope {
    const ir::Graph* graph;
    const ir::Op* loop;
    bool ahead, products;          // of the loop: its compiler fetches ahead there; it has products
    const ir::Op* nest = nullptr;  // the outermost loop that fetches ahead
  };
  void walk(const ir::Region&, const Scope&);
  void attach(const ir::Op&, const Scope&, size_t step);
  int line_of(ir::LocId);
  StepPart part_of(const ir::Op&, const ir::Graph&, const hw::Work&);
  int32_t place_of(const ir::Op&);
  double row_of(const ir::Type& loaded, int operand) const;
  void find_counting(const ir::Region&, const ir::Graph&);
  const Plan& plan_;
  const hw::CostModel& model_;
  bool transfers_, fetches_ahead_;
  std::vector<StepCost> all_;
  std::unordered_map<const ir::Op*, std::vector<Carried>> carried_;
  std::unordered_set<const ir::Op*> counted_;  // `while` loops whose trips are counted
  std::unordered_set<const ir::Op*> scattered_, unused_;
  std::unordered_map<const ir::Op*, double> side_by_side_;
  std::unordered_map<const ir::Op*, size_t> first_;  // step that names it
  std::unordered_map<const ir::Op*, double> rows_;   // of copies: StepCost::row_bytes
  std::vector<ir::LocId> lines_{-1};
  std::unordered_map<std::string, int> line_numbers_;
  std::unordered_map<ir::ValueId, bool> loaded_;       // of the graph that is walked
  std::unordered_map<ir::ValueId, ir::ValueId> same_;  // of that graph
  std::unordered_set<ir::ValueId> products_, from_memory_;
  std::unordered_set<ir::ValueId> multiplied_;
  std::unordered_map<const ir::Op*, size_t> attached_;  // step that has its costs
  std::unordered_set<ir::ValueId> ahead_;               // values that are fetched ahead
  struct Nest {
    double ahead = 0;                        // bytes of a stage
    std::map<ir::ValueId, double> operands;  // bytes of what lies there meanwhile
  };
  std::unordered_map<const ir::Op*, Nest> nests_;    // by the outermost loop that fetches ahead; null: around them
  std::unordered_map<std::string, int32_t> places_;  // parts of memory as operations name them: their numbers
  size_t named_ = 0;
  double boxes_ = 0, apart_bytes_ = 0;
};

// Whether control, addresses or synchronisation of the kernel depend on values that only arithmetic on arrays, or
// memory that copies and arrays fill, can tell. `where`: the line of the first such place.
bool control_needs_values(const Plan&, ir::LocId* where);
// Whether lists say to which elements atomic operations go: how long they take depends on where programs meet.
bool atomics_go_by_lists(const Plan&);
// Whether programs of a grid go different ways: control or synchronisation depends on their number.
bool programs_differ(const Plan&);
// Whether they do but for the number of trips of their loops.
bool programs_branch(const Plan&);

}  // namespace pallasim::interp
