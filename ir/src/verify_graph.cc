#include <algorithm>

#include <fmt/format.h>

#include "pallasim/ir/equal.h"
#include "pallasim/ir/nearest.h"
#include "print_attr.h"
#include "text.h"
#include "verify.h"

namespace pallasim::ir {
namespace {

const char* kind_text(AttrKind k) {
  switch (k) {
    case AttrKind::Int: return "an integer";
    case AttrKind::Ints: return "a list of integers";
    case AttrKind::Bool: return "true or false";
    case AttrKind::Sym: return "a name";
    case AttrKind::Str: return "a string";
    case AttrKind::Type: return "a type";
    case AttrKind::Literal: return "a literal";
    case AttrKind::List: return "a list";
    case AttrKind::Dict: return "a dictionary";
    case AttrKind::View: return "view($k, [transforms])";
    case AttrKind::Transforms: return "a list";
    case AttrKind::Operand: return "an operand such as $1";
    case AttrKind::ViewOrOperand: return "view($k, [transforms]) or an operand such as $1";
    case AttrKind::Any: return "a value";
  }
  return "";
}

bool has_kind(const Attr& a, AttrKind k) {
  using Kind = Attr::Kind;
  switch (k) {
    case AttrKind::Int: return is_dim(a);
    case AttrKind::Ints:
      return a.is(Kind::List) && std::all_of(a.items.begin(), a.items.end(), [](const Attr& x) { return is_dim(x); });
    case AttrKind::Bool: return a.is(Kind::Symbol) && (a.s == "true" || a.s == "false");
    case AttrKind::Sym: return a.is(Kind::Symbol) || a.is(Kind::String);
    case AttrKind::Str: return a.is(Kind::String);
    case AttrKind::Type: return a.is(Kind::TypeOf);
    case AttrKind::Literal: return a.is(Kind::Bits) || a.is(Kind::Dense) || a.is(Kind::Blob);
    case AttrKind::List: return a.is(Kind::List);
    case AttrKind::Dict: return a.is(Kind::Dict);
    case AttrKind::View: return a.is(Kind::View) ? a.view->named : a.is_call("view");
    case AttrKind::Transforms: return a.is(Kind::View) ? !a.view->named : a.is(Kind::List);
    case AttrKind::Operand: return a.is(Kind::Operand);
    case AttrKind::ViewOrOperand: return has_kind(a, AttrKind::Operand) || has_kind(a, AttrKind::View);
    case AttrKind::Any: return true;
  }
  return false;
}

class GraphChecker {
 public:
  GraphChecker(const Module& m, const Graph& g, const std::string& what)
      : m_(m), g_(g), what_(what), visible_(g.types.size(), 0) {}
  void run();

 private:
  void region(const Region& r, const Op* owner, int depth);
  void op(const Op& o, int depth);
  void define(ValueId v, const Op* owner);
  void attributes(const OpCheck& c);
  void attribute_tree(const OpCheck& c, const Attr& a, const std::string& key, int depth);
  void view_operands(const OpCheck& c, const Viewed& v, const std::string& key);
  void counts(const OpCheck& c);
  [[noreturn]] void fail(const Op* at, Code code, std::string message, std::string hint = {});

