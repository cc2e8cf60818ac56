// Whose allocations of a Mosaic GPU kernel can be, and along which axes its barriers and copies reach (jax
// _src/pallas/mosaic_gpu/lowering.py, 0.10.2: _run_scoped_lowering_rule, _resolve_cluster_axis).
#include <fmt/format.h>

#include <algorithm>

#include "mosaic_gpu_operands.h"
#include "pallasim/ir/made.h"

namespace pallasim::hw {
namespace {

using ir::OpCode;

const ir::Attr* fact(const ir::Attr& of, const char* key) {
  const auto at = std::find(of.keys.begin(), of.keys.end(), key);
  return at == of.keys.end() ? nullptr : &of.items[static_cast<size_t>(at - of.keys.begin())];
}

class ScopeRules {
 public:
  ScopeRules(const ir::Module& m, const ir::Mesh& mesh, std::vector<ir::Diagnostic>* out) : m_(m), out_(out) {
    const auto count = [&](const char* key) {
      const ir::Attr* n = ir::find(mesh.attrs, key);
      return n && n->is_int() ? static_cast<size_t>(n->i) : 0;
    };
    const size_t grid = count("grid");
    for (size_t i = 0; i < mesh.axes.size(); ++i) {
      if (i >= grid && i < grid + count("cluster")) cluster_.push_back(mesh.axes[i].name);
      if (i >= grid + count("cluster") && count("threads") == 1) thread_ = mesh.axes[i].name;
    }
  }

  void check(const ir::Graph& graph) {
    graph_ = &graph;
    for (const ir::Scratch& s : m_.scratch)
      if (const ir::Attr* axes = ir::find(s.attrs, "collective_axes"))
        of_cluster(*axes, "a barrier", made(ir::find(s.attrs, "made"), s.loc));
    region(graph.region);
  }

 private:
  void region(const ir::Region& r) {
    for (const ir::Op& op : r.ops) {
      if (op.code == OpCode::run_scoped) scope(op);
      if (op.code == OpCode::copy_gmem_to_smem || op.code == OpCode::async_prefetch)
        if (const ir::Attr* axes = op.attr("collective_axes"))
          of_cluster(*axes, std::string(ir::name(op.code)).c_str(), op.loc);
      for (const ir::Region& inner : op.regions) region(inner);
    }
  }

  ir::LocId made(const ir::Attr* line, ir::LocId otherwise) const {
    const ir::LocId at = ir::line_in(m_.locs, line);
    return at >= 0 ? at : otherwise;
  }

  void refuse(ir::LocId loc, std::string message, std::string hint) {
    report(m_, out_, "PS-MGPU-005", std::move(message), loc, std::move(hint));
  }

  std::string threads() const { return thread_.empty() ? "" : fmt::format("collective_axes=\"{}\"", thread_); }

  void scope(const ir::Op& op) {
    const ir::Attr *axes = op.attr("collective"), *facts = op.attr("allocs");
    std::vector<std::string> named;
    for (size_t i = 0; axes && i < axes->items.size(); ++i) named.push_back(axes->items[i].s);
    if (!named.empty() && (named.size() > 1 || named[0] != thread_ || thread_.empty()))
      return refuse(op.loc, fmt::format("run_scoped along {}", fmt::join(named, ", ")),
                    thread_.empty() ? "a block has its own, and its one thread: leave collective_axes out"
                                    : "the threads of a block can share an allocation, blocks cannot: " + threads());
    const std::vector<ir::ValueId>& args = op.regions[0].args;
    for (size_t i = 0; i < args.size(); ++i) {
      const ir::Attr* of = facts && i < facts->items.size() ? &facts->items[i] : nullptr;
      const bool accumulator = of && fact(*of, "accumulator");
      if (accumulator && !named.empty())
        return refuse(op.loc, "an accumulator of all threads",
                      "each warpgroup has its own: a run_scoped of its own, without collective_axes");
      if (!accumulator && named.empty() && !thread_.empty() && is_blocks(*graph_->type(args[i])))
        return refuse(op.loc, "run_scoped of a single thread",
                      "memory of an SM, barriers and semaphores belong to all threads of a block: " + threads());
      if (const ir::Attr* reach = of ? fact(*of, "collective_axes") : nullptr)
        of_cluster(*reach, "a barrier", made(fact(*of, "made"), op.loc));
    }
  }

  // Memory of an SM, barriers and semaphores.
  static bool is_blocks(const ir::Type& t) {
    return t.is_ref && (t.space == ir::Space::GpuSmem || t.space == ir::Space::Tmem || ir::is_sync(t.dtype));
  }

  void of_cluster(const ir::Attr& axes, const char* what, ir::LocId loc) {
    for (const ir::Attr& a : axes.items) {
      if (!a.items.empty()) {
        of_cluster(a, what, loc);
      } else if (std::find(cluster_.begin(), cluster_.end(), a.s) == cluster_.end()) {
        return refuse(loc, fmt::format("{} along {}, which is no axis of the cluster", what, a.s),
                      cluster_.empty() ? "give the kernel a cluster, with names for its axes"
                                       : fmt::format("the cluster has {}", fmt::join(cluster_, ", ")));
      }
    }
  }

  const ir::Module& m_;
  std::vector<std::string> cluster_;
  std::string thread_;
  std::vector<ir::Diagnostic>* out_;
  const ir::Graph* graph_ = nullptr;
};

}  // namespace

void check_scopes(const ir::Module& m, std::vector<ir::Diagnostic>* out) {
  for (const ir::Body& b : m.bodies)
    for (const ir::Mesh& mesh : m.meshes)
      if (mesh.name == b.mesh && mesh.kind == "gpu") ScopeRules(m, mesh, out).check(b.graph);
}

}  // namespace pallasim::hw
