// Compiled plans of the process, by text and options.
#include <list>
#include <map>
#include <mutex>

#include "../compile/compile.h"
#include "pallasim/ir/diagnostic.h"
#include "pallasim/ir/module.h"

namespace pallasim::interp {

int64_t Plan::bytes() const {
  const size_t own = sizeof(Plan) + memory.constants.size() + steps.capacity() * sizeof(Step);
  int64_t n = static_cast<int64_t>(own) + payloads.bytes();
  for (const auto& b : bodies) n += static_cast<int64_t>(sizeof(Body) + b->image.size());
  if (together.plan) n += together.plan->bytes();
  const std::lock_guard lock(mutex);
  for (const auto& [sizes, plan] : specialised) n += plan->bytes();
  return n;
}

static std::shared_ptr<const Plan> compile_watched(ir::Module module, const PlanOptions& options, PassWatch* watch) {
  ir::verify(module);
  if (!module.params.empty()) {
    auto plan = std::make_shared<Plan>();  // specialised at the first launch of each size
    plan->module = std::move(module);
    plan->options = options;
    return plan;
  }
  try {
    return compile_plan(std::move(module), options, watch);
  } catch (ir::DiagnosticError& e) {
    if (options.chip->family != hw::Family::Generic) e.diagnostic().chip = options.chip->name;
    std::move(e.diagnostic()).raise();
  }
}

std::shared_ptr<const Plan> compile(ir::Module module, const PlanOptions& options) {
  return compile_watched(std::move(module), options, nullptr);
}

std::shared_ptr<const Plan> compile(ir::Module module, const PlanOptions& options, PassWatch& watch) {
  return compile_watched(std::move(module), options, &watch);
}

namespace {

// Least recently used plans go when texts and plans exceed the limit.
class PlanCache {
  struct Entry {
    std::string key;
    std::shared_ptr<const Plan> plan;
  };

 public:
  std::shared_ptr<const Plan> get(std::string_view text, const PlanOptions& o) {
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

std::shared_ptr<const Plan> compile_cached(std::string_view text, const PlanOptions& o) {
  static PlanCache cache;
  return cache.get(text, o);
}

}  // namespace pallasim::interp
