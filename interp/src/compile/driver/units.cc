#include "units.h"

#include <algorithm>

namespace pallasim::interp {
namespace {

int64_t attr_count(const ir::Mesh& mesh, const char* key) {
  const ir::Attr* a = ir::find(mesh.attrs, key);
  return a && a->is_int() ? std::clamp<int64_t>(a->i, 0, static_cast<int64_t>(mesh.axes.size())) : 0;
}

// Axes of a mesh of thread blocks: those of the grid of clusters, those of a cluster, and that of a block's threads.
memory::Mesh thread_blocks(const ir::Mesh& mesh) {
  memory::Mesh r;
  r.core = "CTA", r.thread = "warpgroup", r.warps = 4;
  const auto grid = static_cast<size_t>(attr_count(mesh, "grid")),
             threads = static_cast<size_t>(attr_count(mesh, "threads"));
  r.cores.clear();
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const int64_t n = std::max<int64_t>(mesh.axes[i].size, 1);
    if (i < grid) r.clusters.push_back(n);
    else if (i + threads >= mesh.axes.size()) r.threads *= n;
    else r.cores.push_back(n), r.core_axes.push_back(mesh.axes[i].name);
  }
  if (r.cores.empty()) r.cores = {1};
  return r;
}

// What users call the units of a mesh. `alone`: the launch has no other one.
memory::Mesh units_of(const ir::Mesh& mesh, bool alone) {
  if (mesh.kind == "gpu" && ir::find(mesh.attrs, "threads")) return thread_blocks(mesh);
  memory::Mesh r;
  r.cores.clear();
  for (const ir::MeshAxis& a : mesh.axes) r.cores.push_back(std::max<int64_t>(a.size, 1));
  if (mesh.kind == "scalar_subcore" || mesh.kind == "vector_subcore") r.core = "SparseCore", r.thread = "subcore";
  else if (!alone) r.core = mesh.kind == "tensorcore" ? "TensorCore" : mesh.name;
  if (mesh.kind == "vector_subcore" && !r.cores.empty()) {
    r.threads = r.cores.back();
    r.cores.pop_back();
  }
  if (r.cores.empty()) r.cores = {1};
  return r;
}

// The mesh of scalar subcores that a mesh of vector subcores shares its SparseCores with, or the other way round.
Body* partner(const Plan& p, const Body& b, std::string_view kind, const memory::Mesh& units) {
  for (const auto& other : p.bodies) {
    if (other->index >= b.index || other->mesh < 0) continue;
    const ir::Mesh& mesh = p.module.meshes[static_cast<size_t>(other->mesh)];
    if (mesh.kind == kind && units_of(mesh, false).cores == units.cores) return other.get();
  }
  return nullptr;
}

}  // namespace

void place_threads(Plan& p) {
  std::vector<memory::Mesh> meshes;
  for (const auto& b : p.bodies) {
    memory::Mesh units;
    if (b->mesh >= 0) units = units_of(p.module.meshes[static_cast<size_t>(b->mesh)], p.bodies.size() == 1);
    b->per_core = b->core_stride = units.threads;
    b->threads = memory::mul(memory::mul(memory::product(units.clusters), memory::product(units.cores)), units.threads);
    const std::string kind = b->mesh < 0 ? "" : p.module.meshes[static_cast<size_t>(b->mesh)].kind;
    const bool scalar = kind == "scalar_subcore", vector = kind == "vector_subcore";
    Body* shares = scalar   ? partner(p, *b, "vector_subcore", units)
                   : vector ? partner(p, *b, "scalar_subcore", units)
                            : nullptr;
    if (!shares) {
      b->units_mesh = static_cast<int>(meshes.size());
      meshes.push_back(std::move(units));
      continue;
    }
    memory::Mesh& both = meshes[static_cast<size_t>(shares->units_mesh)];
    b->units_mesh = shares->units_mesh;
    both.threads = memory::add(both.threads, units.threads);
    both.first_thread = "scalar subcore";
    b->core_stride = shares->core_stride = both.threads;
    (scalar ? *shares : *b).first_thread = 1;  // of each core; 0 is the scalar one
  }
  p.threads.units = memory::Units(std::move(meshes));
  for (const auto& b : p.bodies) b->first_thread += p.threads.units.first(memory::Level::Thread, b->units_mesh, 0);
}

void place_cores(Plan& p, int cores) {
  p.threads.cores = cores;
  memory::Mesh mesh;
  mesh.cores = {cores};
  p.threads.units = memory::Units({mesh});
  p.bodies.front()->threads = cores;
}

}  // namespace pallasim::interp
