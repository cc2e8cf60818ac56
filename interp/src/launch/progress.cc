#include "pallasim/interp/progress.h"

namespace pallasim::interp {

int64_t Progress::done() const {
  const std::lock_guard lock(mutex_);
  int64_t n = ended_;
  for (const Counter* c : running_) n += c->load(std::memory_order_relaxed);
  return n;
}

void Progress::begin(const Counter* part) {
  const std::lock_guard lock(mutex_);
  running_.push_back(part);
}

void Progress::end(const Counter* part) {
  const std::lock_guard lock(mutex_);
  ended_ += part->load(std::memory_order_relaxed);
  std::erase(running_, part);
}

}  // namespace pallasim::interp
