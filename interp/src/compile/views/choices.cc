// Refs that are one of several, and views of each.
#include "../../plan/payload/control.h"
#include "../../plan/steps.h"
#include "views.h"

namespace pallasim::interp {

Val viewed_operand(Emitter& e, const Op& op, const char* key, ViewUse use, Recast recast) {
  const ir::Viewed& v = *op.viewed(key);
  return apply_view_to_each(e, op, e.operand(op, static_cast<size_t>(v.operand)), v.transforms, use, recast);
}

// The view of a ref, or of each of those that it may be.
Val apply_view_to_each(Emitter& e, const Op& op, const Val& ref, std::span<const ir::View> view, ViewUse use,
                       Recast recast) {
  if (!ref.is_choice()) return apply_view(e, op, ref, view, use, recast).ref;
  Val v = ref;
  v.ref().choice = std::make_shared<Choice>(*ref.ref().choice);
  for (Val& r : v.ref().choice->refs) r = apply_view_to_each(e, op, r, view, use, recast);
  return v;
}

void for_each_choice(Emitter& e, const Val& v, const std::function<void(const Val&)>& body) {
  if (!v.is_choice()) return body(v);
  auto* table = e.own(BranchTablePayload());
  Step& s = e.emit<Kind::branch_table>(e.functions().branch_table, table);
  s.a = v.ref().choice->slot;
  s.imm = 4;
  std::vector<int> ends;
  for (const Val& r : v.ref().choice->refs) {
    table->steps.push_back(e.here());
    for_each_choice(e, r, body);  // a ref may itself be one of several
    ends.push_back(e.here());
    e.emit(e.functions().jump);
  }
  for (int end : ends) e.jump_to(end, e.here());
}

}  // namespace pallasim::interp
