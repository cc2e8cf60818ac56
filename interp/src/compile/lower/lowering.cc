#include "lowering.h"

#include <array>
#include <stdexcept>

#include "../views/views.h"
#include "nans.h"
#include "unread.h"

namespace pallasim::interp {
namespace {

constexpr Rows (*kFamilies[])() = {array_rows,    asm_rows,           async_rows,       barrier_rows, control_rows,
                                   convolve_rows, debug_rows,         elementwise_rows, gather_rows,  memory_rows,
                                   mxu_rows,      random_rows,        reduce_rows,      shape_rows,   sparsecore_rows,
                                   spawn_rows,    sync_rows,          tensor_rows,      tma_rows,     wgmma_rows,
                                   peer_rows,     launch_control_rows};

std::array<Lowering, ir::kNumOps> table() {
  std::array<Lowering, ir::kNumOps> r{};
  for (const auto& rows : kFamilies)
    for (const Row& row : rows()) {
      Lowering& place = r[static_cast<size_t>(row.code)];
      if (place) throw std::logic_error("two lowerings of " + std::string(ir::name(row.code)));
      place = row.lower;
    }
  return r;
}

}  // namespace

Lowering lowering(OpCode code) {
  static const std::array<Lowering, ir::kNumOps> lowerings = table();
  return lowerings[static_cast<size_t>(code)];
}

// What has no operation here runs once its meaning is registered.
[[noreturn]] static void refuse_extern(const ir::Module& m, const Op& op) {
  const Attr *name = op.attr("name"), *why = op.attr("why");
  const std::string primitive = name ? name->s : "without a name";
  ir::Diagnostic("PS-UNSUP-001", "unsupported: primitive " + primitive)
      .of(m.name)
      .at(ir::site_of(m, op.loc))
      .with({why ? why->s : "operation extern on machine " + std::string(ir::name(m.machine))})
      .hinted("nothing ran; pallasim.register_lowering(\"" + primitive + "\", function) says in JAX what it does")
      .raise();
}

void compile_region(Emitter& e, const Region& region) {
  const IndexedViews::Scope views(e);
  for (size_t i = 0; i + 1 < region.ops.size(); ++i) {
    const Op& op = region.ops[i];
    const Op* const outer = e.begin_op(op);
    const Lowering lower = lowering(op.code);
    if (!lower) {
      if (op.code == ir::OpCode::extern_) refuse_extern(e.module(), op);
      e.unsupported(op, std::string(ir::name(op.code)));
    }
    if (e.plan().bodies.size() > 1) check_reach(e, op);
    if (const auto& unread = e.state<UnreadWindows>().of;
        !unread.empty() && &e.live().graph() == &e.module().bodies[static_cast<size_t>(e.body().index)].graph)
      for (ir::ValueId v : op.operands)
        if (const auto at = unread.find(v); at != unread.end()) e.emit<Kind::window_read>(at->second);
    if (e.stops_at(op)) e.emit<Kind::stop_point>();
    NanLook look(e, op);
    if (!e.live().dropped(op)) lower(e, op);
    look.after_lowering();
    e.end_op(op, outer);
  }
  e.at(region.ops.back());
}

}  // namespace pallasim::interp
