// Scalar steps behind each other run by themselves: plan/scalar_forms.h.
#pragma once
#include <vector>

#include "../plan/step.h"

namespace pallasim::interp {

// Sets Step::follow of all steps of a plan, whose jumps are linked. `watched`: somebody may listen to its runs.
void join_scalar_steps(std::vector<Step>&, bool watched);

}  // namespace pallasim::interp
