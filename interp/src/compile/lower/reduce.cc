// Reductions, scans and contractions: operands are brought into the kernels' normal forms.
#include <algorithm>

#include "../../plan/host_cost.h"
#include "../../plan/payload/arithmetic.h"
#include "../../plan/payload/places.h"
#include "../../plan/steps.h"
#include "arrays.h"
#include "control.h"
#include "matrix_unit.h"

namespace pallasim::interp {
namespace {

struct Form {
  Val src;
  int64_t outer = 1, reduce = 1, inner = 1;
};

}  // namespace

// [outer][reduce][inner]; the reduced axes are made adjacent (last) where they are not.
static Form normal_form(const Val& v, std::vector<int64_t> axes, Emitter& e) {
  Form f;
  std::sort(axes.begin(), axes.end());
  const bool adjacent = axes.empty() || axes.back() - axes.front() == static_cast<int64_t>(axes.size()) - 1;
  if (adjacent) {
    f.src = dense(e, v);
    const int64_t first = axes.empty() ? static_cast<int64_t>(v.dims.size()) : axes.front();
    for (int64_t i = 0; i < static_cast<int64_t>(v.dims.size()); ++i) {
      const int64_t n = v.dims[static_cast<size_t>(i)];
      (i < first ? f.outer : i < first + static_cast<int64_t>(axes.size()) ? f.reduce : f.inner) *= n;
    }
    return f;
  }
  Val p = v;
  p.dims.clear(), p.memory().strides.clear();
  for (size_t i = 0; i < v.dims.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end()) continue;
    p.dims.push_back(v.dims[i]), p.memory().strides.push_back(v.memory().strides[i]);
    f.outer *= v.dims[i];
  }
  for (int64_t a : axes) {
    const auto i = static_cast<size_t>(a);
    p.dims.push_back(v.dims[i]), p.memory().strides.push_back(v.memory().strides[i]);
    f.reduce *= v.dims[i];
  }
  f.src = dense(e, p);
  return f;
}

static void lower_reduce(Emitter& e, const Op& op) {
  const ir::Type* t = e.type(op.results[0]);
  const Val& v = e.operand(op, 0);
  const ReduceFn fn = e.kernels().reduce(op.code, v.dtype);
  if (!fn) e.unsupported(op, std::string(ir::name(op.code)) + " on " + std::string(ir::name(v.dtype)));
  if (v.is_scalar()) return e.define(op.results[0], v);
  const Form f = normal_form(strided(e, v), ints(op.attr("axes")), e);
  Val r = e.temp(t->dtype, dims_of(t));
  ReducePayload p{};
  p.dst = r.memory().addr, p.src = f.src.memory().addr;
  p.outer = f.outer, p.reduce = f.reduce, p.inner = f.inner;
  p.element_bytes = ir::byte_size(v.dtype);
  p.fn = fn;
  p.semantics = e.semantics();
  e.plan().split.step_cost_ns += host_cost::kReduce.of(static_cast<double>(f.outer * f.reduce * f.inner));
  e.emit<Kind::reduce>(p);
  if (r.dims.empty()) r = load_scalar(e, r);
  e.define(op.results[0], r);
}

