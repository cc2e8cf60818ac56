#include <algorithm>

#include <fmt/format.h>

#include "text.h"
#include "verify.h"

namespace pallasim::ir {
namespace {

const Dim kUnknown(std::string("?"));  // compares as undecidable; never printed by a passing check

std::vector<Dim> dims_of_rank(const OpCheck& c, const char* key, int rank) {
  std::vector<Dim> d = c.dims_attr(key);
  if (static_cast<int>(d.size()) != rank)
    c.bad_attr(key, fmt::format("{} for an array of rank {}", plural(static_cast<int64_t>(d.size()), "entry"), rank));
  return d;
}

void int_starts(const OpCheck& c, int first) {
  const int rank = c.in(0).rank();
  if (c.num_in() != first + rank)
    c.fail("PS-IR-101", fmt::format("{} for an array of rank {}", plural(c.num_in() - first, "start operand"), rank));
  for (int i = first; i < c.num_in(); ++i) c.need_int_scalar(i);
}

// The elements of narrow types must be in range: bodies index tables with them.
bool bytes_in_range(DType t, const std::string& bytes) {
  const int bits = t == DType::Bool ? 1 : bit_width(t);
  if (bits >= 8) return true;
  return std::all_of(bytes.begin(), bytes.end(), [&](char ch) { return static_cast<unsigned char>(ch) >> bits == 0; });
}

bool bits_in_range(DType t, uint64_t v) {
  const int bits = t == DType::Bool ? 1 : bit_width(t);
  return bits >= 64 || v >> bits == 0;
}

}  // namespace

void rule_constant(const OpCheck& c) {
  c.need_results(1);
  c.need_out_tensor();
  const Attr& v = *c.op.attr("value");
  if (v.is(Attr::Kind::Bits)) {
    if (!bits_in_range(v.dtype, static_cast<uint64_t>(v.i)))
      c.bad_attr("value", fmt::format("does not fit in {}", name(v.dtype)));
    return c.need_out(v.dtype, {}, "the literal");
  }
  if (v.is(Attr::Kind::Dense)) {
    if (!v.type->is_static() || static_cast<int64_t>(v.s.size()) != v.type->num_bytes())
      c.fail("PS-IR-109", fmt::format("the literal of type {} holds {}", to_string(v.type),
                                      plural(static_cast<int64_t>(v.s.size()), "byte")));
    if (!bytes_in_range(v.type->dtype, v.s))
      c.fail("PS-IR-109", fmt::format("an element of the literal does not fit in {}", name(v.type->dtype)));
  }
  c.need_out(v.type->dtype, v.type->dims, "the literal");
}

void rule_iota(const OpCheck& c) {
  c.need_results(1);
  c.need_out_tensor();
  if (is_key(c.out().dtype) || is_sync(c.out().dtype)) c.bad_result(0, "an index is a number");
  c.axis_attr("axis", c.out().rank());
}

void rule_broadcast(const OpCheck& c) {
  c.need_tensor(0);
  c.need_results(1);
  c.need_out_tensor();
  const Type &x = c.in(0), &r = c.out();
  const std::vector<int64_t> dims = c.axes_attr("dims", r.rank());
  if (static_cast<int>(dims.size()) != x.rank())
    c.bad_attr("dims", fmt::format("{} for an operand of rank {}", plural(static_cast<int64_t>(dims.size()), "entry"),
                                   x.rank()));
  if (!std::is_sorted(dims.begin(), dims.end())) c.bad_attr("dims", "not in increasing order");
  if (x.dtype != r.dtype) c.bad_result(0, fmt::format("operand 0 has type {}", to_string(x)));
  for (size_t i = 0; i < dims.size(); ++i) {
    const Dim &from = x.dims[i], &to = r.dims[static_cast<size_t>(dims[i])];
    if (from != Dim(1) && !may_equal(from, to))
      c.bad_result(0, fmt::format("dimension {} of the operand {} becomes dimension {}", i, to_string(x), dims[i]));
  }
}

void rule_reshape(const OpCheck& c) {
  c.need_tensor(0);
  c.need_results(1);
  c.need_out_tensor();
  const Type &x = c.in(0), &r = c.out();
  if (x.dtype != r.dtype || (x.is_static() && r.is_static() && x.num_elements() != r.num_elements()))
    c.bad_result(0, fmt::format("operand 0 has type {}", to_string(x)),
                 "a reshape keeps the element type and the number of elements");
}

void rule_transpose(const OpCheck& c) {
  c.need_tensor(0);
  const Type& x = c.in(0);
  const std::vector<int64_t> perm = c.axes_attr("perm", x.rank());
  if (static_cast<int>(perm.size()) != x.rank())
    c.bad_attr("perm", fmt::format("{} for an operand of rank {}", plural(static_cast<int64_t>(perm.size()), "entry"),
                                   x.rank()));
  std::vector<Dim> dims;
  for (int64_t p : perm) dims.push_back(x.dims[static_cast<size_t>(p)]);
  c.need_out(x.dtype, dims, "the permutation");
}

void rule_slice(const OpCheck& c) {
  c.need_tensor(0);
  const Type& x = c.in(0);
  const auto start = dims_of_rank(c, "start", x.rank()), limit = dims_of_rank(c, "limit", x.rank());
  const auto stride =
      c.op.attr("stride") ? dims_of_rank(c, "stride", x.rank()) : std::vector<Dim>(start.size(), Dim(1));
  std::vector<Dim> dims;
  for (size_t i = 0; i < start.size(); ++i) {
    const Dim &s = start[i], &l = limit[i], &t = stride[i], &d = x.dims[i];
    if (s.is_static() && s.size < 0) c.bad_attr("start", fmt::format("{} is negative", s.size));
    if (t.is_static() && t.size < 1) c.bad_attr("stride", fmt::format("{} is not positive", t.size));
    if (s.is_static() && l.is_static() && s.size > l.size)
      c.bad_attr("limit", fmt::format("{} is before the start {}", l.size, s.size));
    if (d.is_static() && l.is_static() && l.size > d.size)
      c.bad_attr("limit", fmt::format("{} is past the end of dimension {} of {}", l.size, i, to_string(x)));
    const bool known = s.is_static() && l.is_static() && t.is_static();
    dims.push_back(known ? Dim((l.size - s.size) / t.size + ((l.size - s.size) % t.size != 0)) : kUnknown);
  }
  c.need_out(x.dtype, dims, "the slice");
}

void rule_dynamic_slice(const OpCheck& c) {
  c.need_tensor(0);
  const Type& x = c.in(0);
  int_starts(c, 1);
  const auto sizes = dims_of_rank(c, "sizes", x.rank());
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i].is_static() && (sizes[i].size < 0 || (x.dims[i].is_static() && sizes[i].size > x.dims[i].size)))
      c.bad_attr("sizes", fmt::format("{} in dimension {} of {}", sizes[i].size, i, to_string(x)));
  c.need_out(x.dtype, sizes, "the slice");
}

