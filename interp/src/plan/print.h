// Plans as people read them.
#pragma once
#include <string>

#include "plan.h"

namespace pallasim::interp {

// A line without its end: number, kind, what it is given, and the operations and the line that it stands for.
std::string text_of(const Plan&, const Step&);

}  // namespace pallasim::interp
