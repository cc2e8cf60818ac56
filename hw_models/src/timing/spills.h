// Registers of a TPU's core that do not suffice: what goes to VMEM and back between the operations of a region.
#pragma once
#include <functional>
#include <unordered_map>

#include "pallasim/hw/timing.h"

namespace pallasim::hw {

// In regions with products, results that more than the next operation wants, and that registers do not hold beside
// the others that are alive, are stored once and fetched for each use; products wait meanwhile.
class Spills {
 public:
  struct Moved {
    double stored = 0, fetched = 0;  // registers, of the operation's result
    double waits = 0;                // registers that a product waits for
  };
  // Registers that a result takes; 0: it needs none of its own, or can be had again (a load, a constant).
  using Registers = std::function<double(const ir::Op&, const ir::Graph&)>;
  Spills(const ir::Module&, const TimingFigures&, double register_bytes, const Registers&);
  Moved of(const ir::Op& op) const {
    const auto it = moved_.find(&op);
    return it == moved_.end() ? Moved{} : it->second;
  }
  // In the region where it is most.
  const Spilled& most() const { return most_; }

 private:
  void look(const ir::Region&, const ir::Graph&, const TimingFigures&, const Registers&);
  std::unordered_map<const ir::Op*, Moved> moved_;
  double register_bytes_;
  Spilled most_;
};

}  // namespace pallasim::hw
