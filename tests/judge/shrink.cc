// Makes a failing program smaller while its verdict stays of the same kind.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "judge.h"
#include "races.h"

namespace pallasim::judge {
namespace {

using ir::Attr;
using ir::Module;
using ir::Op;
using ir::OpCode;
using ir::Region;
using ir::ValueId;

void each_region(Region& r, const std::function<void(Region&)>& f) {
  f(r);
  for (Op& op : r.ops)
    for (Region& inner : op.regions) each_region(inner, f);
}

std::vector<Region*> regions(ir::Graph& g) {
  std::vector<Region*> l;
  each_region(g.region, [&](Region& r) { l.push_back(&r); });
  return l;
}

void replace(ir::Graph& g, ValueId from, ValueId to) {
  each_region(g.region, [&](Region& r) {
    for (Op& op : r.ops) std::replace(op.operands.begin(), op.operands.end(), from, to);
  });
}

bool used(ir::Graph& g, ValueId v) {
  bool found = false;
  each_region(g.region, [&](Region& r) {
    for (const Op& op : r.ops)
      found = found || std::find(op.operands.begin(), op.operands.end(), v) != op.operands.end();
  });
  return found;
}

// Operations without effects whose results nobody looks at.
void sweep(ir::Graph& g) {
  for (bool again = true; again;) {
    again = false;
    std::vector<bool> looked(g.types.size(), false);
    for (Region* r : regions(g))
      for (const Op& op : r->ops)
        for (ValueId v : op.operands) looked[static_cast<size_t>(v)] = true;
    each_region(g.region, [&](Region& r) {
      again = std::erase_if(r.ops,
                            [&](const Op& op) {
                              const uint32_t e = ir::info(op.code).effects & ~static_cast<uint32_t>(ir::kEffectRead);
                              if (op.code == OpCode::yield || !op.regions.empty() || e || op.results.empty())
                                return false;
                              return std::none_of(op.results.begin(), op.results.end(),
                                                  [&](ValueId v) { return looked[static_cast<size_t>(v)]; });
                            }) ||
              again;
    });
  }
}

// Zeros of type t, as a constant and, for arrays, its broadcast.
void add_zero(Module& m, ir::Graph& g, const ir::Type* t, ValueId result, std::vector<Op>* ops) {
  Op c;
  c.code = OpCode::constant;
  c.results = {result};
  c.attrs = {{"value", Attr::bits(t->dtype, 0)}};
  if (!t->dims.empty()) {
    c.results = {static_cast<ValueId>(g.types.size())};
    g.types.push_back(m.types->scalar(t->dtype)), g.names.emplace_back();
  }
  ops->push_back(c);
  if (t->dims.empty()) return;
  Op b;
  b.code = OpCode::broadcast_in_dim;
  b.operands = c.results, b.results = {result};
  b.attrs = {{"dims", Attr::ints({})}};
  ops->push_back(b);
}

// Loops keep a step, whatever else becomes zero.
bool steps_of_zero(ir::Graph& g) {
  std::vector<bool> zero(g.types.size(), false);
  bool found = false;
  each_region(g.region, [&](Region& r) {
    for (const Op& op : r.ops) {
      if (op.code == OpCode::constant && op.attrs[0].second.is(Attr::Kind::Bits) && op.attrs[0].second.i == 0)
        zero[static_cast<size_t>(op.results[0])] = true;
      if (op.code == OpCode::for_ && zero[static_cast<size_t>(op.operands[2])]) found = true;
    }
  });
  return found;
}

// The operations of one region of `op` in its place: one round of a loop, one branch.
bool inline_region(ir::Graph& g, Region& r, size_t at, size_t which) {
  Op op = r.ops[at];
  if (which >= op.regions.size() || op.code == OpCode::run_scoped) return false;
  if (op.code == OpCode::while_ && which != 1) return false;
  Region inner = op.regions[which];
  const std::vector<ValueId> yields = inner.ops.back().operands;
  std::vector<ValueId> given;
  if (op.code == OpCode::for_)
    given = {op.operands[0]}, given.insert(given.end(), op.operands.begin() + 3, op.operands.end());
  else if (op.code == OpCode::while_ || op.code == OpCode::call) given = op.operands;
  if (given.size() != inner.args.size() || yields.size() != op.results.size()) return false;
  inner.ops.pop_back();
  r.ops.erase(r.ops.begin() + static_cast<ptrdiff_t>(at));
  r.ops.insert(r.ops.begin() + static_cast<ptrdiff_t>(at), inner.ops.begin(), inner.ops.end());
  std::vector<ValueId> results = yields;
  for (size_t k = 0; k < given.size(); ++k) {
    replace(g, inner.args[k], given[k]);
    std::replace(results.begin(), results.end(), inner.args[k], given[k]);
  }
  for (size_t k = 0; k < results.size(); ++k) replace(g, op.results[k], results[k]);
  return true;
}

bool is_zero(ir::Graph& g, const Op& op) {
  if (op.code == OpCode::constant) return op.attrs[0].second.is(Attr::Kind::Bits) && op.attrs[0].second.i == 0;
  return op.code == OpCode::broadcast_in_dim && g.type(op.operands[0])->dims.empty();
}

// Edit `variant` of operation `at`: false where it has no meaning there.
bool edit(Module& m, ir::Graph& g, Region& r, size_t at, int variant) {
  Op& op = r.ops[at];
  if (op.code == OpCode::yield) return false;
  if (variant == 0) {  // gone; zeros for its results
    if (is_zero(g, op)) return false;
    std::vector<Op> zeros;
    for (ValueId v : op.results) {
      const ir::Type* t = g.type(v);
      if (t->is_ref || t->num_elements() > 4096) return false;
      add_zero(m, g, t, v, &zeros);
    }
    r.ops.erase(r.ops.begin() + static_cast<ptrdiff_t>(at));
    r.ops.insert(r.ops.begin() + static_cast<ptrdiff_t>(at), zeros.begin(), zeros.end());
    return true;
  }
  if (variant <= 3) {  // an operand for the result
    const auto k = static_cast<size_t>(variant - 1);
    if (op.results.size() != 1 || k >= op.operands.size() || g.type(op.operands[k]) != g.type(op.results[0]))
      return false;
    const ValueId from = op.results[0], to = op.operands[k];
    r.ops.erase(r.ops.begin() + static_cast<ptrdiff_t>(at));
    replace(g, from, to);
    return true;
  }
  if (variant <= 7) return inline_region(g, r, at, static_cast<size_t>(variant - 4));
  if (variant == 8) {  // a smaller number
    if (op.code != OpCode::constant || op.attrs.empty() || !op.attrs[0].second.is(Attr::Kind::Bits)) return false;
    Attr& a = op.attrs[0].second;
    if (!ir::is_int(a.dtype) || a.i <= 0 || a.i > 1000) return false;
    a.i = a.i / 2;
    return true;
  }
  // Another value of the same type, made before it in the same region.
  if (op.results.size() != 1) return false;
  int skip = variant - 9;
  for (size_t i = at; i-- > 0;)
    for (ValueId v : r.ops[i].results)
      if (g.type(v) == g.type(op.results[0]) && skip-- == 0) {
        const ValueId from = op.results[0];
        r.ops.erase(r.ops.begin() + static_cast<ptrdiff_t>(at));
        replace(g, from, v);
        return true;
      }
  return false;
}
constexpr int kVariants = 12;

// Drops carried value k of a loop, or result k of a branch: fewer results for operation `at`.
bool drop_result(ir::Graph& g, Region& r, size_t at, size_t k) {
  Op& op = r.ops[at];
  if (k >= op.results.size() || used(g, op.results[k])) return false;
  const auto cut = [](std::vector<ValueId>& v, size_t i) { v.erase(v.begin() + static_cast<ptrdiff_t>(i)); };
  if (op.code == OpCode::for_ || op.code == OpCode::while_) {
    const size_t before = op.code == OpCode::for_ ? 1 : 0;
    for (size_t b = 0; b < op.regions.size(); ++b) {
      if (used(g, op.regions[b].args[before + k])) return false;
    }
    for (size_t b = 0; b < op.regions.size(); ++b) {
      cut(op.regions[b].args, before + k);
      if (op.code == OpCode::for_ || b == 1) cut(op.regions[b].ops.back().operands, k);
    }
    cut(op.operands, (op.code == OpCode::for_ ? 3 : 0) + k);
  } else if (op.code == OpCode::cond || op.code == OpCode::call || op.code == OpCode::run_scoped) {
    for (Region& b : op.regions) cut(b.ops.back().operands, k);
  } else {
    return false;
  }
  cut(op.results, k);
  return true;
}

// Removes declaration `k` (operands, then scratch) where nothing uses it.
bool drop_declaration(Module& m, Case& c, size_t k) {
  const size_t operands = m.operands.size();
  if (k >= operands + m.scratch.size() || m.bodies.size() != 1) return false;
  ir::Graph& g = m.bodies[0].graph;
  if (used(g, g.region.args[k])) return false;
  if (k >= operands) {
    m.scratch.erase(m.scratch.begin() + static_cast<ptrdiff_t>(k - operands));
  } else {
    const auto kind = m.operands[k].kind;
    const auto inputs = static_cast<size_t>(m.count(ir::Operand::Kind::Prefetch) + m.count(ir::Operand::Kind::Input));
    const bool output = kind == ir::Operand::Kind::Output;
    if (kind == ir::Operand::Kind::Prefetch &&
        std::any_of(m.operands.begin(), m.operands.end(), [](const ir::Operand& o) { return o.has_block; }))
      return false;
    const auto n = static_cast<int>(output ? k - inputs : k);
    std::erase_if(m.aliases, [&](const ir::Alias& a) { return (output ? a.output : a.input) == n; });
    for (ir::Alias& a : m.aliases) {
      int& i = output ? a.output : a.input;
      if (i > n) --i;
    }
    m.operands.erase(m.operands.begin() + static_cast<ptrdiff_t>(k));
    if (!output) {
      const size_t each = c.args.size() / static_cast<size_t>(c.devices);
      for (auto d = static_cast<size_t>(c.devices); d-- > 0;)
        c.args.erase(c.args.begin() + static_cast<ptrdiff_t>(d * each + static_cast<size_t>(m.num_dynamic) + k));
    }
  }
  g.region.args.erase(g.region.args.begin() + static_cast<ptrdiff_t>(k));
  return true;
}

class Shrinker {
 public:
  Shrinker(Case c, const Verdict& v) : best_(std::move(c)), want_(v) {}

