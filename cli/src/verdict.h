// What the compiler of a chip says of a kernel, and whether this program can run it.
#pragma once
#include <string>
#include <vector>

#include "pallasim/capsule/placed.h"
#include "pallasim/hw/chips.h"
#include "pallasim/ir/module.h"

namespace pallasim::cli {
using capsule::placed;

struct Verdict {
  const hw::Profile* chip = nullptr;
  std::vector<ir::Diagnostic> remarks;  // every broken rule; what is for another machine is an error here
  int reasons = 0;                      // errors among them

  // "PS-TPU-001: …" of the first error.
  std::string why() const;
};
// Why no rule of the chip can be looked at: shape parameters are open, or the kernel is for no chip. Else empty.
std::string not_looked_at(const ir::Module&, const hw::Profile&);
Verdict hold_against(ir::Module, const hw::Profile&);

// The chips of --chip, which the parser has checked.
std::vector<const hw::Profile*> chips_of(const std::vector<std::string>& names);

}  // namespace pallasim::cli
