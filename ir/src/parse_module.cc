#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "pallasim/ir/nearest.h"
#include "parser.h"
#include "text.h"

namespace pallasim::ir {
namespace {

constexpr std::string_view kMagic = "pallasim-ir ";
// In the order in which they may occur.
constexpr std::string_view kDecls[] = {"module", "param",   "mesh",  "grid", "prefetch", "input",
                                       "output", "scratch", "alias", "body", "loc"};

}  // namespace

Module parse(std::string_view text, std::string_view file_name, const Limits& limits, Unplaced unplaced) {
  return Parser(text, file_name, limits, unplaced).parse_module();
}

TextParts split_locations(std::string_view text) {
  constexpr std::string_view kLoc = "loc ";
  size_t begin = text.size();
  while (begin > 0) {
    const size_t before = begin >= 2 ? text.rfind('\n', begin - 2) : std::string_view::npos;
    const size_t line = before == std::string_view::npos ? 0 : before + 1;
    if (line == 0 || !text.substr(line).starts_with(kLoc)) break;
    begin = line;
  }
  return {text.substr(0, begin), text.substr(begin)};
}

LocTable parse_locations(std::string_view locations) {
  return Parser(locations, "<locations>", {}, Unplaced::Nowhere).parse_locations();
}

LocTable Parser::parse_locations() {
  decl_rank_ = static_cast<int>(std::size(kDecls)) - 1;
  while (declaration()) {}
  check_locations();
  return std::move(m_.locs);
}

Module Parser::parse_module() {
  if (end_ - begin_ > limits_.max_text_bytes)
    fail(begin_, "PS-IR-004",
         fmt::format("text of {} bytes is longer than {} bytes", end_ - begin_, limits_.max_text_bytes));
  header();
  while (declaration()) {}
  if (decl_rank_ < 0) syntax("the declaration 'module'");
  check_locations();
  if (unplaced_ == Unplaced::Text) place_unplaced();
  return std::move(m_);
}

void Parser::declared_at(LocId* loc, const char* at) {
  if (unplaced_ == Unplaced::Nowhere || *loc != -1) return;
  places_.push_back(at);
  *loc = -1 - static_cast<LocId>(places_.size());
}

namespace {
// A kernel's own lines say more than those of its text.
bool has_places(const Region& r) {
  return std::any_of(r.ops.begin(), r.ops.end(), [](const Op& o) {
    return o.loc >= 0 || std::any_of(o.regions.begin(), o.regions.end(), has_places);
  });
}
}  // namespace

void Parser::place(Region& r, LocId first, bool here) {
  for (Op& o : r.ops) {
    const bool ends_body = o.code == OpCode::yield && o.operands.empty();  // nobody's line
    // What a scope holds is declared in it: with nobody's launch to name, the text has the only line of that.
    const bool declares = o.code == OpCode::run_scoped && !find(m_.attrs, "call");
    if (o.loc < -1) o.loc = (here && !ends_body) || declares ? first - 2 - o.loc : -1;
    for (Region& inner : o.regions) place(inner, first, here);
  }
}

// The lines of the text follow the table's own locations.
void Parser::place_unplaced() {
  const auto first = static_cast<LocId>(m_.locs.size());
  const char* from = begin_;
  int line = 1;
  std::vector<LocId> order(places_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](LocId a, LocId b) { return places_[static_cast<size_t>(a)] < places_[static_cast<size_t>(b)]; });
  m_.locs.resize(m_.locs.size() + places_.size());
  for (const LocId i : order)
    m_.locs[static_cast<size_t>(first + i)].source = line_of(places_[static_cast<size_t>(i)], &from, &line);
  const auto place_decl = [&](LocId* loc) {
    if (*loc < -1) *loc = first - 2 - *loc;
  };
  for (GridAxis& g : m_.grid) place_decl(&g.loc);
  for (Mesh& m : m_.meshes) place_decl(&m.loc);
  for (Scratch& s : m_.scratch) place_decl(&s.loc);
  for (Alias& a : m_.aliases) place_decl(&a.loc);
  for (Operand& o : m_.operands) {
    place_decl(&o.loc);
    if (o.index_map) place(o.index_map->region, first, !has_places(o.index_map->region));
  }
  for (Body& b : m_.bodies) {
    place_decl(&b.loc);
    place(b.graph.region, first, !has_places(b.graph.region));
  }
  if (!find(m_.attrs, "call")) m_.attrs.emplace_back("call", Attr::integer(first));  // the line of `module`
}

