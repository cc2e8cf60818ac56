// Dense arrays: elementwise operations by the reference table, and operations that move elements.
#include "machine.h"

namespace pallasim::oracle {

using interp::reference_kernels;

Dims strides_of(const Dims& dims) {
  Dims s(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) s[d - 1] = s[d] * dims[d];
  return s;
}

Dims dims_of(const ir::Type* t) {
  Dims r;
  for (const ir::Dim& d : t->dims) r.push_back(d.size);
  return r;
}

Dims ints(const Attr* a) {
  Dims r;
  if (a)
    for (const Attr& x : a->items) r.push_back(x.i);
  return r;
}

// docs/numerics.md: where machines differ.
const interp::Semantics& semantics_of(ir::Machine machine) {
  static const std::array<interp::Semantics, 4> table = [] {
    std::array<interp::Semantics, 4> r;
    for (const ir::Machine m : {ir::Machine::Triton, ir::Machine::MosaicGpu}) {
      auto& s = r[static_cast<size_t>(m)];
      s.nan_propagates_in_minmax = m != ir::Machine::Triton;
      s.fp8_saturates = true;
      s.int_rem_zero_is_x = false;
      s.sign_of_nan_is_one = m == ir::Machine::MosaicGpu;
    }
    return r;
  }();
  return table[static_cast<size_t>(machine)];
}

Array empty_array(DType t, Dims dims) {
  Array a{t, std::move(dims), {}};
  a.bytes.resize(static_cast<size_t>(count(a.dims) * ir::byte_size(t)));
  return a;
}

void canonical(DType t, std::byte* first, int64_t n) {
  const int bits = ir::bit_width(t);
  if (bits == 0 || bits >= 8) return;
  for (int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<uint8_t>(static_cast<uint8_t>(first[i]) << (8 - bits));
    first[i] = static_cast<std::byte>((ir::is_signed_int(t) ? static_cast<int8_t>(v) : v) >> (8 - bits));
  }
}

int64_t integer(const Array& a, int64_t n) {
  const std::byte* at = a.bytes.data() + n * ir::byte_size(a.dtype);
  if (!ir::is_int(a.dtype) && a.dtype != DType::Bool) throw Lack{"an index of type " + std::string(ir::name(a.dtype))};
  uint64_t v = 0;
  std::memcpy(&v, at, static_cast<size_t>(ir::byte_size(a.dtype)));
  const int shift = 64 - (a.dtype == DType::Bool ? 8 : ir::bit_width(a.dtype));
  v <<= shift;
  return ir::is_signed_int(a.dtype) ? static_cast<int64_t>(v) >> shift : static_cast<int64_t>(v >> shift);
}

Array integer_scalar(DType t, int64_t v) {
  Array a = empty_array(t, {});
  std::memcpy(a.bytes.data(), &v, a.bytes.size());
  canonical(t, a.bytes.data(), 1);
  return a;
}

void fill_unwritten(std::vector<std::byte>& bytes, DType t, bool noise, uint64_t* state) {
  const auto size = static_cast<size_t>(ir::byte_size(t));
  std::array<std::byte, 16> e{};
  const bool negative = ir::is_signed_int(t);
  auto set = [&](uint64_t lo, uint64_t hi = 0) {
    std::memcpy(e.data(), &lo, 8);
    std::memcpy(e.data() + 8, &hi, 8);
  };
  switch (t) {  // a quiet NaN, the least integer, true
    case DType::Bool: set(1); break;
    case DType::BF16: set(0x7fc0); break;
    case DType::F16: set(0x7e00); break;
    case DType::F32: set(0x7fc00000); break;
    case DType::F64: set(0x7ff8000000000000); break;
    case DType::C64: set(0x7fc000007fc00000); break;
    case DType::C128: set(0x7ff8000000000000, 0x7ff8000000000000); break;
    case DType::F8E3M4:
    case DType::F8E4M3: set(0x7c); break;
    case DType::F8E4M3FN: set(0x7f); break;
    case DType::F8E5M2: set(0x7e); break;
    case DType::F8E4M3B11FNUZ:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2FNUZ: set(0x80); break;
    case DType::F8E8M0FNU: set(0xff); break;
    default: set(negative ? ~uint64_t{0} << (ir::bit_width(t) - 1) : 0);
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (noise) {
      *state = *state * 6364136223846793005u + 1442695040888963407u;
      e[i % size] = static_cast<std::byte>(t == DType::Bool ? *state >> 63 : *state >> 56);
    }
    bytes[i] = e[i % size];
  }
  if (size == 1) canonical(t, bytes.data(), static_cast<int64_t>(bytes.size()));
}

// f(reg): from the registers 0, 1, 2 of the operands' elements to register 3. An operand may be a scalar.
template <typename F>
static Array by_element(const Arrays& args, DType to, const Dims& dims, const F& f) {
  const auto& k = reference_kernels();
  if (!k.store(to)) throw Lack{"a result of type " + std::string(ir::name(to))};
  Array r = empty_array(to, dims);
  alignas(64) std::byte reg[4][16];
  for (int64_t n = 0, total = count(dims); n < total; ++n) {
    for (size_t a = 0; a < args.size(); ++a) {
      const int64_t at = args[a]->dims.empty() ? 0 : n;
      k.load(args[a]->dtype)(reg[a], args[a]->bytes.data() + at * ir::byte_size(args[a]->dtype), 1, 1);
    }
    f(reg);
    k.store(to)(r.bytes.data() + n * ir::byte_size(to), reg[3], 1, 1);
  }
  canonical(to, r.bytes.data(), count(dims));
  return r;
}

Array elementwise(OpCode code, DType operand, DType result, const Dims& dims, const Arrays& args,
                  interp::StripParams params) {
  const auto& k = reference_kernels();
  const interp::StripFn fn = k.strip(code, operand);
  if (!fn) throw Lack{std::string(ir::name(code)) + " on " + std::string(ir::name(operand))};
  return by_element(args, result, dims, [&](auto& reg) {
    fn(reg[3], reg[0], args.size() > 1 ? reg[1] : reg[0], args.size() > 2 ? reg[2] : reg[0], 1, params);
  });
}

Array convert(const Array& x, DType to, const interp::Semantics& semantics) {
  if (x.dtype == to) return x;
  const auto& k = reference_kernels();
  const interp::ConvertFn fn = k.convert(x.dtype, to);
  if (!fn) throw Lack{"convert from " + std::string(ir::name(x.dtype)) + " to " + std::string(ir::name(to))};
  return by_element({&x}, to, x.dims, [&](auto& reg) { fn(reg[3], reg[0], 1, semantics); });
}

int64_t dot(const Dims& a, const Dims& b) { return std::inner_product(a.begin(), a.end(), b.begin(), int64_t{0}); }

Array strided(const Array& x, Dims dims, const Dims& step, int64_t base) {
  return pick(x, std::move(dims), [&](const Dims& index) { return base + dot(index, step); });
}

Array permuted(const Array& x, const Dims& order) {
  Dims dims, step;
  const Dims strides = strides_of(x.dims);
  for (int64_t d : order) dims.push_back(x.dims[d]), step.push_back(strides[d]);
  return strided(x, dims, step);
}

// Dimension d of x becomes dimension map[d]; those of one element are repeated.
static Array broadcast(const Array& x, const Dims& dims, const Dims& map) {
  Dims step(dims.size(), 0);
  const Dims strides = strides_of(x.dims);
  for (size_t d = 0; d < map.size(); ++d) step[map[d]] = x.dims[d] == 1 ? 0 : strides[d];
  return strided(x, dims, step);
}

Array spread(const Array& x, const Dims& dims) {
  Dims map(x.dims.size());
  std::iota(map.begin(), map.end(), static_cast<int64_t>(dims.size() - map.size()));
  return broadcast(x, dims, map);
}

Array regroup(const Array& x, DType to, int64_t outer, int64_t rows, int64_t inner) {
  const int from_bits = ir::bit_width(x.dtype), to_bits = ir::bit_width(to);
  const int narrow = std::min(from_bits, to_bits);
  Array r = empty_array(to, {outer * rows * inner * from_bits / to_bits});
  const int from_size = ir::byte_size(x.dtype), to_size = ir::byte_size(to);
  const int split = from_bits / narrow, join = to_bits / narrow;
  // Pieces of `narrow` bits of one column, in order of rows, lie in both arrays in the same order.
  for (int64_t piece = 0; piece < outer * rows * split; ++piece)
    for (int64_t k = 0; k < inner; ++k) {
      uint64_t from = 0, word = 0;
      std::memcpy(&from, x.bytes.data() + (piece / split * inner + k) * from_size, static_cast<size_t>(from_size));
      from = from >> (piece % split * narrow) & ~uint64_t{0} >> (64 - narrow);
      std::byte* at = r.bytes.data() + (piece / join * inner + k) * to_size;
      std::memcpy(&word, at, static_cast<size_t>(to_size));
      word |= from << (piece % join * narrow);
      std::memcpy(at, &word, static_cast<size_t>(to_size));
    }
  canonical(to, r.bytes.data(), count(r.dims));
  return r;
}

namespace {

Array bitcast(const Array& x, const ir::Type* to) {
  const int a = ir::bit_width(x.dtype), b = ir::bit_width(to->dtype);
  Array r = x;
  if (a != b && (a < 8 || b < 8)) {
    const int64_t inner = a > b ? 1 : b / a;
    r = regroup(x, to->dtype, count(x.dims) / inner, inner, 1);
  }
  r.dtype = to->dtype;
  r.dims = dims_of(to);
  if (a == b) canonical(r.dtype, r.bytes.data(), count(r.dims));
  return r;
}

Array select(const Array& which, const Arrays& cases, const Dims& dims) {
  Array r = empty_array(cases[0]->dtype, dims);
  for (int64_t n = 0, total = count(dims); n < total; ++n) {
    const int64_t c = integer(which, which.dims.empty() ? 0 : n);
    const Array& from = *cases[c > 0 && c < static_cast<int64_t>(cases.size()) ? static_cast<size_t>(c) : 0];
    put(r, n, from, from.dims.empty() ? 0 : n);
  }
  return r;
}

// r[base + index . step] = x[index]
void place(Array& r, const Array& x, const Dims& step, int64_t base) {
  each_index(x.dims, [&](const Dims& index, int64_t n) { put(r, base + dot(index, step), x, n); });
}

Array pad(const Array& x, const Array& value, const Op& op, const Dims& dims) {
  Array r = spread(value, dims);
  const Dims low = ints(op.attr("low")), interior = ints(op.attr("interior")), strides = strides_of(dims);
  each_index(x.dims, [&](const Dims& index, int64_t n) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      const int64_t i = low[d] + index[d] * (interior[d] + 1);
      if (i < 0 || i >= dims[d]) return;
      at += i * strides[d];
    }
    put(r, at, x, n);
  });
  return r;
}

