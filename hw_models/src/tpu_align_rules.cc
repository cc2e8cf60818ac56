// Where a slice at a dynamic place may begin. libtpu demands a proof (its error E2003, jax issue 36770); how it proves
// is not published, so what cannot be proven here is a warning.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tpu_rules.h"

namespace pallasim::hw {

using ir::OpCode;

static constexpr int64_t kLarge = 1 << 30;  // products of numbers up to here do not overflow

// The largest number that is known to divide the value; 0: the value is 0, which everything divides.
int64_t TpuRules::divisor(ir::ValueId v, int depth) {
  if (depth > 32) return 1;
  if (const auto known = divisors_.find(v); known != divisors_.end()) return known->second;
  const int64_t d = derived_divisor(v, depth);
  divisors_[v] = d;
  return d;
}

int64_t TpuRules::derived_divisor(ir::ValueId v, int depth) {
  if (const auto loop = loops_.find(v); loop != loops_.end())
    return std::gcd(divisor(loop->second->operands[0], depth + 1), divisor(loop->second->operands[2], depth + 1));
  const auto it = defined_.find(v);
  if (it == defined_.end()) return 1;
  const ir::Op& op = *it->second;
  auto in = [&](size_t i) { return divisor(op.operands[i], depth + 1); };
  switch (op.code) {
    case OpCode::constant: {
      const ir::Attr& a = *op.attr("value");
      if (!a.is(ir::Attr::Kind::Bits) || !ir::is_int(a.dtype)) return 1;
      const int64_t n = ir::bit_width(a.dtype) >= 64 ? a.i : static_cast<int32_t>(static_cast<uint32_t>(a.i));
      return n < -kLarge || n > kLarge ? 1 : std::abs(n);
    }
    case OpCode::add:
    case OpCode::sub:
    case OpCode::max:
    case OpCode::min: return std::gcd(in(0), in(1));
    case OpCode::mul: {
      const int64_t a = in(0), b = in(1);
      return a > kLarge || b > kLarge ? std::max(a, b) : a * b;
    }
    case OpCode::select_n: {
      int64_t d = 0;
      for (size_t i = 1; i < op.operands.size(); ++i) d = std::gcd(d, in(i));
      return d;
    }
    case OpCode::convert: return ir::is_int(graph_->type(op.operands[0])->dtype) ? in(0) : 1;
    case OpCode::multiple_of: {
      const int64_t known = in(0);
      const ir::Attr* values = op.attr("values");
      const int64_t promised = values && !values->items.empty() && values->items[0].is_int() ? values->items[0].i : 1;
      return known == 0 || known > kLarge || promised < 1 || promised > kLarge ? known : std::lcm(promised, known);
    }
    default: return 1;
  }
}

namespace {

// Where a part of a dimension may begin, given as a step: all multiples of it. The part has `size` of the dimension's
// `all` elements; those of one word (`packed`) and of one tile stay together, and a part of several tiles has whole
// ones.
struct Dimension {
  int64_t all = 0, size = 0, packed = 1, tile = 1;

