// Where a slice at a dynamic place may begin. libtpu demands a proof (its error E2003, jax issue 36770); how it proves
// is not published, so what cannot be proven here is a warning.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "pallasim/hw/tiles.h"
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
    if (dims.size() == 1) unit = std::min<int64_t>(1024, dims[0] + tile_padding(t.dtype, dims)[0]);
    else if (d + 2 == dims.size()) unit = t.dtype != ir::DType::Bool && ir::bit_width(t.dtype) < 32 ? 8 : 1;
    const int64_t known = divisor(op.operands[static_cast<size_t>(start.operand)]);
    if (known % unit == 0) continue;
    ir::Diagnostic& r = add(
        "PS-TPU-007",
        fmt::format("nothing shows that the index of dimension {} of {} is a multiple of {}", d, name_of(ref), unit),
        op.loc,
        fmt::format("if it is, say so: pl.multiple_of(i, {}); else take whole tiles and rotate: pltpu.roll", unit));
    if (known > 1) r.numbers.push_back(fmt::format("it is a multiple of {}", known));
  }
}

}  // namespace pallasim::hw