Array roll(const Array& x, int64_t shift, const Op& op) {
  const auto axis = static_cast<size_t>(op.attr("axis")->i);
  const Attr *stride = op.attr("stride"), *along = op.attr("stride_axis");
  const int64_t n = x.dims[axis], by_row = stride && stride->is_int() && along && along->is_int() ? stride->i : 0;
  const Dims strides = strides_of(x.dims);
  return pick(x, x.dims, [&](Dims index) {
    const int64_t by = shift + (by_row ? by_row * index[along->i] : 0);
    index[axis] = ((index[axis] - by) % n + n) % n;
    return dot(index, strides);
  });
}

// The start of a slice of `sizes`, clamped so that it lies inside.
Dims clamped(const Arrays& starts, size_t first, const Dims& dims, const Dims& sizes) {
  Dims r;
  for (size_t d = 0; d < dims.size(); ++d)
    r.push_back(std::clamp<int64_t>(integer(*starts[first + d]), 0, dims[d] - sizes[d]));
  return r;
}

Array constant(const Attr& v, DType dtype, const Dims& dims) {
  Array r = empty_array(dtype, dims);
  if (v.is(Attr::Kind::Bits) && r.bytes.size() <= 8) std::memcpy(r.bytes.data(), &v.i, r.bytes.size());
  else if (v.is(Attr::Kind::Dense)) std::memcpy(r.bytes.data(), v.s.data(), r.bytes.size());
  else throw Lack{"a constant kept outside the module"};
  canonical(r.dtype, r.bytes.data(), count(dims));
  return r;
}

