// Integer results that do not fit their type: Options::nans.
#include <optional>

#include "made_of.h"

namespace pallasim::interp::ops {
namespace {

using Index = MadeOf::Index;
__extension__ typedef __int128 Wide;
constexpr Wide kHuge = Wide{1} << 100;  // beyond every type, and small enough to add to

struct Limits {
  Wide least, greatest;
  bool hold(Wide v) const { return v >= least && v <= greatest; }
};

Limits limits_of(ir::DType t) {
  const Wide half = Wide{1} << (ir::bit_width(t) - 1);
  return {-half, half - 1};
}

Wide whole(const std::byte* reg, ir::DType t) {
  switch (compute_type(t)) {
    case CType::Bool: return *reinterpret_cast<const uint8_t*>(reg);
    case CType::I32: return *reinterpret_cast<const int32_t*>(reg);
    case CType::U32: return *reinterpret_cast<const uint32_t*>(reg);
    case CType::I64: return *reinterpret_cast<const int64_t*>(reg);
    case CType::U64: return *reinterpret_cast<const uint64_t*>(reg);
    default: return 0;
  }
}

Wide held(Wide v) { return std::clamp<Wide>(v, -kHuge, kHuge); }
Wide product(Wide a, Wide b) {
  Wide r;
  if (__builtin_mul_overflow(a, b, &r)) return (a < 0) == (b < 0) ? kHuge : -kHuge;
  return held(r);
}

// What the operation would give in integers without an end.
class Exact {
 public:
  Exact(const Thread& t, const NanPayload& p) : op_(p.op) {
    for (const NanPayload::Array& a : p.operands) operands_.emplace_back(t, a);
  }
  std::vector<NanSource> sources(const Index& at) {
    std::vector<NanSource> r;
    for (MadeOf& o : operands_) r.push_back(o.seen(at));
    return r;
  }
  Wide at(const Index& result) {
    switch (op_) {
      case ir::OpCode::sub: return one(0, result) - one(1, result);
      case ir::OpCode::mul: return product(one(0, result), one(1, result));
      case ir::OpCode::neg: return -one(0, result);
      case ir::OpCode::abs: return one(0, result) < 0 ? -one(0, result) : one(0, result);
      case ir::OpCode::reduce_sum:
      case ir::OpCode::cumsum: return sum(0, result);
      case ir::OpCode::reduce_prod:
      case ir::OpCode::cumprod: return product_of(result);
      case ir::OpCode::add:
      case ir::OpCode::addupdate: return one(0, result) + one(1, result);
      default: return contraction(result);
    }
  }

 private:
  std::vector<Wide> lane(size_t i, const Index& result) {
    std::vector<Wide> r;
    operands_[i].along(result, [&](const std::byte* reg) {
      r.push_back(whole(reg, operands_[i].array().dtype));
      return true;
    });
    return r;
  }
  Wide one(size_t i, const Index& result) {
    Wide r = 0;
    operands_[i].along(result, [&](const std::byte* reg) { return r = whole(reg, operands_[i].array().dtype), false; });
    return r;
  }
  Wide sum(size_t i, const Index& result) {
    Wide r = 0;
    for (const Wide v : lane(i, result)) r = held(r + v);
    return r;
  }
  Wide product_of(const Index& result) {
    Wide r = 1;
    for (const Wide v : lane(0, result)) r = product(r, v);
    return r;
  }
  // A third operand is what the products are added to. A scalar stands for all elements of its lane.
  Wide contraction(const Index& result) {
    const std::vector<Wide> a = lane(0, result), b = lane(1, result);
    Wide r = operands_.size() > 2 ? one(2, result) : 0;
    for (size_t k = 0; k < std::max(a.size(), b.size()); ++k)
      r = held(r + product(a[a.size() == 1 ? 0 : k], b[b.size() == 1 ? 0 : k]));
    return r;
  }
  ir::OpCode op_;
  std::vector<MadeOf> operands_;
};

// The largest magnitude among the elements.
Wide most(const Thread& t, const NanPayload::Array& a) {
  Wide r = 0;
  const auto see = [&](Wide v) { r = std::max(r, v < 0 ? -v : v); };
  if (a.scalar) return see(whole(t.arena + a.slot, a.dtype)), r;
  NanPayload::Array all = a;
  all.lanes.assign(a.dims.size(), {});
  MadeOf every(t, all);
  every.along({}, [&](const std::byte* reg) { return see(whole(reg, a.dtype)), true; });
  return r;
}

// Whether sums along lanes cannot leave the type, as large as their terms are. Of other operations nothing is known.
bool surely_fit(const Thread& t, const NanPayload& p, const Limits& limits) {
  int64_t terms = 1;
  for (const NanPayload::Array& a : p.operands) {
    int64_t n = 1;
    for (size_t d = 0; d < a.lanes.size(); ++d)
      if (a.lanes[d].take != NanPayload::Lane::Take::Same) n *= a.dims[d];
    terms = std::max(terms, n);
  }
  if (terms <= 1 || p.op == ir::OpCode::reduce_prod || p.op == ir::OpCode::cumprod) return false;
  Wide bound = most(t, p.operands[0]);
  if (p.operands.size() > 1) bound = product(bound, most(t, p.operands[1]));
  bound = product(bound, terms);
  if (p.operands.size() > 2) bound += most(t, p.operands[2]);
  return bound <= limits.greatest;
}

}  // namespace

void find_overflow(Thread& t, const Step* s, const NanPayload& p) {
  const Limits limits = limits_of(p.result.dtype);
  if (surely_fit(t, p, limits)) return;
  Exact exact(t, p);
  Overflow found;
  Index at(p.result.dims.size());
  do {
    const Wide v = exact.at(at);
    if (limits.hold(v) || found.elements++ > 0) continue;
    found.element = at;
    found.exact = static_cast<double>(v);
    found.sources = exact.sources(at);
  } while (!p.result.scalar && memory::next_index(at.data(), at.size(), p.result.dims));
  if (found.elements > 0) diagnose(t).overflowed(t, s, p, found);
}

}  // namespace pallasim::interp::ops
