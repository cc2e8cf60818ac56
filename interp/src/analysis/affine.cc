#include "affine.h"

#include <unordered_map>

namespace pallasim::interp::analysis {
namespace {

Affine combine(const Affine& a, const Affine& b, int64_t sign) {
  Affine r = a;
  r.constant = memory::add(r.constant, memory::mul(sign, b.constant));
  for (size_t i = 0; i < r.coefficient.size(); ++i)
    r.coefficient[i] = memory::add(r.coefficient[i], memory::mul(sign, b.coefficient[i]));
  return r;
}

Affine scaled(const Affine& a, int64_t f) {
  Affine r = a;
  r.constant = memory::mul(r.constant, f);
  for (int64_t& c : r.coefficient) c = memory::mul(c, f);
  return r;
}

// Whether no grid point takes the value out of its type. Program ids of dynamic axes may be any i32.
bool fits(const Affine& a, ir::DType t, const std::vector<ir::GridAxis>& grid) {
  int64_t lo = a.constant, hi = a.constant;
  for (size_t g = 0; g < grid.size(); ++g) {
    const int64_t last =
        grid[g].dynamic >= 0 ? std::numeric_limits<int32_t>::max() : std::max<int64_t>(grid[g].size - 1, 0);
    int64_t& end = a.coefficient[g] < 0 ? lo : hi;
    end = memory::add(end, memory::mul(a.coefficient[g], last));
  }
  const bool is_signed = ir::is_signed_int(t);
  const int bits = ir::bit_width(t) - (is_signed ? 1 : 0);
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  // Saturated sums stick at the ends of i64, which are therefore out.
  const int64_t most = bits >= 63 ? kMost - 1 : (int64_t{1} << bits) - 1, least = !is_signed   ? 0
                                                                                  : bits >= 63 ? kLeast + 1
                                                                                               : -(int64_t{1} << bits);
  return lo >= least && hi <= most;
}

}  // namespace

bool is_constant(const Affine& a) {
  return std::all_of(a.coefficient.begin(), a.coefficient.end(), [](int64_t c) { return c == 0; });
}

bool moves_alone(const Affine& index, size_t axis) {
  if (!index.known || index.coefficient[axis] == 0) return false;
  for (size_t g = 0; g < index.coefficient.size(); ++g)
    if (g != axis && index.coefficient[g] != 0) return false;
  return true;
}

std::vector<Affine> affine_map(const ir::Module& m, const ir::Operand& operand) {
  const ir::Graph& g = *operand.index_map;
  const size_t axes = m.grid.size();
  std::unordered_map<ir::ValueId, Affine> values;
  for (size_t i = 0; i < axes; ++i) {
    Affine a{true, 0, std::vector<int64_t>(axes, 0)};
    a.coefficient[i] = 1;
    values[g.region.args[i]] = a;
  }
  for (const ir::Op& op : g.region.ops) {
    auto in = [&](size_t i) -> const Affine* {
      auto it = values.find(op.operands[i]);
      return it == values.end() ? nullptr : &it->second;
    };
    Affine r;
    switch (op.code) {
      case ir::OpCode::constant: {
        const ir::Attr& v = *op.attr("value");
        if (!v.is(ir::Attr::Kind::Bits) || !ir::is_int(v.dtype)) break;
        const int shift = 64 - ir::bit_width(v.dtype);
        const int64_t n =
            ir::is_signed_int(v.dtype) ? static_cast<int64_t>(static_cast<uint64_t>(v.i) << shift) >> shift : v.i;
        r = {true, n, std::vector<int64_t>(axes, 0)};
        break;
      }
      case ir::OpCode::dim_value: r = {true, op.attr("dim")->i, std::vector<int64_t>(axes, 0)}; break;
      case ir::OpCode::add:
      case ir::OpCode::sub:
        if (in(0) && in(1)) r = combine(*in(0), *in(1), op.code == ir::OpCode::add ? 1 : -1);
        break;
      case ir::OpCode::mul:
        if (in(0) && in(1) && is_constant(*in(1))) r = scaled(*in(0), in(1)->constant);
        else if (in(0) && in(1) && is_constant(*in(0))) r = scaled(*in(1), in(0)->constant);
        break;
      case ir::OpCode::convert:
        if (in(0)) r = *in(0);
        break;
      default: break;
    }
    if (!r.known || op.results.size() != 1) continue;
    const ir::Type* t = g.type(op.results[0]);
    if (t->is_scalar() && ir::is_int(t->dtype) && ir::bit_width(t->dtype) >= 32 && fits(r, t->dtype, m.grid))
      values[op.results[0]] = std::move(r);
  }
  const bool runs = std::any_of(g.region.ops.begin(), g.region.ops.end(), [](const ir::Op& op) {
    return (ir::info(op.code).effects & (ir::kEffectPrint | ir::kEffectCheck)) != 0;
  });
  std::vector<Affine> r;
  for (ir::ValueId v : g.region.ops.back().operands) {
    auto it = runs ? values.end() : values.find(v);
    r.push_back(it == values.end() ? Affine{} : it->second);
  }
  return r;
}

}  // namespace pallasim::interp::analysis
