// What the compiler of a chip refuses, found before anything runs.
#pragma once
#include "pallasim/hw/chips.h"
#include "pallasim/ir/module.h"

namespace pallasim::hw {

// Throws DiagnosticError for the first rule that the kernel breaks. `generic` has no rules.
// GPUs, Triton: PS-TRI-001 (sizes), PS-TRI-002 (launches), PS-TRI-003 (operations).
void check_rules(const ir::Module&, const Profile&);

}  // namespace pallasim::hw
