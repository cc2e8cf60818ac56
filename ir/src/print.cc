#include <unordered_map>

#include <fmt/format.h>

#include "pallasim/ir/module.h"
#include "print_attr.h"
#include "text.h"

namespace pallasim::ir {
namespace {

class Printer {
 public:
  Printer(const Module& m, const PrintOptions& o) : m_(m), o_(o) {}
  std::string run();

 private:
  void module_line();
  void mesh(const Mesh& m);
  void grid(const GridAxis& g);
  void operand(const Operand& o);
  void locations();

  void region(const Graph& g, const Region& r, int indent);
  void op(const Graph& g, const Op& op, int indent);
  void values(const std::vector<ValueId>& ids);
  void type(const Type* t);
  void number(int64_t n) { fmt::format_to(std::back_inserter(out_), "{}", n); }
  void with_attrs(const AttrDict& own, const AttrDict& rest);

  const Module& m_;
  const PrintOptions& o_;
  std::string out_;
  std::unordered_map<const Type*, std::string> type_texts_;
};

void Printer::type(const Type* t) {
  auto [it, fresh] = type_texts_.try_emplace(t);
  if (fresh) it->second = to_string(t);
  out_ += it->second;
}

void Printer::values(const std::vector<ValueId>& ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    out_ += i ? ", %" : "%";
    number(ids[i]);
  }
}

// The attributes that the module holds as fields come first, then the others as captured.
void Printer::with_attrs(const AttrDict& own, const AttrDict& rest) {
  AttrDict all = own;
  all.insert(all.end(), rest.begin(), rest.end());
  if (all.empty()) return;
  out_ += ' ';
  append_attrs(out_, all);
}

void Printer::module_line() {
  out_ += "module ";
  append_json_string(out_, m_.name);
  with_attrs({{"machine", Attr::symbol(std::string(name(m_.machine)))}}, m_.attrs);
  out_ += '\n';
}

void Printer::mesh(const Mesh& m) {
  out_ += "mesh ";
  append_json_string(out_, m.name);
  std::vector<Attr> axes;
  for (const MeshAxis& a : m.axes) axes.push_back(Attr::call("axis", {Attr::string(a.name), Attr::integer(a.size)}));
  // A kind is a name in every module that the bridge writes; any other text keeps its quotes.
  const Attr kind = is_name(m.kind) ? Attr::symbol(m.kind) : Attr::string(m.kind);
  with_attrs({{"kind", kind}, {"axes", Attr::list(std::move(axes))}}, m.attrs);
  out_ += '\n';
}

void Printer::grid(const GridAxis& g) {
  AttrDict own;
  own.emplace_back("size", g.dynamic >= 0 ? Attr::call("dynamic", {Attr::integer(g.dynamic)}) : Attr::integer(g.size));
  if (!g.name.empty()) own.emplace_back("name", Attr::string(g.name));
  if (!g.semantics.empty()) own.emplace_back("semantics", Attr::symbol(g.semantics));
  if (g.vmapped) own.emplace_back("vmapped", Attr::boolean(true));
  out_ += "grid";
  with_attrs(own, g.attrs);
  out_ += '\n';
}

Attr block_attr(const BlockDim& d) {
  const Attr n = Attr::integer(d.size);
  switch (d.kind) {
    case BlockDim::Kind::Blocked: return Attr::call("blocked", {n});
    case BlockDim::Kind::Squeezed: return Attr::symbol("squeezed");
    case BlockDim::Kind::Element: return Attr::call("element", {n, Attr::integer(d.pad_lo), Attr::integer(d.pad_hi)});
    case BlockDim::Kind::BoundedSlice: return Attr::call("bounded", {n});
    case BlockDim::Kind::Indirect: return Attr::call("indirect", {n});
  }
  return n;
}

void Printer::operand(const Operand& o) {
  constexpr const char* kDecls[] = {"prefetch ", "input ", "output "};
  out_ += kDecls[static_cast<int>(o.kind)];
  append_json_string(out_, o.name);
  out_ += " : ";
  type(o.array);
  AttrDict own = {{"space", Attr::symbol(std::string(name(o.space)))}};
  if (o.has_block) {
    std::vector<Attr> dims;
    for (const BlockDim& d : o.block) dims.push_back(block_attr(d));
    own.emplace_back("block", Attr::list(std::move(dims)));
  }
  with_attrs(own, o.attrs);
  if (o.index_map) {
    out_ += ' ';
    region(*o.index_map, o.index_map->region, 0);
  }
  out_ += '\n';
}

void Printer::region(const Graph& g, const Region& r, int indent) {
  out_ += '(';
  for (size_t i = 0; i < r.args.size(); ++i) {
    const auto v = static_cast<size_t>(r.args[i]);
    out_ += i ? ", %" : "%";
    number(r.args[i]);
    if (v < g.names.size() && !g.names[v].empty()) {
      out_ += ' ';
      append_json_string(out_, g.names[v]);
    }
    out_ += ": ";
    type(g.types[v]);
  }
  out_ += ") {\n";
  for (const Op& o : r.ops) op(g, o, indent + 2);
  out_.append(static_cast<size_t>(indent), ' ');
  out_ += '}';
}

void Printer::op(const Graph& g, const Op& op, int indent) {
  out_.append(static_cast<size_t>(indent), ' ');
  if (!op.results.empty()) {
    values(op.results);
    out_ += " = ";
  }
  out_ += name(op.code);
  if (!op.operands.empty()) {
    out_ += ' ';
    values(op.operands);
  }
  if (!op.attrs.empty()) {
    out_ += ' ';
    append_attrs(out_, op.attrs);
  }
  for (const Region& r : op.regions) {
    out_ += ' ';
    region(g, r, indent);
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    out_ += i ? ", " : " : ";
    type(g.type(op.results[i]));
  }
  if (o_.locations && op.loc >= 0) {
    out_ += " @";
    number(op.loc);
  }
  if (o_.literal_comments && op.code == OpCode::constant)
    if (const Attr* v = op.attr("value"))
      if (const std::string c = literal_comment(*v); !c.empty()) out_ += "  // " + c;
  out_ += '\n';
}

void Printer::locations() {
  const LocTable& locs = o_.table ? *o_.table : m_.locs;
  for (size_t i = 0; i < locs.size(); ++i) {
    const Loc& l = locs[i];
    AttrDict d;
    d.emplace_back("file", Attr::string(l.source.file));
    d.emplace_back("line", Attr::integer(l.source.line));
    if (l.source.column) d.emplace_back("column", Attr::integer(l.source.column));
    if (!l.source.function.empty()) d.emplace_back("function", Attr::string(l.source.function));
    if (!l.source.text.empty()) d.emplace_back("text", Attr::string(l.source.text));
    if (!l.scope.empty()) d.emplace_back("scope", Attr::string(l.scope));
    if (l.caller >= 0) d.emplace_back("caller", Attr::integer(l.caller));
    out_ += "loc ";
    number(static_cast<int64_t>(i));
    with_attrs(d, {});
    out_ += '\n';
  }
}

std::string Printer::run() {
  out_ = fmt::format("pallasim-ir {}\n", kIrVersion);
  module_line();
  for (const std::string& p : m_.params) out_ += "param " + p + '\n';
  for (const Mesh& m : m_.meshes) mesh(m);
  for (const GridAxis& g : m_.grid) grid(g);
  for (const Operand& o : m_.operands) operand(o);
  for (const Scratch& s : m_.scratch) {
    out_ += "scratch ";
    append_json_string(out_, s.name);
    out_ += " : ";
    type(s.type);
    with_attrs({}, s.attrs);
    out_ += '\n';
  }
  for (const Alias& a : m_.aliases) out_ += fmt::format("alias {{input = {}, output = {}}}\n", a.input, a.output);
  for (const Body& b : m_.bodies) {
    out_ += "body ";
    if (!b.mesh.empty()) {
      append_json_string(out_, b.mesh);
      out_ += ' ';
    }
    region(b.graph, b.graph.region, 0);
    out_ += '\n';
  }
  if (o_.locations) locations();
  return std::move(out_);
}

}  // namespace

std::string print(const Module& m, const PrintOptions& o) { return Printer(m, o).run(); }

}  // namespace pallasim::ir
