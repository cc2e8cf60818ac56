// Atomic operations on a GPU's global memory: they are done where the cache's lines lie, by so many units, each of
// which has its part of the lines and takes one sector at a time.
#pragma once
#include <vector>

#include "../ops/execution.h"
#include "pallasim/hw/timing.h"

namespace pallasim::interp {

class AtomicUnits {
 public:
  // `share`: of the units' time, what those have that run.
  AtomicUnits(const hw::TimingFigures&, double share);
  // What arrays of indices are: computed; without values, elements far from each other or beside each other.
  enum class Indices : uint8_t { Known, Scattered, Rows };
  // What an atomic step asks for, `times` of it from `now` on; returns when the last of it is done. `side_by_side`: how
  // often a lane asks for elements beside each other, each time for one.
  double take(Thread&, const Step&, Indices, double side_by_side, double now, double times);

 private:
  double seconds_;       // a sector, by one unit
  double same_seconds_;  // floats that are added to one element
  std::vector<hw::Server> units_;
};

}  // namespace pallasim::interp
