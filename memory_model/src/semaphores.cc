#include "pallasim/memory/semaphores.h"

#include <fmt/format.h>

#include "pallasim/memory/saturate.h"

#include <algorithm>

namespace pallasim::memory {

int SemaphoreLayout::add(std::string name, int64_t count, Level owner, bool bytes) {
  blocks_.push_back({std::move(name), count, owner, bytes, 0});
  set_units(std::move(units_));
  return static_cast<int>(blocks_.size()) - 1;
}

int64_t SemaphoreLayout::owners(int block) const {
  return units_.per_device(blocks_[static_cast<size_t>(block)].owner);
}

void SemaphoreLayout::set_units(Units units) {
  units_ = std::move(units);
  threads_ = units_.per_device(Level::Thread);
  per_device_ = 0;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    blocks_[b].first = per_device_;
    per_device_ = memory::add(per_device_, mul(blocks_[b].count, owners(static_cast<int>(b))));
  }
}

int64_t SemaphoreLayout::id(int block, int64_t index, int64_t thread) const {
  const SemaphoreBlock& b = blocks_[static_cast<size_t>(block)];
  const int64_t device = thread / threads_, local = thread % threads_;
  const int64_t unit = b.owner == Level::Thread ? local : b.owner == Level::Device ? 0 : units_.unit_of(b.owner, local);
  return device * per_device_ + b.first + unit * b.count + index;
}

int64_t SemaphoreLayout::id_of_unit(int block, int64_t index, int64_t device, int64_t unit) const {
  const SemaphoreBlock& b = blocks_[static_cast<size_t>(block)];
  return device * per_device_ + b.first + unit * b.count + index;
}

SemaphoreLayout::Place SemaphoreLayout::place(int64_t id) const {
  const int64_t device = id / std::max<int64_t>(1, per_device_), inside = id % std::max<int64_t>(1, per_device_);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const SemaphoreBlock& b = blocks_[i];
    const int64_t local = inside - b.first;
    if (local >= 0 && local < b.count * owners(static_cast<int>(i)))
      return {static_cast<int>(i), local % b.count, device * units_.per_device(b.owner) + local / b.count};
  }
  return {};
}

std::string SemaphoreLayout::name(int64_t id, int64_t devices, int* block) const {
  const Place p = place(id);
  *block = p.block;
  if (p.block < 0) return fmt::format("semaphore {}", id);
  const SemaphoreBlock& b = blocks_[static_cast<size_t>(p.block)];
  std::string r = b.name.empty() ? "semaphore" : b.name;
  if (b.count > 1) r += fmt::format("[{}]", p.index);
  return r + Units(units_.meshes(), devices).of(b.owner, p.unit);
}

int64_t SemaphoreLayout::first_thread(int64_t id, int64_t devices) const {
  const Place p = place(id);
  if (p.block < 0) return -1;
  return Units(units_.meshes(), devices).threads_of(blocks_[static_cast<size_t>(p.block)].owner, p.unit).first;
}

void Semaphores::reset() {
  std::fill(counts_.begin(), counts_.end(), 0);
  std::fill(signalled_.begin(), signalled_.end(), 0);
  for (auto& w : waiters_) w.clear();
}

void Semaphores::signal(int64_t id, int64_t amount, std::vector<int32_t>* woken) {
  int64_t& count = counts_[static_cast<size_t>(id)];
  count = add(count, amount);
  if (amount > 0) signalled_[static_cast<size_t>(id)] = add(signalled_[static_cast<size_t>(id)], amount);
  auto& w = waiters_[static_cast<size_t>(id)];
  woken->insert(woken->end(), w.begin(), w.end());
  w.clear();
}

bool Semaphores::wait(int64_t id, int64_t value, bool decrement, int32_t thread) {
  int64_t& count = counts_[static_cast<size_t>(id)];
  if (count < value) {
    waiters_[static_cast<size_t>(id)].push_back(thread);
    return false;
  }
  if (decrement) count = add(count, value == INT64_MIN ? INT64_MAX : -value);
  return true;
}

}  // namespace pallasim::memory
