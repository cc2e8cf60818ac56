#include "array.h"

#include "../plan/payload/array.h"
#include "bodies.h"

namespace pallasim::interp::ops {

const Step* array_op(Thread& t, const Step* s) {
  const auto& p = payload<Kind::array_op>(s);
  const std::byte* in[16];
  std::byte* out[16];
  std::vector<const std::byte*> more;  // a sort of many operands
  const std::byte** from = in;
  std::vector<std::byte*> more_out;
  std::byte** to = out;
  if (p.in.size() > 16) more.resize(p.in.size()), from = more.data();
  if (p.out.size() > 16) more_out.resize(p.out.size()), to = more_out.data();
  for (size_t i = 0; i < p.in.size(); ++i) from[i] = t.resolve(p.in[i].addr);
  for (size_t i = 0; i < p.out.size(); ++i) to[i] = t.resolve(p.out[i].addr);
  t.exec->progressed |= s->imm != 0;
  p.body({t, from, to});
  return s + 1;
}

}  // namespace pallasim::interp::ops
