#include "memory_image.h"

#include <algorithm>

namespace pallasim::interp {

MemoryKeeper::MemoryKeeper(Execution& ex, WrittenPages* written) : ex_(ex), written_(written) {
  array_told_.assign(ex.plan->module.operands.size(), written != nullptr);
  // The engine poisons the gaps of these whenever it comes to it.
  for (const DeferredInit& d : ex.deferred_init) array_told_[d.buffer - kFirstOperandBuffer] = false;
}

MemoryKeeper::Places MemoryKeeper::places() const {
  Places r;
  const std::vector<ir::Operand>& operands = ex_.plan->module.operands;
  for (const std::vector<std::byte*>& device : ex_.operands)
    for (size_t i = 0; i < operands.size(); ++i)
      r.arrays.push_back({device[i], device[i] ? operands[i].array->num_bytes() : 0, array_told_[i]});
  for (Execution::SharedMemory& m : ex_.shared_memory) {
    // What copies left out comes to memory of this kind without a step that says so.
    const bool told = written_ && ex_.plan->memory.allocations[m.allocation].elidable < 0;
    for (Bytes& one : m.of_units) r.shared.push_back({one.data(), static_cast<int64_t>(one.size()), told});
  }
  for (const auto& a : ex_.arenas)
    r.arenas.push_back({a ? a->memory.data() : nullptr, a ? static_cast<int64_t>(a->memory.size()) : 0, false});
  return r;
}

MemoryKeeper::Known MemoryKeeper::known(const std::vector<memory::Pages>& last, const std::vector<Place>& then,
                                        size_t i, const Place& now) const {
  if (i >= last.size()) return {};
  const bool told = now.told && i < then.size() && then[i].at == now.at && then[i].bytes == now.bytes;
  return {&last[i], told ? written_->marks(now.at, now.bytes) : nullptr};
}

void MemoryKeeper::remember(const MemoryImage& image, Places now) {
  last_ = image;
  then_ = std::move(now);
  if (!written_) return;
  written_->clear();
  for (const std::vector<Place>* group : {&then_.arrays, &then_.shared})
    for (const Place& p : *group)
      if (p.told && p.bytes > 0) written_->watch(p.at, p.bytes);
}

MemoryImage MemoryKeeper::save() {
  Places now = places();
  const auto saved = [&](const std::vector<memory::Pages>& last, const std::vector<Place>& then,
                         const std::vector<Place>& group) {
    std::vector<memory::Pages> r;
    for (size_t i = 0; i < group.size(); ++i) {
      const Known k = known(last, then, i, group[i]);
      r.push_back(k.last ? k.last->updated(group[i].span(), k.marks) : memory::Pages(group[i].span()));
    }
    return r;
  };
  MemoryImage r{saved(last_.arrays, then_.arrays, now.arrays), saved(last_.shared, then_.shared, now.shared),
                saved(last_.arenas, then_.arenas, now.arenas)};
  remember(r, std::move(now));
  return r;
}

void MemoryKeeper::load(const MemoryImage& image) {
  size_t from = 0;
  for (Execution::SharedMemory& m : ex_.shared_memory)
    for (Bytes& one : m.of_units) one.resize(static_cast<size_t>(image.shared[from++].size()));
  Places now = places();
  const auto load = [&](const std::vector<memory::Pages>& to, const std::vector<memory::Pages>& last,
                        const std::vector<Place>& then, const std::vector<Place>& group) {
    for (size_t i = 0; i < to.size(); ++i) {
      const Known k = known(last, then, i, group[i]);
      if (to[i].size() > 0) to[i].load(group[i].span(), k.marks ? k.last : nullptr, k.marks);
    }
  };
  load(image.arrays, last_.arrays, then_.arrays, now.arrays);
  load(image.shared, last_.shared, then_.shared, now.shared);
  load(image.arenas, last_.arenas, then_.arenas, now.arenas);
  remember(image, std::move(now));
}

bool MemoryKeeper::holds(const MemoryImage& image) const {
  const Places now = places();
  const auto same = [](const std::vector<memory::Pages>& pages, const std::vector<Place>& group) {
    for (size_t i = 0; i < pages.size(); ++i)
      if (pages[i].size() > 0 && !pages[i].equals(group[i].span())) return false;
    return true;
  };
  return same(image.arrays, now.arrays) && same(image.shared, now.shared) && same(image.arenas, now.arenas);
}

}  // namespace pallasim::interp
