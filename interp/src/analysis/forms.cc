#include "forms.h"

#include <algorithm>

#include "pallasim/memory/saturate.h"

namespace pallasim::interp::analysis {

using ir::Op, ir::OpCode, ir::Region, ir::ValueId;

namespace {

constexpr int64_t kMost = INT32_MAX;

Form plain(Range r) { return {{}, r}; }

std::optional<int64_t> constant_of(const Op& op) {
  const ir::Attr* v = op.code == OpCode::constant ? op.attr("value") : nullptr;
  if (!v || !v->is(ir::Attr::Kind::Bits)) return {};
  if (v->dtype == ir::DType::Bool) return v->i & 1;
  return v->dtype == ir::DType::I32 ? std::optional<int64_t>(static_cast<int32_t>(v->i)) : std::nullopt;
}

Form scaled(const Form& a, int64_t by) {
  Form r = a;
  for (int64_t& c : r.coefficient) c = memory::mul(c, by);
  const int64_t x = memory::mul(a.rest.least, by), y = memory::mul(a.rest.greatest, by);
  r.rest = {std::min(x, y), std::max(x, y)};
  return r;
}

Form sum(const Form& a, const Form& b) {
  Form r;
  for (size_t g = 0; g < std::max(a.coefficient.size(), b.coefficient.size()); ++g)
    r.coefficient.push_back(memory::add(a.of(g), b.of(g)));
  if (std::all_of(r.coefficient.begin(), r.coefficient.end(), [](int64_t c) { return c == 0; })) r.coefficient.clear();
  r.rest = {memory::add(a.rest.least, b.rest.least), memory::add(a.rest.greatest, b.rest.greatest)};
  return r;
}

// Operations whose results' elements are some of the operand's.
bool moves_elements(OpCode code) {
  switch (code) {
    case OpCode::broadcast_in_dim:
    case OpCode::reshape:
    case OpCode::transpose:
    case OpCode::slice:
    case OpCode::rev: return true;
    default: return false;
  }
}

}  // namespace

Forms::Forms(const ir::Graph& graph, std::span<const ir::GridAxis> grid) : graph_(graph) {
  for (size_t g = 0; g < grid.size(); ++g) {
    coordinates_.push_back({0, grid[g].dynamic >= 0 ? kMost : std::clamp<int64_t>(grid[g].size - 1, 0, kMost)});
    if (!grid[g].vmapped) visible_.push_back(g);
  }
  visit(graph.region);
  made_by_.clear();
}

const Form* Forms::form(ValueId v) const {
  const auto it = forms_.find(v);
  return it == forms_.end() ? nullptr : &it->second;
}

std::optional<Form> Forms::start(const Op& op, const ir::view::Entry& e) const {
  if (e.kind == ir::view::Entry::Kind::Ref) return {};
  const int operand = e.is_array() ? e.operand : e.start.operand;
  if (operand >= 0) {
    const Form* f = form(op.operands[static_cast<size_t>(operand)]);
    return f ? std::optional(*f) : std::nullopt;
  }
  if (!e.start.is_static()) return {};
  return plain({e.start.value(), e.start.value()});
}

std::optional<bool> Forms::truth(ValueId v) const {
  const auto it = truths_.find(v);
  return it == truths_.end() ? std::nullopt : std::optional(it->second);
}

Range Forms::range(const Form& f) const {
  Range r = f.rest;
  for (size_t g = 0; g < f.coefficient.size(); ++g) {
    const int64_t a = memory::mul(f.coefficient[g], coordinates_[g].least),
                  b = memory::mul(f.coefficient[g], coordinates_[g].greatest);
    r.least = memory::add(r.least, std::min(a, b)), r.greatest = memory::add(r.greatest, std::max(a, b));
  }
  return r;
}

void Forms::visit(const Region& r) {
  for (const Op& op : r.ops) {
    if (op.code == OpCode::for_ || op.code == OpCode::parallel_loop) learn_loop(op);
    for (const Region& inner : op.regions) visit(inner);
    if (op.regions.empty() && op.results.size() == 1) made_by_[op.results[0]] = &op, define(op);
  }
}

// An index lies between the bounds; a carry that begins as the index and grows by the step is the index by another
// name.
void Forms::learn_loop(const Op& op) {
  const Region& body = op.regions[0];
  const Form *lower = form(op.operands[0]), *upper = form(op.operands[1]);
  if (!lower || !upper || !is(body.args[0], ir::DType::I32)) return;
  const Range from = range(*lower), to = range(*upper);
  if (to.greatest <= from.least) return;
  const Form index = plain({from.least, to.greatest - 1});
  forms_[body.args[0]] = index;
  const ir::Attr* reverse = op.attr("reverse");
  if (reverse && reverse->is_true()) return;
  const auto same = [&](ValueId a, ValueId b) {
    const Form *x = form(a), *y = form(b);
    return a == b || (x && y && x->constant() && y->constant() && x->rest.least == y->rest.least);
  };
  for (size_t i = 0; i + 3 < op.operands.size(); ++i)
    if (is(body.args[i + 1], ir::DType::I32) && same(op.operands[i + 3], op.operands[0]) && grows(body, op, i))
      forms_[body.args[i + 1]] = index;
}

bool Forms::grows(const Region& body, const Op& loop, size_t carry) const {
  const ValueId now = body.args[carry + 1], next = body.ops.back().operands[carry];
  return std::any_of(body.ops.begin(), body.ops.end(), [&](const Op& o) {
    if (o.code != OpCode::add || o.results[0] != next) return false;
    return (o.operands[0] == now && same_step(o.operands[1], loop.operands[2], body)) ||
           (o.operands[1] == now && same_step(o.operands[0], loop.operands[2], body));
  });
}

// The amount may be a constant of the body, which nobody has seen yet.
bool Forms::same_step(ValueId amount, ValueId step, const Region& body) const {
  if (amount == step) return true;
  const Form* by = form(step);
  if (!by || !by->constant()) return false;
  if (const Form* a = form(amount)) return a->constant() && a->rest.least == by->rest.least;
  return std::any_of(body.ops.begin(), body.ops.end(), [&](const Op& o) {
    return o.results.size() == 1 && o.results[0] == amount && constant_of(o) == by->rest.least;
  });
}

void Forms::define(const Op& op) {
  const ValueId out = op.results[0];
  if (is(out, ir::DType::Bool)) {
    if (const std::optional<bool> v = answer(op)) truths_[out] = *v;
  } else if (is(out, ir::DType::I32)) {
    const std::optional<Form> f = result(op);
    if (!f) return;
    const Range r = range(*f);
    if (r.least >= INT32_MIN && r.greatest <= kMost) forms_[out] = *f;
  }
}

std::optional<bool> Forms::answer(const Op& op) const {
  if (const std::optional<int64_t> v = constant_of(op)) return *v != 0;
  if (op.operands.empty() || op.operands.size() > 2) return {};
  if (moves_elements(op.code)) return truth(op.operands[0]);
  const auto bools = [&](ValueId v) { return is(v, ir::DType::Bool); };
  if (std::all_of(op.operands.begin(), op.operands.end(), bools)) return of_truths(op);
  if (op.operands.size() != 2) return {};
  const Form *a = form(op.operands[0]), *b = form(op.operands[1]);
  return a && b ? compare(op.code, *a, *b) : std::nullopt;
}

std::optional<bool> Forms::compare(OpCode code, const Form& a, const Form& b) const {
  const Range d = range(sum(a, scaled(b, -1)));
  const bool below = d.greatest<0, above = d.least> 0, most = d.greatest <= 0, least = d.least >= 0,
             one = most && least;
  const auto known = [](bool yes, bool no) {
    return yes ? std::optional(true) : no ? std::optional(false) : std::nullopt;
  };
  switch (code) {
    case OpCode::lt: return known(below, least);
    case OpCode::le: return known(most, above);
    case OpCode::gt: return known(above, most);
    case OpCode::ge: return known(least, below);
    case OpCode::eq: return known(one, below || above);
    case OpCode::ne: return known(below || above, one);
    default: return {};
  }
}

std::optional<bool> Forms::of_truths(const Op& op) const {
  const std::optional<bool> a = truth(op.operands[0]);
  if (op.operands.size() == 1) return op.code == OpCode::not_ && a ? std::optional(!*a) : std::nullopt;
  const std::optional<bool> b = truth(op.operands[1]);
  const bool decided = op.code == OpCode::or_;  // by one operand
  if (op.code == OpCode::and_ &&
      (never_rounds(op.operands[0], op.operands[1]) || never_rounds(op.operands[1], op.operands[0])))
    return false;
  if (op.code == OpCode::and_ || op.code == OpCode::or_) {
    if (a == decided || b == decided) return decided;
    return a && b ? std::optional(!decided) : std::nullopt;
  }
  if (!a || !b) return {};
  if (op.code == OpCode::ne || op.code == OpCode::xor_) return *a != *b;
  return op.code == OpCode::eq ? std::optional(*a == *b) : std::nullopt;
}

const Op* Forms::made_by(ValueId v, OpCode code) const {
  const auto it = made_by_.find(v);
  return it != made_by_.end() && it->second->code == code ? it->second : nullptr;
}

// Whether a quotient of x >= 0 and y > 0 is asked if it has to be rounded down: its signs differ, and something rests.
// They differ where x is 0, and then nothing rests.
bool Forms::never_rounds(ValueId signs, ValueId rest) const {
  const Op *differ = made_by(signs, OpCode::ne), *rests = made_by(rest, OpCode::ne);
  const Op* rem = rests ? made_by(rests->operands[0], OpCode::rem) : nullptr;
  const Op* of_x = differ ? made_by(differ->operands[0], OpCode::sign) : nullptr;
  if (!rem || !of_x || of_x->operands[0] != rem->operands[0]) return false;
  const Op* of_y = made_by(differ->operands[1], OpCode::sign);
  const Form *x = form(rem->operands[0]), *y = form(rem->operands[1]), *zero = form(rests->operands[1]),
             *one = form(differ->operands[1]);
  const bool sign_of_y =
      (of_y && of_y->operands[0] == rem->operands[1]) || (one && one->constant() && one->rest.least == 1);
  return sign_of_y && zero && zero->constant() && zero->rest.least == 0 && x && range(*x).least >= 0 && y &&
         range(*y).least > 0;
}

std::optional<Form> Forms::result(const Op& op) const {
  if (const std::optional<int64_t> v = constant_of(op)) return plain({*v, *v});
  if (const std::optional<Form> f = of_index(op)) return f;
  if (op.code == OpCode::select_n) return chosen(op);
  if (moves_elements(op.code)) {
    const Form* f = form(op.operands[0]);
    return f ? std::optional(*f) : std::nullopt;
  }
  if (op.operands.size() != 2) return {};
  const Form *a = form(op.operands[0]), *b = form(op.operands[1]);
  return a && b ? of_two(op.code, *a, *b) : std::nullopt;
}

// Where a program, a core or an element is.
std::optional<Form> Forms::of_index(const Op& op) const {
  if (op.code == OpCode::axis_index || op.code == OpCode::axis_size) return plain({0, kMost});
  if (op.code == OpCode::iota) {
    const ir::Dim& d = graph_.type(op.results[0])->dims[static_cast<size_t>(op.attr("axis")->i)];
    if (!d.is_static()) return {};
    return plain({0, std::max<int64_t>(d.size - 1, 0)});
  }
  const bool id = op.code == OpCode::program_id;
  if (!id && op.code != OpCode::num_programs) return {};
  const auto axis = static_cast<size_t>(op.attr("axis")->i);
  if (axis >= visible_.size()) return plain({0, kMost});
  const size_t g = visible_[axis];
  Form f;
  if (!id) {
    const bool known = coordinates_[g].greatest < kMost;
    return plain({known ? coordinates_[g].greatest + 1 : 0, known ? coordinates_[g].greatest + 1 : kMost});
  }
  f.coefficient.assign(g + 1, 0);
  f.coefficient[g] = 1;
  return f;
}

std::optional<Form> Forms::chosen(const Op& op) const {
  if (op.operands.size() != 3 || !is(op.operands[0], ir::DType::Bool)) return {};
  const Form *a = form(op.operands[1]), *b = form(op.operands[2]);
  if (const std::optional<bool> p = truth(op.operands[0])) {
    const Form* taken = *p ? b : a;
    return taken ? std::optional(*taken) : std::nullopt;
  }
  return a && b ? united(*a, *b) : std::nullopt;
}

std::optional<Form> Forms::united(const Form& a, const Form& b) const {
  const auto both = [](Range x, Range y) {
    return Range{std::min(x.least, y.least), std::max(x.greatest, y.greatest)};
  };
  if (a.coefficient == b.coefficient) return Form{a.coefficient, both(a.rest, b.rest)};
  return plain(both(range(a), range(b)));
}

std::optional<Form> Forms::of_two(OpCode code, const Form& a, const Form& b) const {
  if (code == OpCode::add) return sum(a, b);
  if (code == OpCode::sub) return sum(a, scaled(b, -1));
  if (code == OpCode::mul && a.constant()) return scaled(b, a.rest.least);
  if (code == OpCode::mul && b.constant()) return scaled(a, b.rest.least);
  const Range x = range(a), y = range(b);
  switch (code) {
    case OpCode::mul: {
      const auto [lo, hi] = std::minmax({memory::mul(x.least, y.least), memory::mul(x.least, y.greatest),
                                         memory::mul(x.greatest, y.least), memory::mul(x.greatest, y.greatest)});
      return plain({lo, hi});
    }
    case OpCode::min: return plain({std::min(x.least, y.least), std::min(x.greatest, y.greatest)});
    case OpCode::max: return plain({std::max(x.least, y.least), std::max(x.greatest, y.greatest)});
    case OpCode::rem:
      if (x.least < 0 || y.least <= 0) return {};
      return plain({0, std::min(x.greatest, y.greatest - 1)});
    case OpCode::div:
      if (x.least < 0 || y.least <= 0) return {};
      return plain({x.least / y.greatest, x.greatest / y.least});
    case OpCode::and_:
      if (x.least < 0 || y.least < 0) return {};
      return plain({0, std::min(x.greatest, y.greatest)});
    default: return {};
  }
}

}  // namespace pallasim::interp::analysis