void Parser::header() {
  if (std::string_view(begin_, static_cast<size_t>(end_ - begin_)).substr(0, kMagic.size()) != kMagic)
    fail(begin_, "PS-IR-003", "this is not Pallasim IR", "the first line is 'pallasim-ir 1'");
  p_ += kMagic.size();
  const char* at = p_;
  const int64_t version = integer("the version of the format");
  if (version > kIrVersion)
    fail(at, "PS-IR-002",
         fmt::format("this is pallasim-ir {}; this build reads versions up to {}", version, kIrVersion),
         "a newer Pallasim reads it");
  if (version != kIrVersion) fail(at, "PS-IR-003", fmt::format("there is no version {} of Pallasim IR", version));
  expect_end_of_line("the version");
}

bool Parser::declaration() {
  skip_space();
  if (at_end()) return false;
  const char* at = p_;
  const std::string_view n = expect_name("a declaration");
  const auto* it = std::find(std::begin(kDecls), std::end(kDecls), n);
  if (it == std::end(kDecls))
    fail(at, "PS-IR-010", fmt::format("unknown declaration '{}'", n),
         did_you_mean(n, {std::begin(kDecls), std::end(kDecls)}));
  const int rank = static_cast<int>(it - kDecls);
  if (decl_rank_ < 0 && rank != 0) fail(at, "PS-IR-010", fmt::format("'{}' stands before 'module'", n));
  if (rank == 0 && decl_rank_ >= 0) fail(at, "PS-IR-010", "a text declares one module");
  if (rank < decl_rank_)
    fail(
        at, "PS-IR-010", fmt::format("'{}' stands after '{}'", n, kDecls[decl_rank_]),
        "declarations come in the order module, param, mesh, grid, prefetch, input, output, scratch, alias, body, loc");
  decl_rank_ = rank;
  decl_at_ = at;
  switch (rank) {
    case 0: module_decl(); break;
    case 1: param_decl(); break;
    case 2: mesh_decl(); break;
    case 3: grid_decl(); break;
    case 4: operand_decl(Operand::Kind::Prefetch); break;
    case 5: operand_decl(Operand::Kind::Input); break;
    case 6: operand_decl(Operand::Kind::Output); break;
    case 7: scratch_decl(); break;
    case 8: alias_decl(); break;
    case 9: body_decl(); break;
    default: loc_decl(); break;
  }
  expect_end_of_line("a declaration");
  return true;
}

bool Parser::take(AttrDict& d, std::string_view key, Attr* out) {
  auto it = std::find_if(d.begin(), d.end(), [&](const auto& e) { return e.first == key; });
  if (it == d.end()) return false;
  *out = std::move(it->second);
  d.erase(it);
  return true;
}

Attr Parser::need(AttrDict& d, std::string_view key, const char* decl, const char* at) {
  Attr a;
  if (!take(d, key, &a)) fail(at, "PS-IR-011", fmt::format("'{}' without the attribute '{}'", decl, key));
  return a;
}

std::string Parser::take_text(const Attr& a, std::string_view key, const char* decl, const char* at) {
  if (!a.is(Attr::Kind::Symbol) && !a.is(Attr::Kind::String))
    fail(at, "PS-IR-011", fmt::format("the attribute '{}' of '{}' is not a name", key, decl));
  return a.s;
}

int64_t Parser::take_int(AttrDict& d, std::string_view key, const char* decl, const char* at) {
  const Attr a = need(d, key, decl, at);
  if (!a.is_int()) fail(at, "PS-IR-011", fmt::format("the attribute '{}' of '{}' is not an integer", key, decl));
  return a.i;
}

void Parser::module_decl() {
  LocId loc = -1;
  declared_at(&loc, decl_at_);  // the first place
  m_.name = string_literal("the module's name");
  skip_line_space();
  const char* at = p_;
  m_.attrs = optional_attrs();
  const std::string machine = take_text(need(m_.attrs, "machine", "module", at), "machine", "module", at);
  if (!parse_machine(machine, &m_.machine))
    fail(at, "PS-IR-009", fmt::format("unknown machine '{}'", machine),
         did_you_mean(machine, {"generic", "tpu", "triton", "mosaic_gpu"}));
}

void Parser::param_decl() {
  skip_line_space();
  const char* at = p_;
  std::string n(expect_name("the name of a shape parameter"));
  if (std::find(m_.params.begin(), m_.params.end(), n) != m_.params.end())
    fail(at, "PS-IR-010", fmt::format("shape parameter '{}' is declared twice", n));
  if (m_.params.size() == 4096) fail(at, "PS-IR-004", "more than 4096 shape parameters");
  m_.params.push_back(std::move(n));
}

