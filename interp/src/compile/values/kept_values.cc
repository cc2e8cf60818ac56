#include "kept_values.h"

#include <algorithm>

namespace pallasim::interp {

void KeptValues::begin(ir::ValueId id, const Val& v) {
  if (!active || id < 0) return;
  end(id);
  ValuePlace p;
  p.body = c_.body().index;
  p.value = id;
  p.begin = here();
  p.dtype = v.dtype;
  p.dims = v.dims;
  std::shared_ptr<Storage> storage;
  if (v.is_uniform()) {
    p.what = ValuePlace::What::Scalar;
    p.slot = v.scalar().slot;
  } else if (v.is_strided()) {
    p.what = ValuePlace::What::Array;
    p.addr = v.memory().addr;
    p.strides = v.memory().strides;
    const int64_t all = memory::mul(v.bytes(), std::max(c_.plan().threads.count, 1));
    if (v.memory().storage && memory::add(bytes_, all) <= kKept) storage = v.memory().storage, bytes_ += all;
  } else if (v.is_ref()) {
    p.what = v.is_semaphore() ? is_barrier(v.dtype) ? ValuePlace::What::Barrier : ValuePlace::What::Semaphore
             : v.is_choice() || v.is_recast() ? ValuePlace::What::Elsewhere
                                              : ValuePlace::What::Ref;
    p.addr = v.memory().addr;
    p.strides = v.memory().strides;
    p.block = v.ref().semaphore;
    p.edge = v.ref().edge;
    p.extents = v.ref().extents;
  } else {
    return;
  }
  open_[id] = {c_.plan().values.size(), std::move(storage)};
  c_.plan().values.push_back(std::move(p));
}

void KeptValues::unused(ir::ValueId id) {
  const auto it = open_.find(id);
  if (it == open_.end()) return;
  const ValuePlace& p = c_.plan().values[it->second.place];
  if (p.what == ValuePlace::What::Array && !it->second.storage) end(id);
}

void KeptValues::end(ir::ValueId id) {
  const auto it = open_.find(id);
  if (it == open_.end()) return;
  c_.plan().values[it->second.place].end = here();
  open_.erase(it);
}

void KeptValues::end(const Region& region) {
  for (const ir::ValueId a : region.args) end(a);
  for (const Op& op : region.ops) {
    for (const ir::ValueId v : op.results) end(v);
    for (const Region& r : op.regions) end(r);
  }
}

void KeptValues::end() {
  for (const auto& [id, o] : open_) c_.plan().values[o.place].end = here();
  open_.clear();
}

}  // namespace pallasim::interp
