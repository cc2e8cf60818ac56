#include "idle.h"

#include <algorithm>

#include "learnt.h"

namespace pallasim::interp {

int64_t bytes_held(const Execution& ex) {
  int64_t n = static_cast<int64_t>(sizeof(Execution)) + ex.host.strip_bytes();
  for (const auto& a : ex.arenas)
    if (a) n += static_cast<int64_t>(a->memory.capacity()) + 128;
  n += static_cast<int64_t>(ex.threads.capacity() * sizeof(Thread));
  for (const Execution::SharedMemory& m : ex.shared_memory)
    for (const auto* all : {&m.of_units, &m.free})
      for (const Bytes& one : *all) n += static_cast<int64_t>(one.capacity());
  return n;
}

IdleExecutions& idle_executions() {
  static auto* all = new IdleExecutions;  // outlives the plans of other statics
  return *all;
}

std::unique_ptr<Execution> IdleExecutions::remove(Place p) {
  bytes_ -= p->bytes;
  std::unique_ptr<Execution> e = std::move(p->execution);
  spare_.splice(spare_.begin(), entries_, p);
  return e;
}

std::unique_ptr<Execution> IdleExecutions::take(const Plan& plan) {
  const std::lock_guard lock(mutex_);
  const auto it = places_.find(&plan);
  if (it == places_.end() || it->second.empty()) return nullptr;
  const Place last = it->second.back();
  it->second.pop_back();
  return remove(last);
}

void IdleExecutions::give(std::unique_ptr<Execution> e) {
  std::vector<std::unique_ptr<Execution>> gone;  // ends outside of the lock
  const int64_t bytes = bytes_held(*e);
  learnt(*e->plan);  // ends with the plan, and its executions here by that
  const std::lock_guard lock(mutex_);
  const Plan* plan = e->plan;
  std::vector<Place>& own = places_[plan];
  if (bytes > kLimit || own.size() >= kMostOfAPlan) {
    gone.push_back(std::move(e));
    return;
  }
  if (spare_.empty()) spare_.emplace_front();
  entries_.splice(entries_.begin(), spare_, spare_.begin());
  entries_.front() = {std::move(e), bytes};
  own.push_back(entries_.begin());
  bytes_ += bytes;
  while (bytes_ > kLimit) {
    const Place oldest = std::prev(entries_.end());
    std::vector<Place>& of_plan = places_[oldest->execution->plan];
    std::erase(of_plan, oldest);
    gone.push_back(remove(oldest));
  }
}

void IdleExecutions::forget(const Plan& plan) {
  std::vector<std::unique_ptr<Execution>> gone;
  const std::lock_guard lock(mutex_);
  const auto it = places_.find(&plan);
  if (it == places_.end()) return;
  for (const Place p : it->second) gone.push_back(remove(p));
  places_.erase(it);
}

int64_t IdleExecutions::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

int64_t IdleExecutions::bytes_of(const Plan& plan) const {
  const std::lock_guard lock(mutex_);
  const auto it = places_.find(&plan);
  int64_t n = 0;
  if (it != places_.end())
    for (const Place p : it->second) n += p->bytes;
  return n;
}

}  // namespace pallasim::interp