void Parser::mesh_decl() {
  Mesh mesh;
  declared_at(&mesh.loc, decl_at_);
  mesh.name = string_literal("the mesh's name");
  skip_line_space();
  const char* at = p_;
  mesh.attrs = optional_attrs();
  mesh.kind = take_text(need(mesh.attrs, "kind", "mesh", at), "kind", "mesh", at);
  const Attr axes = need(mesh.attrs, "axes", "mesh", at);
  if (!axes.is(Attr::Kind::List)) fail(at, "PS-IR-011", "the attribute 'axes' of 'mesh' is not a list");
  for (const Attr& a : axes.items) {
    if (!a.is_call("axis") || a.items.size() != 2 || !a.items[0].is(Attr::Kind::String) || !a.items[1].is_int())
      fail(at, "PS-IR-011", "an axis of a mesh is written axis(\"name\", size)");
    mesh.axes.push_back({a.items[0].s, a.items[1].i});
  }
  m_.meshes.push_back(std::move(mesh));
}

void Parser::grid_decl() {
  skip_line_space();
  const char* at = p_;
  GridAxis g;
  declared_at(&g.loc, decl_at_);
  g.attrs = optional_attrs();
  const Attr size = need(g.attrs, "size", "grid", at);
  if (size.is_int()) {
    g.size = size.i;
  } else if (size.is_call("dynamic") && size.items.size() == 1 && size.items[0].is_int() && size.items[0].i >= 0 &&
             size.items[0].i < 1024) {
    g.dynamic = static_cast<int>(size.items[0].i);
    m_.num_dynamic = std::max(m_.num_dynamic, g.dynamic + 1);
  } else {
    fail(at, "PS-IR-011", "the size of a grid axis is a number or dynamic(k)");
  }
  Attr a;
  if (take(g.attrs, "name", &a)) {
    if (!a.is(Attr::Kind::String)) fail(at, "PS-IR-011", "the attribute 'name' of 'grid' is not a string");
    g.name = a.s;
  }
  if (take(g.attrs, "semantics", &a)) {
    if (!a.is(Attr::Kind::Symbol)) fail(at, "PS-IR-011", "the attribute 'semantics' of 'grid' is not a name");
    g.semantics = a.s;
  }
  if (take(g.attrs, "vmapped", &a)) {
    if (!a.is_true() && !(a.is(Attr::Kind::Symbol) && a.s == "false"))
      fail(at, "PS-IR-011", "the attribute 'vmapped' of 'grid' is true or false");
    g.vmapped = a.is_true();
  }
  m_.grid.push_back(std::move(g));
}

BlockDim Parser::block_dim(const Attr& a, const char* at) {
  using Kind = BlockDim::Kind;
  if (a.is(Attr::Kind::Symbol) && a.s == "squeezed") return {Kind::Squeezed, 1, 0, 0};
  const bool ints = std::all_of(a.items.begin(), a.items.end(), [](const Attr& x) { return x.is_int(); });
  if (a.is(Attr::Kind::Call) && ints) {
    if (a.s == "element" && a.items.size() == 3) return {Kind::Element, a.items[0].i, a.items[1].i, a.items[2].i};
    if (a.items.size() == 1) {
      if (a.s == "blocked") return {Kind::Blocked, a.items[0].i, 0, 0};
      if (a.s == "bounded") return {Kind::BoundedSlice, a.items[0].i, 0, 0};
      if (a.s == "indirect") return {Kind::Indirect, a.items[0].i, 0, 0};
    }
  }
  fail(at, "PS-IR-011",
       "a dimension of a block is blocked(n), squeezed, element(n, lo, hi), bounded(n) or indirect(n)");
}

void Parser::block(Operand& o, const Attr& a, const char* at) {
  if (!a.is(Attr::Kind::List)) fail(at, "PS-IR-011", "the attribute 'block' is not a list");
  if (a.items.size() > static_cast<size_t>(limits_.max_rank))
    fail(at, "PS-IR-004", fmt::format("block has more than {} dimensions", limits_.max_rank));
  o.has_block = true;
  int64_t elements = 1;
  for (const Attr& d : a.items) {
    o.block.push_back(block_dim(d, at));
    const int64_t n = std::max<int64_t>(o.block.back().size, 1);
    if (n > limits_.max_elements / elements)
      fail(at, "PS-IR-004", fmt::format("block has more than {} elements", limits_.max_elements));
    elements *= n;
  }
}

