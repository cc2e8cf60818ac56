// A kernel for another machine than the chip that it is given: it runs, but the rules of neither are looked at.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "pallasim/hw/machine.h"
#include "rules.h"

namespace pallasim::hw {
namespace {

using ir::Space;

struct Compiler {
  const char* kernel;  // "a Triton kernel"
  const char* rules;   // what is not looked at where its chip is not there
};

Compiler compiler_of(const ir::Module& m) {
  const MachineModel& machine = model(m);
  if (machine.family == Family::Tpu) return {"a TPU kernel", "the rules of the TPU's compiler (PS-TPU)"};
  if (machine.programs == Programs::Cooperative)
    return {"a Mosaic GPU kernel", "the rules of Mosaic GPU's compiler (PS-MGPU)"};
  return {"a Triton kernel", "the rules of Triton's compiler (PS-TRI)"};
}

std::string chips_of(Family family) {
  std::vector<std::string> names;
  for (const Profile& p : profiles())
    if (p.family == family) names.push_back(p.name);
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

// Memories that one family of chips has and the other has not.
struct Memory {
  Space space;
  Family family;
  const char* name;
};
constexpr Memory kMemories[] = {{Space::Vmem, Family::Tpu, "VMEM"},
                                {Space::Smem, Family::Tpu, "a TPU's SMEM"},
                                {Space::Cmem, Family::Tpu, "CMEM"},
                                {Space::Hbm, Family::Tpu, "a TPU's HBM"},
                                {Space::VmemShared, Family::Tpu, "VMEM"},
                                {Space::Gmem, Family::Gpu, "GMEM"},
                                {Space::GpuSmem, Family::Gpu, "a GPU's SMEM"},
                                {Space::Tmem, Family::Gpu, "TMEM"}};

// The kernel's names of what it has in a memory.
std::vector<std::string> refs_in(const ir::Module& m, Space space) {
  std::vector<std::string> names;
  for (const ir::Body& b : m.bodies)
    for (size_t i = 0; i < b.graph.types.size(); ++i) {
      const ir::Type* t = b.graph.types[i];
      if (!t || !t->is_ref || t->space != space) continue;
      const std::string& name = b.graph.names[i].empty() ? "scratch" : b.graph.names[i];
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  return names;
}

void check_memories(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out) {
  for (const Memory& memory : kMemories) {
    if (memory.family == p.family) continue;
    const std::vector<std::string> names = refs_in(m, memory.space);
    if (names.empty()) continue;
    report(m, out, "PS-CHIP-001",
           fmt::format("{} {} in {}, which {} does not have", fmt::join(names, ", "), names.size() == 1 ? "is" : "are",
                       memory.name, p.name),
           -1,
           p.family == Family::Gpu ? "plgpu.SMEM, plgpu.GMEM and plgpu.TMEM are memories of GPUs"
                                   : "pltpu.VMEM, pltpu.SMEM and pltpu.HBM are memories of TPUs")
        .numbers.emplace_back("not looked at: whether it fits (PS-MEM-001)");
  }
}

}  // namespace

void check_fit(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out) {
  const MachineModel& machine = model(m);
  if (p.family == Family::Generic || machine.family == Family::Generic) return;
  const bool refused =
      std::any_of(out->begin(), out->end(), [](const ir::Diagnostic& d) { return d.severity == ir::Severity::Error; });
  if (machine.family == p.family) {
    if (!refused) check_memories(m, p, out);
    return;
  }
  const Compiler c = compiler_of(m);
  ir::Diagnostic& d = report(m, out, "PS-CHIP-001", fmt::format("{}, which {} does not run", c.kernel, p.name), -1,
                             fmt::format("for its rules name the chip that it is for: {}", chips_of(machine.family)));
  d.numbers.push_back(
      fmt::format("not looked at: {}, and what fits into the memories of {} (PS-MEM-001)", c.rules, p.name));
}

}  // namespace pallasim::hw
