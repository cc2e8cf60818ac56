// Memory events for checked runs.
#include <algorithm>

#include "bodies.h"

namespace pallasim::interp::ops {

void note_access(Thread& t, const Step* s, const Addr& a, const std::vector<int64_t>& dims,
                 const std::vector<int64_t>& strides, int element_bytes, bool write, int owner) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;  // no element is touched
  if (a.buffer < kTempBuffer) return;
  const int64_t offset = a.offset + (a.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(a.dyn));
  const Access access{
      t.index,       a.buffer, write, offset, dims.data(), strides.data(), static_cast<int>(dims.size()),
      element_bytes, s,        owner};
  for (Listener* l : t.exec->listeners) l->on_access(*t.exec, access);
}

void note_unwritten(Thread& t, const Step* s, const Addr& a, const std::vector<int64_t>& dims,
                    const std::vector<int64_t>& strides, int element_bytes, int owner) {
  if (a.buffer < kTempBuffer) return;
  const auto rank = static_cast<int>(dims.size());
  const Access access{t.index, a.buffer,      true, a.offset, dims.data(), strides.data(),
                      rank,    element_bytes, s,    owner,    true};
  for (Listener* l : t.exec->listeners) l->on_access(*t.exec, access);
}

}  // namespace pallasim::interp::ops
