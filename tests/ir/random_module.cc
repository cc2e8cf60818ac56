#include "random_module.h"

#include <algorithm>

namespace pallasim::ir {

std::string RandomModule::word() {
  // Words that collide with the grammar are the interesting ones.
  constexpr const char* kWords[] = {"x",    "ref", "f32",  "bool",  "token", "true", "blob",  "yield",
                                    "body", "loc", "view", "index", "add",   "n",    "_",     "A9_z",
                                    "sem",  "any", "grid", "slice", "i4",    "min",  "module"};
  return kWords[below(std::size(kWords))];
}

std::string RandomModule::text() {
  constexpr const char* kPieces[] = {"a", "\"", "\\", "\n", "\t", "\x01", "\x1f",   "é", "漢",
                                     "😀", " ",  "//", "{}", "%0", "\x7f", "\r\b\f", "'"};
  std::string s;
  for (int n = below(6); n > 0; --n) s += kPieces[below(std::size(kPieces))];
  return s;
}

Dim RandomModule::dim() {
  constexpr const char* kSymbols[] = {"n", "add(n,1)", "mul(2,add(n,-3))", "floordiv(m,2)", "max(n,m)"};
  return chance(85) ? Dim(below(9)) : Dim(std::string(kSymbols[below(std::size(kSymbols))]));
}

const Type* RandomModule::tensor(bool is_static) {
  std::vector<Dim> dims;
  for (int r = below(4); r > 0; --r) dims.push_back(is_static ? Dim(below(4)) : dim());
  return m_.types->tensor(static_cast<DType>(below(kNumDTypes)), std::move(dims));
}

const Type* RandomModule::ref(int depth) {
  Type t;
  t.is_ref = true;
  if (depth < 2 && chance(20)) {
    for (int n = 1 + below(2); n > 0; --n) t.members.push_back(ref(depth + 1));
    t.dtype = t.members[0]->dtype;
  } else {
    const Type* e = tensor();
    t.dtype = e->dtype;
    t.dims = e->dims;
  }
  t.space = static_cast<Space>(below(16));
  t.scope = static_cast<Scope>(below(8));
  if (chance(20)) t.mesh = text();
  return m_.types->intern(t);
}

Attr RandomModule::literal() {
  Attr a;
  if (chance(50)) {
    const auto t = static_cast<DType>(below(kNumDTypes));
    const int bits = t == DType::Bool ? 1 : std::min(bit_width(t), 64);
    return Attr::bits(t, bits == 0 ? 0 : rng_() >> (64 - bits));
  }
  a.kind = chance(70) ? Attr::Kind::Dense : Attr::Kind::Blob;
  a.type = tensor(true);
  if (a.kind == Attr::Kind::Blob) a.s = text();
  else
    for (int64_t n = a.type->num_bytes(); n > 0; --n) a.s += static_cast<char>(rng_());
  return a;
}

Attr RandomModule::attr(int depth, int operands) {
  std::vector<Attr> items;
  if (depth < 4)
    for (int n = below(4); n > 0; --n) items.push_back(attr(depth + 1, operands));
  switch (below(8)) {
    case 0: return Attr::integer(static_cast<int64_t>(rng_() >> below(64)) * (chance(50) ? 1 : -1));
    case 1: return Attr::string(text());
    case 2: return Attr::symbol(word());
    case 3: return literal();
    case 4: return Attr::list(std::move(items));
    case 5: {
      std::string name = word();
      return Attr::call(name == "blob" ? "f32" : name, std::move(items));
    }
    case 6: return operands ? Attr::operand(below(operands)) : Attr::of_type(type());
    default: {
      if (items.empty()) return Attr::of_type(type());
      Attr d;
      d.kind = Attr::Kind::Dict;
      for (size_t i = 0; i < items.size(); ++i) d.keys.push_back(word() + std::to_string(i));
      d.items = std::move(items);
      return d;
    }
  }
}

// A number of a view.
Attr RandomModule::number(int operands) {
  if (operands && chance(30)) return Attr::operand(below(operands));
  if (chance(20)) return Attr::call("add", {Attr::symbol("n"), Attr::integer(below(9))});
  return Attr::integer(below(9) - 2);
}

// Transforms of every kind, not one of which needs to make sense.
Attr RandomModule::views(int operands) {
  const auto axis = [&] { return Attr::call("axis", {Attr::string(text()), number(operands)}); };
  const auto some = [&](int lowest) { return Attr::integer(lowest + below(9)); };
  std::vector<Attr> r;
  for (int n = below(4); n > 0; --n) switch (below(9)) {
      case 0: {
        std::vector<Attr> entries;
        for (int k = below(4); k > 0; --k) {
          const Attr at = number(operands), size = chance(80) ? some(0) : number(operands);
          if (chance(40)) entries.push_back(at);
          else if (operands && chance(30))
            entries.push_back(Attr::call(chance(50) ? "array" : "ref", {Attr::operand(below(operands))}));
          else if (chance(70)) entries.push_back(Attr::call("slice", {at, size}));
          else entries.push_back(Attr::call("slice", {at, size, some(1)}));
        }
        r.push_back(Attr::call("index", std::move(entries)));
        break;
      }
      case 1: r.push_back(Attr::call("reshape", {some(0), Attr::symbol("m")})); break;
      case 2: r.push_back(Attr::call("transpose", {Attr::integer(1), Attr::integer(0)})); break;
      case 3: r.push_back(Attr::call("squeeze", {some(0)})); break;
      case 4: r.push_back(Attr::call("bitcast", {Attr::of_type(m_.types->tensor(tensor()->dtype, {}))})); break;
      case 5: r.push_back(Attr::call(chance(50) ? "tile" : "untile", {some(1), some(1)})); break;
      case 6: r.push_back(Attr::call(chance(50) ? "swizzle" : "unswizzle", {Attr::integer(16 << below(4))})); break;
      case 7:
        r.push_back(Attr::call("extract", {Attr::of_type(tensor()), some(0), some(0)}));
        if (chance(50)) r.back().items.push_back(attr(2, operands));
        break;
      default:
        if (chance(25)) r.push_back(Attr::call("select", {number(operands)}));
        else if (chance(30)) r.push_back(Attr::call("cluster", {axis()}));
        else if (chance(50)) r.push_back(Attr::call("multicast", {Attr::string(text())}));
        else
          r.push_back(Attr::call("peer", {chance(50) ? number(operands) : Attr::list({axis()}), Attr::symbol(word())}));
    }
  return Attr::list(std::move(r));
}

Attr RandomModule::attr_of(AttrKind kind, int operands) {
  switch (kind) {
    case AttrKind::Int: return Attr::integer(below(3));
    case AttrKind::Ints: return Attr::ints({below(3), below(3)});
    case AttrKind::Bool: return Attr::boolean(chance(50));
    case AttrKind::Sym: return Attr::symbol(word());
    case AttrKind::Str: return Attr::string(text());
    case AttrKind::Type: return Attr::of_type(tensor());
    case AttrKind::Literal: return literal();
    case AttrKind::List: return Attr::list({attr(2, operands)});
    case AttrKind::View: return Attr::call("view", {Attr::operand(operands ? below(operands) : 0), views(operands)});
    case AttrKind::Transforms: return chance(90) ? views(operands) : Attr::list({attr(2, operands)});
    case AttrKind::Operand: return Attr::operand(operands ? below(operands) : 0);
    case AttrKind::ViewOrOperand: return attr_of(chance(50) ? AttrKind::View : AttrKind::Operand, operands);
    default: return attr(0, operands);
  }
}

AttrDict RandomModule::attrs(int operands) {
  AttrDict d;
  if (chance(30))
    for (int n = 1 + below(3); n > 0; --n) d.emplace_back("k" + std::to_string(n), attr(0, operands));
  return d;
}

ValueId RandomModule::define(Graph& g, const Type* t, std::string name) {
  g.types.push_back(t);
  g.names.push_back(std::move(name));
  return static_cast<ValueId>(g.types.size() - 1);
}

void RandomModule::op(Graph& g, Op& o, int depth) {
  o.code = static_cast<OpCode>(below(kNumOps));
  const OpInfo& i = info(o.code);
  const int known = static_cast<int>(g.types.size());
  const int want = i.max_operands < 0 ? i.min_operands + below(3) : i.max_operands;
  if (known)
    for (int n = 0; n < want; ++n) o.operands.push_back(below(known));
  for (int n = below(3); n > 0; --n) o.results.push_back(define(g, type()));
  for (const AttrSpec& s : i.attrs)
    if (!s.optional || chance(50))
      o.attrs.emplace_back(std::string(s.name), attr_of(s.kind, static_cast<int>(o.operands.size())));
  if (i.open_attrs || chance(5))
    for (auto& a : attrs(static_cast<int>(o.operands.size()))) o.attrs.push_back(std::move(a));
  type_views(&o);
  const int regions = depth > 3 ? 0 : i.regions < 0 ? below(3) : i.regions;
  for (int n = 0; n < regions; ++n) {
    o.regions.emplace_back();
    region(g, o.regions.back(), depth + 1);
  }
  if (!m_.locs.empty() && chance(50)) o.loc = below(static_cast<int>(m_.locs.size()));
}

void RandomModule::region(Graph& g, Region& r, int depth) {
  for (int n = below(3); n > 0; --n) r.args.push_back(define(g, type(), chance(50) ? text() : ""));
  for (int n = below(6); n > 0; --n) {
    r.ops.emplace_back();
    op(g, r.ops.back(), depth);
  }
  r.ops.emplace_back();
  for (int n = g.types.empty() ? 0 : below(2); n > 0; --n)
    r.ops.back().operands.push_back(below(static_cast<int>(g.types.size())));
}

Graph RandomModule::graph() {
  Graph g;
  region(g, g.region, 0);
  return g;
}

Module RandomModule::make() {
  m_ = Module();
  m_.name = text();
  m_.machine = static_cast<Machine>(below(4));
  m_.attrs = attrs(0);
  m_.params = {"n", "m"};
  for (int n = below(3); n > 0; --n)
    m_.meshes.push_back({text() + std::to_string(n), word(), {{text(), below(4)}}, attrs(0)});
  for (int n = below(3); n > 0; --n) {
    GridAxis a;
    if (chance(30)) a.dynamic = m_.num_dynamic++;
    else a.size = below(5);
    if (chance(40)) a.name = text();
    if (chance(40)) a.semantics = "arbitrary";
    a.vmapped = chance(20);
    a.attrs = attrs(0);
    m_.grid.push_back(std::move(a));
  }
  for (int n = below(3); n > 0; --n) {
    Loc l;
    l.source = {text(), below(9), below(2), text(), text()};
    if (chance(30)) l.scope = text();
    m_.locs.push_back(std::move(l));
  }
  for (size_t i = 0; i < m_.locs.size(); ++i)
    if (chance(40)) m_.locs[i].caller = below(static_cast<int>(m_.locs.size()));
  for (int kind = 0; kind < 3; ++kind)
    for (int n = below(3); n > 0; --n) {
      Operand o;
      o.kind = static_cast<Operand::Kind>(kind);
      o.name = text();
      o.array = tensor();
      o.space = static_cast<Space>(below(16));
      if (chance(50)) {
        o.has_block = true;
        for (int r = o.array->rank(); r > 0; --r) {
          BlockDim d;
          d.kind = static_cast<BlockDim::Kind>(below(5));
          if (d.kind != BlockDim::Kind::Squeezed) d.size = below(4);
          if (d.kind == BlockDim::Kind::Element) d.pad_lo = below(3), d.pad_hi = below(3);
          o.block.push_back(d);
        }
        o.index_map = std::make_unique<Graph>(graph());
      }
      o.attrs = attrs(0);
      m_.operands.push_back(std::move(o));
    }
  for (int n = below(2); n > 0; --n) m_.scratch.push_back({text(), ref(), attrs(0)});
  for (int n = below(2); n > 0; --n) m_.aliases.push_back({below(3), below(3)});
  for (int n = 1 + below(2); n > 0; --n) {
    Body b;
    b.mesh = chance(50) ? text() : "";
    b.graph = graph();
    m_.bodies.push_back(std::move(b));
  }
  return std::move(m_);
}

}  // namespace pallasim::ir
