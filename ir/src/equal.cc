#include "pallasim/ir/equal.h"

#include <algorithm>

#include "pallasim/ir/view.h"

namespace pallasim::ir {
namespace {

template <typename T, typename Same>
bool all_equal(const std::vector<T>& a, const std::vector<T>& b, Same same) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

bool same_attrs(const AttrDict& a, const AttrDict& b) {
  return all_equal(a, b, [](const auto& x, const auto& y) { return x.first == y.first && equal(x.second, y.second); });
}

bool same_region(const Graph& ga, const Region& a, const Graph& gb, const Region& b) {
  const bool ops = all_equal(a.ops, b.ops, [&](const Op& x, const Op& y) {
    return x.code == y.code && x.loc == y.loc && x.operands == y.operands && x.results == y.results &&
           same_attrs(x.attrs, y.attrs) &&
           all_equal(x.regions, y.regions, [&](const Region& r, const Region& s) { return same_region(ga, r, gb, s); });
  });
  return ops && a.args == b.args;
}

bool same_operand(const Operand& a, const Operand& b) {
  const bool blocks = all_equal(a.block, b.block, [](const BlockDim& x, const BlockDim& y) {
    return x.kind == y.kind && x.size == y.size && x.pad_lo == y.pad_lo && x.pad_hi == y.pad_hi;
  });
  return a.kind == b.kind && a.name == b.name && equal(a.array, b.array) && a.space == b.space &&
         a.has_block == b.has_block && blocks && !a.index_map == !b.index_map &&
         (!a.index_map || equal(*a.index_map, *b.index_map)) && same_attrs(a.attrs, b.attrs);
}

bool same_mesh(const Mesh& a, const Mesh& b) {
  return a.name == b.name && a.kind == b.kind && same_attrs(a.attrs, b.attrs) &&
         all_equal(a.axes, b.axes,
                   [](const MeshAxis& x, const MeshAxis& y) { return x.name == y.name && x.size == y.size; });
}

bool same_grid(const GridAxis& a, const GridAxis& b) {
  return a.size == b.size && a.dynamic == b.dynamic && a.name == b.name && a.semantics == b.semantics &&
         a.vmapped == b.vmapped && same_attrs(a.attrs, b.attrs);
}

}  // namespace

bool equal(const Type* a, const Type* b) {
  if (a == b) return true;
  if (!a || !b) return false;
  return a->is_ref == b->is_ref && a->dtype == b->dtype && a->dims == b->dims && a->space == b->space &&
         a->scope == b->scope && a->mesh == b->mesh &&
         all_equal(a->members, b->members, [](const Type* x, const Type* y) { return equal(x, y); });
}

bool equal(const Attr& a, const Attr& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.i == b.i && a.s == b.s && equal(a.type, b.type) &&
         (a.view && b.view ? *a.view == *b.view : a.view == b.view) && a.keys == b.keys &&
         all_equal(a.items, b.items, [](const Attr& x, const Attr& y) { return equal(x, y); });
}

bool equal(const Graph& a, const Graph& b) {
  return all_equal(a.types, b.types, [](const Type* x, const Type* y) { return equal(x, y); }) && a.names == b.names &&
         same_region(a, a.region, b, b.region);
}

bool equal(const Module& a, const Module& b) {
  return a.name == b.name && a.machine == b.machine && same_attrs(a.attrs, b.attrs) && a.params == b.params &&
         all_equal(a.meshes, b.meshes, same_mesh) && all_equal(a.grid, b.grid, same_grid) &&
         a.num_dynamic == b.num_dynamic && all_equal(a.operands, b.operands, same_operand) &&
         all_equal(a.scratch, b.scratch,
                   [](const Scratch& x, const Scratch& y) {
                     return x.name == y.name && equal(x.type, y.type) && same_attrs(x.attrs, y.attrs);
                   }) &&
         all_equal(a.aliases, b.aliases,
                   [](const Alias& x, const Alias& y) { return x.input == y.input && x.output == y.output; }) &&
         all_equal(a.bodies, b.bodies,
                   [](const Body& x, const Body& y) { return x.mesh == y.mesh && equal(x.graph, y.graph); }) &&
         all_equal(a.locs, b.locs, [](const Loc& x, const Loc& y) {
           return x.source == y.source && x.caller == y.caller && x.scope == y.scope;
         });
}

}  // namespace pallasim::ir
