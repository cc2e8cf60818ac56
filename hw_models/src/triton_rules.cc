// Rules of JAX's Triton lowering (jax _src/pallas/triton/lowering.py and primitives.py, 0.10.2).
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "rules.h"

namespace pallasim::hw {
namespace {

using ir::OpCode;

class TritonRules {
 public:
  explicit TritonRules(const ir::Module& m) : m_(m) {}

  void check() {
    launch();
    for (const ir::Body& b : m_.bodies) {
      graph_ = &b.graph;
      region(b.graph.region);
    }
  }

 private:
  [[noreturn]] void refuse(ir::Code code, std::string message, std::string hint, ir::LocId loc = -1,
                           std::vector<std::string> numbers = {}) {
    ir::Diagnostic(code, std::move(message))
        .of(m_.name)
        .at(ir::site_of(m_, loc))
        .with(std::move(numbers))
        .hinted(std::move(hint))
        .raise();
  }

  // ---- what Triton launches lack ----
  void lacks(const std::string& what) {
    refuse("PS-TRI-002", "Triton has no " + what,
           "nothing ran; Mosaic GPU has more of Pallas, the generic machine all of it");
  }

  void launch() {
    if (m_.num_dynamic > 0) lacks("dynamic grid bounds");
    if (m_.count(ir::Operand::Kind::Prefetch) > 0) lacks("scalar prefetch");
    if (!m_.scratch.empty()) lacks("scratch memory: " + m_.scratch.front().name);
    if (!m_.meshes.empty()) lacks("meshes");
    for (const ir::Operand& o : m_.operands) {
      if (ir::find(o.attrs, "pipeline")) lacks("pipeline modes of blocks: " + o.name);
      for (const ir::BlockDim& d : o.block) {
        if (d.kind == ir::BlockDim::Kind::BoundedSlice || d.kind == ir::BlockDim::Kind::Indirect)
          lacks("blocks of that kind: " + o.name);
        if (d.pad_lo || d.pad_hi) lacks("padding of Element blocks: " + o.name);
      }
    }
    const ir::Attr* params = ir::find(m_.attrs, "params");
    for (size_t i = 0; params && i < params->keys.size(); ++i) {
      const ir::Attr& v = params->items[i];
      if (params->keys[i] == "num_warps" && v.is_int() && (v.i < 1 || v.i > 32 || (v.i & (v.i - 1))))
        refuse("PS-TRI-002", "Triton: num_warps is " + std::to_string(v.i),
               v.i < 1    ? "a power of two up to 32"
               : v.i > 32 ? "a power of two up to 32: 32, say"
                          : fmt::format("a power of two up to 32: {} or {}", std::bit_floor(static_cast<uint64_t>(v.i)),
                                        std::bit_ceil(static_cast<uint64_t>(v.i))));
    }
  }

  // ---- operations ----
  void region(const ir::Region& r) {
    for (const ir::Op& op : r.ops) {
      operation(op);
      for (const ir::Region& inner : op.regions) region(inner);
    }
  }

  const ir::Type& in(const ir::Op& op, size_t i) const { return *graph_->type(op.operands[i]); }
  const ir::Type& out(const ir::Op& op) const { return *graph_->type(op.results[0]); }

  void form(const ir::Op& op, const std::string& what) {
    refuse("PS-TRI-003",
           "Triton does not compile " + std::string(ir::name(op.code)) + (what.empty() ? "" : ": " + what),
           "nothing ran; write it with the operations that Triton has", op.loc);
  }

  void sizes(const ir::Op& op) {
    std::vector<const ir::Type*> types;
    for (ir::ValueId v : op.results) types.push_back(graph_->type(v));
    if (op.code == OpCode::store || op.code == OpCode::masked_store || op.code == OpCode::addupdate)
      types.push_back(&in(op, 1));
    for (const ir::Type* t : types) {
      if (t->is_ref) continue;
      const int64_t n = t->num_elements();
      if ((n & (n - 1)) != 0)
        refuse("PS-TRI-001", "Triton: an array of " + std::to_string(n) + " elements, which is no power of two",
               fmt::format("every array in a Triton kernel has a power of two of elements: load {} under a mask",
                           std::bit_ceil(static_cast<uint64_t>(n))),
               op.loc, {std::string(ir::name(op.code)) + " of " + ir::to_string(t)});
    }
  }

