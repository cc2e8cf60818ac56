// The rewrites that the plan compiler makes of a module and of its plan, by name.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pallasim/ir/module.h"

namespace pallasim::interp {

class Plan;
struct PlanOptions;

struct PassRow {
  std::string_view name, what;
};
std::span<const PassRow> pass_rows();  // in the order in which they run

// Who looks at passes while a module is compiled.
struct PassObserver {
  std::vector<std::string> print;  // names of those whose module or steps are kept, before and after
  struct Run {
    std::string_view name;
    int64_t changes = 0;
    std::string before, after;
  };
  std::vector<Run> runs;  // what came of it
};

// As compile (launch.h).
std::shared_ptr<const Plan> compile(ir::Module module, const PlanOptions&, PassObserver&);

}  // namespace pallasim::interp
