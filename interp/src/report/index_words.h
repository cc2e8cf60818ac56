// Where an index came from, in words.
#pragma once
#include <string>

#include "../ops/execution.h"

namespace pallasim::interp {

// "99 = table_ref[2, 1]": elements of the launch's operands that a wrong index of dimension `dim` was made of, as the
// kernel's text reads them; "" where it reads none, or not from where anybody can tell.
std::string index_origin(const Thread&, const Step&, int dim, int64_t index);
// The same of what the index map of operand `operand` returned for dimension `dim`.
std::string block_index_origin(const Thread&, const ir::Operand&, size_t dim, int64_t index);

}  // namespace pallasim::interp