Dims without(Dims d, size_t axis) {
  d.erase(d.begin() + static_cast<std::ptrdiff_t>(axis));
  return d;
}

}  // namespace

bool Machine::elementwise_op(Thread& t, const Op& op) {
  if (ir::info(op.code).family != ir::Family::Elementwise) return false;
  const ir::Type* to = type(t, op);
  Arrays args;
  for (size_t i = 0; i < op.operands.size(); ++i) args.push_back(&in(t, op, i));
  const interp::Semantics& semantics = semantics_of(m_.machine);
  if (op.code == OpCode::stop_gradient) return out(t, op, *args[0]), true;
  if (op.code == OpCode::convert) return out(t, op, convert(*args[0], to->dtype, semantics)), true;
  if (op.code == OpCode::bitcast_convert) return out(t, op, bitcast(*args[0], to)), true;
  if (op.code == OpCode::select_n)
    return out(t, op, select(*args[0], {args.begin() + 1, args.end()}, dims_of(to))), true;
  interp::StripParams p;
  Array exponent;
  DType dtype = args.back()->dtype;
  if (op.code == OpCode::pow && args[1]->dtype != args[0]->dtype) {
    exponent = convert(*args[1], args[0]->dtype, semantics);
    args[1] = &exponent;
    dtype = args[0]->dtype;
  }
  p.dtype = dtype;
  p.semantics = semantics;
  if (op.code == OpCode::integer_pow) p.imm = op.attr("y")->i;
  if (op.code == OpCode::round) p.imm = op.attr("method")->s == "to_nearest_even";
  if (op.code == OpCode::reduce_precision) p.imm = op.attr("exponent_bits")->i << 8 | op.attr("mantissa_bits")->i;
  out(t, op, elementwise(op.code, dtype, to->dtype, dims_of(to), args, p));
  return true;
}

