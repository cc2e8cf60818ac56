// The values that what is compiled next may use: what each is, how often it is used, where it ends. Nothing here emits.
#pragma once
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../analysis/writes.h"
#include "context.h"
#include "kept_values.h"
#include "value.h"

namespace pallasim::interp {

const analysis::WriteSet& everything();  // all that may be written

inline constexpr ir::ValueId kNoResult = -1;

class LiveValues {
 public:
  const ir::Graph& graph() const { return *graph_; }
  const ir::Type* type(ir::ValueId v) const { return graph_->type(v); }
  const Val& operand(const Op& op, size_t i) { return values_[op.operands[i]].val; }
  std::vector<Val> operands(const Op& op) {
    std::vector<Val> r;
    for (size_t i = 0; i < op.operands.size(); ++i) r.push_back(operand(op, i));
    return r;
  }
  const Val& value(ir::ValueId v) { return values_[v].val; }
  const Val* find(ir::ValueId) const;  // null where it is not there (any more)
  int uses(ir::ValueId) const;
  // The operation right behind the one that makes the value, constants aside, where nobody else uses it; else null.
  const Op* only_user(ir::ValueId) const;
  // Whether a value that is used behind the operation under compilation, other than `but_for`, stands in the slot or is
  // made of what stands there: two values may be names of one slot.
  bool slot_is_read(uint32_t slot, ir::ValueId but_for) const;
  // One use fewer than the graph says. Scalars that nothing uses any more are not computed.
  void drop_use(ir::ValueId v) { --uses_[v]; }
  bool dropped(const Op&) const;
  void bind(ir::ValueId id, Val v) {
    if (kept_) kept_->begin(id, v);
    values_[id] = {std::move(v), depth_};
  }
  // A value that no operation names, until it is taken: slots that it is made of stay what they are.
  ir::ValueId hold(Val v) {
    bind(--last_held_, std::move(v));
    return last_held_;
  }
  Val take(ir::ValueId);       // what was bound, which ends here
  void forget(const Region&);  // its values end with it: what follows may run without it

  // -- where we are --
  // While it lives, what is emitted runs any number of times; `waits`: perhaps until another thread writes something.
  class Conditional {
   public:
    explicit Conditional(LiveValues& l, bool waits = false) : l_(l), waits_(waits) {
      ++l_.depth_, l_.while_depth_ += waits;
    }
    ~Conditional() { --l_.depth_, l_.while_depth_ -= waits_; }
    Conditional(const Conditional&) = delete;
    Conditional& operator=(const Conditional&) = delete;

   private:
    LiveValues& l_;
    bool waits_;
  };
  bool in_while() const { return while_depth_ > 0; }

  // -- the memory that values show --
  int fresh_origin() { return next_origin_++; }  // of memory that no ref of the graph was born with
  void add_alias(int origin_a, int origin_b);    // they are one buffer
  bool may_alias(int origin_a, int origin_b) const;
  analysis::WriteSet written(const Val& ref) const;
  const analysis::WriteSet& writes_of(const Op& op) { return writes_->of(op); }
  bool shows(const Val&, const analysis::WriteSet&) const;  // does the lazy value read memory of the set?
  // Whether evaluating `v` element by element into `dst` may read an element of dst's memory after it was written.
  bool overlaps(const Val& v, const Val& dst) const;
  bool overlaps_elsewhere(const Val& v, const Val& dst) const;

  // A scalar result may be computed straight into its carry's slot where nothing looks at the old value afterwards:
  // neither an operation that names the carry (seen here), nor a value that was made from it (seen when the result's
  // step is emitted).
  // `args` are the region's names for the carries, `next` the values that it yields for them.
  void preassign_carries(const Region& body, std::span<const ir::ValueId> args, std::span<const ir::ValueId> next,
                         const std::vector<Val>& carries);

 protected:
  // A value that may still be used. Lazy is every one whose bytes are not its own: an operation that was not emitted, a
  // view of a ref, a second name of a slot.
  struct Live {
    Val val;
    int depth = 0;  // of the region that it was born in; regions that run exactly once, where they stand, do not count
  };
  using Map = std::unordered_map<ir::ValueId, Live>;
  struct Preassigned {
    uint32_t slot;
    ir::ValueId carry;
  };

  // What follows is of this graph: its operands' values are bound by the caller, its refs' origins are their numbers.
  void set_graph(const ir::Graph&);
  void end_of(const Op&);  // the values that it was the last to use
  bool dies_here(ir::ValueId) const;

  Map values_;
  std::unique_ptr<KeptValues> kept_;  // null: nobody wants to know
  int depth_ = 0;                     // of regions that run any number of times
  const Op* now_ = nullptr;           // the operation under compilation
  // The number of a scalar carry's slot may be the slot of its next value, computed there.
  std::unordered_map<ir::ValueId, Preassigned> preassigned_;  // by the value that may take the slot

 private:
  void compute_last_uses(const Region&);

  const ir::Graph* graph_ = nullptr;
  int while_depth_ = 0;
  std::unordered_map<ir::ValueId, int> uses_;
  std::unordered_map<const Op*, std::vector<ir::ValueId>> dies_;
  std::unordered_map<ir::ValueId, const Op*> only_users_;
  std::unique_ptr<analysis::Writes> writes_;  // of graph_
  std::set<std::pair<int, int>> aliases_;     // pairs of origins that are one buffer
  int next_origin_ = 0;
  ir::ValueId last_held_ = kNoResult;
};

}  // namespace pallasim::interp
