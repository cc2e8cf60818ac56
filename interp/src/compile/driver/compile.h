// The plan compiler: a verified module becomes a plan.
#pragma once
#include <memory>

#include "../../plan/plan.h"
#include "../../plan/steps.h"
#include "pallasim/interp/passes.h"

namespace pallasim::interp {

// The module with every float of its bodies in f64, rounded where Numerics::Oracle says.
ir::Module widened(const ir::Module&);

// Whether there is a lowering of the operation: the others are refused by name.
bool runs(ir::OpCode);

// Compiles a verified module without shape parameters to steps that run by `functions`. `watch` may be null.
std::shared_ptr<Plan> compile_plan(ir::Module module, const PlanOptions& options, const StepFunctions& functions,
                                   PassObserver* watch = nullptr);

}  // namespace pallasim::interp
