// Reductions, scans and contractions: operands are brought into the kernels' normal forms.
#include <algorithm>

#include "../run/steps.h"
#include "compiler.h"

namespace pallasim::interp {
namespace {

struct Form {
  Val src;
  int64_t outer = 1, reduce = 1, inner = 1;
};

}  // namespace

// [outer][reduce][inner]; the reduced axes are made adjacent (last) where they are not.
static Form normal_form(const Val& v, std::vector<int64_t> axes, const std::function<Val(const Val&)>& dense) {
  Form f;
  std::sort(axes.begin(), axes.end());
  const bool adjacent = axes.empty() || axes.back() - axes.front() == static_cast<int64_t>(axes.size()) - 1;
  if (adjacent) {
    f.src = dense(v);
    const int64_t first = axes.empty() ? static_cast<int64_t>(v.dims.size()) : axes.front();
    for (int64_t i = 0; i < static_cast<int64_t>(v.dims.size()); ++i) {
      const int64_t n = v.dims[static_cast<size_t>(i)];
      (i < first ? f.outer : i < first + static_cast<int64_t>(axes.size()) ? f.reduce : f.inner) *= n;
    }
    return f;
  }
  Val p = v;
  p.dims.clear(), p.strides.clear();
  for (size_t i = 0; i < v.dims.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end()) continue;
    p.dims.push_back(v.dims[i]), p.strides.push_back(v.strides[i]);
    f.outer *= v.dims[i];
  }
  for (int64_t a : axes) {
    const auto i = static_cast<size_t>(a);
    p.dims.push_back(v.dims[i]), p.strides.push_back(v.strides[i]);
    f.reduce *= v.dims[i];
  }
  f.src = dense(p);
  return f;
}

void Compiler::op_reduce(const Op& op) {
  const ir::Type* t = type(op.results[0]);
  const Val& v = operand(op, 0);
  const ReduceFn fn = k_.reduce(op.code, v.dtype);
  if (!fn) unsupported(op, std::string(ir::name(op.code)) + " on " + std::string(ir::name(v.dtype)));
  if (v.is_scalar()) return define(op.results[0], v);
  const Form f = normal_form(strided(v), ints(op.attr("axes")), [this](const Val& x) { return dense(x); });
  Val r = temp(t->dtype, dims_of(t));
  ReducePayload p{};
  p.dst = r.addr, p.src = f.src.addr;
  p.outer = f.outer, p.reduce = f.reduce, p.inner = f.inner;
  p.element_bytes = ir::byte_size(v.dtype);
  p.fn = fn;
  p.semantics = semantics_;
  plan_.step_cost_ns += 30 + 0.2 * static_cast<double>(f.outer * f.reduce * f.inner);
  emit(run::reduce, plan_.own(p));
  if (r.dims.empty()) r = load_scalar(r);
  define(op.results[0], r);
}

void Compiler::op_arg_reduce(const Op& op) {
  const ir::Type* t = type(op.results[0]);
  const Val& v = operand(op, 0);
  const ArgReduceFn fn = k_.arg_reduce(op.code, v.dtype);
  if (!fn) unsupported(op, std::string(ir::name(op.code)) + " on " + std::string(ir::name(v.dtype)));
  const Form f = normal_form(strided(v), {op.attr("axis")->i}, [this](const Val& x) { return dense(x); });
  Val r = temp(t->dtype, dims_of(t));
  ReducePayload p{};
  p.dst = r.addr, p.src = f.src.addr;
  p.outer = f.outer, p.reduce = f.reduce, p.inner = f.inner;
  p.element_bytes = ir::byte_size(v.dtype);
  p.arg = fn;
  p.index = t->dtype;
  plan_.step_cost_ns += 30 + 0.5 * static_cast<double>(f.outer * f.reduce * f.inner);
  emit(run::arg_reduce, plan_.own(p));
  if (r.dims.empty()) r = load_scalar(r);
  define(op.results[0], r);
}

