// What the compiler of a chip refuses, found before anything runs.
#pragma once
#include <span>
#include <vector>

#include "pallasim/hw/chips.h"
#include "pallasim/hw/machine.h"
#include "pallasim/ir/module.h"

namespace pallasim::hw {

// Every rule that the kernel breaks; none on `generic`. hw_models/rules.csv says where each rule comes from.
// TPUs: PS-TPU-001 (blocks), PS-TPU-002 (launches), PS-TPU-003 (operations), PS-TPU-004 (element types), PS-TPU-005
// (accesses), PS-TPU-006 (copies and semaphores), PS-TPU-007 (alignment, warnings). GPUs, Triton: PS-TRI-001 (sizes),
// PS-TRI-002 (launches), PS-TRI-003 (operations); of these the first only. All: PS-MEM-001 (capacities),
// PS-CHIP-001 (warnings: what is for another machine, whose rules are not looked at).
std::vector<ir::Diagnostic> broken_rules(const ir::Module&, const Profile&);

// Whether these are rules of the compiler of the module's machine; else capacities alone are compared.
bool knows_compiler(const ir::Module&);

// Machines whose compilers' operations are known, and whether one has an operation at all (JAX 0.10.2); true elsewhere.
std::span<const ir::Machine> known_compilers();
bool has_operation(ir::Machine, ir::OpCode);

// Throws DiagnosticError for the first error among them; the others are counted in it. Returns what is no error.
// `strict`: what exceeds the memory that the compiler gives by default is one.
std::vector<ir::Diagnostic> check_rules(const ir::Module&, const Profile&, bool strict = false);

// What a launch keeps in one memory while most of it is in use.
struct BufferUse {
  std::string name;  // as in the kernel's signature
  const ir::Type* type = nullptr;
  std::vector<int64_t> dims;  // of one copy
  int64_t bytes = 0;          // of one copy, as the space lays it out
  int64_t copies = 1;         // of windows: how many blocks are held at a time
  const char* role = "";      // "input window", "scratch", "run_scoped", …
  ir::LocId loc = -1;         // where it was asked for; -1: nobody says
};
struct SpaceUse {
  ir::Space space = ir::Space::Vmem;
  int64_t bytes = 0;   // of all buffers; of semaphores: how many
  ir::LocId loc = -1;  // of the scope in which it happens; -1: the launch itself
  std::vector<BufferUse> buffers;
};
// The memories that a launch fills itself while it runs the module's body of that number on the chip; semaphores, too.
std::vector<SpaceUse> space_use(const ir::Module&, size_t body = 0, const Profile& = generic());

}  // namespace pallasim::hw