void rule_dynamic_update(const OpCheck& c) {
  c.need_tensor(0);
  c.need_tensor(1);
  int_starts(c, 2);
  const Type &x = c.in(0), &u = c.in(1);
  bool fits = u.dtype == x.dtype && u.rank() == x.rank();
  for (size_t i = 0; fits && i < u.dims.size(); ++i)
    fits = !u.dims[i].is_static() || !x.dims[i].is_static() || u.dims[i].size <= x.dims[i].size;
  if (!fits) c.bad_operand(1, fmt::format("it updates operand 0 of type {}", to_string(x)));
  c.need_out(x.dtype, x.dims, "the update");
}

void rule_concat(const OpCheck& c) {
  c.need_tensor(0);
  const Type& x = c.in(0);
  const auto axis = static_cast<size_t>(c.axis_attr("axis", x.rank()));
  std::vector<Dim> dims = x.dims;
  for (int i = 1; i < c.num_in(); ++i) {
    c.need_tensor(i);
    std::vector<Dim> other = c.in(i).dims;
    const bool rank = other.size() == dims.size();
    const Dim piece = rank ? other[axis] : Dim();
    if (rank) other[axis] = x.dims[axis];
    if (c.in(i).dtype != x.dtype || !may_equal(other, x.dims))
      c.bad_operand(i, fmt::format("operand 0 has type {}", to_string(x)),
                    fmt::format("operands differ in dimension {} only", axis));
    if (!piece.is_static()) dims[axis] = kUnknown;
    int64_t sum;
    if (dims[axis].is_static() && !__builtin_add_overflow(dims[axis].size, piece.size, &sum)) dims[axis] = Dim(sum);
  }
  c.need_out(x.dtype, dims, "the concatenation");
}