  void indexers(const ir::Op& op) {
    for (const ir::View& t : op.view())
      if (!std::holds_alternative<ir::view::Index>(t)) form(op, "ref transform " + std::string(ir::name(t)));
    if (op.view().size() > 1) form(op, "several indexers");
  }

  void dot(const ir::Op& op) {
    const ir::Type &a = in(op, 0), &b = in(op, 1), &c = out(op);
    if (a.dims.size() != 2 || b.dims.size() != 2 || c.dims.size() != 2)
      form(op, "operands of rank 2 only, " + ir::to_string(a) + " and " + ir::to_string(b));
    if (a.dtype != b.dtype) form(op, "operands of one type only, " + ir::to_string(a) + " and " + ir::to_string(b));
    if (ir::is_int(a.dtype) && !ir::is_signed_int(a.dtype))
      form(op, "unsigned operands, " + ir::to_string(a) + "; integers are signed");
    if (a.dtype != ir::DType::F64) return;
    const int64_t k = a.num_elements() / std::max<int64_t>(c.dims[0].size, 1);
    if (c.dims[0].size < 16 || c.dims[1].size < 8 || k < 16)
      form(op, "f64 needs at least 16 rows, 8 columns and 16 products per element");
  }

  // What stops the emulator's launch is nothing that Triton compiles.
  static bool is_breakpoint(const ir::Op& op) {
    const ir::Attr* name = op.code == OpCode::debug_callback ? op.attr("name") : nullptr;
    return name && name->s == "(breakpoint)";
  }

  void operation(const ir::Op& op) {
    if (is_breakpoint(op)) return;
    if (!triton_has(op.code)) form(op, "");
    sizes(op);
    switch (op.code) {
      case OpCode::get:
      case OpCode::store:
      case OpCode::swap:
      case OpCode::addupdate:
      case OpCode::masked_load:
      case OpCode::masked_store:
      case OpCode::masked_swap:
      case OpCode::atomic_rmw:
      case OpCode::atomic_cas: return indexers(op);
      case OpCode::dot_general: return dot(op);
      case OpCode::cumsum:
        if (op.attr("reverse") && op.attr("reverse")->is_true()) form(op, "in reverse");
        return;
      case OpCode::for_:
        if (op.attr("reverse") && op.attr("reverse")->is_true()) form(op, "in reverse");
        return;
      case OpCode::concatenate:
        if (op.operands.size() != 2 || in(op, 0).dims.empty() ||
            op.attr("axis")->i + 1 != static_cast<int64_t>(in(op, 0).dims.size()) || in(op, 0).dims.back().size != 1 ||
            in(op, 1).dims.back().size != 1)
          form(op, "two arrays of shape [..., 1] along the last axis only");
        return;
      case OpCode::stack:
        if (op.operands.size() != 2 || op.attr("axis")->i != static_cast<int64_t>(in(op, 0).dims.size()))
          form(op, "two arrays along a new last axis only");
        return;
      case OpCode::unstack:
        if (op.results.size() != 2 || op.attr("axis")->i + 1 != static_cast<int64_t>(in(op, 0).dims.size()))
          form(op, "a last axis of size 2 only");
        return;
      case OpCode::split: {
        const size_t n = op.results.size();
        bool equal = true;
        for (ir::ValueId v : op.results) equal &= graph_->type(v)->dims == out(op).dims;
        if ((n & (n - 1)) || !equal) form(op, "a power of two of equal parts only");
        return;
      }
      case OpCode::bitcast_convert:
        if (ir::bit_width(in(op, 0).dtype) != ir::bit_width(out(op).dtype)) form(op, "types of one width only");
        return;
      default: return;
    }
  }

  const ir::Module& m_;
  const ir::Graph* graph_ = nullptr;
};

}  // namespace

void check_triton(const ir::Module& m) { TritonRules(m).check(); }

}  // namespace pallasim::hw