// A monoid of the kernel's own: a loop over the elements in order, one scalar run of the region per element.
static void lower_reduce_region(Emitter& e, const Op& op) {
  e.before_regions(op);
  const size_t n = op.operands.size() / 2;
  const Region& region = op.regions[0];
  const std::vector<int64_t> axes = ints(op.attr("axes"));
  require(e, op,
          n > 0 && op.results.size() == n && region.args.size() == 2 * n && region.ops.back().operands.size() == n,
          "another number of results");
  std::vector<Val> src, dst, acc;
  for (size_t i = 0; i < n; ++i) {
    Val v = strided(e, e.operand(op, i));
    require(e, op, v.dims == e.operand(op, 0).dims && e.operand(op, n + i).dims.empty(),
            "operands of different shapes");
    Val p = v;
    p.dims.clear(), p.memory().strides.clear();
    auto reduced = [&](size_t d) { return std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end(); };
    for (int pass = 0; pass < 2; ++pass)
      for (size_t d = 0; d < v.dims.size(); ++d)
        if (reduced(d) == (pass == 1)) p.dims.push_back(v.dims[d]), p.memory().strides.push_back(v.memory().strides[d]);
    src.push_back(dense(e, p));
    dst.push_back(e.temp(v.dtype, dims_of(e.type(op.results[i]))));
    acc.push_back(scalar_in(e.new_slot(), v.dtype));
  }
  const int64_t rest = dst[0].elements(), total = src[0].elements();
  require(e, op, rest == 0 || total % rest == 0, "another result shape");
  const int64_t length = rest ? total / rest : 0;
  for (const Val& d : dst) require(e, op, d.elements() == rest, "results of different shapes");
  StripParams wide;
  wide.dtype = ir::DType::I64;
  auto loop = [&](const Val& lo, const Val& hi, const Val& index, const std::function<void()>& body) {
    const uint32_t one = e.const_int(ir::DType::I64, 1).scalar().slot;
    const int begin = e.here();
    Step& b = e.emit(e.functions().loop_begin(true, false));
    b.dst = index.scalar().slot, b.a = lo.scalar().slot, b.b = hi.scalar().slot, b.c = one;
    const int top = e.here();
    body();
    Step& s = e.emit(e.functions().loop_next(true, false));
    s.dst = index.scalar().slot, s.a = lo.scalar().slot, s.b = hi.scalar().slot, s.c = one;
    e.jump_to(e.here() - 1, top);
    e.jump_to(begin, e.here());
  };
  auto index_value = [&] { return scalar_in(e.new_slot(), ir::DType::I64); };
  auto element = [&](const Val& v, const Val& index) {
    ScalarAccess p;
    p.addr = v.memory().addr;
    p.has_term = true;
    p.bytes = ir::byte_size(v.dtype);
    p.term = {index.scalar().slot, true, p.bytes, std::max<int64_t>(v.elements() - 1, 0), 0, v.elements(), 1};
    p.load = e.kernels().load(v.dtype), p.store = e.kernels().store(v.dtype);
    return p;
  };
  const Val out = index_value(), in = index_value();
  loop(e.const_int(ir::DType::I64, 0), e.const_int(ir::DType::I64, rest), out, [&] {
    for (size_t i = 0; i < n; ++i)
      move_scalar(e, acc[i].scalar().slot, scalar_slot(e, e.operand(op, n + i)), acc[i].dtype);
    const Val lo = scalar_result(e, ir::OpCode::mul, ir::DType::I64, ir::DType::I64,
                                 {out, e.const_int(ir::DType::I64, length)}, wide);
    const Val hi = scalar_result(e, ir::OpCode::add, ir::DType::I64, ir::DType::I64,
                                 {lo, e.const_int(ir::DType::I64, length)}, wide);
    loop(lo, hi, in, [&] {
      LiveValues::Conditional inner(e.live());
      enter_carries(e, region, 0, acc);
      for (size_t i = 0; i < n; ++i) {
        const Val v = scalar_in(e.new_slot(), src[i].dtype);
        e.emit<Kind::load_scalar>(e.functions().load_scalar, element(src[i], in)).dst = v.scalar().slot;
        e.live().bind(region.args[n + i], v);
      }
      compile_region(e, region);
      e.at(op);
      assign_carries(e, acc, region.ops.back().operands);
    });
    for (size_t i = 0; i < n; ++i)
      e.emit<Kind::store_scalar>(e.functions().store_scalar, element(dst[i], out)).a = acc[i].scalar().slot;
  });
  for (size_t i = 0; i < n; ++i) e.define(op.results[i], dst[i].dims.empty() ? load_scalar(e, dst[i]) : dst[i]);
}

// What operations along one axis share: their memory, and how often it is visited.
struct AlongAxis {
  Val result;
  ReducePayload payload{};
  double elements;
};

static AlongAxis along_axis(Emitter& e, const Op& op, bool has_kernel) {
  const Val& v = e.operand(op, 0);
  if (!has_kernel) e.unsupported(op, std::string(ir::name(op.code)) + " on " + std::string(ir::name(v.dtype)));
  const Form f = normal_form(strided(e, v), {op.attr("axis")->i}, e);
  const ir::Type* t = e.type(op.results[0]);
  AlongAxis r{e.temp(t->dtype, dims_of(t)), {}, static_cast<double>(f.outer * f.reduce * f.inner)};
  r.payload.dst = r.result.memory().addr, r.payload.src = f.src.memory().addr;
  r.payload.outer = f.outer, r.payload.reduce = f.reduce, r.payload.inner = f.inner;
  r.payload.element_bytes = ir::byte_size(v.dtype);
  return r;
}

static void lower_arg_reduce(Emitter& e, const Op& op) {
  const ArgReduceFn fn = e.kernels().arg_reduce(op.code, e.operand(op, 0).dtype);
  AlongAxis a = along_axis(e, op, fn);
  a.payload.arg = fn;
  a.payload.index = a.result.dtype;
  e.plan().split.step_cost_ns += host_cost::kArgReduce.of(a.elements);
  e.emit<Kind::arg_reduce>(a.payload);
  e.define(op.results[0], a.result.dims.empty() ? load_scalar(e, a.result) : a.result);
}

static void lower_cumulative(Emitter& e, const Op& op) {
  const CumulativeFn fn = e.kernels().cumulative(op.code, e.operand(op, 0).dtype);
  AlongAxis a = along_axis(e, op, fn);
  a.payload.cumulative = fn;
  a.payload.reverse = op.attr("reverse")->is_true();
  a.payload.semantics = e.semantics();
  e.plan().split.step_cost_ns += host_cost::kScan.of(a.elements);
  e.emit<Kind::cumulative>(a.payload);
  e.define(op.results[0], a.result);
}