void rule_pad(const OpCheck& c) {
  c.need_tensor(0);
  c.need_tensor(1);
  const Type& x = c.in(0);
  if (!c.in(1).is_scalar() || c.in(1).dtype != x.dtype)
    c.bad_operand(1, fmt::format("the padding value is {}[]", name(x.dtype)));
  const auto low = dims_of_rank(c, "low", x.rank()), high = dims_of_rank(c, "high", x.rank()),
             interior = dims_of_rank(c, "interior", x.rank());
  std::vector<Dim> dims;
  for (size_t i = 0; i < low.size(); ++i) {
    const Dim& d = x.dims[i];
    if (interior[i].is_static() && interior[i].size < 0) c.bad_attr("interior", "negative");
    if (!d.is_static() || !low[i].is_static() || !high[i].is_static() || !interior[i].is_static()) {
      dims.push_back(kUnknown);
      continue;
    }
    // 128 bits: the attributes are any 64-bit numbers.
    const __int128 n = static_cast<__int128>(d.size) + low[i].size + high[i].size +
                       static_cast<__int128>(std::max<int64_t>(d.size - 1, 0)) * interior[i].size;
    if (n > INT64_MAX) c.bad_attr("interior", fmt::format("dimension {} becomes too large", i));
    dims.push_back(Dim(n < 0 ? 0 : static_cast<int64_t>(n)));
  }
  c.need_out(x.dtype, dims, "the padding");
}

// Unknown where either is, or where nobody can have so many.
static Dim times(const Dim& d, const Dim& factor) {
  int64_t n;
  const bool known = d.is_static() && factor.is_static() && !__builtin_mul_overflow(d.size, factor.size, &n);
  return known ? Dim(n) : kUnknown;
}

void rule_tile(const OpCheck& c) {
  c.need_tensor(0);
  const Type& x = c.in(0);
  std::vector<Dim> reps(x.dims.size(), Dim(1));
  if (c.op.code == OpCode::repeat)
    reps[static_cast<size_t>(c.axis_attr("axis", x.rank()))] = Dim(c.int_attr("repeats"));
  else reps = dims_of_rank(c, "reps", x.rank());
  std::vector<Dim> dims = x.dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (reps[i].is_static() && reps[i].size < 0)
      c.bad_attr(c.op.code == OpCode::repeat ? "repeats" : "reps", fmt::format("{} is negative", reps[i].size));
    dims[i] = times(dims[i], reps[i]);
  }
  c.need_out(x.dtype, dims, "the repetition");
}

void rule_split(const OpCheck& c) {
  c.need_tensor(0);
  const Type& x = c.in(0);
  const auto axis = static_cast<size_t>(c.axis_attr("axis", x.rank()));
  const std::vector<Dim> sizes = c.dims_attr("sizes");
  c.need_results(static_cast<int>(sizes.size()));
  Dim all(0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Dim& n = sizes[i];
    if (n.is_static() && (n.size < 0 || (x.dims[axis].is_static() && n.size > x.dims[axis].size)))
      c.bad_attr("sizes", fmt::format("{} in dimension {} of {}", n.size, axis, to_string(x)));
    int64_t sum;
    const bool known = all.is_static() && n.is_static() && !__builtin_add_overflow(all.size, n.size, &sum);
    all = known ? Dim(sum) : kUnknown;
    std::vector<Dim> dims = x.dims;
    dims[axis] = n;
    if (c.out(static_cast<int>(i)).is_ref || c.out(static_cast<int>(i)).dtype != x.dtype ||
        !may_equal(c.out(static_cast<int>(i)).dims, dims))
      c.bad_result(static_cast<int>(i), fmt::format("the piece is {}", shape_text(x.dtype, dims)));
  }
  if (!may_equal(all, x.dims[axis]))
    c.bad_attr("sizes", fmt::format("{} together, of dimension {} of {}", all.size, axis, to_string(x)));
}

void rule_stack(const OpCheck& c) {
  c.need_tensor(0);
  const Type& x = c.in(0);
  const int axis = c.axis_attr("axis", x.rank() + 1);
  for (int i = 1; i < c.num_in(); ++i) {
    c.need_tensor(i);
    if (!same_type(c.in(i), x)) c.bad_operand(i, fmt::format("operand 0 has type {}", to_string(x)));
  }
  std::vector<Dim> dims = x.dims;
  dims.insert(dims.begin() + axis, Dim(c.num_in()));
  c.need_out(x.dtype, dims, "the stack");
}

void rule_unstack(const OpCheck& c) {
  c.need_tensor(0);
  const Type& x = c.in(0);
  const int axis = c.axis_attr("axis", x.rank());
  std::vector<Dim> dims = x.dims;
  dims.erase(dims.begin() + axis);
  const Dim& n = x.dims[static_cast<size_t>(axis)];
  if (!may_equal(n, Dim(c.num_out())))
    c.fail("PS-IR-106", fmt::format("{} for dimension {} of {}", plural(c.num_out(), "result"), axis, to_string(x)));
  for (int i = 0; i < c.num_out(); ++i)
    if (c.out(i).is_ref || c.out(i).dtype != x.dtype || !may_equal(c.out(i).dims, dims))
      c.bad_result(i, fmt::format("the slice is {}", shape_text(x.dtype, dims)));
}

}  // namespace pallasim::ir
