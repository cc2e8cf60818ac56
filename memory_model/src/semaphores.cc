#include "pallasim/memory/semaphores.h"

#include <fmt/format.h>

#include "pallasim/memory/saturate.h"

#include <algorithm>

namespace pallasim::memory {

int SemaphoreLayout::add(std::string name, int64_t count, bool per_thread, bool bytes) {
  int64_t& next = per_thread ? per_thread_ : shared_;
  blocks_.push_back({std::move(name), next, count, per_thread, bytes});
  next += count;
  return static_cast<int>(blocks_.size()) - 1;
}

int64_t SemaphoreLayout::id(int block, int64_t index, int64_t thread) const {
  const SemaphoreBlock& b = blocks_[static_cast<size_t>(block)];
  const int64_t device = thread / threads_ * of_device();
  return device + (b.per_thread ? shared_ + thread % threads_ * per_thread_ : 0) + b.first + index;
}

std::string SemaphoreLayout::name(int64_t id, int64_t threads, int* block) const {
  const int64_t device = id / std::max<int64_t>(1, of_device()), inside = id % std::max<int64_t>(1, of_device());
  const bool owned = inside >= shared_;
  const int64_t each = std::max<int64_t>(1, per_thread_);
  const int64_t thread = owned ? (inside - shared_) / each : -1, local = owned ? (inside - shared_) % each : inside;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const SemaphoreBlock& b = blocks_[i];
    if (b.per_thread != owned || local < b.first || local >= b.first + b.count) continue;
    *block = static_cast<int>(i);
    std::string r = b.name.empty() ? "semaphore" : b.name;
    if (b.count > 1) r += fmt::format("[{}]", local - b.first);
    if (owned && threads_ > 1) r += fmt::format(" of thread {}", thread);
    if (threads > threads_) r += fmt::format("{} device {}", owned && threads_ > 1 ? " on" : " of", device);
    return r;
  }
  *block = -1;
  return fmt::format("semaphore {}", id);
}

void Semaphores::reset() {
  std::fill(counts_.begin(), counts_.end(), 0);
  for (auto& w : waiters_) w.clear();
}

void Semaphores::signal(int64_t id, int64_t amount, std::vector<int32_t>* woken) {
  int64_t& count = counts_[static_cast<size_t>(id)];
  count = add(count, amount);
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
