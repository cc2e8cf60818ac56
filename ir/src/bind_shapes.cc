#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "dim_expr.h"
#include "pallasim/ir/module.h"
#include "verify.h"

namespace pallasim::ir {
namespace {

class Binder {
 public:
  Binder(const Module& from, const std::vector<std::pair<std::string, int64_t>>& values)
      : from_(from), values_(values) {}
  Module run();

 private:
  const Type* type(const Type* t);
  Attr attr(const Attr& a, bool dims);
  Viewed viewed(const Viewed& v);
  AttrDict attrs(const AttrDict& d);
  AttrDict op_attrs(const Op& o);
  Graph graph(const Graph& g);
  Region region(const Region& r);
  int64_t evaluate(const std::string& symbol);

  const Module& from_;
  const std::vector<std::pair<std::string, int64_t>>& values_;
  Module to_;
};

int64_t Binder::evaluate(const std::string& symbol) {
  int64_t n = 0;
  auto lookup = [&](std::string_view p, int64_t* out) {
    for (const auto& [k, v] : values_)
      if (k == p) return *out = v, true;
    fail_module(from_, "PS-IR-130", fmt::format("the shape parameter '{}' has no value", p));
  };
  if (!evaluate_dim(symbol, lookup, &n))
    fail_module(from_, "PS-IR-131", fmt::format("the dimension {} has no value", symbol),
                "it overflows or divides by zero");
  return n;
}

const Type* Binder::type(const Type* t) {
  if (!t) return nullptr;
  Type r = *t;
  int64_t elements = 1;
  for (Dim& d : r.dims) {
    if (!d.is_static()) {
      const std::string symbol = d.symbol;
      d = Dim(evaluate(symbol));
      if (d.size < 0) fail_module(from_, "PS-IR-131", fmt::format("the dimension {} is {}", symbol, d.size));
    }
    if (std::max<int64_t>(d.size, 1) > Limits().max_elements / elements)
      fail_module(from_, "PS-IR-004",
                  fmt::format("the type {} has more than {} elements", to_string(t), Limits().max_elements));
    elements *= std::max<int64_t>(d.size, 1);
  }
  for (const Type*& member : r.members) member = type(member);
  return to_.types->intern(r);
}

// `dims`: names and operations are dimensions here, not other words that happen to be spelled the same.
Attr Binder::attr(const Attr& a, bool dims) {
  if (dims && a.is(Attr::Kind::Symbol) &&
      std::find(from_.params.begin(), from_.params.end(), a.s) != from_.params.end())
    return Attr::integer(evaluate(a.s));
  if (dims && a.is(Attr::Kind::Call) && is_dim_operation(a.s)) {
    Dim d;
    if (is_dim(a, &d) && !d.is_static()) return Attr::integer(evaluate(d.symbol));
  }
  if (a.is(Attr::Kind::View)) return Attr::of_view(viewed(*a.view));
  Attr r = a;
  r.type = type(a.type);
  for (Attr& x : r.items) x = attr(x, dims);
  return r;
}

Viewed Binder::viewed(const Viewed& v) {
  Viewed r = v;
  for (View& t : r.transforms)
    for_each_dim(t, [&](Dim& d) {
      if (!d.is_static()) d = Dim(evaluate(d.symbol));
    });
  return r;
}

AttrDict Binder::attrs(const AttrDict& d) {
  AttrDict r;
  for (const auto& [k, v] : d) r.emplace_back(k, attr(v, false));
  return r;
}

AttrDict Binder::op_attrs(const Op& o) {
  AttrDict r;
  const OpInfo& i = info(o.code);
  for (const auto& [k, v] : o.attrs) {
    const auto it =
        std::find_if(i.attrs.begin(), i.attrs.end(), [&, &key = k](const AttrSpec& s) { return s.name == key; });
    const AttrKind kind = it == i.attrs.end() ? AttrKind::Sym : it->kind;
    const bool dims = kind == AttrKind::Int || kind == AttrKind::Ints || o.code == OpCode::dim_value;
    r.emplace_back(k, attr(v, dims));
  }
  return r;
}

Region Binder::region(const Region& r) {
  Region out;
  out.args = r.args;
  out.ops.reserve(r.ops.size());
  for (const Op& o : r.ops) {
    Op n;
    n.code = o.code;
    n.loc = o.loc;
    n.operands = o.operands;
    n.results = o.results;
    n.attrs = op_attrs(o);
    for (const Region& x : o.regions) n.regions.push_back(region(x));
    out.ops.push_back(std::move(n));
  }
  return out;
}

Graph Binder::graph(const Graph& g) {
  Graph out;
  for (const Type* t : g.types) out.types.push_back(type(t));
  out.names = g.names;
  out.region = region(g.region);
  return out;
}

Module Binder::run() {
  to_.name = from_.name;
  to_.machine = from_.machine;
  to_.attrs = attrs(from_.attrs);
  for (const Mesh& x : from_.meshes) to_.meshes.push_back({x.name, x.kind, x.axes, attrs(x.attrs), x.loc});
  for (const GridAxis& g : from_.grid) {
    to_.grid.push_back(g);
    to_.grid.back().attrs = attrs(g.attrs);
  }
  to_.num_dynamic = from_.num_dynamic;
  for (const Operand& o : from_.operands) {
    Operand n;
    n.kind = o.kind;
    n.name = o.name;
    n.array = type(o.array);
    n.space = o.space;
    n.has_block = o.has_block;
    n.block = o.block;
    if (o.index_map) n.index_map = std::make_unique<Graph>(graph(*o.index_map));
    n.attrs = attrs(o.attrs);
    n.loc = o.loc;
    to_.operands.push_back(std::move(n));
  }
  for (const Scratch& s : from_.scratch) to_.scratch.push_back({s.name, type(s.type), attrs(s.attrs), s.loc});
  to_.aliases = from_.aliases;
  for (const Body& b : from_.bodies) to_.bodies.push_back({b.mesh, graph(b.graph), b.loc});
  to_.locs = from_.locs;
  return std::move(to_);
}

}  // namespace

namespace {

// The one parameter of `text` that has no value yet, if the dimension is linear in it and can be `size`.
bool solve(std::string_view text, int64_t size, std::map<std::string, int64_t, std::less<>>* known) {
  std::string unknown;
  int unknowns = 0;
  for_each_param(text, [&](std::string_view p) {
    if (known->find(p) == known->end() && p != unknown) unknown = p, ++unknowns;
  });
  if (unknowns != 1) return false;
  auto at = [&](int64_t n, int64_t* out) {
    auto lookup = [&](std::string_view p, int64_t* v) {
      const auto it = known->find(p);
      *v = it == known->end() ? n : it->second;
      return true;
    };
    return evaluate_dim(text, lookup, out);
  };
  int64_t f1 = 0, f2 = 0, rest = 0, found = 0;
  if (!at(1, &f1) || !at(2, &f2) || f1 == f2 || __builtin_sub_overflow(size, f1, &rest) || rest % (f2 - f1) != 0)
    return false;
  const int64_t n = 1 + rest / (f2 - f1);
  if (n < 0 || !at(n, &found) || found != size) return false;
  (*known)[unknown] = n;
  return true;
}

}  // namespace

std::string infer_shapes(const Module& m, const std::vector<std::vector<int64_t>>& shapes,
                         std::vector<std::pair<std::string, int64_t>>* values) {
  std::map<std::string, int64_t, std::less<>> known;
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t i = 0; i < shapes.size() && i < m.operands.size(); ++i) {
      const std::vector<Dim>& dims = m.operands[i].array->dims;
      for (size_t d = 0; d < dims.size() && d < shapes[i].size(); ++d)
        if (!dims[d].is_static()) progress |= solve(dims[d].symbol, shapes[i][d], &known);
    }
  }
  for (const std::string& p : m.params) {
    const auto it = known.find(p);
    if (it == known.end()) return p;
    values->emplace_back(p, it->second);
  }
  return {};
}

static void check_values(const Module& m, const std::vector<std::pair<std::string, int64_t>>& values) {
  for (const auto& [k, v] : values) {
    if (std::find(m.params.begin(), m.params.end(), k) == m.params.end())
      fail_module(m, "PS-IR-130", fmt::format("there is no shape parameter '{}'", k));
    if (v < 0) fail_module(m, "PS-IR-131", fmt::format("the shape parameter '{}' is {}", k, v));
  }
  for (const std::string& p : m.params)
    if (std::none_of(values.begin(), values.end(), [&](const auto& v) { return v.first == p; }))
      fail_module(m, "PS-IR-130", fmt::format("the shape parameter '{}' has no value", p));
}

Module bind_shapes(const Module& m, const std::vector<std::pair<std::string, int64_t>>& values) {
  Module bound;
  declared_at(m, line_of_module(m), [&] {
    check_values(m, values);
    bound = Binder(m, values).run();
  });
  return bound;
}

}  // namespace pallasim::ir
