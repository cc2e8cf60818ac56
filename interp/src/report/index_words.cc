#include "index_words.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <unordered_map>

#include "../ops/elements.h"
#include "../plan/payload/rows.h"
#include "race_words.h"

namespace pallasim::interp {
namespace {

using ir::OpCode;

// Scalars of a graph by their text: what program ids, literals and elements of operands make of them. Nothing is known
// of what loops and branches hand over.
class Scalars {
 public:
  // `first_operand`: the argument that is operand 0; those before it are program ids.
  Scalars(const Thread& t, const ir::Graph& g, size_t first_operand) : t_(t), g_(g) {
    const std::vector<ir::ValueId>& args = g.region.args;
    for (size_t i = 0; i < args.size(); ++i) {
      if (i < first_operand) ids_[args[i]] = i;
      else if (i - first_operand < t.exec->plan->module.operands.size()) operands_[args[i]] = i - first_operand;
    }
    define(g.region);
  }

  std::optional<int64_t> value(ir::ValueId v) {
    if (++steps_ > kMostSteps) return std::nullopt;
    if (const auto id = ids_.find(v); id != ids_.end()) return program_id(id->second);
    const auto def = ops_.find(v);
    return def == ops_.end() ? std::nullopt : value(*def->second);
  }
  // "99 = table_ref[2, 1]" of every element that was read meanwhile.
  const std::string& read() const { return read_; }

 private:
  static constexpr int kMostSteps = 64;

  void define(const ir::Region& r) {
    for (const ir::Op& op : r.ops) {
      for (ir::ValueId v : op.results) ops_[v] = &op;
      for (const ir::Region& inner : op.regions) define(inner);
    }
  }

  std::optional<int64_t> program_id(size_t axis) const {
    const std::vector<uint32_t>& slots = t_.body->pid_slots;
    for (const ir::GridAxis& a : t_.exec->plan->module.grid)
      if (a.vmapped) return std::nullopt;  // the kernel counts other axes
    if (axis >= slots.size() || !t_.arena) return std::nullopt;
    return t_.slot<int64_t>(slots[axis]);
  }

  std::optional<int64_t> value(const ir::Op& op) {
    const auto both = [&](auto f) -> std::optional<int64_t> {
      const auto a = value(op.operands[0]), b = value(op.operands[1]);
      return a && b ? std::optional(f(*a, *b)) : std::nullopt;
    };
    switch (op.code) {
      case OpCode::constant: {
        const ir::Attr* v = op.attr("value");
        const ir::DType d = g_.type(op.results[0])->dtype;
        if (!v || !v->is(ir::Attr::Kind::Bits) || !ir::is_int(d)) return std::nullopt;
        return d == ir::DType::I32 ? static_cast<int32_t>(v->i) : v->i;
      }
      case OpCode::program_id: return program_id(static_cast<size_t>(op.attr("axis")->i));
      case OpCode::convert: return value(op.operands[0]);
      case OpCode::add: return both([](int64_t a, int64_t b) { return memory::add(a, b); });
      case OpCode::sub: return both([](int64_t a, int64_t b) { return memory::add(a, -b); });
      case OpCode::mul: return both([](int64_t a, int64_t b) { return memory::mul(a, b); });
      case OpCode::get: return element(op);
      default: return std::nullopt;
    }
  }

  // Of an operand that the launch has as it was given: prefetched scalars, inputs.
  std::optional<int64_t> element(const ir::Op& op) {
    const auto operand = operands_.find(op.operands[0]);
    if (operand == operands_.end()) return std::nullopt;
    const ir::Operand& o = t_.exec->plan->module.operands[operand->second];
    const auto index = position(op, o);
    const std::byte* base = t_.bases ? t_.bases[kFirstOperandBuffer + operand->second] : nullptr;
    if (!index || !base || o.has_block) return std::nullopt;
    int64_t at = 0;
    for (size_t d = 0; d < index->size(); ++d) {
      const int64_t n = o.array->dims[d].size, i = (*index)[d];
      if (i < 0 || i >= n) return std::nullopt;
      at = at * n + i;
    }
    int64_t r = 0;
    if (o.array->dtype == ir::DType::I32) {
      int32_t narrow;
      std::memcpy(&narrow, base + at * 4, 4);
      r = narrow;
    } else if (o.array->dtype == ir::DType::I64) {
      std::memcpy(&r, base + at * 8, 8);
    } else {
      return std::nullopt;
    }
    const std::string line = fmt::format("{} = {}[{}]", r, o.name, fmt::join(*index, ", "));
    if (read_.find(line) == std::string::npos) read_ += (read_.empty() ? "" : ", ") + line;
    return r;
  }

