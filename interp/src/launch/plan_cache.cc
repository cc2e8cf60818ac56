// Compiled plans of the process, by text and options.
#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "../compile/driver/compile.h"
#include "../ops/functions.h"
#include "learnt.h"
#include "pallasim/ir/diagnostic.h"
#include "pallasim/ir/module.h"

namespace pallasim::interp {

static std::shared_ptr<const Plan> compile_watched(ir::Module module, const PlanOptions& options, PassObserver* watch) {
  ir::verify(module);
  if (!module.params.empty()) {
    auto plan = std::make_shared<Plan>();  // specialised at the first launch of each size
    plan->module = std::move(module);
    plan->options = options;
    return plan;
  }
  try {
    return compile_plan(std::move(module), options, ops::functions(), watch);
  } catch (ir::DiagnosticError& e) {
    if (options.chip->family != hw::Family::Generic) e.diagnostic().chip = options.chip->name;
    std::move(e.diagnostic()).raise();
  }
}

std::shared_ptr<const Plan> compile(ir::Module module, const PlanOptions& options) {
  return compile_watched(std::move(module), options, nullptr);
}

std::shared_ptr<const Plan> compile(ir::Module module, const PlanOptions& options, PassObserver& watch) {
  return compile_watched(std::move(module), options, &watch);
}

namespace {

// Of each plan the tables of locations that asked for it last.
class Tables {
 public:
  std::shared_ptr<const ir::LocTable> find(std::string_view text) {
    const auto it = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.text == text; });
    if (it == kept_.end()) return nullptr;
    std::rotate(kept_.begin(), it, it + 1);
    return kept_.front().table;
  }
  void keep(std::string_view text, std::shared_ptr<const ir::LocTable> table) {
    if (kept_.size() == kMost) kept_.pop_back();
    kept_.insert(kept_.begin(), {std::string(text), std::move(table)});
  }
  // A table has the strings of its text.
  int64_t bytes() const {
    int64_t n = 0;
    for (const Kept& k : kept_) n += 3 * static_cast<int64_t>(k.text.size());
    return n;
  }

 private:
  struct Kept {
    std::string text;
    std::shared_ptr<const ir::LocTable> table;
  };
  static constexpr size_t kMost = 4;
  std::vector<Kept> kept_;
};

size_t lines_of(std::string_view text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + (!text.empty() && text.back() != '\n');
}

// The table of a text whose kernel is known to stand in front of so many locations; null where it is no such table.
std::shared_ptr<const ir::LocTable> table_of(std::string_view locations, size_t count) {
  try {
    auto table = std::make_shared<ir::LocTable>(ir::parse_locations(locations));
    return table->size() == count ? std::move(table) : nullptr;
  } catch (const ir::DiagnosticError&) { return nullptr; }
}

// Least recently used plans go when texts and plans exceed the limit.
class PlanCache {
  struct Entry {
    std::string key;
    std::shared_ptr<const Plan> plan;
    Tables tables;
  };

 public:
  CachedPlan get(std::string_view text, const PlanOptions& o) {
    const ir::TextParts parts = ir::split_locations(text);
    const size_t lines = lines_of(parts.locations);
    const std::string key = key_of(o, parts.kernel, lines);
    if (CachedPlan r = find(key, parts.locations); r.plan) {
      if (r.locs) return r;
      if (auto table = table_of(parts.locations, lines))
        return keep(key, parts.locations, std::move(r.plan), std::move(table));
    }
    ir::Module module = ir::parse(text);
    // A table that is written another way, several locations to a line, say, is part of the kernel's text.
    const bool apart = module.locs.size() == lines;
    if (!apart)
      if (CachedPlan r = find(key_of(o, text, kNoTable), {}); r.plan) return r;
    auto table = std::make_shared<const ir::LocTable>(module.locs);
    auto plan = compile(std::move(module), o);
    return apart ? keep(key, parts.locations, std::move(plan), std::move(table))
                 : keep(key_of(o, text, kNoTable), {}, std::move(plan), std::move(table));
  }

 private:
  static constexpr size_t kNoTable = SIZE_MAX;

  static std::string key_of(const PlanOptions& o, std::string_view kernel, size_t locations) {
    std::string key = plan_key(o);
    key += kernel;
    key += '\0';
    key += locations == kNoTable ? "all" : std::to_string(locations);
    return key;
  }
  // No plan: it is not there. No table: nobody asked with this one lately.
  CachedPlan find(const std::string& key, std::string_view locations) {
    const std::lock_guard lock(mutex_);
    const auto it = index_.find(key);
    if (it == index_.end()) return {};
    entries_.splice(entries_.begin(), entries_, it->second);
    return {it->second->plan, it->second->tables.find(locations)};
  }
  CachedPlan keep(const std::string& key, std::string_view locations, std::shared_ptr<const Plan> plan,
                  std::shared_ptr<const ir::LocTable> table) {
    std::list<Entry> gone;  // ends outside of the lock
    const std::lock_guard lock(mutex_);
    if (auto it = index_.find(key); it != index_.end()) {
      if (!it->second->tables.find(locations)) it->second->tables.keep(locations, table);
      return {it->second->plan, std::move(table)};
    }
    entries_.push_front({key, plan, {}});
    entries_.front().tables.keep(locations, table);
    index_[entries_.front().key] = entries_.begin();
    // Looked at as a whole: plans grow by their specialisations.
    int64_t bytes = 0;
    auto e = entries_.begin();
    while (e != entries_.end() && (bytes += cost(*e)) <= kPlanCacheBytes) ++e;
    if (e == entries_.begin()) ++e;
    for (auto old = e; old != entries_.end(); ++old) index_.erase(old->key);
    gone.splice(gone.end(), entries_, e, entries_.end());
    return {std::move(plan), std::move(table)};
  }
  // A module takes several times its text.
  static int64_t cost(const Entry& e) {
    return 8 * static_cast<int64_t>(e.key.size()) + e.tables.bytes() + e.plan->bytes() + learnt(*e.plan).bytes();
  }
  std::mutex mutex_;
  std::list<Entry> entries_;
  std::map<std::string_view, std::list<Entry>::iterator> index_;
};

}  // namespace

CachedPlan compile_cached(std::string_view text, const PlanOptions& o) {
  static PlanCache cache;
  return cache.get(text, o);
}

}  // namespace pallasim::interp
