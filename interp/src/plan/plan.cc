#include "plan.h"

#include <algorithm>

namespace pallasim::interp {

Plan::Plan() = default;

bool is_aliased_output(const ir::Module& m, int operand) {
  const int inputs = static_cast<int>(m.operands.size()) - m.count(ir::Operand::Kind::Output);
  return std::any_of(m.aliases.begin(), m.aliases.end(),
                     [&](const ir::Alias& a) { return inputs + a.output == operand; });
}

}  // namespace pallasim::interp
