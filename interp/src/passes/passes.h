// Rewrites of a module before a plan is made of it, and of the plan: each has a name, a switch (PlanOptions::without)
// and a count, and can be looked at before and after (PassWatch).
#pragma once
#include <span>

#include "pallasim/interp/passes.h"
#include "pallasim/ir/module.h"

namespace pallasim::interp {
class Plan;
struct PlanOptions;
}  // namespace pallasim::interp

namespace pallasim::interp::passes {

// What a pass is given, and may change: one body.
struct Target {
  ir::Graph& graph;
  std::span<const ir::GridAxis> grid;
  int64_t changed = 0;  // by the passes before it
};

// Each returns how much it changed.
#define PALLASIM_MODULE_PASS(name, what) int64_t name(const Target&);
#define PALLASIM_PLAN_PASS(name, what) int64_t name(Plan&);
#include "passes.def"

// All of them, as far as the options say. `watch` may be null.
void rewrite(ir::Module&, const PlanOptions&, PassWatch* watch);
void rewrite(Plan&, PassWatch* watch);

}  // namespace pallasim::interp::passes
