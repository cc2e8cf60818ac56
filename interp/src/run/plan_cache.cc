// Compiled plans of the process, by text and options.
#include <fmt/format.h>

#include <list>
#include <map>
#include <mutex>
#include <tuple>

#include "../plan.h"
#include "pallasim/ir/module.h"

namespace pallasim::interp {

std::shared_ptr<const Plan> compile(ir::Module module, const Options& options) {
  ir::verify(module);
  if (!module.params.empty()) {
    auto plan = std::make_shared<Plan>();  // specialised at the first launch of each size
    plan->module = std::move(module);
    plan->options = options;
    return plan;
  }
  return compile_plan(std::move(module), options);
}

namespace {

// What a plan depends on besides its text. Every option is named, so that a new one has to be put on one side or the other.
std::string plan_key(const Options& o) {
  const auto& [policy, seed, replay, workers, chip, rules, checked, fuse, max_steps, livelock_steps, out_of_bounds, padding, pipeline, revisit_is_error, verify_split,
               cores, uninitialized, copies, numerics, max_memory, grid_order, record_grid, record_calls] = o;
  const auto number = [](auto v) { return static_cast<int64_t>(v); };
  std::string key(chip->name);
  for (int64_t v : {number(rules), number(checked), number(fuse), number(out_of_bounds), number(padding), number(pipeline), number(revisit_is_error),
                    number(cores), number(uninitialized), number(numerics), max_memory, number(verify_split)})
    key += fmt::format(",{}", v);
  // How a plan is run, and what is kept of that.
  static_cast<void>(std::tie(policy, seed, replay, workers, max_steps, livelock_steps, copies, grid_order, record_grid, record_calls));
  return key + "|";
}

// Least recently used plans go when the texts exceed the limit.
class PlanCache {
 public:
  std::shared_ptr<const Plan> get(std::string_view text, const Options& o) {
    std::string key = plan_key(o);
    key += text;
    {
      std::lock_guard lock(mutex_);
      if (auto it = index_.find(key); it != index_.end()) {
        entries_.splice(entries_.begin(), entries_, it->second);
        return it->second->plan;
      }
    }
    auto plan = compile(ir::parse(text), o);
    std::lock_guard lock(mutex_);
    if (auto it = index_.find(key); it != index_.end()) return it->second->plan;
    bytes_ += key.size();
    entries_.push_front({std::move(key), plan});
    index_[entries_.front().key] = entries_.begin();
    while (bytes_ > kLimit && entries_.size() > 1) {
      bytes_ -= entries_.back().key.size();
      index_.erase(entries_.back().key);
      entries_.pop_back();
    }
    return plan;
  }

 private:
  static constexpr size_t kLimit = 256u << 20;
  struct Entry {
    std::string key;
    std::shared_ptr<const Plan> plan;
  };
  std::mutex mutex_;
  std::list<Entry> entries_;
  std::map<std::string_view, std::list<Entry>::iterator> index_;
  size_t bytes_ = 0;
};

}  // namespace

std::shared_ptr<const Plan> compile_cached(std::string_view text, const Options& o) {
  static PlanCache cache;
  return cache.get(text, o);
}

}  // namespace pallasim::interp
