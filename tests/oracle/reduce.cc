// Reductions, scans, contractions, sorting: brought into the normal forms of the reference table.
#include "machine.h"

namespace pallasim::oracle {

using interp::reference_kernels;

namespace {

Dims reduced_last(const Array& x, const Dims& axes) {
  Dims order;
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (!has(axes, d)) order.push_back(static_cast<int64_t>(d));
  order.insert(order.end(), axes.begin(), axes.end());
  return order;
}

// [outer][reduce][inner]; axes that are not adjacent come last.
struct Form {
  Array x;
  int64_t outer = 1, reduce = 1, inner = 1;
};

Form form_of(const Array& x, Dims axes) {
  std::sort(axes.begin(), axes.end());
  Form f{x};
  const bool adjacent = axes.empty() || axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size());
  if (!adjacent) f.x = permuted(x, reduced_last(x, axes));
  for (size_t d = 0; d < x.dims.size(); ++d) {
    if (has(axes, d)) f.reduce *= x.dims[d];
    else if (!adjacent || axes.empty() || static_cast<int64_t>(d) < axes.front()) f.outer *= x.dims[d];
    else f.inner *= x.dims[d];
  }
  return f;
}

// [batch][free][contract], dense; extents of the three groups.
Array side(const Array& x, const Dims& batch, const Dims& contract, std::array<int64_t, 3>* n) {
  Dims order = batch, all = batch;
  all.insert(all.end(), contract.begin(), contract.end());
  const Dims last = reduced_last(x, all);
  order.insert(order.end(), last.begin(), last.end() - static_cast<std::ptrdiff_t>(all.size()));
  order.insert(order.end(), contract.begin(), contract.end());
  *n = {1, 1, 1};
  for (size_t d = 0; d < x.dims.size(); ++d) (*n)[has(batch, d) ? 0 : has(contract, d) ? 2 : 1] *= x.dims[d];
  return permuted(x, order);
}

Array contracted(const Array& l, const Array& r, const Op& op, DType to, const Dims& dims) {
  std::array<int64_t, 3> a{}, b{};
  const Array x = side(l, ints(op.attr("lhs_batch")), ints(op.attr("lhs_contract")), &a);
  const Array y = side(r, ints(op.attr("rhs_batch")), ints(op.attr("rhs_contract")), &b);
  interp::Contraction c;
  c.batch = a[0], c.m = a[1], c.n = b[1], c.k = a[2];
  c.in = l.dtype, c.in_rhs = r.dtype, c.out = to;
  c.a_batch = a[1] * a[2], c.a_row = a[2], c.a_col = 1;
  c.b_batch = b[1] * b[2], c.b_row = 1, c.b_col = b[2];
  c.c_batch = c.m * c.n, c.c_row = c.n;
  Array z = empty_array(to, dims);
  if (!interp::contract(c, z.bytes.data(), x.bytes.data(), y.bytes.data(), interp::GemmBackend::Reference))
    throw Lack{"dot_general of " + std::string(ir::name(l.dtype)) + " and " + std::string(ir::name(r.dtype))};
  canonical(to, z.bytes.data(), count(dims));
  return z;
}

bool holds(OpCode code, const Array& a, const Array& b) {
  interp::StripParams p;
  p.dtype = a.dtype;
  return elementwise(code, a.dtype, DType::Bool, {}, {&a, &b}, p).bytes[0] != std::byte{0};
}

// Below 0 where element i stands before element j: -0 equals 0, NaN comes last.
int compare(const Array& x, int64_t i, int64_t j) {
  Array a = empty_array(x.dtype, {}), b = a;
  put(a, 0, x, i);
  put(b, 0, x, j);
  const bool nan = holds(OpCode::ne, a, a), other_nan = holds(OpCode::ne, b, b);
  return nan || other_nan ? nan - other_nan : holds(OpCode::lt, b, a) - holds(OpCode::lt, a, b);
}

std::vector<Array> sorted(const Arrays& x, int64_t axis, int64_t keys) {
  std::vector<Array> r;
  for (const Array* a : x) r.push_back(*a);
  const Dims& dims = x[0]->dims;
  const int64_t n = dims[axis], step = strides_of(dims)[axis];
  each_index(dims, [&](const Dims& index, int64_t first) {
    if (index[axis] != 0) return;
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      for (int64_t k = 0; k < keys; ++k)
        if (const int c = compare(*x[k], first + i * step, first + j * step)) return c < 0;
      return false;
    });
    for (size_t k = 0; k < x.size(); ++k)
      for (int64_t i = 0; i < n; ++i) put(r[k], first + i * step, *x[k], first + order[i] * step);
  });
  return r;
}

}  // namespace

