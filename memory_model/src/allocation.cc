#include "pallasim/memory/allocation.h"

namespace pallasim::memory {

int64_t Allocation::elements() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

Level owner_level(ir::Scope scope, ir::Space space) {
  if (space == ir::Space::VmemShared) return Level::Core;
  switch (scope) {
    case ir::Scope::Thread: return Level::Thread;
    case ir::Scope::Warp: return Level::Warp;
    case ir::Scope::Cta:
    case ir::Scope::SubcoreGroup: return Level::Core;
    case ir::Scope::Cluster: return Level::Cluster;
    default: return Level::Device;
  }
}

int Allocations::add(Allocation a) {
  all_.push_back(std::move(a));
  return static_cast<int>(all_.size()) - 1;
}

const Allocation* Allocations::at(uint32_t buffer, int64_t offset) const {
  const Allocation* found = nullptr;
  for (const Allocation& a : all_)
    if (a.holds(buffer, offset) && (!found || (found->name.empty() && !a.name.empty()))) found = &a;
  return found;
}

}  // namespace pallasim::memory
