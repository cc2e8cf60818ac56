// Other CTAs of a thread's cluster.
#include "cluster.h"

#include <algorithm>

#include "../plan/payload/cluster.h"
#include "elements.h"
#include "findings.h"
#include "footprint.h"

namespace pallasim::interp {

namespace ops {
namespace {

int64_t own_place(const Thread& t, const ClusterAxis& a) { return t.slot<int64_t>(a.place_slot); }

}  // namespace

std::vector<int32_t> units_of(const Thread& t, const ClusterSet& set) {
  std::vector<int32_t> r{t.unit};
  for (const auto& group : set.groups) {
    std::vector<int64_t> along{t.unit};
    for (const ClusterAxis& a : group) {
      std::vector<int64_t> next;
      for (int64_t u : along)
        for (int64_t i = 0; i < (set.first_only ? 1 : a.size); ++i)
          next.push_back(u + (i - own_place(t, a)) * a.stride);
      along = std::move(next);
    }
    if (set.first_only) r.clear();
    r.insert(r.end(), along.begin(), along.end());
  }
  std::sort(r.begin(), r.end());
  r.erase(std::unique(r.begin(), r.end()), r.end());
  return r;
}

int32_t unit_of(const Thread& t, const Step* s, const ClusterPeer& peer) {
  int64_t unit = t.unit;
  for (const ClusterPeer::At& at : peer.places) {
    const int32_t i = t.slot<int32_t>(at.slot);
    if (i < 0 || i >= at.axis.size)
      diagnose(t).no_such_unit(t, s, "an access", ("CTA " + at.name + " =").c_str(), i,
                               static_cast<int32_t>(at.axis.size));
    unit += (i - own_place(t, at.axis)) * at.axis.stride;
  }
  return static_cast<int32_t>(unit);
}

int32_t begun(Thread& t, int32_t unit) {
  if (unit == t.unit) return t.index;
  Execution& ex = *t.exec;
  Thread& other = ex.threads[static_cast<size_t>(unit)];
  if (!other.arena) ex.begin_program(other);
  return other.index;
}

const Step* peer_read(Thread& t, const Step* s) {
  const auto& p = payload<Kind::peer_read>(s);
  const int32_t from = begun(t, unit_of(t, s, p.peer));
  const int size = ir::byte_size(p.dtype);
  const int64_t offset = p.src.offset + (p.src.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(p.src.dyn));
  const std::byte* src = t.exec->threads[static_cast<size_t>(from)].bases[p.src.buffer] + offset;
  copy_strided(t.resolve(p.dst), p.dst_strides.data(), src, p.src_strides.data(), p.dims.data(),
               static_cast<int>(p.dims.size()), size);
  return s + 1;
}

void peer_read_footprint(Thread& t, const Step& s, Boxes& out) {
  const auto& p = payload<Kind::peer_read>(s);
  const int size = ir::byte_size(p.dtype);
  out.add(p.src, p.dims, p.src_strides, size, {.owner = begun(t, unit_of(t, &s, p.peer))});
  out.write(p.dst, p.dims, p.dst_strides, size);
}

}  // namespace ops
}  // namespace pallasim::interp
