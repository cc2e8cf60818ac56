// What a compiler packs into bundles between two waits: operations overlap as far as units and results allow. A value
// is made and used part by part, a register after the other; a unit is free for whatever is ready.
#pragma once
#include <array>
#include <vector>

#include "pallasim/hw/timing.h"
#include "step_costs.h"

namespace pallasim::interp {

class Packed {
 public:
  struct End {
    double at;      // when all that was added is done
    hw::Unit unit;  // of what is done last
  };
  // All is done by then, and what comes is packed by itself.
  void close(double at);
  // The operation behind those before.
  End add(const StepPart&, size_t named);
  double begun() const { return begun_; }
  double busy(size_t unit) const { return units_[unit].busy; }

 private:
  struct Ready {
    double first = 0, row = 0, last = 0;  // when a part of it is there, a row, all of it
  };
  struct Used {
    double from = 0, busy = 0;  // when it could begin; seconds
  };
  double begun_ = 0, at_ = 0;
  hw::Unit unit_ = hw::Unit::Scalar;
  std::array<Used, hw::kUnits> units_{};
  std::array<Used, hw::kMxus> mxus_{};  // of the unit for products
  std::vector<Ready> ready_;            // by number of StepPart
};

}  // namespace pallasim::interp