// A monoid of the kernel's own: elements in row-major order of the reduced axes.
void Machine::op_reduce_region(Thread& t, const Op& op) {
  const size_t n = op.operands.size() / 2;
  std::vector<Form> forms;
  std::vector<Array> results;
  for (size_t i = 0; i < n; ++i) {
    const Array& x = in(t, op, i);
    Dims axes = ints(op.attr("axes"));
    std::sort(axes.begin(), axes.end());
    forms.push_back({permuted(x, reduced_last(x, axes))});
    results.push_back(empty_array(x.dtype, dims_of(type(t, op, i))));
  }
  const int64_t rest = count(results[0].dims), length = rest ? count(forms[0].x.dims) / rest : 0;
  for (int64_t o = 0; o < rest; ++o) {
    std::vector<Value> args(2 * n);
    for (size_t i = 0; i < n; ++i) args[i] = t.env[op.operands[n + i]];
    for (int64_t k = 0; k < length; ++k) {
      for (size_t i = 0; i < n; ++i) {
        Array e = empty_array(forms[i].x.dtype, {});
        put(e, 0, forms[i].x, o * length + k);
        args[n + i] = value_of(std::move(e));
      }
      std::vector<Value> next = region(t, op.regions[0], args);
      std::copy(next.begin(), next.end(), args.begin());
    }
    for (size_t i = 0; i < n; ++i) put(results[i], o, *args[i].array, 0);
  }
  for (size_t i = 0; i < n; ++i) out(t, op, std::move(results[i]), i);
}

bool Machine::reduce_op(Thread& t, const Op& op) {
  if (op.code == OpCode::sort) {
    Arrays x;
    for (size_t i = 0; i < op.operands.size(); ++i) x.push_back(&in(t, op, i));
    std::vector<Array> r = sorted(x, op.attr("axis")->i, op.attr("num_keys")->i);
    for (size_t i = 0; i < r.size(); ++i) out(t, op, std::move(r[i]), i);
    return true;
  }
  if (ir::info(op.code).family != ir::Family::Reduction) return false;
  const auto& k = reference_kernels();
  const interp::Semantics& semantics = semantics_of(m_.machine);
  if (op.code == OpCode::reduce) return op_reduce_region(t, op), true;
  if (op.code == OpCode::conv_general_dilated) return false;
  const ir::Type* to = type(t, op);
  const Array& x = in(t, op, 0);
  const Lack lacking{std::string(ir::name(op.code)) + " on " + std::string(ir::name(x.dtype))};
  if (op.code == OpCode::dot_general) return out(t, op, contracted(x, in(t, op, 1), op, to->dtype, dims_of(to))), true;
  Array r = empty_array(to->dtype, dims_of(to));
  if (op.attr("axes")) {
    const interp::ReduceFn fn = k.reduce(op.code, x.dtype);
    if (!fn) throw lacking;
    if (x.dims.empty()) return out(t, op, x), true;
    const Form f = form_of(x, ints(op.attr("axes")));
    fn(r.bytes.data(), f.x.bytes.data(), f.outer, f.reduce, f.inner, semantics);
  } else {
    const Form f = form_of(x, {op.attr("axis")->i});
    if (op.code == OpCode::argmax || op.code == OpCode::argmin) {
      const interp::ArgReduceFn fn = k.arg_reduce(op.code, x.dtype);
      if (!fn) throw lacking;
      fn(r.bytes.data(), to->dtype, f.x.bytes.data(), f.outer, f.reduce, f.inner);
    } else {
      const interp::CumulativeFn fn = k.cumulative(op.code, x.dtype);
      if (!fn) throw lacking;
      fn(r.bytes.data(), f.x.bytes.data(), f.outer, f.reduce, f.inner, op.attr("reverse")->is_true(), semantics);
    }
  }
  canonical(r.dtype, r.bytes.data(), count(r.dims));
  out(t, op, std::move(r));
  return true;
}

}  // namespace pallasim::oracle