  Case run() {
    for (bool smaller = true; smaller;) {
      smaller = operations();
      smaller = results() || smaller;
      smaller = declarations() || smaller;
    }
    return best_;
  }

 private:
  bool accept(Module& m, Case c) {
    for (ir::Body& b : m.bodies) {
      sweep(b.graph);
      if (steps_of_zero(b.graph)) return false;
    }
    try {
      const Module numbered = ir::parse(ir::print(m));
      ir::verify(numbered);
      c.text = ir::print(numbered);
    } catch (const std::exception&) { return false; }
    if (c.text == best_.text) return false;
    if (m.meshes.size() > 0 && order_shows(c)) return false;  // what kept its threads apart is gone
    if (tried_++ > 20000 || judge_apart(c, want_.config).kind != want_.kind) return false;
    best_ = std::move(c);
    return true;
  }

  bool operations() {
    bool any = false;
    for (size_t body = 0; body < ir::parse(best_.text).bodies.size(); ++body)
      for (size_t r = 0; r < regions(ir::parse(best_.text).bodies[body].graph).size(); ++r)
        for (size_t at = 10000; at-- > 0;) {
          Module probe = ir::parse(best_.text);
          std::vector<Region*> all = regions(probe.bodies[body].graph);
          if (r >= all.size()) break;
          at = std::min(at, all[r]->ops.size());
          if (at >= all[r]->ops.size()) continue;
          for (int variant = 0; variant < kVariants; ++variant) {
            Module m = ir::parse(best_.text);
            all = regions(m.bodies[body].graph);
            if (r >= all.size() || at >= all[r]->ops.size()) break;
            if (keep_writes_ && variant == 0 && whole_store(all[r]->ops[at])) continue;
            if (edit(m, m.bodies[body].graph, *all[r], at, variant) && accept(m, best_)) {
              any = true;
              break;
            }
          }
        }
    return any;
  }

