// Compiled plans of the process, by text and options.
#include <fmt/format.h>

#include <list>
#include <map>
#include <mutex>

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

// Least recently used plans go when the texts exceed the limit.
class PlanCache {
 public:
  std::shared_ptr<const Plan> get(std::string_view text, const Options& o) {
    std::string key = fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}|", o.chip->name, static_cast<int>(o.numerics), static_cast<int>(o.rules), o.checked, o.fuse,
                                  static_cast<int>(o.uninitialized), static_cast<int>(o.out_of_bounds), static_cast<int>(o.padding),
                                  static_cast<int>(o.pipeline), o.cores, o.revisit_is_error, o.verify_split);
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
