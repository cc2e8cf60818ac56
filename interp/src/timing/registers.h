// How many registers the values of a GPU's threads take at a time.
#pragma once
#include <algorithm>
#include <vector>

#include "../plan/plan.h"

namespace pallasim::interp {

// The place in a kernel where most values are alive.
struct Pressure {
  double bytes = 0;            // of a thread of the kernel (a warpgroup, a Triton program): all its lanes
  double largest = 0;          // of one value among them
  double threads = 0;          // lanes that they are spread over
  int64_t registers = 255;     // that a lane may have
  const ir::Op* at = nullptr;  // null: no values
  // Registers of a lane, those for addresses and what else there is among them.
  double needed() const { return threads > 0 ? bytes / 4 / threads + kOthers : 0; }
  bool spills() const { return over() > 0; }
  double over() const { return needed() - static_cast<double>(registers); }
  // What goes to memory and comes back whenever an operation runs: in loops what makes room for each of theirs, charged
  // to one of the same region; else the largest value. Where less is missing than what is taken for addresses and the
  // like, part of it, as compilers do with fewer of those.
  struct Out {
    const ir::Op* at;
    double bytes;
  };
  std::vector<Out> out;
  double spilled() const {
    double most = 0;
    for (const Out& o : out) most = std::max(most, o.bytes);
    return out.empty() ? part(over()) * largest : most;
  }
  static double part(double over) { return std::clamp(over / kOthers, 0.0, 1.0); }
  static constexpr double kOthers = 32;

  // Where registers suffice a compiler takes more: what still is to be used stays beside what was made of it, and each
  // lane has the values of rows of products (of which four lanes have one row). Registers of a lane, the most outside
  // of loops and within them.
  double outside = 0, inside = 0;
  bool products = false, loops = false;
  // `addresses`: of what loops with products load. Measured: those that ptxas gave to 36 products and attentions of
  // Triton, rows of softmax and sums on an H100 (docs/time.md).
  double taken(double addresses) const {
    const double within = inside + (products ? kBase + kPerAddress * addresses : kOthers);
    return std::max(kBase + outside, loops ? within : 0);
  }
  static constexpr double kBase = 16, kPerAddress = 3;
};

// Accumulators of products and values that are read later. What arithmetic makes of a value lies where that was, as it
// is computed part by part; operands of products that come from memory are fetched by the tensor core.
Pressure register_pressure(const Plan&, int64_t warps);

}  // namespace pallasim::interp