// dot_general as batch x [m,k] x [k,n]. Groups of dimensions that do not collapse into one stride are copied.
static void lower_dot(Emitter& e, const Op& op) {
  const ir::Type* t = e.type(op.results[0]);
  const std::vector<int64_t> lc = ints(op.attr("lhs_contract")), rc = ints(op.attr("rhs_contract"));
  const std::vector<int64_t> lb = ints(op.attr("lhs_batch")), rb = ints(op.attr("rhs_batch"));
  Contraction c;
  auto side = [&](const Val& v, const std::vector<int64_t>& batch, const std::vector<int64_t>& contract, bool lhs,
                  Val* out) {
    std::vector<size_t> groups[3];  // batch, free, contract
    for (int64_t b : batch) groups[0].push_back(static_cast<size_t>(b));
    for (size_t i = 0; i < v.dims.size(); ++i) {
      const auto is = [&](const std::vector<int64_t>& g) {
        return std::find(g.begin(), g.end(), static_cast<int64_t>(i)) != g.end();
      };
      if (!is(batch) && !is(contract)) groups[1].push_back(i);
    }
    for (int64_t k : contract) groups[2].push_back(static_cast<size_t>(k));
    Val s = strided(e, v);
    int64_t size[3], stride[3];
    auto collapse = [&]() {
      for (int g = 0; g < 3; ++g) {
        size[g] = 1, stride[g] = 0;
        int64_t expected = 0;
        bool first = true;
        for (size_t i = groups[g].size(); i-- > 0;) {
          const size_t d = groups[g][i];
          if (s.dims[d] == 1) continue;
          if (!first && s.memory().strides[d] != expected) return false;
          if (first) stride[g] = s.memory().strides[d];
          first = false;
          size[g] *= s.dims[d];
          expected = s.memory().strides[d] * s.dims[d];
        }
        if (first) stride[g] = g == 2 ? 1 : 0;
      }
      return true;
    };
    if (!collapse()) {
      Val p = s;
      p.dims.clear(), p.memory().strides.clear();
      for (auto& g : groups)
        for (size_t d : g) p.dims.push_back(s.dims[d]), p.memory().strides.push_back(s.memory().strides[d]);
      size_t next = 0;
      for (auto& g : groups)
        for (size_t& d : g) d = next++;
      s = e.temp(v.dtype, p.dims);
      emit_copy(e, s, p);
      collapse();
    }
    c.batch = size[0], c.k = size[2];
    if (lhs) c.m = size[1], c.a_batch = stride[0], c.a_row = stride[1], c.a_col = stride[2], c.in = v.dtype;
    else c.n = size[1], c.b_batch = stride[0], c.b_row = stride[2], c.b_col = stride[1], c.in_rhs = v.dtype;
    *out = s;
  };
  std::vector<Val> args(2);
  side(e.operand(op, 0), lb, lc, true, &args[0]);
  side(e.operand(op, 1), rb, rc, false, &args[1]);
  c.out = t->dtype;
  c.c_row = c.n;
  c.c_batch = c.m * c.n;
  // A zero-sized probe tells whether the backends know the dtypes.
  Contraction probe = c;
  probe.batch = probe.m = probe.n = probe.k = 0;
  if (!contract(probe, nullptr, nullptr, nullptr))
    e.unsupported(op, "dot_general of " + std::string(ir::name(c.in)) + " and " + std::string(ir::name(c.in_rhs)) +
                          " into " + std::string(ir::name(c.out)));
  // As the device does it, f32 operands are rounded or split: nobody says how beside an integer.
  if (e.options().numerics == Options::Numerics::Device && ir::is_float(c.in) != ir::is_float(c.in_rhs) &&
      (c.in == ir::DType::F32 || c.in_rhs == ir::DType::F32))
    e.unsupported(op, "dot_general of " + std::string(ir::name(c.in)) + " and " + std::string(ir::name(c.in_rhs)) +
                          " as the device does it");
  define_into(e, op.results[0], std::move(args), {Into::Product{c, matrix_unit(e, op, c)}});
}

Rows reduce_rows() {
  static constexpr Row kRows[] = {{OpCode::reduce_sum, lower_reduce},       {OpCode::reduce_prod, lower_reduce},
                                  {OpCode::reduce_max, lower_reduce},       {OpCode::reduce_min, lower_reduce},
                                  {OpCode::reduce_and, lower_reduce},       {OpCode::reduce_or, lower_reduce},
                                  {OpCode::reduce_xor, lower_reduce},       {OpCode::reduce, lower_reduce_region},
                                  {OpCode::argmax, lower_arg_reduce},       {OpCode::argmin, lower_arg_reduce},
                                  {OpCode::cumsum, lower_cumulative},       {OpCode::cumprod, lower_cumulative},
                                  {OpCode::cummax, lower_cumulative},       {OpCode::cummin, lower_cumulative},
                                  {OpCode::cumlogsumexp, lower_cumulative}, {OpCode::dot_general, lower_dot}};
  return kRows;
}

}  // namespace pallasim::interp
