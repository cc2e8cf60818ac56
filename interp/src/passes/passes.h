// Rewrites of a module before a plan is made of it, and of the plan: each has a name, a switch (PlanOptions::without)
// and a count, and can be looked at before and after (PassObserver).
#pragma once
#include <set>
#include <span>
#include <string>
#include <unordered_map>

#include "pallasim/interp/passes.h"
#include "pallasim/ir/module.h"

namespace pallasim::interp {
class Plan;
struct PlanOptions;
}  // namespace pallasim::interp

namespace pallasim::interp::passes {

// Copies that need not move what they copy: what forward_copies finds.
struct CopyForwarding {
  std::set<ir::ValueId> elided;                             // refs: what copies bring may stay where it is
  std::unordered_map<const ir::Op*, const ir::Op*> stores;  // by store: the copy which alone takes its value
};
std::string text_of(const CopyForwarding&);  // for who looks at passes

// What a pass is given, and may change: one body.
struct Target {
  ir::Graph& graph;
  std::span<const ir::GridAxis> grid;
  int64_t changed = 0;                   // by the passes before it
  size_t scratch = 0;                    // how many of the last arguments are scratch
  CopyForwarding* forwarding = nullptr;  // what copies need not move; null where the plan may not know
};

// Each returns how much it changed.
#define PALLASIM_MODULE_PASS(name, what) int64_t name(const Target&);
#define PALLASIM_PLAN_PASS(name, what) int64_t name(Plan&);
#include "passes.def"

// All of them, as far as the options say. `watch` may be null.
void rewrite(ir::Module&, CopyForwarding*, const PlanOptions&, PassObserver* watch);
void rewrite(Plan&, PassObserver* watch);

}  // namespace pallasim::interp::passes
