#include "emitter.h"

#include <fmt/format.h>

#include <algorithm>

#include "lower/lowering.h"
#include "pallasim/hw/machine.h"
#include "pallasim/hw/tiles.h"
#include "pallasim/memory/uninitialized.h"

namespace pallasim::interp {

namespace {

// Every flag is named: a new one has to be handed on.
Semantics semantics_of(const hw::Arithmetic& a) {
  const auto& [nan_propagates_in_minmax, fp8_saturates, int_rem_zero_is_x, sign_of_nan_is_one] = a;
  return {nan_propagates_in_minmax, fp8_saturates, int_rem_zero_is_x, sign_of_nan_is_one};
}

}  // namespace

Emitter::Emitter(Plan& plan, Body& body)
    : plan_(plan),
      body_(body),
      m_(plan.module),
      ir_body_(m_.bodies[static_cast<size_t>(body.index)]),
      model_(*body.model),
      buffer_(body.temps),
      k_(plan.options.numerics == Options::Numerics::Reference ? reference_kernels() : interp::kernels()),
      semantics_(semantics_of(model_.arithmetic)) {}

Emitter::Spawned::Spawned(Emitter& e, uint32_t buffer, std::vector<InnerAxis> axes, int64_t* bytes)
    : e_(e), bytes_(bytes) {
  e_.place_ = &e_.child_temps_.emplace_back();
  e_.buffer_ = buffer;
  e_.inner_axes_ = std::move(axes);
}

Emitter::Spawned::~Spawned() {
  *bytes_ = e_.place_->high_water() + 64;
  e_.place_ = &e_.temps_;
  e_.buffer_ = e_.body_.temps;
  e_.inner_axes_.clear();
}

std::vector<int64_t> ints(const ir::Attr* a) {
  std::vector<int64_t> r;
  if (a)
    for (const ir::Attr& x : a->items) r.push_back(x.i);
  return r;
}

std::vector<int64_t> dims_of(const ir::Type* t) {
  std::vector<int64_t> r;
  for (const ir::Dim& d : t->dims) r.push_back(d.size);
  return r;
}

Step& Emitter::emit(StepFn fn, const void* payload) {
  Step s;
  s.fn = fn;
  s.payload = payload;
  s.loc = loc_;
  s.id = here();
  s.info = &kPlainStep;
  plan_.steps.push_back(s);
  targets_.push_back(-1);
  return plan_.steps.back();
}

Step& Emitter::emit(const StepInfo& info, const void* payload) {
  Step& s = emit(info.fn, payload);
  s.info = &info;
  return s;
}

void Emitter::unsupported(const Op& op, const std::string& what) const {
  ir::Diagnostic("PS-UNSUP-001", "unsupported: " + what)
      .of(m_.name)
      .at(ir::site_of(m_, op.loc))
      .with({fmt::format("operation {} on machine {}", ir::name(op.code), ir::name(m_.machine))})
      .hinted("nothing ran; docs/ops.md lists what every operation means, `pallasim info` what a kernel needs")
      .raise();
}

void unsupported(const ir::Module& m, const std::string& what) {
  ir::Diagnostic("PS-UNSUP-001", "unsupported: " + what).of(m.name).hinted("nothing ran").raise();
}

// Before anything of that size is allocated.
void Emitter::require_memory(int64_t bytes, const std::string& what) const {
  if (bytes > plan_.options.max_memory) too_much_memory(bytes, what);
}

void Emitter::too_much_memory(int64_t bytes, const std::string& what) const {
  ir::Diagnostic("PS-SIZE-001",
                 fmt::format("too much memory: {}, {} bytes; the limit is {}", what, bytes, plan_.options.max_memory))
      .of(m_.name)
      .at(ir::site_of(m_, loc_))
      .hinted("smaller blocks, or a higher max_memory")
      .raise();
}

// ---- regions ----

namespace {
template <typename F>
void for_each_use(const ir::Op& op, const F& f) {
  for (ir::ValueId v : op.operands) f(v);
  for (const ir::Region& r : op.regions)
    for (const ir::Op& o : r.ops) for_each_use(o, f);
}
}  // namespace

// For every value: how often it is used, and after which operation of its own region it is dead.
void Emitter::compute_last_uses(const Region& region) {
  std::unordered_map<ir::ValueId, const Op*> last;
  for (const Op& op : region.ops) {
    for_each_use(op, [&](ir::ValueId v) { last[v] = &op; });
    for (ir::ValueId v : op.operands) ++uses_[v];
    for (const Region& r : op.regions) compute_last_uses(r);
  }
  for (const Op& op : region.ops)
    for (ir::ValueId v : op.results) {
      auto it = last.find(v);
      dies_[it == last.end() ? &op : it->second].push_back(v);
    }
}

void Emitter::compile_region_ops(const Region& region) {
  for (size_t i = 0; i + 1 < region.ops.size(); ++i) {
    const Op& op = region.ops[i];
    loc_ = op.loc;
    const Current outer = now_;
    now_ = {&op, body_.image.size(), plan_.steps.size()};
    const Lowering lower = lowering(op.code);
    if (!lower) {
      const Attr* name = op.code == ir::OpCode::extern_ ? op.attr("name") : nullptr;
      unsupported(op, name ? "primitive " + name->s : std::string(ir::name(op.code)));
    }
    if (plan_.bodies.size() > 1) check_reach(op);
    lower(*this, op);
    now_ = outer;
    for (const Region& r : op.regions) forget(r);
    if (auto it = dies_.find(&op); it != dies_.end())
      for (ir::ValueId v : it->second) values_.erase(v);
  }
  loc_ = region.ops.back().loc;
}

// The values of a region end with it: what follows may run without it.
void Emitter::forget(const Region& region) {
  for (ir::ValueId a : region.args) values_.erase(a);
  for (const Op& op : region.ops)
    for (ir::ValueId v : op.results) values_.erase(v);
}

int Emitter::uses(ir::ValueId v) const {
  const auto it = uses_.find(v);
  return it == uses_.end() ? 0 : it->second;
}

void Emitter::set_graph(const ir::Graph& graph) {
  graph_ = &graph;
  writes_ = std::make_unique<analysis::Writes>(graph);
  uses_.clear(), dies_.clear();
  compute_last_uses(graph.region);
}

void Emitter::emit_fill_uninitialized(const Val& ref) {
  FillPayload p{};
  p.dst = ref.memory().addr;
  p.dims = {ref.elements()};
  p.strides = {1};
  p.size = ir::byte_size(ref.dtype);
  p.element = memory::uninitialized(ref.dtype, plan_.options.uninitialized);
  p.name = ref.memory().name.empty() ? "an allocation" : ref.memory().name;
  emit(ops::fill, plan_.own(std::move(p)));
}

void Emitter::note_allocation(const Val& v, ir::Space space, memory::Level owner,
                              memory::Allocation::Lifetime lifetime) {
  plan_.allocations.add({v.memory().name, space, owner, lifetime, v.memory().addr.buffer, v.memory().addr.offset,
                         v.bytes(), v.dtype, v.dims});
}

// Where arrays lie in whole tiles, copies may name the padding.
void Emitter::add_tile_padding(Val* ref, ir::Space space) const {
  if (model_.spaces[space].layout != hw::Layout::Tiles || ref->dims.empty() || ref->ref().semaphore >= 0) return;
  if (plan_.options.padding == Options::Padding::Nobody) return;
  std::vector<int64_t> padding = hw::tile_padding(ref->dtype, ref->dims);
  if (std::any_of(padding.begin(), padding.end(), [](int64_t n) { return n > 0; }))
    ref->ref().padding = std::move(padding);
}

}  // namespace pallasim::interp