  const Module& m_;
  const Graph& g_;
  const std::string& what_;
  std::vector<char> visible_;
  std::vector<ValueId> defined_;  // in scope, innermost last
  ValueId next_ = 0;
  const Type* last_type_ = nullptr;
};

void GraphChecker::fail(const Op* at, Code code, std::string message, std::string hint) {
  if (at) OpCheck{m_, g_, *at, info(at->code)}.fail(code, std::move(message), std::move(hint));
  fail_module(m_, code, fmt::format("{}: {}", what_, message), std::move(hint));
}

// Numbers follow the text: what the printer writes, the parser reads back with the same numbers.
void GraphChecker::define(ValueId v, const Op* owner) {
  if (v != next_ || static_cast<size_t>(v) >= g_.types.size())
    fail(owner, "PS-IR-111", fmt::format("defines value %{} where %{} is next", v, next_),
         "values are numbered in the order of the text");
  const Type* t = g_.type(v);
  if (!t) fail(owner, "PS-IR-111", fmt::format("value %{} has no type", v));
  if (t != last_type_) {
    for (const Dim& d : t->dims)
      if (!d.is_static()) {
        check_params(m_, *t, what_);
        break;
      }
    last_type_ = t;
  }
  ++next_;
}

void GraphChecker::region(const Region& r, const Op* owner, int depth) {
  if (depth > 256) fail(owner, "PS-IR-100", "regions are nested more than 256 levels deep");
  const size_t mark = defined_.size();
  for (ValueId v : r.args) {
    define(v, owner);
    visible_[static_cast<size_t>(v)] = 1;
    defined_.push_back(v);
  }
  if (r.ops.empty() || r.ops.back().code != OpCode::yield)
    fail(owner, "PS-IR-100", "a region does not end with 'yield'");
  for (const Op& o : r.ops) {
    if (o.code == OpCode::yield && &o != &r.ops.back())
      fail(&o, "PS-IR-100", "operations follow the end of the region");
    op(o, depth);
  }
  for (; defined_.size() > mark; defined_.pop_back()) visible_[static_cast<size_t>(defined_.back())] = 0;
}

void GraphChecker::op(const Op& o, int depth) {
  const OpCheck c{m_, g_, o, info(o.code)};
  for (ValueId v : o.operands) {
    if (v >= 0 && static_cast<size_t>(v) < visible_.size() && visible_[static_cast<size_t>(v)]) continue;
    fail(&o, "PS-IR-111", fmt::format("value %{} is not visible here", v),
         "a value is seen in its own region and in the regions inside, after its definition");
  }
  if (o.loc < -1 || o.loc >= static_cast<LocId>(m_.locs.size()))
    fail(&o, "PS-IR-012", fmt::format("location {} is not in the table", o.loc));
  for (ValueId v : o.results) define(v, &o);
  counts(c);
  attributes(c);
  for (const Region& r : o.regions) region(r, &o, depth + 1);
  check_types(c);
  for (ValueId v : o.results) {
    visible_[static_cast<size_t>(v)] = 1;
    defined_.push_back(v);
  }
}

void GraphChecker::counts(const OpCheck& c) {
  const OpInfo& i = c.info;
  if (c.num_in() < i.min_operands || (i.max_operands >= 0 && c.num_in() > i.max_operands)) {
    const std::string range = i.max_operands == i.min_operands ? std::to_string(i.min_operands)
                              : i.max_operands < 0             ? fmt::format("at least {}", i.min_operands)
                                                   : fmt::format("{} to {}", i.min_operands, i.max_operands);
    c.fail("PS-IR-101", fmt::format("{} instead of {}", plural(c.num_in(), "operand"), range));
  }
  if (i.regions >= 0 && static_cast<int>(c.op.regions.size()) != i.regions)
    c.fail("PS-IR-102",
           fmt::format("{} instead of {}", plural(static_cast<int64_t>(c.op.regions.size()), "region"), i.regions));
}

void GraphChecker::view_operands(const OpCheck& c, const Viewed& v, const std::string& key) {
  const auto check = [&](int k) {
    if (k < 0 || k >= c.num_in())
      c.bad_attr(key, fmt::format("there is no ${} among {}", k, plural(c.num_in(), "operand")));
  };
  if (v.named) check(v.operand);
  for (const View& t : v.transforms) {
    for_each_operand(t, check);
    for_each_dim(t, [&](const Dim& d) {
      if (d.is_static()) return;
      Type one;
      one.dims = {d};
      check_params(m_, one, what_);
    });
    if (const auto* peer = std::get_if<view::Peer>(&t); peer && !is_name(peer->kind))
      c.bad_attr(key, fmt::format("{} is not a name", quoted(peer->kind)));
  }
}

// An operand that an attribute names is a value, where no view is asked for.
static void not_a_ref(const OpCheck& c, const Attr& a, const std::string& key) {
  if (a.is(Attr::Kind::Operand) && c.in(static_cast<int>(a.i)).is_ref)
    c.bad_operand(static_cast<int>(a.i), fmt::format("attribute '{}' needs a value", key), "read the ref with 'get'");
}

void GraphChecker::attribute_tree(const OpCheck& c, const Attr& a, const std::string& key, int depth) {
  if (depth > 256) c.bad_attr(key, "nested more than 256 levels deep");
  if (a.is(Attr::Kind::Operand) && (a.i < 0 || a.i >= c.num_in()))
    c.bad_attr(key, fmt::format("there is no ${} among {}", a.i, plural(c.num_in(), "operand")));
  if (a.is(Attr::Kind::View)) view_operands(c, *a.view, key);
  if ((a.is(Attr::Kind::Symbol) || a.is(Attr::Kind::Call)) && !is_name(a.s))
    c.bad_attr(key, fmt::format("{} is not a name", quoted(a.s)));
  if (a.is(Attr::Kind::Dict))
    for (const std::string& k : a.keys)
      if (!is_name(k)) c.bad_attr(key, fmt::format("{} is not a name", quoted(k)));
  // A call names the ref that it is of first: view($0, []).
  const size_t ref = a.is(Attr::Kind::Call) && a.s == "view" ? 0 : a.items.size();
  for (size_t i = 0; i < a.items.size(); ++i) {
    attribute_tree(c, a.items[i], key, depth + 1);
    if (i != ref) not_a_ref(c, a.items[i], key);
  }
}

static AttrKind kind_of(const std::vector<AttrSpec>& specs, std::string_view name) {
  const auto s = std::find_if(specs.begin(), specs.end(), [&](const AttrSpec& x) { return x.name == name; });
  return s == specs.end() ? AttrKind::Any : s->kind;
}

void GraphChecker::attributes(const OpCheck& c) {
  const std::vector<AttrSpec>& specs = c.info.attrs;
  size_t listed = 0;
  for (const AttrSpec& s : specs) {
    const Attr* a = c.op.attr(s.name);
    if (!a && s.optional) continue;
    if (!a) c.fail("PS-IR-103", fmt::format("the attribute '{}' is missing; it is {}", s.name, kind_text(s.kind)));
    if (!has_kind(*a, s.kind))
      c.fail("PS-IR-105", fmt::format("the attribute '{}' is {}, not {}", s.name, kind_text(s.kind), to_string(*a)));
    ++listed;
  }
  for (const auto& [k, a] : c.op.attrs) attribute_tree(c, a, k, 0);
  for (const auto& [k, a] : c.op.attrs)
    if (kind_of(specs, k) != AttrKind::ViewOrOperand) not_a_ref(c, a, k);
  for (const AttrSpec& s : specs)
    if (const Attr* a = c.op.attr(s.name); a && (s.kind == AttrKind::View || s.kind == AttrKind::ViewOrOperand))
      if (!a->is(Attr::Kind::Operand)) check_view_attr(c, std::string(s.name), *a);
  if (listed == c.op.attrs.size() || c.info.open_attrs) return;
  std::vector<std::string_view> names;
  for (const AttrSpec& s : specs) names.push_back(s.name);
  for (const auto& [k, a] : c.op.attrs)
    if (std::find(names.begin(), names.end(), k) == names.end())
      c.fail("PS-IR-104", fmt::format("there is no attribute '{}'", k), did_you_mean(k, names));
  c.fail("PS-IR-104", "an attribute is given twice");
}

void GraphChecker::run() {
  if (g_.types.size() != g_.names.size()) fail(nullptr, "PS-IR-111", "the tables of types and names differ in length");
  region(g_.region, nullptr, 0);
  if (static_cast<size_t>(next_) != g_.types.size())
    fail(nullptr, "PS-IR-111", fmt::format("{} values are defined and {} have a type", next_, g_.types.size()));
}

}  // namespace

void check_graph(const Module& m, const Graph& g, const std::string& what) { GraphChecker(m, g, what).run(); }

}  // namespace pallasim::ir
