#include "plan.h"

namespace pallasim::interp {

Plan::Plan() = default;

}  // namespace pallasim::interp
