// Units that operations name, and reads of the memory of another.
#include "units.h"

#include <algorithm>

#include "elements.h"
#include "findings.h"
#include "footprint.h"

namespace pallasim::interp {

namespace ops {
namespace {

int32_t named_place(const Thread& t, const Step* s, uint32_t slot, int64_t count, const char* what, const char* of) {
  const int32_t i = t.slot<int32_t>(slot);
  if (i < 0 || i >= count) diagnose(t).no_such_unit(t, s, what, of, i, static_cast<int32_t>(count));
  return i;
}

// The own unit, or the core with the number, of the own device.
int64_t on_own_device(const Thread& t, const Step* s, const UnitSet& set, const char* what) {
  const Execution& ex = *t.exec;
  if (set.core_slot == Addr::kNoSlot) return t.unit;
  const Body& b = *ex.plan->bodies[static_cast<size_t>(set.body)];
  const int32_t core = named_place(t, s, set.core_slot, b.threads, what, "core");
  return ex.device_of(t) * ex.device_threads + b.thread(core);
}

// The units at the places that are named along an axis, `units` having the thread's own.
std::vector<int64_t> along(const Thread& t, const Step* s, const UnitSet& set, const UnitSet::Axis& a,
                           const std::vector<int64_t>& units, int64_t own, const char* what) {
  int64_t first = 0, end = set.first_only ? 1 : a.size;
  if (!a.at.all) first = named_place(t, s, a.at.slot, a.size, what, a.name.c_str()), end = first + 1;
  std::vector<int64_t> r;
  for (int64_t u : units)
    for (int64_t i = first; i < end; ++i) r.push_back(u + (i - own) * a.stride);
  return r;
}

}  // namespace

std::vector<int32_t> units_of(const Thread& t, const Step* s, const UnitSet& set, const char* what) {
  const Execution& ex = *t.exec;
  const std::vector<int64_t> own{on_own_device(t, s, set, what)};
  std::vector<int64_t> units = set.groups.empty() ? own : std::vector<int64_t>{};
  for (const auto& group : set.groups) {
    std::vector<int64_t> of = own;
    for (const UnitSet::Axis& a : group) of = along(t, s, set, a, of, t.slot<int64_t>(a.own_slot), what);
    units.insert(units.end(), of.begin(), of.end());
  }
  if (set.device.named())
    units = along(t, s, set, {0, ex.devices, ex.device_threads, set.device, "device"}, units, ex.device_of(t), what);
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return {units.begin(), units.end()};
}

int32_t unit_elsewhere(const Thread& t, const Step* s, const UnitSet& set, const char* what) {
  const Execution& ex = *t.exec;
  int64_t unit = on_own_device(t, s, set, what);
  for (const auto& group : set.groups)
    for (const UnitSet::Axis& a : group)
      unit += (named_place(t, s, a.at.slot, a.size, what, a.name.c_str()) - t.slot<int64_t>(a.own_slot)) * a.stride;
  if (set.device.named())
    unit += static_cast<int64_t>(named_place(t, s, set.device.slot, ex.devices, what, "device") - ex.device_of(t)) *
            ex.device_threads;
  return static_cast<int32_t>(unit);
}

int32_t begun(const Thread& t, int32_t unit) {
  if (unit == t.unit) return t.index;
  Execution& ex = *t.exec;
  Thread& other = ex.threads[static_cast<size_t>(unit)];
  if (!other.arena && ex.points > 0) ex.begin_program(other);
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
