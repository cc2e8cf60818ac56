#include "copy_forwarding.h"

#include <algorithm>
#include <map>

#include "../../passes/passes.h"
#include "../../plan/steps.h"
#include "access.h"

namespace pallasim::interp {
namespace {

struct Elidable {
  std::map<int, int32_t> of;  // by origin
};

// An operand's array that no part of the launch writes: neither under its own name nor as an output.
bool is_constant(Emitter& e, const Val& ref) {
  const uint32_t buffer = ref.memory().addr.buffer;
  if (!ref.ref().read_only || buffer < kFirstOperandBuffer) return false;
  const size_t operand = buffer - kFirstOperandBuffer;
  const ir::Module& m = e.module();
  return operand < m.operands.size() && m.operands[operand].kind == ir::Operand::Kind::Input &&
         !m.is_aliased_input(operand);
}

}  // namespace

void elide_copies(Emitter& e, const Val& ref) {
  const uint32_t buffer = ref.memory().addr.buffer;
  PlanMemory& m = e.plan().memory;
  if (!e.state<passes::CopyForwarding>().elided.contains(ref.origin()) || ref.ref().tiled ||
      (m.is_private(buffer) && buffer != e.body().temps))
    return;
  const auto number = static_cast<int32_t>(m.elidable.size());
  m.elidable.push_back(m.allocations.size() - 1);
  e.state<Elidable>().of[ref.origin()] = number;
  count(Rewrite::CopyElided);
}

int32_t elidable_of(Emitter& e, const Val& ref) {
  const auto& of = e.state<Elidable>().of;
  const auto it = ref.shows_memory() ? of.find(ref.origin()) : of.end();
  return it == of.end() ? -1 : it->second;
}

void begin_elision(Emitter& e, const Val& ref) {
  e.emit<Kind::elision_begin>(ElisionPayload{elidable_of(e, ref), ref.memory().addr, 0, 0});
}

void materialise_elided(Emitter& e, const Val& ref) {
  const int32_t elidable = elidable_of(e, ref);
  if (elidable >= 0) e.emit<Kind::elision_materialise>(ElisionPayload{elidable, ref.memory().addr, 0, 0});
}

void tell_elision(Emitter& e, const Val& src, const Val& dst, CopySide* from, CopySide* to) {
  to->elidable = elidable_of(e, dst);
  from->constant = is_constant(e, src);
}

Val where_elided(Emitter& e, Val shown) {
  const int32_t elidable = elidable_of(e, shown);
  if (elidable < 0 || shown.elements() == 0) return shown;
  Addr& addr = shown.memory().addr;
  const int64_t size = ir::byte_size(shown.dtype);
  ElisionPayload p{elidable, addr, 0, size};
  for (size_t d = 0; d < shown.dims.size(); ++d) {
    const int64_t last = (shown.dims[d] - 1) * shown.memory().strides[d] * size;
    (last < 0 ? p.begin : p.end) += last;
  }
  const uint32_t slot = e.new_slot();
  p.alias = e.plan().memory.new_alias();
  e.emit<Kind::elision_find>(p).dst = slot;
  addr.buffer = p.alias;
  addr.dyn = slot;
  return shown;
}

namespace {

struct WaitingStore {
  const Op* store;
  ir::ValueId dst, value;
};
using WaitingStores = std::unordered_map<const Op*, WaitingStore>;  // by copy

// A part of memory, of a size that is known.
bool is_plain(const Op& copy, const Val& ref) {
  const ir::Viewed* dst = copy.viewed("dst");
  if (!dst || !std::all_of(dst->transforms.begin(), dst->transforms.end(),
                           [](const ir::View& v) { return std::holds_alternative<ir::view::Index>(v); }))
    return false;
  if (!ref.shows_memory() || ref.is_semaphore() || ref.is_choice() || ref.is_recast()) return false;
  const Val::Ref& r = ref.ref();
  return r.extents.empty() && r.edge < 0;
}

}  // namespace

bool waits_for_copy(Emitter& e, const Op& store, const Val& dst, const Val& value) {
  const auto& stores = e.state<passes::CopyForwarding>().stores;
  const auto it = stores.find(&store);
  if (it == stores.end() || dst.dims.empty() || dst.elements() == 0 || !dst.shows_memory()) return false;
  e.state<WaitingStores>()[it->second] = {&store, e.live().hold(dst), e.live().hold(value)};
  return true;
}

StoreForwarding::StoreForwarding(Emitter& e, const Op& copy) : e_(e), copy_(copy) {
  auto& waiting = e.state<WaitingStores>();
  if (const auto it = waiting.find(&copy); it != waiting.end()) {
    stored_ = Stored{it->second.store, e.live().take(it->second.dst), e.live().take(it->second.value)};
    waiting.erase(it);
  }
  e.about_to_write(everything());
}

void StoreForwarding::store() {
  if (!stored_) return;
  const Context::At at(e_, stored_->op);
  store_value(e_, *stored_->op, stored_->dst, stored_->value);
  stored_.reset();
}

void StoreForwarding::emit(const CopyTo& to, bool plain, const std::function<void(bool)>& copy) {
  const Val& ref = to.ref;
  if (!stored_ || !plain || !is_plain(copy_, ref) || ref.dims != stored_->dst.dims || ref.dtype != stored_->dst.dtype) {
    store();
    return copy(false);
  }
  count(Rewrite::StoreForwarded);
  const int branch = e_.here();
  ForwardPayload p;
  p.dst = to.side;
  p.peer = to.peer;
  p.dtype = ref.dtype;
  if (p.peer.elsewhere()) p.way = e_.new_slot(), p.alias = e_.plan().memory.new_alias();
  const uint32_t way = p.way, alias = p.alias;
  e_.emit<Kind::forward_store>(std::move(p));
  const LiveValues::Conditional inside(e_.live());
  {
    const Context::At at(e_, stored_->op);
    if (to.peer.elsewhere()) {  // of which the value shows nothing
      Val there = ref;
      there.memory().addr.buffer = alias;
      there.memory().addr.dyn = way;
      emit_pending(e_, stored_->value, there);
    } else {
      store_value(e_, *stored_->op, ref, stored_->value);
    }
  }
  copy(true);
  const int end = e_.here();
  e_.emit(e_.functions().jump);
  e_.jump_to(branch, e_.here());
  store();
  copy(false);
  e_.jump_to(end, e_.here());
}

}  // namespace pallasim::interp
