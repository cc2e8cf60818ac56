#include <algorithm>

#include <fmt/format.h>

#include "dim_expr.h"
#include "pallasim/ir/nearest.h"
#include "text.h"
#include "verify.h"

namespace pallasim::ir {
namespace {

using Kind = Operand::Kind;
constexpr std::string_view kSemantics[] = {"parallel", "arbitrary", "core_parallel", "subcore_parallel", "sequential"};

std::string operand_text(const Operand& o) {
  constexpr const char* kNames[] = {"prefetch", "input", "output"};
  return fmt::format("{} {}", kNames[static_cast<int>(o.kind)], quoted(o.name));
}

void check_axis(const Module& m, size_t i) {
  const GridAxis& g = m.grid[i];
  if (g.dynamic < 0 && g.size < 0) fail_module(m, "PS-IR-118", fmt::format("grid axis {} has the size {}", i, g.size));
  if (!g.semantics.empty() &&
      std::find(std::begin(kSemantics), std::end(kSemantics), g.semantics) == std::end(kSemantics))
    fail_module(m, "PS-IR-118", fmt::format("grid axis {} has the unknown semantics '{}'", i, g.semantics),
                did_you_mean(g.semantics, {std::begin(kSemantics), std::end(kSemantics)}));
  if (g.dynamic >= 0 && g.dynamic >= m.num_dynamic)
    fail_module(m, "PS-IR-118", fmt::format("grid axis {} names dynamic bound {} of {}", i, g.dynamic, m.num_dynamic));
}

void check_grid(const Module& m) {
  std::vector<char> bound(static_cast<size_t>(std::max(m.num_dynamic, 0)), 0);
  for (size_t i = 0; i < m.grid.size(); ++i) {
    declared_at(m, m.grid[i].loc, [&] { check_axis(m, i); });
    if (m.grid[i].dynamic >= 0) bound[static_cast<size_t>(m.grid[i].dynamic)] = 1;
  }
  for (size_t k = 0; k < bound.size(); ++k)
    if (!bound[k])
      fail_module(m, "PS-IR-118", fmt::format("no grid axis has the size dynamic({})", k),
                  "dynamic bounds are numbered 0, 1, 2, …");
}

void check_mesh(const Module& m, size_t i) {
  for (size_t j = 0; j < i; ++j)
    if (m.meshes[i].name == m.meshes[j].name)
      fail_module(m, "PS-IR-117", fmt::format("two meshes are named {}", quoted(m.meshes[i].name)));
  for (const MeshAxis& a : m.meshes[i].axes)
    if (a.size < 1)
      fail_module(m, "PS-IR-117",
                  fmt::format("axis {} of mesh {} has the size {}", quoted(a.name), quoted(m.meshes[i].name), a.size));
}

void check_mesh_of_body(const Module& m, size_t i) {
  const std::string& mesh = m.bodies[i].mesh;
  for (size_t j = 0; j < i; ++j)
    if (mesh == m.bodies[j].mesh)
      fail_module(m, "PS-IR-117",
                  mesh.empty() ? "there are two bodies" : fmt::format("mesh {} has two bodies", quoted(mesh)));
  const bool known = std::any_of(m.meshes.begin(), m.meshes.end(), [&](const Mesh& x) { return x.name == mesh; });
  if (m.meshes.empty() ? !mesh.empty() : !known)
    fail_module(m, "PS-IR-117",
                mesh.empty() ? "the body names no mesh"
                             : fmt::format("the body names mesh {}, which is not declared", quoted(mesh)));
}

void check_meshes(const Module& m) {
  for (size_t i = 0; i < m.meshes.size(); ++i) declared_at(m, m.meshes[i].loc, [&] { check_mesh(m, i); });
  if (m.bodies.empty()) fail_module(m, "PS-IR-117", "the module has no body");
  for (size_t i = 0; i < m.bodies.size(); ++i) declared_at(m, m.bodies[i].loc, [&] { check_mesh_of_body(m, i); });
}

void check_blocks(const Module& m, const Operand& o) {
  const std::string what = operand_text(o);
  if (!o.array || o.array->is_ref) fail_module(m, "PS-IR-115", fmt::format("{} is not an array", what));
  check_params(m, *o.array, what);
  if (o.has_block != (o.index_map != nullptr))
    fail_module(m, "PS-IR-115", fmt::format("{} has a block or an index map without the other", what));
  if (!o.has_block) return;
  if (o.kind == Kind::Prefetch)
    fail_module(m, "PS-IR-115", fmt::format("{} has a block", what), "prefetched operands are whole arrays");
  if (static_cast<int>(o.block.size()) != o.array->rank())
    fail_module(m, "PS-IR-115",
                fmt::format("the block of {} has {} for an array of type {}", what,
                            plural(static_cast<int64_t>(o.block.size()), "dimension"), to_string(o.array)));
  for (size_t i = 0; i < o.block.size(); ++i) {
    const BlockDim& d = o.block[i];
    if (d.size < 1)
      fail_module(m, "PS-IR-115", fmt::format("dimension {} of the block of {} has the size {}", i, what, d.size));
    if (d.pad_lo < 0 || d.pad_hi < 0)
      fail_module(m, "PS-IR-115", fmt::format("dimension {} of the block of {} has negative padding", i, what));
  }
}

void check_prefetch_arg(const Module& m, const Type& t, const Operand& o, const std::string& where) {
  if (!t.is_ref || !t.members.empty() || t.dtype != o.array->dtype || !may_equal(t.dims, o.array->dims))
    fail_module(
        m, "PS-IR-114",
        fmt::format("{} has type {}, but {} has type {}", where, to_string(t), operand_text(o), to_string(o.array)));
}

void check_index_map(const Module& m, const Operand& o) {
  const std::string what = fmt::format("the index map of {}", operand_text(o));
  const Graph& g = *o.index_map;
  check_graph(m, g, what);
  const auto prefetch = static_cast<size_t>(m.count(Kind::Prefetch));
  const auto& args = g.region.args;
  if (args.size() != m.grid.size() + prefetch)
    fail_module(m, "PS-IR-114",
                fmt::format("{} has {} for {} and {}", what, plural(static_cast<int64_t>(args.size()), "argument"),
                            m.grid.size() == 1 ? "1 grid axis" : fmt::format("{} grid axes", m.grid.size()),
                            plural(static_cast<int64_t>(prefetch), "prefetched operand")));
  for (size_t i = 0; i < args.size(); ++i) {
    const Type& t = *g.type(args[i]);
    const std::string where = fmt::format("argument {} of {}", i, what);
    if (i >= m.grid.size()) check_prefetch_arg(m, t, m.operands[i - m.grid.size()], where);
    else if (!t.is_scalar() || (t.dtype != DType::I32 && t.dtype != DType::I64))
      fail_module(m, "PS-IR-114", fmt::format("{} has type {}, but a program id is i32[]", where, to_string(t)));
  }
  const auto& y = g.region.ops.back().operands;
  // Behind the indices come the sizes of bounded slices.
  const auto sizes = std::count_if(o.block.begin(), o.block.end(),
                                   [](const BlockDim& d) { return d.kind == BlockDim::Kind::BoundedSlice; });
  if (y.size() != o.block.size() + static_cast<size_t>(sizes))
    fail_module(
        m, "PS-IR-114",
        fmt::format("{} yields {} for an array of rank {}{}", what, plural(static_cast<int64_t>(y.size()), "value"),
                    o.block.size(), sizes ? fmt::format(" and {}", plural(sizes, "bounded slice")) : ""));
  const bool indirect =
      std::any_of(o.block.begin(), o.block.end(), [](const BlockDim& d) { return d.kind == BlockDim::Kind::Indirect; });
  for (size_t i = 0; i < y.size(); ++i) {
    const Type& t = *g.type(y[i]);
    if (!is_int(t.dtype) || (!indirect && !t.is_scalar()))
      fail_module(m, "PS-IR-114",
                  fmt::format("{} yields %{} of type {} for dimension {}; an index is an integer scalar", what, y[i],
                              to_string(t), i));
  }
}

// The shape of the ref that a body gets: the array's, or the block's without squeezed dimensions.
std::vector<Dim> ref_dims(const Operand& o) {
  if (!o.has_block) return o.array->dims;
  std::vector<Dim> dims;
  for (const BlockDim& d : o.block)
    if (d.kind != BlockDim::Kind::Squeezed) dims.emplace_back(d.size);
  return dims;
}

// Mosaic GPU bodies see tiled and swizzled blocks in their physical shape; only the number of elements is known here.
bool fits(const Module& m, const Type& t, DType dtype, const std::vector<Dim>& dims) {
  if (!t.is_ref || t.dtype != dtype) return false;
  if (may_equal(t.dims, dims)) return true;
  if (m.machine != Machine::MosaicGpu) return false;
  Type whole;
  whole.dims = dims;
  return !whole.is_static() || !t.is_static() || whole.num_elements() == t.num_elements();
}

void check_body_args(const Module& m, const Body& b) {
  const std::string what = b.mesh.empty() ? "the body" : fmt::format("the body of mesh {}", quoted(b.mesh));
  const auto& args = b.graph.region.args;
  if (args.size() != m.operands.size() + m.scratch.size())
    fail_module(m, "PS-IR-113",
                fmt::format("{} has {} for {} and {}", what, plural(static_cast<int64_t>(args.size()), "argument"),
                            plural(static_cast<int64_t>(m.operands.size()), "operand"),
                            plural(static_cast<int64_t>(m.scratch.size()), "scratch buffer")));
  for (size_t i = 0; i < args.size(); ++i) {
    const Type& t = *b.graph.type(args[i]);
    auto refuse = [&](const std::string& decl, const std::string& expected) {
      fail_module(m, "PS-IR-113",
                  fmt::format("argument {} (%{}) of {} has type {}, but {} makes it {}", i, args[i], what, to_string(t),
                              decl, expected));
    };
    if (i >= m.operands.size()) {
      const Scratch& s = m.scratch[i - m.operands.size()];
      if (!same_type(t, *s.type)) refuse("scratch " + quoted(s.name), to_string(s.type));
      continue;
    }
    const Operand& o = m.operands[i];
    const std::vector<Dim> dims = ref_dims(o);
    const bool space = same_space(t.space, o.space) || m.machine == Machine::MosaicGpu;
    if (!space || !t.members.empty() || !fits(m, t, o.array->dtype, dims))
      refuse(operand_text(o), fmt::format("ref<{}, {}>", shape_text(o.array->dtype, dims), name(o.space)));
  }
}

void check_alias(const Module& m, const Alias& a, std::vector<char>* taken) {
  const int inputs = m.count(Kind::Prefetch) + m.count(Kind::Input), outputs = m.count(Kind::Output);
  if (a.input < 0 || a.input >= inputs)
    fail_module(m, "PS-IR-116", fmt::format("an alias names input {} of {}", a.input, inputs));
  if (a.output < 0 || a.output >= outputs)
    fail_module(m, "PS-IR-116", fmt::format("an alias names output {} of {}", a.output, outputs));
  if ((*taken)[static_cast<size_t>(a.output)]++)
    fail_module(m, "PS-IR-116", fmt::format("output {} has two aliases", a.output));
  const Operand &in = m.operands[static_cast<size_t>(a.input)],
                &out = m.operands[static_cast<size_t>(inputs + a.output)];
  if (!same_type(*in.array, *out.array))
    fail_module(m, "PS-IR-116",
                fmt::format("{} of type {} cannot share the buffer of {} of type {}", operand_text(out),
                            to_string(out.array), operand_text(in), to_string(in.array)));
}

void check_aliases(const Module& m) {
  std::vector<char> taken(static_cast<size_t>(m.count(Kind::Output)), 0);
  for (const Alias& a : m.aliases) declared_at(m, a.loc, [&] { check_alias(m, a, &taken); });
}

void check_order(const Module& m, size_t i) {
  if (i > 0 && m.operands[i].kind < m.operands[i - 1].kind)
    fail_module(m, "PS-IR-115",
                fmt::format("{} stands after {}", operand_text(m.operands[i]), operand_text(m.operands[i - 1])),
                "operands are prefetched ones, inputs, outputs in this order");
}

void check_scratch(const Module& m, const Scratch& s) {
  if (!s.type || !s.type->is_ref) fail_module(m, "PS-IR-115", fmt::format("scratch {} is not a ref", quoted(s.name)));
  check_params(m, *s.type, "scratch " + quoted(s.name));
}

void check_body(const Module& m, const Body& b) {
  check_graph(m, b.graph, b.mesh.empty() ? "the body" : fmt::format("the body of mesh {}", quoted(b.mesh)));
  check_body_args(m, b);
  if (!b.graph.region.ops.back().operands.empty())
    fail_module(m, "PS-IR-113", "a body yields values", "a kernel returns nothing; it writes its outputs");
}

}  // namespace

LocId line_of_module(const Module& m) {
  const Attr* call = find(m.attrs, "call");
  return call && call->is_int() && call->i < static_cast<int64_t>(m.locs.size()) ? static_cast<LocId>(call->i) : -1;
}

void fail_module(const Module& m, Code code, std::string message, std::string hint) {
  Diagnostic(code, std::move(message)).of(m.name).hinted(std::move(hint)).raise();
}

void check_params(const Module& m, const Type& t, const std::string& where) {
  for (const Dim& d : t.dims) {
    if (d.is_static()) continue;
    const bool ok = for_each_param(d.symbol, [&](std::string_view p) {
      if (std::find(m.params.begin(), m.params.end(), p) != m.params.end()) return;
      std::vector<std::string_view> known(m.params.begin(), m.params.end());
      fail_module(m, "PS-IR-119",
                  fmt::format("{}: the type {} uses the undeclared shape parameter '{}'", where, to_string(t), p),
                  did_you_mean(p, known));
    });
    if (!ok) fail_module(m, "PS-IR-119", fmt::format("{}: '{}' is not a dimension", where, d.symbol));
  }
}

void check_declarations(const Module& m) {
  check_grid(m);
  check_meshes(m);
  for (size_t i = 0; i < m.operands.size(); ++i) declared_at(m, m.operands[i].loc, [&] { check_order(m, i); });
  for (const Operand& o : m.operands) declared_at(m, o.loc, [&] { check_blocks(m, o); });
  for (const Operand& o : m.operands)
    if (o.index_map) declared_at(m, o.loc, [&] { check_index_map(m, o); });
  for (const Scratch& s : m.scratch) declared_at(m, s.loc, [&] { check_scratch(m, s); });
  check_aliases(m);
}

void verify(const Module& m) {
  declared_at(m, line_of_module(m), [&] {
    check_declarations(m);
    for (const Body& b : m.bodies) declared_at(m, b.loc, [&] { check_body(m, b); });
  });
}

}  // namespace pallasim::ir
