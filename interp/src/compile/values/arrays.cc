#include "arrays.h"

#include "../../plan/host_cost.h"

namespace pallasim::interp {

void emit_array_into(Emitter& e, const std::vector<Val>& args, const std::vector<Val>& places, ArrayBody body) {
  ArrayPayload p;
  std::vector<Val> keep;
  double elements = 0;
  bool seen = false;
  for (const Val& a : args) {
    keep.push_back(dense(e, a));
    p.in.push_back({keep.back().memory().addr, keep.back().elements(), ir::byte_size(a.dtype)});
    elements += static_cast<double>(a.elements());
  }
  for (const Val& r : places) {
    p.out.push_back({r.memory().addr, r.elements(), ir::byte_size(r.dtype)});
    elements += static_cast<double>(r.elements());
    seen |= r.origin() != kNoOrigin;
  }
  p.body = std::move(body);
  e.plan().split.step_cost_ns += host_cost::kArray.of(elements);
  e.emit<Kind::array_op>(std::move(p)).imm = seen;
}

std::vector<Val> emit_array(Emitter& e, const std::vector<Val>& args, const std::vector<ArrayResult>& results,
                            ArrayBody body) {
  std::vector<Val> out;
  for (const ArrayResult& r : results) out.push_back(e.temp(r.dtype, r.dims));
  emit_array_into(e, args, out, std::move(body));
  return out;
}

}  // namespace pallasim::interp
