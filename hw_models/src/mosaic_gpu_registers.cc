// Register budgets of warpgroups (plgpu.set_max_registers). PTX ISA, setmaxnreg: 24 to 256 registers of a thread, in
// steps of 8; a warpgroup that asks for more than the others leave waits for them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "mosaic_gpu_operands.h"

namespace pallasim::hw {
namespace {

using ir::OpCode;

constexpr int64_t kLeast = 24, kMost = 256, kStep = 8;

// What a warpgroup asks for in the end, as far as its number alone decides.
class Budgets {
 public:
  struct Budget {
    std::optional<int64_t> registers;  // of a thread; nothing: it is not known
    const ir::Op* op = nullptr;        // the last one
  };

  Budgets(const ir::Graph& graph, const std::string& axis, int64_t warpgroup)
      : graph_(graph), axis_(axis), warpgroup_(warpgroup) {}

  Budget run() {
    walk(graph_.region);
    return budget_;
  }

 private:
  std::optional<int64_t> known(ir::ValueId v) const {
    const auto it = values_.find(v);
    return it == values_.end() ? std::nullopt : std::optional(it->second);
  }

  // The scalar that an operation computes, where its operands are known.
  std::optional<int64_t> value(const ir::Op& op) const {
    const ir::Type* t = graph_.type(op.results[0]);
    if (!t->dims.empty() || t->is_ref || !(ir::is_int(t->dtype) || t->dtype == ir::DType::Bool)) return std::nullopt;
    if (op.code == OpCode::axis_index) {
      const ir::Attr* axis = op.attr("axis");
      return axis && axis->s == axis_ ? std::optional(warpgroup_) : std::nullopt;
    }
    if (op.code == OpCode::constant) {
      const ir::Attr& v = *op.attr("value");
      if (!v.is(ir::Attr::Kind::Bits)) return std::nullopt;
      const int shift = 64 - ir::bit_width(v.dtype);
      return ir::is_signed_int(v.dtype) ? static_cast<int64_t>(static_cast<uint64_t>(v.i) << shift) >> shift : v.i;
    }
    std::optional<int64_t> in[2];
    for (size_t i = 0; i < std::min<size_t>(op.operands.size(), 2); ++i) {
      in[i] = known(op.operands[i]);
      if (!in[i]) return std::nullopt;
    }
    return op.operands.size() == 2   ? binary(op.code, *in[0], *in[1])
           : op.operands.size() == 1 ? unary(op.code, *in[0])
                                     : std::nullopt;
  }
  static std::optional<int64_t> unary(OpCode code, int64_t a) {
    if (code == OpCode::convert) return a;
    if (code == OpCode::not_ && (a == 0 || a == 1)) return 1 - a;
    return std::nullopt;
  }
  static std::optional<int64_t> binary(OpCode code, int64_t a, int64_t b) {
    switch (code) {
      case OpCode::add: return a + b;
      case OpCode::sub: return a - b;
      case OpCode::eq: return a == b;
      case OpCode::ne: return a != b;
      case OpCode::lt: return a < b;
      case OpCode::le: return a <= b;
      case OpCode::gt: return a > b;
      case OpCode::ge: return a >= b;
      case OpCode::and_: return a & b;
      case OpCode::or_: return a | b;
      default: return std::nullopt;
    }
  }

  void walk(const ir::Region& r) {
    for (const ir::Op& op : r.ops) {
      if (op.code == OpCode::set_max_registers) set(op);
      else if (op.code == OpCode::cond) branch(op);
      else
        for (const ir::Region& inner : op.regions) walk(inner);
      if (op.results.size() == 1 && op.regions.empty())
        if (const auto v = value(op)) values_[op.results[0]] = *v;
    }
  }

  void set(const ir::Op& op) {
    const ir::Attr* n = op.attr("n");
    budget_ = {n && n->is_int() ? std::optional(n->i) : std::nullopt, &op};
  }

  // Branch 0 where the index is 0 or less, the last one where it is beyond them.
  void branch(const ir::Op& op) {
    if (const auto index = known(op.operands[0])) {
      const auto last = static_cast<int64_t>(op.regions.size()) - 1;
      const ir::Region& taken = op.regions[static_cast<size_t>(std::clamp<int64_t>(*index, 0, last))];
      for (size_t i = 0; i < std::min(taken.args.size(), op.operands.size() - 1); ++i)
        if (const auto v = known(op.operands[i + 1])) values_[taken.args[i]] = *v;
      return walk(taken);
    }
    const Budget before = budget_;
    std::vector<Budget> ends;
    for (const ir::Region& r : op.regions) {
      budget_ = before;
      walk(r);
      ends.push_back(budget_);
    }
    const bool same =
        std::all_of(ends.begin(), ends.end(), [&](const Budget& b) { return b.registers == ends.front().registers; });
    budget_ = ends.empty() ? before : same ? ends.back() : Budget{};
  }

  const ir::Graph& graph_;
  const std::string& axis_;
  const int64_t warpgroup_;
  std::map<ir::ValueId, int64_t> values_;
  Budget budget_;
};

void check_values(const ir::Module& m, const ir::Region& r, std::vector<ir::Diagnostic>* out) {
  for (const ir::Op& op : r.ops) {
    for (const ir::Region& inner : op.regions) check_values(m, inner, out);
    const ir::Attr* n = op.code == OpCode::set_max_registers ? op.attr("n") : nullptr;
    if (n && n->is_int() && (n->i < kLeast || n->i > kMost || n->i % kStep != 0))
      report(m, out, "PS-MGPU-003", fmt::format("a register budget of {}", n->i), op.loc,
             fmt::format("{} to {}, in steps of {}", kLeast, kMost, kStep));
  }
}

}  // namespace

void check_registers(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out) {
  if (m.bodies.size() != 1 || m.meshes.size() != 1 || m.meshes[0].axes.empty()) return;
  const ir::Graph& graph = m.bodies[0].graph;
  const size_t before = out->size();
  check_values(m, graph.region, out);
  const ir::Attr* threads = ir::find(m.meshes[0].attrs, "threads");
  if (out->size() > before || !threads || !threads->is_int() || threads->i != 1) return;
  const ir::MeshAxis& axis = m.meshes[0].axes.back();
  constexpr int64_t kMostWarpgroups = 16;  // 2048 CUDA threads
  int64_t sum = 0;
  std::vector<int64_t> each;
  const ir::Op* largest = nullptr;
  for (int64_t w = 0, most = 0; w < std::min(axis.size, kMostWarpgroups); ++w) {
    const Budgets::Budget b = Budgets(graph, axis.name, w).run();
    if (!b.registers) continue;
    sum += *b.registers * kWarpgroup;
    each.push_back(*b.registers);
    if (*b.registers > most) most = *b.registers, largest = b.op;
  }
  if (p.regs_per_sm < 0 || sum <= p.regs_per_sm || !largest) return;
  report(
      m, out, "PS-MGPU-003",
      fmt::format("register budgets of {} x ({}) = {} registers", kWarpgroup, fmt::join(each, " + "), sum),
      largest->loc,
      fmt::format("an SM has {}: those of a thread of each warpgroup sum up to at most {}; a warpgroup that asks for "
                  "more waits for ever",
                  p.regs_per_sm, p.regs_per_sm / kWarpgroup));
}

}  // namespace pallasim::hw