  bool results() {
    bool any = false;
    for (size_t r = 0;; ++r) {
      Module m = ir::parse(best_.text);
      if (r >= regions(m.bodies[0].graph).size()) return any;
      for (size_t at = 0; at < 1000; ++at)
        for (size_t k = 0; k < 6; ++k) {
          m = ir::parse(best_.text);
          auto all = regions(m.bodies[0].graph);
          if (r >= all.size() || at >= all[r]->ops.size()) break;
          any = (drop_result(m.bodies[0].graph, *all[r], at, k) && accept(m, best_)) || any;
        }
    }
  }

  bool declarations() {
    bool any = false;
    for (size_t k = 64; k-- > 0;) {
      Module m = ir::parse(best_.text);
      Case c = best_;
      any = (drop_declaration(m, c, k) && accept(m, std::move(c))) || any;
    }
    return any;
  }

  // Without its first writes every program reads what nobody wrote.
  static bool whole_store(const Op& op) {
    return (op.code == OpCode::store && !op.attr("view")) || op.code == OpCode::cond;
  }

  Case best_;
  Verdict want_;
  bool keep_writes_ = want_.kind == Verdict::Kind::Finding;
  int tried_ = 0;
};

}  // namespace

namespace {

// Items of a program whose races are known go one by one. With or without races it stays.
Case shrink_races(const Case& c, const Verdict& v) {
  Case best = c;
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = best.program->items.size(); i-- > 0;) {
      RaceProgram p = *best.program;
      if (i >= p.items.size() || !p.drop(i)) continue;
      Case next = case_of(p);
      if (next.races.empty() != c.races.empty() || judge_apart(next, v.config).kind != v.kind) continue;
      best = std::move(next);
      smaller = true;
    }
  }
  return best;
}

}  // namespace

Case shrink(const Case& c, const Verdict& v) { return c.program ? shrink_races(c, v) : Shrinker(c, v).run(); }

}  // namespace pallasim::judge