bool Machine::shape_op(Thread& t, const Op& op) {
  Arrays x;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    x.push_back(t.env[op.operands[i]].array.get());
    if (!x.back()) return false;
  }
  const ir::Type* to = op.results.empty() ? nullptr : type(t, op);
  const Dims dims = to ? dims_of(to) : Dims(), strides = x.empty() ? Dims() : strides_of(x[0]->dims);
  const auto axis = static_cast<size_t>(op.attr("axis") && op.attr("axis")->is_int() ? op.attr("axis")->i : 0);
  switch (op.code) {
    case OpCode::constant: return out(t, op, constant(*op.attr("value"), to->dtype, dims)), true;
    case OpCode::dim_value: return out(t, op, integer_scalar(to->dtype, op.attr("dim")->i)), true;
    case OpCode::iota: {
      Array row = empty_array(to->dtype, {dims[axis]});
      reference_kernels().iota(row.bytes.data(), to->dtype, 0, dims[axis]);
      canonical(row.dtype, row.bytes.data(), dims[axis]);
      return out(t, op, pick(row, dims, [&](const Dims& i) { return i[axis]; })), true;
    }
    case OpCode::broadcast_in_dim: return out(t, op, broadcast(*x[0], dims, ints(op.attr("dims")))), true;
    case OpCode::reshape: {
      Array r = *x[0];
      r.dims = dims;
      return out(t, op, std::move(r)), true;
    }
    case OpCode::transpose: return out(t, op, permuted(*x[0], ints(op.attr("perm")))), true;
    case OpCode::slice: {
      Dims step = ints(op.attr("stride"));
      step.resize(dims.size(), 1);
      for (size_t d = 0; d < dims.size(); ++d) step[d] *= strides[d];
      return out(t, op, strided(*x[0], dims, step, dot(ints(op.attr("start")), strides))), true;
    }
    case OpCode::dynamic_slice:
      return out(t, op, strided(*x[0], dims, strides, dot(clamped(x, 1, x[0]->dims, dims), strides))), true;
    case OpCode::dynamic_update_slice: {
      Array r = *x[0];
      place(r, *x[1], strides, dot(clamped(x, 2, r.dims, x[1]->dims), strides));
      return out(t, op, std::move(r)), true;
    }
    case OpCode::concatenate:
    case OpCode::stack: {
      Array r = empty_array(to->dtype, dims);
      const Dims to_strides = strides_of(dims);
      int64_t start = 0;
      for (const Array* part : x) {
        const bool joins = op.code == OpCode::concatenate;
        place(r, *part, joins ? to_strides : without(to_strides, axis), start * to_strides[axis]);
        start += joins ? part->dims[axis] : 1;
      }
      return out(t, op, std::move(r)), true;
    }
    case OpCode::pad: return out(t, op, pad(*x[0], *x[1], op, dims)), true;
    case OpCode::rev: {
      Dims step = strides;
      int64_t base = 0;
      for (int64_t a : ints(op.attr("axes"))) {
        const auto d = static_cast<size_t>(a);
        base += (dims[d] - 1) * strides[d], step[d] = -strides[d];
      }
      return out(t, op, strided(*x[0], dims, step, base)), true;
    }
    case OpCode::tile:
    case OpCode::repeat: {
      const size_t lead = dims.size() - x[0]->dims.size();
      return out(t, op,
                 pick(*x[0], dims,
                      [&](const Dims& i) {
                        int64_t at = 0;
                        for (size_t d = 0; d < strides.size(); ++d) at += i[lead + d] % x[0]->dims[d] * strides[d];
                        return at;
                      })),
             true;
    }
    case OpCode::split:
    case OpCode::unstack: {
      int64_t start = 0;
      const bool splits = op.code == OpCode::split;
      for (size_t i = 0; i < op.results.size(); ++i) {
        const Dims d = dims_of(type(t, op, i));
        out(t, op, strided(*x[0], d, splits ? strides : without(strides, axis), start * strides[axis]), i);
        start += splits ? d[axis] : 1;
      }
      return true;
    }
    case OpCode::roll: return out(t, op, roll(*x[0], integer(*x[1]), op)), true;
    case OpCode::gather: return out(t, op, gather(*x[0], *x[1], op, dims)), true;
    case OpCode::bitcast_tpu: {
      const int64_t inner = x[0]->dims.back(), rows = x[0]->dims[dims.size() - 2], block = rows * inner;
      Array r = regroup(*x[0], to->dtype, block ? count(x[0]->dims) / block : 0, rows, inner);
      r.dims = dims;
      return out(t, op, std::move(r)), true;
    }
    default: return false;
  }
}

}  // namespace pallasim::oracle
