// Trips in the middle of long loops that are left out of a timed run. A loop that is steady takes the same time for
// each of its trips, so that runs which leave out different numbers of them tell what all would take.
#pragma once
#include <unordered_map>

#include "../plan/plan.h"

namespace pallasim::interp {

// The comparison that a while loop begins its trips with, where it counts from its first operand to its second by ones:
// what loops of a number of trips that is known at run time are traced to. Null: it is another loop.
const ir::Op* counting_test(const ir::Op& loop, const ir::Graph&);
bool loops(const ir::Op&);  // for, parallel_loop, while

// Axes of a sequential grid of which steps may be left out, as trips of loops are: as of a loop without another one in
// it, and as of one around that. -1: there is none.
struct FoldedAxes {
  int inner = -1, outer = -1;
};
FoldedAxes folded_axes(const Plan&, const std::vector<int64_t>& grid);

class Folds {
 public:
  // Thrown in the middle of a run: long loops have trips of so different numbers that nothing follows from leaving some
  // out.
  struct Uneven {};
  // How many trips are run, at least: of loops without another one in them, and of those around these that are in no
  // loop themselves.
  struct Kept {
    int64_t inner, outer;
    bool alike = false;  // a loop whose trips are not the same but for one is uneven, long or not
  };
  static constexpr Kept kAll{int64_t{1} << 40, int64_t{1} << 40, true};
  Folds(const Plan&, Kept);
  // What a loop of so many trips leaves out behind its first `head` ones.
  struct Left {
    int64_t trips = 0, head = 0;
    bool inner = false;
  };
  Left begins(const ir::Op* loop, int64_t trips);          // throws Uneven
  Left begins_axis(int axis, bool inner, int64_t extent);  // of the grid; throws Uneven

  // Slots that loops go round through are the same behind what is left out: it is a multiple of this.
  static int64_t quantum(const Plan&);
  // What one class of loops came to.
  struct Class {
    int64_t first = -1;    // trips of the first of them that is long
    int axis = -1;         // of the grid, if that is one
    int64_t left_out = 0;  // by each that is long
    int64_t all = 0, ran = 0;
  };
  const Class& inner() const { return inner_; }
  const Class& outer() const { return outer_; }
  bool alike() const { return kept_.alike; }
  void may_differ() { kept_.alike = false; }  // where all programs run nothing rests on it
  bool any() const { return inner_.left_out > 0 || outer_.left_out > 0; }
  // How many times as long a run of all trips would be.
  double factor() const;

 private:
  void find(const ir::Region&, const ir::Graph&, bool in_loop);
  Left begins(bool inner, int64_t trips, int axis);
  Kept kept_;
  int64_t quantum_;
  std::unordered_map<const ir::Op*, bool> is_inner_;  // of loops that may leave out trips
  std::unordered_map<const ir::Op*, int64_t> trips_;  // of the first time, if they shall be alike
  Class inner_, outer_;
};

}  // namespace pallasim::interp