  bool begins(int64_t at) const {
    const bool ends = at + size == all;
    if (at % packed != 0 || (size % packed != 0 && !ends)) return false;
    return at % tile + size <= tile || (at % tile == 0 && (size % tile == 0 || ends));
  }
  bool begins_at_multiples(int64_t step) const {
    for (int64_t at = 0; at < tile; at += step)
      if (!begins(at)) return false;
    return true;
  }
  // The least step, a power of two; 0: there is none.
  int64_t step() const {
    for (int64_t m = 1; m <= tile; m *= 2)
      if (begins_at_multiples(m)) return m;
    return 0;
  }
};

}  // namespace

// Arrays lie in tiles, of which a copy moves whole words of 32 bits, and whole tiles where it moves several (libtpu
// 0.0.42 and 0.0.52, asked with tests/tpu_compiler/agreement.py).
void TpuRules::copied(const ir::Op& op, ir::ValueId ref, std::span<const ir::View> view) {
  const auto* index = view.empty() ? nullptr : std::get_if<ir::view::Index>(&view.front());
  const ir::Type& t = *graph_->type(ref);
  if (!index || ir::is_sync(t.dtype) || t.space == ir::Space::Smem || t.dtype == ir::DType::Bool) return;
  const auto& entries = index->entries;
  const size_t rank = t.dims.size();
  const int bits = ir::bit_width(t.dtype);
  if (index->has_arrays() || entries.size() != rank || rank == 0 || bits > 32) return;
  for (size_t d = rank >= 2 ? rank - 2 : 0; d < rank; ++d) {
    const ir::view::Entry& e = entries[d];
    if (e.is_slice() && (e.size.is_operand() || e.stride != ir::ViewInt(1))) continue;
    Dimension part{t.dims[d].size, e.is_slice() ? e.size.value() : 1, 1, p_.lanes};
    if (part.size == part.all) continue;
    if (rank == 1) part.packed = part.tile = p_.lanes * (32 / bits);
    else if (d + 1 == rank) part.packed = p_.lanes;
    else if (bits == 32 && t.dims[rank - 1].size <= p_.lanes) continue;
    else part.packed = 32 / bits, part.tile = tile_rows(t.dtype, part.all);
    const int64_t step = part.step();
    const int64_t known = e.start.is_operand() ? divisor(op.operands[static_cast<size_t>(e.start.operand)]) : 0;
    if (e.start.is_operand() ? part.begins_at_multiples(known == 0 ? part.tile : std::gcd(known, part.tile))
                             : part.begins(e.start.value()))
      continue;
    if (e.start.is_operand() && step > 0) {
      unproven(op, ref, d, step, known);
      continue;
    }
    const std::string where = e.start.is_operand() ? "" : fmt::format(" from {} on", e.start.value());
    add("PS-TPU-006",
        fmt::format("a copy of {} of the {} elements of dimension {} of {}{}, which lies in tiles of {}", part.size,
                    part.all, d, name_of(ref), where, part.tile),
        op.loc,
        step > 0 ? fmt::format("such a part begins at a multiple of {}", step)
                 : fmt::format("copy whole tiles: a multiple of {}", part.tile));
  }
}

void TpuRules::unproven(const ir::Op& op, ir::ValueId ref, size_t dimension, int64_t unit, int64_t known) {
  ir::Diagnostic& r =
      add("PS-TPU-007",
          fmt::format("nothing shows that the index of dimension {} of {} is a multiple of {}", dimension, name_of(ref),
                      unit),
          op.loc,
          fmt::format("if it is, say so: pl.multiple_of(i, {}); else take whole tiles and rotate: pltpu.roll", unit));
  if (known > 1) r.numbers.push_back(fmt::format("it is a multiple of {}", known));
}

// In vector memory bool is a word.
static bool is_word(const ir::Type& t) { return t.dtype == ir::DType::Bool || ir::bit_width(t.dtype) == 32; }

// Of loads and stores: a row of words alone, and rows that lie one behind the other in memory, may begin anywhere.
static int64_t row_unit(const ir::Type& t, const ir::view::Entry& rows) {
  const bool one = !rows.is_slice() || rows.size == ir::ViewInt(1);
  if (is_word(t)) return one || t.dims.back().size <= 128 ? 1 : 8;
  return tile_rows(t.dtype, t.dims[t.dims.size() - 2].size);
}

// Rows are taken with a stride where they lie one behind the other; narrow ones only by loads of a later compiler
// (libtpu 0.0.52).
void TpuRules::strides(const ir::Op& op, ir::ValueId ref, std::span<const ir::View> view) {
  const auto* index = view.empty() ? nullptr : std::get_if<ir::view::Index>(&view.back());
  const ir::Type& t = *graph_->type(ref);
  if (!index || index->has_arrays() || t.space == ir::Space::Smem || view.size() > 1) return;
  const auto strided = [](const ir::view::Entry& e) { return e.is_slice() && e.stride != ir::ViewInt(1); };
  if (std::none_of(index->entries.begin(), index->entries.end(), strided)) return;
  const bool loads = is_load(op);
  const char* const what = loads ? "load from" : "store to";
  const auto refuse = [&](std::string why, const char* hint) {
    add("PS-TPU-005", fmt::format("a {} {} with a stride{}", what, name_of(ref), why), op.loc, hint);
  };
  if (strided(index->entries.back()))
    return refuse(" along the last dimension", "load all of it, and select or reshape");
  if (!is_word(t) && !(loads && jax_ >= 11 && ir::bit_width(t.dtype) == 16))
    return refuse(fmt::format(", of {}", ir::name(t.dtype)), "rows of 32-bit elements are taken with a stride");
  if (t.dims.back().size > 128)
    refuse(fmt::format(", whose rows have {} elements", t.dims.back().size),
           "rows of at most 128 elements are taken with a stride");
}

void TpuRules::alignment(const ir::Op& op, ir::ValueId ref, std::span<const ir::View> view) {
  const auto* first = view.empty() ? nullptr : std::get_if<ir::view::Index>(&view.front());
  if (!first) return;
  const ir::Type& t = *graph_->type(ref);
  if (ir::is_sync(t.dtype) || t.space == ir::Space::Smem) return;
  const auto& index = first->entries;
  std::vector<int64_t> dims;
  for (const ir::Dim& d : t.dims) dims.push_back(d.size);
  if (index.size() != dims.size()) return;
  for (size_t d = dims.size(); d-- > 0 && d + 2 >= dims.size();) {
    const ir::ViewInt& start = index[d].start;
    if (!start.is_operand() || dims[d] <= 1) continue;
    int64_t unit = 128;
    if (dims.size() == 1) unit = is_word(t) ? 128 : 128 * (32 / ir::bit_width(t.dtype));
    else if (d + 2 == dims.size()) unit = row_unit(t, index[d]);
    const int64_t known = divisor(op.operands[static_cast<size_t>(start.operand)]);
    if (known % unit == 0) continue;
    unproven(op, ref, d, unit, known);
  }
}

}  // namespace pallasim::hw
