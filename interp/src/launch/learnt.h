// What launches learnt about a plan: it lies beside the plan, which no launch changes.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "../plan/plan.h"

namespace pallasim::interp {

struct Learnt {
  explicit Learnt(const Plan& plan) : plan_(plan) {}
  ~Learnt();  // with the plan: what is kept for it elsewhere goes, too
  Learnt(const Learnt&) = delete;
  Learnt& operator=(const Learnt&) = delete;

  // Parts that were believed apart were not, or had something to say: later launches run them in order at once.
  std::atomic<bool> conflicted{false};

  // The specialisation of a module with shape parameters for a text that says their values; null: none yet.
  std::shared_ptr<const Plan> find(const std::string& values) const;
  void keep(const std::string& values, std::shared_ptr<const Plan>);
  int64_t bytes() const;  // that the specialisations hold

 private:
  static constexpr size_t kMost = 64;  // then all go
  const Plan& plan_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Plan>> specialised_;
};

// Of the plan, for as long as it lives. From several OS threads at once.
Learnt& learnt(const Plan&);

}  // namespace pallasim::interp
