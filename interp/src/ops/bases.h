// Where memory lies that a footprint tells of.
#pragma once
#include "execution.h"

namespace pallasim::interp::ops {

// Of the access's owner: an array is its device's, whatever has become of the thread. Null: it has nothing there.
inline std::byte* base_of(const Execution& ex, const Access& a) {
  const Thread& of = ex.threads[static_cast<size_t>(a.owner < 0 ? a.thread : a.owner)];
  const bool array =
      a.buffer >= kFirstOperandBuffer && a.buffer - kFirstOperandBuffer < ex.plan->module.operands.size();
  if (array && a.owner >= 0) return ex.operand(ex.device_of(of), a.buffer);
  return of.bases ? of.bases[a.buffer] : nullptr;
}

}  // namespace pallasim::interp::ops
