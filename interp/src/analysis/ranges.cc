#include "ranges.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "pallasim/ir/op_table.h"

namespace pallasim::interp::analysis {
namespace {

using ir::Op, ir::OpCode, ir::Region, ir::ValueId;

struct Range {
  int64_t least, greatest;
  bool fits() const { return least >= INT32_MIN && greatest <= INT32_MAX; }
};

class Folder {
 public:
  explicit Folder(ir::Graph& graph) : graph_(graph) {}

  int run() {
    region(graph_.region);
    if (replaced_ > 0) drop_unused();
    return replaced_;
  }

 private:
  bool is(ValueId v, ir::DType t) const { return graph_.type(v)->is_scalar() && graph_.type(v)->dtype == t; }
  std::optional<Range> range(ValueId v) const {
    const auto it = ranges_.find(v);
    return it == ranges_.end() ? std::nullopt : std::optional(it->second);
  }
  std::optional<bool> truth(ValueId v) const {
    const auto it = truths_.find(v);
    return it == truths_.end() ? std::nullopt : std::optional(it->second);
  }

  void region(Region& r) {
    std::vector<Op> kept;
    kept.reserve(r.ops.size());
    for (Op& op : r.ops) {
      for (ValueId& v : op.operands)
        if (const auto it = instead_.find(v); it != instead_.end()) v = it->second;
      if (op.code == OpCode::for_ || op.code == OpCode::parallel_loop) learn_loop(op);
      for (Region& inner : op.regions) region(inner);
      if (op.regions.empty() && op.results.size() == 1 && graph_.type(op.results[0])->is_scalar() && gone(op)) continue;
      kept.push_back(std::move(op));
    }
    r.ops = std::move(kept);
  }

  // An index lies between the bounds; a carry that begins as the index and grows by the step is the index by another
  // name.
  void learn_loop(const Op& op) {
    const Region& body = op.regions[0];
    const std::optional<Range> lower = range(op.operands[0]), upper = range(op.operands[1]);
    if (!lower || !upper || !is(body.args[0], ir::DType::I32) || upper->greatest <= lower->least) return;
    const Range index{lower->least, upper->greatest - 1};
    ranges_[body.args[0]] = index;
    const ir::Attr* reverse = op.attr("reverse");
    if (reverse && reverse->is_true()) return;
    for (size_t i = 0; i + 3 < op.operands.size(); ++i)
      if (is(body.args[i + 1], ir::DType::I32) && same(op.operands[i + 3], op.operands[0]) && grows(body, op, i))
        ranges_[body.args[i + 1]] = index;
  }
  bool same(ValueId a, ValueId b) const {
    const std::optional<Range> x = range(a), y = range(b);
    return a == b || (x && y && x->least == x->greatest && y->least == y->greatest && x->least == y->least);
  }
  bool grows(const Region& body, const Op& loop, size_t carry) const {
    const ValueId now = body.args[carry + 1], next = body.ops.back().operands[carry];
    return std::any_of(body.ops.begin(), body.ops.end(), [&](const Op& o) {
      if (o.code != OpCode::add || o.results[0] != next) return false;
      return (o.operands[0] == now && same_step(o.operands[1], loop.operands[2], body)) ||
             (o.operands[1] == now && same_step(o.operands[0], loop.operands[2], body));
    });
  }
  // The amount may be a constant of the body, which nobody has seen yet.
  bool same_step(ValueId amount, ValueId step, const Region& body) const {
    if (same(amount, step)) return true;
    const std::optional<Range> by = range(step);
    return by && by->least == by->greatest && std::any_of(body.ops.begin(), body.ops.end(), [&](const Op& o) {
             const std::optional<int64_t> v =
                 o.results.size() == 1 && o.results[0] == amount ? constant(o) : std::nullopt;
             return v && *v == by->least;
           });
  }

  static std::optional<int64_t> constant(const Op& op) {
    const ir::Attr* v = op.code == OpCode::constant ? op.attr("value") : nullptr;
    if (!v || !v->is(ir::Attr::Kind::Bits)) return {};
    if (v->dtype == ir::DType::Bool) return v->i & 1;
    return v->dtype == ir::DType::I32 ? std::optional<int64_t>(static_cast<int32_t>(v->i)) : std::nullopt;
  }

  // Learns what the result is. True: somebody else is used instead of it.
  bool gone(Op& op) {
    const ValueId out = op.results[0];
    if (op.code == OpCode::select_n && is(op.operands[0], ir::DType::Bool) && op.operands.size() == 3) {
      if (const std::optional<bool> p = truth(op.operands[0])) {
        instead_[out] = op.operands[*p ? 2 : 1];
        return ++replaced_, true;
      }
    }
    if (is(out, ir::DType::Bool)) {
      if (const std::optional<bool> v = answer(op)) {
        truths_[out] = *v;
        if (op.code != OpCode::constant) become(op, *v);
      }
    } else if (is(out, ir::DType::I32)) {
      if (const std::optional<Range> r = result(op); r && r->fits()) ranges_[out] = *r;
    }
    return false;
  }
  void become(Op& op, bool value) {
    op.code = OpCode::constant;
    op.operands.clear();
    op.attrs = {{"value", ir::Attr::bits(ir::DType::Bool, value)}};
    ++replaced_;
  }

