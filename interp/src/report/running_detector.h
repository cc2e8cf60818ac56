// Checked runs: stores into an output that the next step of a loop or of the grid stores over, where nobody reads the
// output in between.
#pragma once
#include <map>
#include <vector>

#include "../analysis/running_stores.h"
#include "instances.h"

namespace pallasim::interp {

// PS-OUT-003, a note. Which stores may be of that kind the module says (analysis/running_stores.h); of these it is
// counted how often a store met the place of the one before.
class RunningDetector : public Detector {
 public:
  explicit RunningDetector(const Plan&);
  bool empty() const { return stores_.empty(); }
  uint32_t wants() const override { return 0; }
  void see(Seen&) override;
  void finish(std::vector<ir::Diagnostic>&) override;

 private:
  struct Counted {
    analysis::RunningStore store;
    int64_t times = 0, over = 0;  // stores, and those of them that met the place of the one before
    struct Place {
      uint32_t buffer;
      int64_t offset;
    };
    std::map<int32_t, Place> last;  // by thread
  };
  std::map<ir::LocId, Counted> stores_;  // by line
};

}  // namespace pallasim::interp
