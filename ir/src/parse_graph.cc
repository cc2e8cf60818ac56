#include <algorithm>

#include <fmt/format.h>

#include "pallasim/ir/nearest.h"
#include "parser.h"
#include "text.h"

namespace pallasim::ir {
namespace {

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> r;
  for (int i = 0; i < kNumOps; ++i) r.push_back(name(static_cast<OpCode>(i)));
  return r;
}

}  // namespace

bool Parser::Values::define(int64_t number, ValueId id) {
  if (identity_ && number == id) {
    ++count_;
    return true;
  }
  if (identity_) {
    identity_ = false;
    for (ValueId i = 0; i < count_; ++i) table_.emplace(i, i);
  }
  return table_.emplace(number, id).second;
}

bool Parser::Values::find(int64_t number, ValueId* id) const {
  if (identity_) {
    *id = static_cast<ValueId>(number);
    return number < count_;
  }
  auto it = table_.find(number);
  if (it == table_.end()) return false;
  *id = it->second;
  return true;
}

ValueId Parser::define(const char* at, int64_t number, const Type* type) {
  count(&num_values_, limits_.max_values, "values");
  const auto id = static_cast<ValueId>(graph_->types.size());
  if (!values_->define(number, id))
    fail(at, "PS-IR-007", fmt::format("value %{} is defined twice", number),
         "every value of a body or an index map has its own number");
  graph_->types.push_back(type);
  graph_->names.emplace_back();
  return id;
}

Graph Parser::graph() {
  Graph g;
  Values values;
  graph_ = &g;
  values_ = &values;
  region(g.region);
  graph_ = nullptr;
  values_ = nullptr;
  return g;
}

void Parser::region(Region& r) {
  Nested nested(*this, "a region");
  expect('(', "before the arguments of a region");
  if (!accept_nl_ok(')')) {
    do { region_argument(r); } while (accept_nl_ok(','));
    expect(')', "after the arguments of a region");
  }
  expect('{', "before the operations of a region");
  expect_end_of_line("'{'");
  for (;;) {
    skip_space();
    if (accept('}')) return;
    if (at_end()) syntax("an operation or '}'");
    count(&num_ops_, limits_.max_ops, "operations");
    r.ops.emplace_back();
    op(r.ops.back());
    expect_end_of_line("an operation");
  }
}

void Parser::region_argument(Region& r) {
  skip_space();
  const char* at = p_;
  const int64_t number = value_number();
  const ValueId id = define(at, number, nullptr);
  r.args.push_back(id);
  skip_line_space();
  if (peek() == '"') graph_->names[static_cast<size_t>(id)] = string_literal("the argument's name");
  expect(':', "before the type of an argument");
  const Type* t = type();
  graph_->types[static_cast<size_t>(id)] = t;
}

void Parser::op(Op& o) {
  const char* begin = p_;
  results(o);
  const char* at = p_;
  const std::string_view n = expect_name("an operation");
  if (!parse_op(n, &o.code))
    fail(at, "PS-IR-005", fmt::format("unknown operation '{}'", n), did_you_mean(n, op_names()));
  operands(o);
  o.attrs = optional_attrs();
  if (!o.attrs.empty()) type_views(&o);
  skip_line_space();
  while (peek() == '(') {
    o.regions.emplace_back();
    region(o.regions.back());
    skip_line_space();
  }
  result_types(o, at);
  if (!accept('@')) return declared_at(&o.loc, begin);
  at = p_;
  const int64_t loc = integer("the number of a location after '@'");
  if (loc < 0 || loc > INT32_MAX) fail(at, "PS-IR-012", fmt::format("location @{} is out of range", loc));
  o.loc = static_cast<LocId>(loc);
  if (o.loc > max_loc_) max_loc_ = o.loc, max_loc_at_ = at;
}

// The types come after the regions, but the numbers come first: results are defined here with their types open.
void Parser::results(Op& o) {
  if (peek() != '%') return;
  do {
    skip_line_space();
    const char* at = p_;
    const int64_t number = value_number();
    o.results.push_back(define(at, number, nullptr));
  } while (accept(','));
  expect('=', "after the results of an operation");
  skip_line_space();
}

void Parser::result_types(Op& o, const char* begin) {
  size_t given = 0;
  if (accept(':')) {
    do {
      const Type* t = type();
      if (given < o.results.size()) graph_->types[static_cast<size_t>(o.results[given])] = t;
      ++given;
    } while (accept(','));
  }
  if (given == o.results.size()) return;
  if (given == 0) syntax("':' and a result type");
  fail(begin, "PS-IR-001",
       fmt::format("operation '{}' has {} and {}", name(o.code),
                   plural(static_cast<int64_t>(o.results.size()), "result"),
                   plural(static_cast<int64_t>(given), "result type")));
}

void Parser::operands(Op& o) {
  skip_line_space();
  if (peek() != '%') return;
  do {
    skip_line_space();
    const char* at = p_;
    const int64_t number = value_number();
    ValueId id;
    if (!values_->find(number, &id))
      fail(at, "PS-IR-006", fmt::format("value %{} is used before its definition", number));
    o.operands.push_back(id);
  } while (accept(','));
}

}  // namespace pallasim::ir
