// Whole-array operations: what each indexes with is checked here.
#include <algorithm>

#include "../../plan/array.h"
#include "../../plan/host_cost.h"
#include "../../plan/payload/array.h"
#include "arrays.h"
#include "pallasim/memory/saturate.h"

namespace pallasim::interp {
namespace {

std::vector<int> small_ints(const ir::Attr* a) {
  std::vector<int> r;
  for (int64_t v : ints(a)) r.push_back(static_cast<int>(v));
  return r;
}

int64_t int_or(const ir::Attr* a, int64_t otherwise) { return a && a->is_int() ? a->i : otherwise; }

bool axis_of(int64_t axis, const std::vector<int64_t>& dims) {
  return axis >= 0 && axis < static_cast<int64_t>(dims.size());
}

bool axes_of(const std::vector<int>& axes, const std::vector<int64_t>& dims) {
  std::vector<int> seen;
  for (int a : axes) {
    if (!axis_of(a, dims) || std::find(seen.begin(), seen.end(), a) != seen.end()) return false;
    seen.push_back(a);
  }
  return true;
}

}  // namespace

void require(Emitter& e, const Op& op, bool holds, const char* what) {
  if (!holds) e.unsupported(op, std::string(ir::name(op.code)) + " with " + what);
}

void define_arrays(Emitter& e, const Op& op, ArrayBody body) {
  std::vector<ArrayResult> results;
  for (ir::ValueId r : op.results) results.push_back({e.type(r)->dtype, dims_of(e.type(r))});
  const std::vector<Val> out = emit_array(e, e.operands(op), results, std::move(body));
  for (size_t i = 0; i < out.size(); ++i)
    e.define(op.results[i], out[i].dims.empty() ? load_scalar(e, out[i]) : out[i]);
}

void define_array(Emitter& e, const Op& op, ArrayBody body) {
  if (op.results.size() != 1) return define_arrays(e, op, std::move(body));
  define_into(e, op.results[0], e.operands(op), {Into::Whole{std::move(body)}});
}

static void lower_roll(Emitter& e, const Op& op) {
  const Val& x = e.operand(op, 0);
  const Val& shift = e.operand(op, 1);
  const ir::Type* t = e.type(op.results[0]);
  const int64_t axis = op.attr("axis")->i, stride_axis = int_or(op.attr("stride_axis"), -1),
                stride = int_or(op.attr("stride"), 0);
  require(e, op, axis_of(axis, x.dims) && t->dtype == x.dtype && dims_of(t) == x.dims,
          "another result than its operand");
  require(e, op, shift.dims.empty() && ir::is_int(shift.dtype), "a shift that is no integer");
  require(e, op, stride_axis == -1 || (axis_of(stride_axis, x.dims) && stride_axis != axis),
          "a stride axis that it has not");
  define_array(e, op,
               e.functions().arrays.roll(x.dims, static_cast<int>(axis), stride, static_cast<int>(stride_axis), x.dtype,
                                         shift.dtype));
}

static void lower_sort(Emitter& e, const Op& op) {
  std::vector<ir::DType> dtypes;
  for (size_t i = 0; i < op.operands.size(); ++i) dtypes.push_back(e.operand(op, i).dtype);
  for (int64_t k = 0; k < op.attr("num_keys")->i; ++k)
    require(e, op, !ir::is_key(dtypes[static_cast<size_t>(k)]), "random keys as sorting keys");
  define_array(e, op,
               e.functions().arrays.sort(e.operand(op, 0).dims, static_cast<int>(op.attr("axis")->i), dtypes,
                                         static_cast<int>(op.attr("num_keys")->i)));
}

static void lower_top_k(Emitter& e, const Op& op) {
  const Val& x = e.operand(op, 0);
  require(e, op, !x.dims.empty() && op.results.size() == 2, "a scalar");
  const int64_t rank = static_cast<int64_t>(x.dims.size()), axis = int_or(op.attr("axis"), rank - 1),
                k = op.attr("k")->i;
  require(e, op, axis_of(axis, x.dims) && k >= 0 && k <= x.dims[static_cast<size_t>(axis)],
          "more elements than there are");
  std::vector<int64_t> dims = x.dims;
  dims[static_cast<size_t>(axis)] = k;
  const ir::Type *values = e.type(op.results[0]), *indices = e.type(op.results[1]);
  require(e, op,
          values->dtype == x.dtype && dims_of(values) == dims && dims_of(indices) == dims && ir::is_int(indices->dtype),
          "other results");
  require(e, op, !ir::is_complex(x.dtype) && !ir::is_key(x.dtype), "elements without an order");
  define_array(e, op, e.functions().arrays.top_k(x.dims, static_cast<int>(axis), k, x.dtype, indices->dtype));
}

// Reshape, transpose, reshape: "a(bc)->(ba)c".
static void lower_einshape(Emitter& e, const Op& op) {
  using Groups = std::vector<std::string>;
  const std::string& equation = op.attr("equation")->s;
  const size_t arrow = equation.find("->");
  require(e, op, arrow != std::string::npos, "an equation without an arrow");
  auto parse = [&](const std::string& side) {
    Groups g;
    bool open = false;
    for (char c : side) {
      if (c == ' ') continue;
      if (c == '(') open = true, g.emplace_back();
      else if (c == ')') open = false;
      else if (open) g.back() += c;
      else g.emplace_back(1, c);
    }
    return g;
  };
  const Groups lhs = parse(equation.substr(0, arrow)), rhs = parse(equation.substr(arrow + 2));
  Val x = e.operand(op, 0);
  require(e, op, lhs.size() == x.dims.size(), "an equation of another rank");
  std::map<char, int64_t> size;
  if (const Attr* given = op.attr("sizes"))
    for (const Attr& s : given->items)
      if (s.is_call("item") && s.items.size() == 2 && s.items[0].s.size() == 1) size[s.items[0].s[0]] = s.items[1].i;
  std::string atoms;
  for (size_t i = 0; i < lhs.size(); ++i) {
    int64_t known = 1;
    char unknown = 0;
    for (char c : lhs[i]) {
      if (lhs[i].size() == 1) size[c] = x.dims[i];
      if (size.count(c)) known *= size[c];
      else require(e, op, unknown == 0, "a group with two unknown sizes"), unknown = c;
    }
    if (unknown)
      require(e, op, known > 0 && x.dims[i] % known == 0, "sizes that do not divide"),
          size[unknown] = x.dims[i] / known;
    else require(e, op, known == x.dims[i], "sizes that do not fit");
    atoms += lhs[i];
  }
  // Views over one dense copy (or none, where splitting needs no copy).
  std::vector<int64_t> split, merged, perm;
  for (char c : atoms) split.push_back(size[c]);
  for (const std::string& g : rhs) {
    merged.push_back(1);
    for (char c : g) {
      const size_t at = atoms.find(c);
      require(e, op, at != std::string::npos, "a dimension that only the result has");
      perm.push_back(static_cast<int64_t>(at));
      merged.back() *= size[c];
    }
  }
  require(e, op, perm.size() == atoms.size() && merged == dims_of(e.type(op.results[0])), "another result");
  if (x.is_uniform()) return e.define(op.results[0], x.spread(merged));
  x = dense(e, x);
  const std::vector<int64_t> strides = dense_strides(split);
  Val v = x;
  v.dims.clear(), v.memory().strides.clear();
  for (int64_t p : perm)
    v.dims.push_back(split[static_cast<size_t>(p)]), v.memory().strides.push_back(strides[static_cast<size_t>(p)]);
  v = dense(e, v);
  v.dims = merged;
  v.memory().strides = dense_strides(merged);
  e.define(op.results[0], v);
}

// Rows of narrow elements lie in one row of words, the first row in the lowest bits.
static void lower_bitcast_tpu(Emitter& e, const Op& op) {
  const Val& x = e.operand(op, 0);
  const ir::Type* t = e.type(op.results[0]);
  const std::vector<int64_t> dims = dims_of(t);
  const size_t rank = x.dims.size();
  require(e, op, rank >= 2 && dims.size() == rank, "a rank below 2");
  const int64_t rows = x.dims[rank - 2], inner = x.dims[rank - 1],
                outer = memory::product(x.dims) / std::max<int64_t>(1, rows * inner);
  std::vector<int64_t> expected = x.dims;
  expected[rank - 2] = rows * ir::bit_width(x.dtype) / std::max(1, ir::bit_width(t->dtype));
  require(e, op, expected == dims && rows * ir::bit_width(x.dtype) % ir::bit_width(t->dtype) == 0,
          "another result shape");
  require(e, op,
          ir::bit_width(x.dtype) <= 64 && ir::bit_width(t->dtype) <= 64 && !ir::is_complex(x.dtype) &&
              !ir::is_complex(t->dtype),
          "elements wider than 64 bits");
  define_array(e, op, e.functions().arrays.regroup(outer, rows, inner, x.dtype, t->dtype));
}

static void lower_pack(Emitter& e, const Op& op) {
  const Val& x = e.operand(op, 0);
  const ir::Type* t = e.type(op.results[0]);
  const ir::DType packed = op.attr("packed_dtype")->type->dtype;
  const int width = ir::bit_width(packed), word = ir::bit_width(x.dtype);
  bool same = ir::bit_width(t->dtype) == word && dims_of(t) == x.dims;
  for (size_t i = 1; i < op.operands.size(); ++i)
    same &= e.operand(op, i).dims == x.dims && e.operand(op, i).dtype == x.dtype;
  require(e, op, same && word % width == 0 && static_cast<int>(op.operands.size()) * width <= word && word <= 64,
          "operands that do not fill a word");
  define_array(e, op, e.functions().arrays.pack(x.elements(), x.dtype, packed, static_cast<int>(op.operands.size())));
}

static void lower_unpack(Emitter& e, const Op& op) {
  const Val& x = e.operand(op, 0);
  const ir::Type* t = e.type(op.results[0]);
  const ir::DType packed = op.attr("packed_dtype")->type->dtype;
  const int64_t index = op.attr("index")->i;
  require(e, op,
          dims_of(t) == x.dims && index >= 0 && (index + 1) * ir::bit_width(packed) <= ir::bit_width(x.dtype) &&
              ir::bit_width(x.dtype) <= 64,
          "an element outside its word");
  require(e, op, e.kernels().convert(packed, t->dtype) != nullptr, "types that do not convert");
  define_array(e, op, e.functions().arrays.unpack(x.elements(), x.dtype, packed, t->dtype, static_cast<int>(index)));
}

static void lower_stochastic_round(Emitter& e, const Op& op) {
  const Val &x = e.operand(op, 0), &random = e.operand(op, 1);
  const ir::Type* t = e.type(op.results[0]);
  require(e, op,
          x.dtype == ir::DType::F32 && ir::bit_width(random.dtype) == 32 && ir::is_float(t->dtype) &&
              ir::bit_width(t->dtype) < 32 && x.dims == random.dims && dims_of(t) == x.dims,
          "operands other than f32 and u32");
  define_array(e, op, e.functions().arrays.stochastic_round(x.elements(), t->dtype));
}

// The value of lanes that a gather drops: the literal, else JAX's: NaN, the least signed, the greatest unsigned
// integer.
static void fill_value(const ir::Attr* given, ir::DType t, std::byte* out) {
  uint64_t bits = 0;
  const int width = ir::bit_width(t);
  if (given && given->is(ir::Attr::Kind::Bits)) {
    bits = static_cast<uint64_t>(given->i);
  } else if (given && given->is(ir::Attr::Kind::Dense)) {
    std::memcpy(out, given->s.data(), std::min<size_t>(given->s.size(), 16));
    return;
  } else if (ir::is_float(t) || ir::is_complex(t)) {
    const memory::Element e = memory::uninitialized(t, memory::Fill::Nan);
    std::memcpy(out, &e, static_cast<size_t>(ir::byte_size(t)));
    return;
  } else if (ir::is_signed_int(t)) {
    bits = uint64_t{1} << (width - 1);
  } else {
    bits = t == ir::DType::Bool ? 1 : width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  }
  std::memcpy(out, &bits, 8);
}

static void lower_gather(Emitter& e, const Op& op) {
  const Val &x = e.operand(op, 0), &indices = e.operand(op, 1);
  const ir::Type* t = e.type(op.results[0]);
  arrays::GatherShape g;
  g.operand = x.dims, g.indices = indices.dims, g.result = dims_of(t);
  g.slice = ints(op.attr("slice_sizes"));
  g.offset_dims = small_ints(op.attr("offset_dims")), g.collapsed = small_ints(op.attr("collapsed_slice_dims"));
  g.start_map = small_ints(op.attr("start_index_map"));
  g.operand_batch = small_ints(op.attr("operand_batching_dims")),
  g.index_batch = small_ints(op.attr("start_indices_batching_dims"));
  g.dtype = x.dtype, g.index = indices.dtype;
  const std::string& mode = op.attr("mode")->s;
  g.bounds = mode == "fill_or_drop" ? arrays::Bounds::Drop : arrays::Bounds::Clip;
  fill_value(op.attr("fill"), t->dtype, g.fill);
  // Everything that the body indexes with must be in range.
  const size_t batch = g.result.size() - std::min(g.result.size(), g.offset_dims.size());
  bool fits = t->dtype == x.dtype && ir::is_int(g.index) && !g.indices.empty() && g.slice.size() == g.operand.size() &&
              batch + 1 == g.indices.size() && g.indices.back() == static_cast<int64_t>(g.start_map.size()) &&
              axes_of(g.offset_dims, g.result) && axes_of(g.collapsed, g.operand) && axes_of(g.start_map, g.operand) &&
              axes_of(g.operand_batch, g.operand) && axes_of(g.index_batch, g.indices) &&
              g.operand_batch.size() == g.index_batch.size() &&
              g.offset_dims.size() + g.collapsed.size() + g.operand_batch.size() == g.operand.size();
  for (size_t d = 0; fits && d < g.slice.size(); ++d) fits = g.slice[d] >= 0 && g.slice[d] <= g.operand[d];
  for (size_t d = 0, b = 0; fits && d < g.result.size(); ++d)
    if (std::find(g.offset_dims.begin(), g.offset_dims.end(), static_cast<int>(d)) == g.offset_dims.end())
      fits = g.result[d] == g.indices[b++];
  for (size_t d = 0, w = 0; fits && d < g.operand.size(); ++d) {
    const int at = static_cast<int>(d);
    if (std::find(g.collapsed.begin(), g.collapsed.end(), at) != g.collapsed.end() ||
        std::find(g.operand_batch.begin(), g.operand_batch.end(), at) != g.operand_batch.end())
      continue;
    fits = g.result[static_cast<size_t>(g.offset_dims[w++])] == g.slice[d];
  }
  for (size_t i = 0; fits && i < g.operand_batch.size(); ++i)
    fits = g.index_batch[i] + 1 < static_cast<int>(g.indices.size()) &&
           g.indices[static_cast<size_t>(g.index_batch[i])] <= g.operand[static_cast<size_t>(g.operand_batch[i])];
  require(e, op, fits, "dimension numbers that do not fit");
  define_array(e, op, e.functions().arrays.gather_slices(std::move(g)));
}

static void lower_scatter(Emitter& e, const Op& op) {
  using C = ir::OpCode;
  const Val &x = e.operand(op, 0), &indices = e.operand(op, 1), &updates = e.operand(op, 2);
  const ir::Type* t = e.type(op.results[0]);
  arrays::ScatterShape g;
  g.operand = x.dims, g.indices = indices.dims, g.updates = updates.dims;
  g.window_dims = small_ints(op.attr("update_window_dims")), g.inserted = small_ints(op.attr("inserted_window_dims"));
  g.start_map = small_ints(op.attr("scatter_dims_to_operand_dims"));
  g.operand_batch = small_ints(op.attr("operand_batching_dims")),
  g.index_batch = small_ints(op.attr("scatter_indices_batching_dims"));
  g.dtype = x.dtype, g.index = indices.dtype;
  g.bounds = op.attr("mode")->s == "clip" ? arrays::Bounds::Clip : arrays::Bounds::Drop;
  const size_t batch = g.updates.size() - std::min(g.updates.size(), g.window_dims.size());
  bool fits = t->dtype == x.dtype && dims_of(t) == x.dims && updates.dtype == x.dtype && ir::is_int(g.index) &&
              !g.indices.empty() && batch + 1 == g.indices.size() &&
              g.indices.back() == static_cast<int64_t>(g.start_map.size()) && axes_of(g.window_dims, g.updates) &&
              axes_of(g.inserted, g.operand) && axes_of(g.start_map, g.operand) &&
              axes_of(g.operand_batch, g.operand) && axes_of(g.index_batch, g.indices) &&
              g.operand_batch.size() == g.index_batch.size() &&
              g.window_dims.size() + g.inserted.size() + g.operand_batch.size() == g.operand.size();
  for (size_t d = 0, b = 0; fits && d < g.updates.size(); ++d)
    if (std::find(g.window_dims.begin(), g.window_dims.end(), static_cast<int>(d)) == g.window_dims.end())
      fits = g.updates[d] == g.indices[b++];
  for (size_t d = 0, w = 0; fits && d < g.operand.size(); ++d) {
    const int at = static_cast<int>(d);
    if (std::find(g.inserted.begin(), g.inserted.end(), at) != g.inserted.end() ||
        std::find(g.operand_batch.begin(), g.operand_batch.end(), at) != g.operand_batch.end())
      continue;
    fits = g.updates[static_cast<size_t>(g.window_dims[w++])] <= g.operand[d];
  }
  for (size_t i = 0; fits && i < g.operand_batch.size(); ++i)
    fits = g.index_batch[i] + 1 < static_cast<int>(g.indices.size()) &&
           g.indices[static_cast<size_t>(g.index_batch[i])] <= g.operand[static_cast<size_t>(g.operand_batch[i])];
  require(e, op, fits, "dimension numbers that do not fit");
  const C combine = op.code == C::scatter_add   ? C::add
                    : op.code == C::scatter_sub ? C::sub
                    : op.code == C::scatter_mul ? C::mul
                    : op.code == C::scatter_min ? C::min
                    : op.code == C::scatter_max ? C::max
                                                : C::yield;
  if (combine != C::yield) {
    g.combine = e.kernels().strip(combine, x.dtype);
    if (!g.combine) e.unsupported(op, std::string(ir::name(op.code)) + " on " + std::string(ir::name(x.dtype)));
    g.params.dtype = x.dtype;
    g.params.semantics = e.semantics();
  }
  define_array(e, op, e.functions().arrays.scatter_slices(std::move(g)));
}

Rows array_rows() {
  static constexpr Row kRows[] = {{OpCode::roll, lower_roll},
                                  {OpCode::einshape, lower_einshape},
                                  {OpCode::bitcast_tpu, lower_bitcast_tpu},
                                  {OpCode::pack_elementwise, lower_pack},
                                  {OpCode::unpack_elementwise, lower_unpack},
                                  {OpCode::stochastic_round, lower_stochastic_round},
                                  {OpCode::sort, lower_sort},
                                  {OpCode::top_k, lower_top_k},
                                  {OpCode::gather, lower_gather},
                                  {OpCode::scatter, lower_scatter},
                                  {OpCode::scatter_add, lower_scatter},
                                  {OpCode::scatter_sub, lower_scatter},
                                  {OpCode::scatter_mul, lower_scatter},
                                  {OpCode::scatter_min, lower_scatter},
                                  {OpCode::scatter_max, lower_scatter}};
  return kRows;
}

}  // namespace pallasim::interp