void Compiler::op_cumulative(const Op& op) {
  const ir::Type* t = type(op.results[0]);
  const Val& v = operand(op, 0);
  const CumulativeFn fn = k_.cumulative(op.code, v.dtype);
  if (!fn) unsupported(op, std::string(ir::name(op.code)) + " on " + std::string(ir::name(v.dtype)));
  const Form f = normal_form(strided(v), {op.attr("axis")->i}, [this](const Val& x) { return dense(x); });
  Val r = temp(t->dtype, dims_of(t));
  ReducePayload p{};
  p.dst = r.addr, p.src = f.src.addr;
  p.outer = f.outer, p.reduce = f.reduce, p.inner = f.inner;
  p.element_bytes = ir::byte_size(v.dtype);
  p.cumulative = fn;
  p.reverse = op.attr("reverse")->is_true();
  p.semantics = semantics_;
  plan_.step_cost_ns += 30 + 1.0 * static_cast<double>(f.outer * f.reduce * f.inner);
  emit(run::cumulative, plan_.own(p));
  define(op.results[0], r);
}

// dot_general as batch x [m,k] x [k,n]. Groups of dimensions that do not collapse into one stride are copied.
void Compiler::op_dot(const Op& op) {
  const ir::Type* t = type(op.results[0]);
  const std::vector<int64_t> lc = ints(op.attr("lhs_contract")), rc = ints(op.attr("rhs_contract"));
  const std::vector<int64_t> lb = ints(op.attr("lhs_batch")), rb = ints(op.attr("rhs_batch"));
  Contraction c;
  auto side = [&](const Val& v, const std::vector<int64_t>& batch, const std::vector<int64_t>& contract, bool lhs, Val* out) {
    std::vector<size_t> groups[3];  // batch, free, contract
    for (int64_t b : batch) groups[0].push_back(static_cast<size_t>(b));
    for (size_t i = 0; i < v.dims.size(); ++i) {
      const auto is = [&](const std::vector<int64_t>& g) { return std::find(g.begin(), g.end(), static_cast<int64_t>(i)) != g.end(); };
      if (!is(batch) && !is(contract)) groups[1].push_back(i);
    }
    for (int64_t k : contract) groups[2].push_back(static_cast<size_t>(k));
    Val s = strided(v);
    int64_t size[3], stride[3];
    auto collapse = [&]() {
      for (int g = 0; g < 3; ++g) {
        size[g] = 1, stride[g] = 0;
        int64_t expected = 0;
        bool first = true;
        for (size_t i = groups[g].size(); i-- > 0;) {
          const size_t d = groups[g][i];
          if (s.dims[d] == 1) continue;
          if (!first && s.strides[d] != expected) return false;
          if (first) stride[g] = s.strides[d];
          first = false;
          size[g] *= s.dims[d];
          expected = s.strides[d] * s.dims[d];
        }
        if (first) stride[g] = g == 2 ? 1 : 0;
      }
      return true;
    };
    if (!collapse()) {
      Val p = s;
      p.dims.clear(), p.strides.clear();
      for (auto& g : groups)
        for (size_t d : g) p.dims.push_back(s.dims[d]), p.strides.push_back(s.strides[d]);
      size_t next = 0;
      for (auto& g : groups)
        for (size_t& d : g) d = next++;
      s = temp(v.dtype, p.dims);
      emit_copy(s, p);
      collapse();
    }
    c.batch = size[0], c.k = size[2];
    if (lhs) c.m = size[1], c.a_batch = stride[0], c.a_row = stride[1], c.a_col = stride[2], c.in = v.dtype;
    else c.n = size[1], c.b_batch = stride[0], c.b_row = stride[2], c.b_col = stride[1], c.in_rhs = v.dtype;
    *out = s;
  };
  auto n = std::make_shared<Node>();
  n->kind = Node::Kind::Contraction;
  n->args.resize(2);
  side(operand(op, 0), lb, lc, true, &n->args[0]);
  side(operand(op, 1), rb, rc, false, &n->args[1]);
  c.out = t->dtype;
  c.c_row = c.n;
  c.c_batch = c.m * c.n;
  // A zero-sized probe tells whether the backends know the dtypes.
  Contraction probe = c;
  probe.batch = probe.m = probe.n = probe.k = 0;
  if (!contract(probe, nullptr, nullptr, nullptr))
    unsupported(op, "dot_general of " + std::string(ir::name(c.in)) + " and " + std::string(ir::name(c.in_rhs)) + " into " +
                        std::string(ir::name(c.out)));
  n->contraction = c;
  n->dtype = t->dtype;
  n->loc = loc_;
  Val v;
  v.kind = Val::Kind::Pending;
  v.dtype = t->dtype;
  v.dims = dims_of(t);
  v.node = std::move(n);
  if (v.dims.empty()) {
    Val r = temp(v.dtype, {});
    emit_pending(v, r);
    v = load_scalar(r);
  }
  define(op.results[0], v);
}

}  // namespace pallasim::interp
