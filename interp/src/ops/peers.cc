// Arrays of other devices, and of all of them at once.
#include <cstring>

#include "elements.h"
#include "footprint.h"
#include "units.h"

namespace pallasim::interp::ops {

const Step* peer_array(Thread& t, const Step* s) {
  const auto& p = payload<Kind::peer_array>(s);
  Execution& ex = *t.exec;
  const int32_t device = unit_of(t, s, p.peer) / ex.device_threads;
  ex.set_alias(t, p.alias, BufferAlias::of_operand(device, p.array));
  return s + 1;
}

namespace {

// Of the part on each device: the place of its first element, and a thread of the device.
template <typename F>
void for_each_device(Thread& t, const Step* s, const MultimemPayload& p, const char* what, const F& f) {
  const Execution& ex = *t.exec;
  const int64_t offset = p.part.offset + (p.part.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(p.part.dyn));
  for (const int32_t unit : units_of(t, s, p.devices, what)) {
    const int32_t device = unit / ex.device_threads;
    f(ex.operand(device, p.part.buffer) + offset, device * ex.device_threads);
  }
}

int64_t elements(const MultimemPayload& p) {
  int64_t n = 1;
  for (const int64_t d : p.dims) n *= d;
  return n;
}

// a <- a and b, each `count` elements, in the type that they have.
void combine(const MultimemPayload& p, std::byte* a, const std::byte* b, int64_t count) {
  const KernelTable& k = kernels();
  const LoadFn load = k.load(p.dtype);
  const StoreFn store = k.store(p.dtype);
  const StripFn strip = k.strip(p.combine, p.dtype);
  StripParams params;
  params.dtype = p.dtype;
  const int64_t size = ir::byte_size(p.dtype);
  alignas(64) std::byte x[kStrip * 16], y[kStrip * 16];
  for (int64_t i = 0; i < count; i += kStrip / 2) {
    const int64_t n = std::min<int64_t>(kStrip / 2, count - i);
    load(x, a + i * size, n, 1);
    load(y, b + i * size, n, 1);
    strip(x, x, y, nullptr, n, params);
    store(a + i * size, x, n, 1);
  }
}

}  // namespace

const Step* multimem_store(Thread& t, const Step* s) {
  const auto& p = payload<Kind::multimem_store>(s);
  const std::vector<int64_t> dense = memory::dense_strides(p.dims);
  for_each_device(t, s, p, "multimem_store", [&](std::byte* at, int32_t) {
    copy_strided(at, p.strides.data(), t.resolve(p.value), dense.data(), p.dims.data(), static_cast<int>(p.dims.size()),
                 ir::byte_size(p.dtype));
  });
  t.exec->progressed = true;
  return s + 1;
}

void multimem_store_footprint(Thread& t, const Step& s, Boxes& out) {
  const auto& p = payload<Kind::multimem_store>(s);
  const int size = ir::byte_size(p.dtype);
  out.internal(p.value, p.dims, memory::dense_strides(p.dims), size, false);
  for_each_device(t, &s, p, "multimem_store", [&](std::byte*, int32_t owner) {
    out.add(p.part, p.dims, p.strides, size, {.write = true, .owner = owner});
  });
}

// In the order of the devices, rounded as the type says after each.
const Step* multimem_reduce(Thread& t, const Step* s) {
  const auto& p = payload<Kind::multimem_reduce>(s);
  const std::vector<int64_t> dense = memory::dense_strides(p.dims);
  const int size = ir::byte_size(p.dtype), rank = static_cast<int>(p.dims.size());
  std::byte* const sum = t.resolve(p.value);
  std::vector<std::byte> next;
  for_each_device(t, s, p, "multimem_load_reduce", [&](const std::byte* at, int32_t) {
    const bool first = next.empty();
    if (first) next.resize(static_cast<size_t>(elements(p) * size + 1));
    copy_strided(first ? sum : next.data(), dense.data(), at, p.strides.data(), p.dims.data(), rank, size);
    if (!first) combine(p, sum, next.data(), elements(p));
  });
  return s + 1;
}

void multimem_reduce_footprint(Thread& t, const Step& s, Boxes& out) {
  const auto& p = payload<Kind::multimem_reduce>(s);
  const int size = ir::byte_size(p.dtype);
  for_each_device(t, &s, p, "multimem_load_reduce",
                  [&](std::byte*, int32_t owner) { out.add(p.part, p.dims, p.strides, size, {.owner = owner}); });
  out.internal(p.value, p.dims, memory::dense_strides(p.dims), size, true);
}

}  // namespace pallasim::interp::ops
