// Writes docs/operations.csv to standard output: every operation, whether it runs, and which compilers have it.
#include <fmt/format.h>

#include "../src/compile/driver/compile.h"
#include "pallasim/hw/rules.h"

using namespace pallasim;

int main() {
  constexpr const char* kFamilies[] = {"Elementwise", "Shape", "Reduction", "Control",
                                       "Memory",      "Async", "Random",    "Debug"};
  constexpr const char* kFidelity[] = {"exact", "ulp", "contraction"};
  fmt::print("operation,family,fidelity,runs");
  for (ir::Machine m : hw::known_compilers()) fmt::print(",{}", ir::name(m));
  fmt::print("\n");
  for (int k = 0; k < ir::kNumOps; ++k) {
    const auto code = static_cast<ir::OpCode>(k);
    const ir::OpInfo& i = ir::info(code);
    fmt::print("{},{},{},{}", i.name, kFamilies[static_cast<int>(i.family)], kFidelity[static_cast<int>(i.fidelity)],
               interp::runs(code) ? "yes" : "no");
    for (ir::Machine m : hw::known_compilers()) fmt::print(",{}", hw::has_operation(m, code) ? "yes" : "no");
    fmt::print("\n");
  }
}
