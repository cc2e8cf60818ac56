#include "memory_image.h"

#include <algorithm>
#include <utility>

#include "../plan/kinds.h"

namespace pallasim::interp {

MemoryKeeper::MemoryKeeper(Execution& ex, WrittenPages* written) : ex_(ex), written_(written) {
  array_told_.assign(ex.plan->module.operands.size(), written != nullptr);
  // The engine poisons the gaps of these whenever it comes to it.
  for (const DeferredInit& d : ex.deferred_init) array_told_[d.buffer - kFirstOperandBuffer] = false;
  // Nor does a step say when bytes come that copies left out, or results of products.
  const Plan& p = *ex.plan;
  temporaries_told_ = written &&
                      std::none_of(p.memory.elidable.begin(), p.memory.elidable.end(),
                                   [&](size_t i) { return p.memory.allocations[i].private_to_thread(); }) &&
                      std::none_of(p.steps.begin(), p.steps.end(), [](const Step& s) { return s.kind == Kind::wgmma; });
}

int64_t MemoryImage::apart(const MemoryImage& o) const {
  int64_t bytes = 0;
  const auto add = [&](const std::vector<memory::Pages>& a, const std::vector<memory::Pages>& b) {
    static const memory::Pages none;
    for (size_t i = 0; i < a.size(); ++i) bytes += a[i].apart(i < b.size() ? b[i] : none);
  };
  add(arrays, o.arrays), add(shared, o.shared), add(slots, o.slots), add(temporaries, o.temporaries);
  return bytes;
}

// Of an arena whose thread has not begun all bytes count as slots.
int64_t MemoryKeeper::slot_bytes(size_t arena) const {
  const auto all = static_cast<int64_t>(ex_.arenas[arena]->memory.size());
  const Body* body = ex_.points > 0               ? &ex_.plan->first()
                     : arena < ex_.threads.size() ? ex_.threads[arena].body
                                                  : nullptr;
  return body ? std::min(all, body->image_bytes()) : all;
}

MemoryKeeper::Places MemoryKeeper::places(const MemoryImage* like) const {
  Places r;
  const std::vector<ir::Operand>& operands = ex_.plan->module.operands;
  for (const std::vector<std::byte*>& device : ex_.operands)
    for (size_t i = 0; i < operands.size(); ++i)
      r.arrays.push_back({device[i], device[i] ? operands[i].array->num_bytes() : 0, array_told_[i]});
  for (Execution::SharedMemory& m : ex_.shared_memory) {
    // What copies left out comes to memory of this kind without a step that says so.
    const bool told = written_ && ex_.plan->memory.elidable_of(m.allocation) < 0;
    for (Bytes& one : m.of_units) r.shared.push_back({one.data(), static_cast<int64_t>(one.size()), told});
  }
  for (size_t i = 0; i < ex_.arenas.size(); ++i) {
    if (!ex_.arenas[i]) {
      r.slots.push_back({nullptr, 0, false});
      r.temporaries.push_back({nullptr, 0, false});
      continue;
    }
    Bytes& memory = ex_.arenas[i]->memory;
    const bool known = like && i < like->slots.size() && like->slots[i].size() > 0;
    const int64_t slots = known ? like->slots[i].size() : slot_bytes(i);
    r.slots.push_back({memory.data(), slots, false});
    r.temporaries.push_back({memory.data() + slots, static_cast<int64_t>(memory.size()) - slots, temporaries_told_});
  }
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
  for (const std::vector<Place>* group : {&then_.arrays, &then_.shared, &then_.temporaries})
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
                saved(last_.slots, then_.slots, now.slots),
                saved(last_.temporaries, then_.temporaries, now.temporaries)};
  remember(r, std::move(now));
  return r;
}

void MemoryKeeper::load(const MemoryImage& image) {
  // What programs do not have any more is there for those that begin.
  size_t from = 0;
  for (Execution::SharedMemory& m : ex_.shared_memory)
    for (Bytes& one : m.of_units) {
      const auto bytes = static_cast<size_t>(image.shared[from++].size());
      if (bytes == 0 && !one.empty()) {
        m.free.push_back(std::exchange(one, {}));
      } else if (bytes > 0 && one.empty() && !m.free.empty()) {
        one = std::move(m.free.back());
        m.free.pop_back();
      }
      one.resize(bytes);
    }
  Places now = places(&image);
  const auto load = [&](const std::vector<memory::Pages>& to, const std::vector<memory::Pages>& last,
                        const std::vector<Place>& then, const std::vector<Place>& group) {
    for (size_t i = 0; i < to.size(); ++i) {
      const Known k = known(last, then, i, group[i]);
      if (to[i].size() > 0) to[i].load(group[i].span(), k.marks ? k.last : nullptr, k.marks);
    }
  };
  load(image.arrays, last_.arrays, then_.arrays, now.arrays);
  load(image.shared, last_.shared, then_.shared, now.shared);
  load(image.slots, last_.slots, then_.slots, now.slots);
  load(image.temporaries, last_.temporaries, then_.temporaries, now.temporaries);
  remember(image, std::move(now));
}

bool MemoryKeeper::holds(const MemoryImage& image) const {
  const Places now = places(&image);
  const auto same = [](const std::vector<memory::Pages>& pages, const std::vector<Place>& group) {
    for (size_t i = 0; i < pages.size(); ++i)
      if (pages[i].size() > 0 && !pages[i].equals(group[i].span())) return false;
    return true;
  };
  return same(image.arrays, now.arrays) && same(image.shared, now.shared) && same(image.slots, now.slots) &&
         same(image.temporaries, now.temporaries);
}

}  // namespace pallasim::interp
