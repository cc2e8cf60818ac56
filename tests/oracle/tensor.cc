// Tensor memory and the products of its pipe, done at once: what one CTA or a pair of them has, by its definition.
#include "machine.h"

namespace pallasim::oracle {

// The threads whose memory the operation is about; none where a pair's other CTA names it, too.
std::vector<int> Machine::pair(const Thread& t, const Op& op) const {
  const Attr* axis = op.attr("collective_axis");
  if (!axis) return {t.index};
  std::vector<std::string> names;
  for (const Attr& a : axis->items) names.push_back(a.s);
  std::vector<int> r = along(t.index, names);
  if (r.size() != 2) throw Lack{"a pair that is none"};
  if (r[0] != t.index) r.clear();
  return r;
}

void Machine::op_tensor_commit(Thread& t, const Op& op) {
  if (!op.viewed("barrier")) return;
  const Ref bar = keyed_view(t, op, "barrier");
  for (int cta : pair(t, op)) {
    Barrier& b = barrier(bar, cta);
    if (++b.arrived > b.expected) throw Stop{"more arrivals than a barrier's phase takes"};
    b.settle();
  }
}

namespace {

// Of k elements the ones that the metadata name: places q of a row are values q, two of each four.
Array dense_of(const Array& a, const Array& which, int64_t k) {
  Array r = empty_array(a.dtype, {a.dims[0], k});
  std::fill(r.bytes.begin(), r.bytes.end(), std::byte{0});
  const bool wide = ir::bit_width(a.dtype) == 16;
  each_index(a.dims, [&](const Dims& at, int64_t n) {
    // In tensor memory the metadata of 16-bit elements have row bit 3 and place bit 3 in each other's stead.
    int64_t row = at[0], place = at[1];
    if (wide && (row / 8 % 2 != place / 8 % 2)) row ^= 8, place ^= 8;
    const int64_t of_four = integer(which, row * which.dims[1] + place);
    put(r, at[0] * k + at[1] / 2 * 4 + of_four, a, n);
  });
  return r;
}

// v[i, j] times the scale of row i and of j's block.
Array scaled(const Array& v, const Array& scales, const std::function<int64_t(int64_t)>& row,
             const interp::Semantics& semantics) {
  const int64_t blocks = scales.dims[1], k = v.dims[1];
  const Array x = convert(v, DType::F32, semantics), s = convert(scales, DType::F32, semantics);
  Array all = empty_array(DType::F32, v.dims);
  each_index(v.dims, [&](const Dims& at, int64_t n) { put(all, n, s, row(at[0]) * blocks + at[1] * blocks / k); });
  interp::StripParams p;
  p.dtype = DType::F32;
  return elementwise(OpCode::mul, DType::F32, DType::F32, v.dims, {&x, &all}, p);
}

Array multiplied(const Array& a, const Array& b, Array sum, bool accumulate) {
  interp::Contraction c;
  c.m = a.dims.at(0), c.k = a.dims.at(1), c.n = b.dims.at(1);
  c.in = a.dtype, c.in_rhs = b.dtype, c.out = sum.dtype;
  c.a_row = c.k, c.a_col = 1, c.b_row = c.n, c.b_col = 1, c.c_row = c.n;
  c.accumulate = accumulate;
  if (!interp::contract(c, sum.bytes.data(), a.bytes.data(), b.bytes.data(), interp::GemmBackend::Reference))
    throw Lack{"a product of " + std::string(ir::name(a.dtype))};
  return sum;
}

}  // namespace

void Machine::op_tensor_product(Thread& t, const Op& op) {
  const std::vector<int> ctas = pair(t, op);
  const bool accumulate = integer(in(t, op, static_cast<size_t>(op.attr("accumulate")->i))) != 0;
  const auto matrix = [&](const char* key, int cta) { return read(at_thread(keyed_view(t, op, key), cta)); };
  const interp::Semantics& semantics = semantics_of(m_.machine);
  std::vector<Array> sums;
  for (int cta : ctas) {
    Array a = matrix("a", cta), sum = matrix("acc", cta);
    std::vector<Array> rights;  // columns by rows
    for (int other : ctas) rights.push_back(permuted(matrix("b", other), {1, 0}));
    const int64_t n = rights[0].dims[0], k = rights[0].dims[1], m = a.dims[0];
    if (op.viewed("a_sparse_metadata")) a = dense_of(a, matrix("a_sparse_metadata", cta), k);
    const bool scales = op.viewed("a_scale") != nullptr;
    if (scales)
      a = scaled(
          a, matrix("a_scale", cta), [](int64_t i) { return i; }, semantics);
    // A pair with 64 rows each has the scales of its second half's columns from row 128 on.
    const int64_t half = ctas.size() == 2 && m < 128 ? 128 : n;
    for (size_t h = 0; h < rights.size(); ++h) {
      Array& b = rights[h];
      const int64_t first = static_cast<int64_t>(h) * half;
      if (scales)
        b = scaled(
            b, matrix("b_scale", cta), [&](int64_t j) { return first + j; }, semantics);
      const int64_t column = static_cast<int64_t>(h) * n;
      const Array part = multiplied(
          a, permuted(b, {1, 0}),
          pick(sum, {m, n}, [&](const Dims& at) { return at[0] * sum.dims[1] + column + at[1]; }), accumulate);
      each_index(part.dims,
                 [&](const Dims& at, int64_t i) { put(sum, at[0] * sum.dims[1] + column + at[1], part, i); });
    }
    sums.push_back(std::move(sum));
  }
  for (size_t i = 0; i < ctas.size(); ++i) write(at_thread(keyed_view(t, op, "acc"), ctas[i]), sums[i]);
  op_tensor_commit(t, op);
}

// Scales come in tiles of 32 rows of the hardware, which hold rows i, i + 32, i + 64 and i + 96 of the matrix; metadata
// in tiles of whole rows.
void Machine::op_tensor_copy(Thread& t, const Op& op) {
  for (int cta : pair(t, op)) {
    const Ref to = at_thread(keyed_view(t, op, "tmem"), cta);
    const Array from = read(at_thread(keyed_view(t, op, "smem"), cta));
    if (op.code == OpCode::async_copy_smem_to_tmem) {
      write(to, from);
      continue;
    }
    const Dims &d = from.dims, strides = strides_of(d);
    const bool scales = op.code == OpCode::async_copy_scales_to_tmem, halves = scales && d.at(2) == 64;
    write(to, pick(from, to.dims, [&](const Dims& at) {
            const int64_t i = at.at(0), j = at.at(1);
            if (!scales) return dot({i / d[2], j / d[3], i % d[2], j % d[3]}, strides);
            const int64_t lane = i % 32 + (halves ? i / 128 * 32 : 0);
            return dot({halves ? 0 : i / 128, j / 4, lane, i % 128 / 32 * 4 + j % 4}, strides);
          }));
  }
}

bool Machine::tensor_op(Thread& t, const Op& op) {
  switch (op.code) {
    case OpCode::tcgen05_mma: return op_tensor_product(t, op), true;
    case OpCode::tcgen05_commit_arrive: return op_tensor_commit(t, op), true;
    case OpCode::async_copy_smem_to_tmem:
    case OpCode::async_copy_scales_to_tmem:
    case OpCode::async_copy_sparse_metadata_to_tmem: return op_tensor_copy(t, op), true;
    case OpCode::async_load_tmem: return out(t, op, read(keyed_view(t, op, "ref"))), true;
    case OpCode::async_store_tmem:
      return write(keyed_view(t, op, "ref"), in(t, op, static_cast<size_t>(op.attr("value")->i))), true;
    case OpCode::wait_load_tmem:
    case OpCode::commit_tmem: return true;
    default: return false;
  }
}

}  // namespace pallasim::oracle
