#include "store_forwarding.h"

#include <algorithm>

#include "../../analysis/forwarded_stores.h"
#include "../../plan/payload/copies.h"
#include "access.h"

namespace pallasim::interp {
namespace {

struct ForwardedStores {
  std::unordered_map<const Op*, const Op*> copies;  // by store
  struct Waiting {
    const Op* store;
    ir::ValueId dst, value;  // their names while they wait: slots that they are made of stay what they are
  };
  std::unordered_map<const Op*, Waiting> waiting;  // by copy
};

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

void forward_stores(Emitter& e, const ir::Region& region, const Val& ref) {
  const PlanOptions& o = e.options();
  if (!o.rewrites() || e.module().bodies.size() != 1 || ref.is_semaphore()) return;
  e.state<ForwardedStores>().copies.merge(analysis::forwarded_stores(e.live().graph(), region, ref.origin()));
}

bool waits_for_copy(Emitter& e, const Op& store, const Val& dst, const Val& value) {
  ForwardedStores& d = e.state<ForwardedStores>();
  const auto it = d.copies.find(&store);
  if (it == d.copies.end() || dst.dims.empty() || dst.elements() == 0 || !dst.shows_memory()) return false;
  // No operation has such numbers, and of each ref one value waits at a time.
  const ir::ValueId of_value = -2 - 2 * dst.origin(), of_dst = of_value - 1;
  e.live().bind(of_value, value);
  e.live().bind(of_dst, dst);
  d.waiting[it->second] = {&store, of_dst, of_value};
  return true;
}

StoreForwarding::StoreForwarding(Emitter& e, const Op& copy) : e_(e), copy_(copy) {
  ForwardedStores& d = e.state<ForwardedStores>();
  if (const auto it = d.waiting.find(&copy); it != d.waiting.end()) {
    stored_ = Stored{it->second.store, e.live().take(it->second.dst), e.live().take(it->second.value)};
    d.waiting.erase(it);
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