  std::optional<std::vector<int64_t>> position(const ir::Op& op, const ir::Operand& o) {
    std::vector<int64_t> r;
    if (op.view().empty() && o.array->dims.empty()) return r;
    const auto* index = op.view().size() == 1 ? std::get_if<ir::view::Index>(&op.view().front()) : nullptr;
    if (!index || index->entries.size() != o.array->dims.size()) return std::nullopt;
    for (const ir::view::Entry& e : index->entries) {
      if (e.kind != ir::view::Entry::Kind::At) return std::nullopt;
      const auto at = e.start.is_operand() ? value(op.operands[static_cast<size_t>(e.start.operand)])
                                           : std::optional(e.start.value());
      if (!at) return std::nullopt;
      r.push_back(*at);
    }
    return r;
  }

  const Thread& t_;
  const ir::Graph& g_;
  std::unordered_map<ir::ValueId, const ir::Op*> ops_;
  std::unordered_map<ir::ValueId, size_t> ids_, operands_;
  std::string read_;
  int steps_ = 0;
};

// "16 = rows[15]": of a copy whose rows a list in memory chooses.
std::string listed_origin(const Thread& t, const ChosenRows& r, int64_t index) {
  const int64_t n = r.count_slot == Addr::kNoSlot ? r.count : t.slot<int64_t>(r.count_slot);
  const std::byte* const list = t.resolve(r.list);
  const int64_t step = r.stride * ir::byte_size(r.dtype);
  for (int64_t i = 0; i < n; ++i) {
    const std::byte* const at = list + i * step;
    if (ops::integer_element(at, r.dtype) != index) continue;
    const std::string element = element_name(*t.exec->plan, r.list.buffer, at - t.bases[r.list.buffer]);
    return element.empty() ? "" : fmt::format("{} = {}", index, element);
  }
  return "";
}

std::string origin(Scalars& scalars, ir::ValueId v, int64_t index) {
  return scalars.value(v) == index ? scalars.read() : "";
}

}  // namespace

std::string index_origin(const Thread& t, const Step& s, int dim, int64_t index) {
  const auto* copy = s.kind == Kind::row_copy ? &payload<Kind::row_copy>(s) : nullptr;
  if (copy && copy->chooses && copy->rows.dim == static_cast<size_t>(dim)) return listed_origin(t, copy->rows, index);
  const auto ops = t.exec->plan->ops_of(s);
  if (ops.empty()) return "";
  const ir::Graph& graph = t.exec->plan->module.bodies[static_cast<size_t>(t.body->index)].graph;
  for (const ir::Op* op : ops)
    for (const auto& [key, attr] : op->attrs) {
      if (!attr.view) continue;
      for (const ir::View& v : attr.view->transforms) {
        const auto* at = std::get_if<ir::view::Index>(&v);
        const auto d = static_cast<size_t>(dim);
        if (!at || d >= at->entries.size() || !at->entries[d].start.is_operand()) continue;
        Scalars scalars(t, graph, 0);
        const auto operand = static_cast<size_t>(at->entries[d].start.operand);
        if (std::string r = origin(scalars, op->operands[operand], index); !r.empty()) return r;
      }
    }
  return "";
}

std::string block_index_origin(const Thread& t, const ir::Operand& o, size_t dim, int64_t index) {
  if (!o.index_map || o.index_map->region.ops.empty()) return "";
  const ir::Op& end = o.index_map->region.ops.back();
  if (end.code != OpCode::yield || dim >= end.operands.size()) return "";
  Scalars scalars(t, *o.index_map, t.exec->plan->module.grid.size());
  return origin(scalars, end.operands[dim], index);
}

}  // namespace pallasim::interp
