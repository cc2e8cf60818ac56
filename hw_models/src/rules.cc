#include "rules.h"

namespace pallasim::hw {

void check_rules(const ir::Module& m, const Profile& p) {
  if (p.family == Family::Gpu && m.machine == ir::Machine::Triton) check_triton(m);
}

}  // namespace pallasim::hw
