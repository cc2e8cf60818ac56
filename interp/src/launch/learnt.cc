#include "learnt.h"

#include "idle.h"

namespace pallasim::interp {

Learnt::~Learnt() { idle_executions().forget(plan_); }

std::shared_ptr<const Plan> Learnt::find(const std::string& values) const {
  const std::lock_guard lock(mutex_);
  const auto it = specialised_.find(values);
  return it == specialised_.end() ? nullptr : it->second;
}

void Learnt::keep(const std::string& values, std::shared_ptr<const Plan> plan) {
  const std::lock_guard lock(mutex_);
  if (specialised_.size() >= kMost) specialised_.clear();
  specialised_[values] = std::move(plan);
}

int64_t Learnt::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t n = 0;
  for (const auto& [values, plan] : specialised_) n += plan->bytes() + learnt(*plan).bytes();
  return n;
}

Learnt& learnt(const Plan& plan) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!plan.beside) plan.beside = std::make_shared<Learnt>(plan);
  return *static_cast<Learnt*>(plan.beside.get());
}

}  // namespace pallasim::interp
