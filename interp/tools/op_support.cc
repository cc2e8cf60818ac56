// Writes docs/operations.csv to standard output: every operation, and whether it runs and where a compiler has it.
#include <fmt/format.h>

#include "../src/compile/compile.h"
#include "pallasim/hw/rules.h"

using namespace pallasim;

int main() {
  constexpr const char* kFamilies[] = {"Elementwise", "Shape",  "Reduction", "Control", "Memory",
                                       "Async",       "Sparse", "Random",    "Debug"};
  constexpr const char* kFidelity[] = {"exact", "ulp", "contraction"};
  constexpr ir::Machine kMachines[] = {ir::Machine::Tpu, ir::Machine::Triton};
  fmt::print("operation,family,fidelity,runs,tpu,triton\n");
  for (int k = 0; k < ir::kNumOps; ++k) {
    const auto code = static_cast<ir::OpCode>(k);
    const ir::OpInfo& i = ir::info(code);
    fmt::print("{},{},{},{}", i.name, kFamilies[static_cast<int>(i.family)], kFidelity[static_cast<int>(i.fidelity)],
               interp::runs(code) ? "yes" : "no");
    for (ir::Machine m : kMachines) fmt::print(",{}", hw::has_operation(m, code) ? "yes" : "no");
    fmt::print("\n");
  }
}