  std::optional<bool> answer(const Op& op) const {
    if (const std::optional<int64_t> v = constant(op)) return *v != 0;
    if (op.operands.empty() || op.operands.size() > 2) return {};
    const bool truths =
        std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId v) { return is(v, ir::DType::Bool); });
    if (truths) return of_truths(op);
    if (op.operands.size() != 2 || !is(op.operands[0], ir::DType::I32) || !is(op.operands[1], ir::DType::I32))
      return {};
    const std::optional<Range> a = range(op.operands[0]), b = range(op.operands[1]);
    if (!a || !b) return {};
    const bool below = a->greatest<b->least, above = a->least> b->greatest, most = a->greatest <= b->least,
               least = a->least >= b->greatest, one = most && least;
    switch (op.code) {
      case OpCode::lt: return below ? std::optional(true) : least ? std::optional(false) : std::nullopt;
      case OpCode::le: return most ? std::optional(true) : above ? std::optional(false) : std::nullopt;
      case OpCode::gt: return above ? std::optional(true) : most ? std::optional(false) : std::nullopt;
      case OpCode::ge: return least ? std::optional(true) : below ? std::optional(false) : std::nullopt;
      case OpCode::eq: return one ? std::optional(true) : below || above ? std::optional(false) : std::nullopt;
      case OpCode::ne: return one ? std::optional(false) : below || above ? std::optional(true) : std::nullopt;
      default: return {};
    }
  }
  std::optional<bool> of_truths(const Op& op) const {
    const std::optional<bool> a = truth(op.operands[0]);
    if (op.operands.size() == 1) return op.code == OpCode::not_ && a ? std::optional(!*a) : std::nullopt;
    const std::optional<bool> b = truth(op.operands[1]);
    const bool decided = op.code == OpCode::or_;  // by one operand
    if (op.code == OpCode::and_ || op.code == OpCode::or_) {
      if (a == decided || b == decided) return decided;
      return a && b ? std::optional(!decided) : std::nullopt;
    }
    if (!a || !b) return {};
    if (op.code == OpCode::ne || op.code == OpCode::xor_) return *a != *b;
    return op.code == OpCode::eq ? std::optional(*a == *b) : std::nullopt;
  }

  std::optional<Range> result(const Op& op) const {
    if (const std::optional<int64_t> v = constant(op)) return Range{*v, *v};
    if (op.code == OpCode::program_id || op.code == OpCode::axis_index) return Range{0, INT32_MAX};
    if (op.code == OpCode::num_programs || op.code == OpCode::axis_size) return Range{0, INT32_MAX};
    if (op.code == OpCode::select_n && op.operands.size() == 3) {
      const std::optional<Range> a = range(op.operands[1]), b = range(op.operands[2]);
      if (!a || !b) return {};
      return Range{std::min(a->least, b->least), std::max(a->greatest, b->greatest)};
    }
    if (op.operands.size() != 2) return {};
    const std::optional<Range> a = range(op.operands[0]), b = range(op.operands[1]);
    if (!a || !b) return {};
    return of_two(op.code, *a, *b);
  }
  static std::optional<Range> of_two(OpCode code, Range a, Range b) {
    switch (code) {
      case OpCode::add: return Range{a.least + b.least, a.greatest + b.greatest};
      case OpCode::sub: return Range{a.least - b.greatest, a.greatest - b.least};
      case OpCode::mul: {
        const auto [lo, hi] =
            std::minmax({a.least * b.least, a.least * b.greatest, a.greatest * b.least, a.greatest * b.greatest});
        return Range{lo, hi};
      }
      case OpCode::min: return Range{std::min(a.least, b.least), std::min(a.greatest, b.greatest)};
      case OpCode::max: return Range{std::max(a.least, b.least), std::max(a.greatest, b.greatest)};
      case OpCode::rem:
        if (a.least < 0 || b.least <= 0) return {};
        return Range{0, std::min(a.greatest, b.greatest - 1)};
      case OpCode::div:
        if (a.least < 0 || b.least <= 0) return {};
        return Range{a.least / b.greatest, a.greatest / b.least};
      case OpCode::and_:
        if (a.least < 0 || b.least < 0) return {};
        return Range{0, std::min(a.greatest, b.greatest)};
      default: return {};
    }
  }

  // Scalars without effects, the last ones first: what they were made of may be of no use, too.
  void drop_unused() {
    std::unordered_map<ValueId, int> uses;
    count(graph_.region, &uses);
    drop(graph_.region, &uses);
  }
  static void count(const Region& r, std::unordered_map<ValueId, int>* uses) {
    for (const Op& op : r.ops) {
      for (ValueId v : op.operands) ++(*uses)[v];
      for (const Region& inner : op.regions) count(inner, uses);
    }
  }
  void drop(Region& r, std::unordered_map<ValueId, int>* uses) {
    for (size_t i = r.ops.size(); i-- > 0;) {
      Op& op = r.ops[i];
      for (Region& inner : op.regions) drop(inner, uses);
      const ir::OpInfo& info = ir::info(op.code);
      const bool plain = info.family == ir::Family::Elementwise && info.effects == ir::kEffectNone &&
                         op.regions.empty() && op.results.size() == 1 && graph_.type(op.results[0])->is_scalar();
      if (!plain || (*uses)[op.results[0]] > 0) continue;
      for (ValueId v : op.operands) --(*uses)[v];
      r.ops.erase(r.ops.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  ir::Graph& graph_;
  std::unordered_map<ValueId, Range> ranges_;
  std::unordered_map<ValueId, bool> truths_;
  std::unordered_map<ValueId, ValueId> instead_;
  int replaced_ = 0;
};

}  // namespace

int fold_by_ranges(ir::Graph& graph) { return Folder(graph).run(); }

}  // namespace pallasim::interp::analysis
