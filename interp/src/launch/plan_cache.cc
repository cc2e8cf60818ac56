// Compiled plans of the process, by text and options.
#include <fmt/format.h>

#include <list>
#include <map>
#include <mutex>
#include <tuple>

#include "../compile/compile.h"
#include "pallasim/ir/module.h"

namespace pallasim::interp {

int64_t Plan::bytes() const {
  const size_t own = sizeof(Plan) + constants.size() + steps.capacity() * sizeof(Step);
  int64_t n = static_cast<int64_t>(own) + payload_bytes_;
  for (const auto& b : bodies) n += static_cast<int64_t>(sizeof(Body) + b->image.size());
  const std::lock_guard lock(mutex);
  for (const auto& [sizes, plan] : specialised) n += plan->bytes();
  return n;
}

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

// What a plan depends on besides its text. Every option is named: a new one has to be put on one side or the other.
std::string plan_key(const Options& o) {
  const auto& [policy, seed, replay, workers, chip, rules, checked, fuse, max_steps, livelock_steps, out_of_bounds,
               padding, pipeline, revisit_is_error, verify_split, verify_restore, cores, uninitialized, copies,
               numerics, max_memory, grid_order, record_grid, record_calls, model] = o;
  const auto number = [](auto v) { return static_cast<int64_t>(v); };
  std::string key(chip->name);
  for (int64_t v : {number(rules), number(checked), number(fuse), number(out_of_bounds), number(padding),
                    number(pipeline), number(revisit_is_error), number(cores), number(uninitialized), number(numerics),
                    max_memory, number(verify_split)})
    key += fmt::format(",{}", v);
  if (model) key += fmt::format(",{}", static_cast<const void*>(model));
  // How a plan is run, and what is kept of that.
  static_cast<void>(std::tie(policy, seed, replay, workers, max_steps, livelock_steps, copies, verify_restore,
                             grid_order, record_grid, record_calls));
  return key + "|";
}

// Least recently used plans go when texts and plans exceed the limit.
class PlanCache {
  struct Entry {
    std::string key;
    std::shared_ptr<const Plan> plan;
  };

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
    std::list<Entry> gone;  // ends outside of the lock
    std::lock_guard lock(mutex_);
    if (auto it = index_.find(key); it != index_.end()) return it->second->plan;
    entries_.push_front({std::move(key), plan});
    index_[entries_.front().key] = entries_.begin();
    // Looked at as a whole: plans grow by their specialisations.
    int64_t bytes = 0;
    auto e = entries_.begin();
    while (e != entries_.end() && (bytes += cost(*e)) <= kPlanCacheBytes) ++e;
    if (e == entries_.begin()) ++e;
    for (auto old = e; old != entries_.end(); ++old) index_.erase(old->key);
    gone.splice(gone.end(), entries_, e, entries_.end());
    return plan;
  }

 private:
  // A module takes several times its text.
  static int64_t cost(const Entry& e) { return 8 * static_cast<int64_t>(e.key.size()) + e.plan->bytes(); }
  std::mutex mutex_;
  std::list<Entry> entries_;
  std::map<std::string_view, std::list<Entry>::iterator> index_;
};

}  // namespace

std::shared_ptr<const Plan> compile_cached(std::string_view text, const Options& o) {
  static PlanCache cache;
  return cache.get(text, o);
}

}  // namespace pallasim::interp