void Parser::operand_decl(Operand::Kind kind) {
  static constexpr const char* kDeclNames[] = {"prefetch", "input", "output"};
  const char* decl = kDeclNames[static_cast<int>(kind)];
  Operand o;
  o.kind = kind;
  declared_at(&o.loc, decl_at_);
  o.name = string_literal("the operand's name");
  expect(':', "before the type of an operand");
  o.array = tensor_type();
  skip_line_space();
  const char* at = p_;
  o.attrs = optional_attrs();
  const std::string space = take_text(need(o.attrs, "space", decl, at), "space", decl, at);
  if (!parse_space(space, &o.space)) fail(at, "PS-IR-009", fmt::format("unknown memory space '{}'", space));
  Attr b;
  if (take(o.attrs, "block", &b)) block(o, b, at);
  skip_line_space();
  if (peek() == '(') {
    if (!o.has_block) fail(p_, "PS-IR-011", fmt::format("'{}' has an index map but no attribute 'block'", decl));
    o.index_map = std::make_unique<Graph>(graph());
  } else if (o.has_block) {
    fail(at, "PS-IR-011", fmt::format("'{}' has the attribute 'block' but no index map", decl));
  }
  m_.operands.push_back(std::move(o));
}

void Parser::scratch_decl() {
  Scratch s;
  declared_at(&s.loc, decl_at_);
  s.name = string_literal("the scratch buffer's name");
  expect(':', "before the type of a scratch buffer");
  skip_line_space();
  const char* at = p_;
  s.type = type();
  if (!s.type->is_ref)
    fail(at, "PS-IR-009", fmt::format("scratch has the type {}, which is not a ref", to_string(s.type)));
  s.attrs = optional_attrs();
  m_.scratch.push_back(std::move(s));
}

void Parser::alias_decl() {
  skip_line_space();
  const char* at = p_;
  AttrDict d = optional_attrs();
  const int64_t in = take_int(d, "input", "alias", at), out = take_int(d, "output", "alias", at);
  if (!d.empty()) fail(at, "PS-IR-011", fmt::format("'alias' has no attribute '{}'", d[0].first));
  if (in < 0 || in > INT32_MAX || out < 0 || out > INT32_MAX)
    fail(at, "PS-IR-011", "the numbers of an alias are out of range");
  m_.aliases.push_back({static_cast<int>(in), static_cast<int>(out)});
  declared_at(&m_.aliases.back().loc, decl_at_);
}

void Parser::body_decl() {
  Body b;
  declared_at(&b.loc, decl_at_);
  skip_line_space();
  if (peek() == '"') b.mesh = string_literal("the mesh's name");
  b.graph = graph();
  m_.bodies.push_back(std::move(b));
}

void Parser::loc_decl() {
  skip_line_space();
  const char* at = p_;
  const int64_t number = integer("the number of a location");
  if (number != static_cast<int64_t>(m_.locs.size()))
    fail(at, "PS-IR-012", fmt::format("location {} where {} is expected", number, m_.locs.size()),
         "locations are numbered 0, 1, 2, … in the order of the table");
  skip_line_space();
  at = p_;
  AttrDict d = optional_attrs();
  Loc loc;
  auto text = [&](const char* key, std::string* out) {
    Attr a;
    if (!take(d, key, &a)) return;
    if (!a.is(Attr::Kind::String))
      fail(at, "PS-IR-011", fmt::format("the attribute '{}' of 'loc' is not a string", key));
    *out = std::move(a.s);
  };
  auto number_of = [&](const char* key, int* out) {
    Attr a;
    if (!take(d, key, &a)) return;
    if (!a.is_int() || a.i < 0 || a.i > INT32_MAX)
      fail(at, "PS-IR-011", fmt::format("the attribute '{}' of 'loc' is not a number", key));
    *out = static_cast<int>(a.i);
  };
  text("file", &loc.source.file);
  number_of("line", &loc.source.line);
  number_of("column", &loc.source.column);
  text("function", &loc.source.function);
  text("text", &loc.source.text);
  text("scope", &loc.scope);
  number_of("caller", &loc.caller);
  if (!d.empty()) fail(at, "PS-IR-011", fmt::format("'loc' has no attribute '{}'", d[0].first));
  if (loc.caller > max_loc_) max_loc_ = loc.caller, max_loc_at_ = at;
  m_.locs.push_back(std::move(loc));
}

void Parser::check_locations() {
  if (max_loc_ < static_cast<LocId>(m_.locs.size())) return;
  fail(max_loc_at_, "PS-IR-012",
       fmt::format("location {} is not in the table of {}", max_loc_,
                   plural(static_cast<int64_t>(m_.locs.size()), "location")));
}

}  // namespace pallasim::ir
