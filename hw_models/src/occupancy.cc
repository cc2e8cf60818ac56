#include "pallasim/hw/occupancy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "pallasim/hw/rules.h"
#include "pallasim/memory/saturate.h"

namespace pallasim::hw {
namespace {

constexpr int64_t kWarp = 32;              // threads
constexpr int64_t kWarpgroupWarps = 4;     // warps
constexpr int64_t kColumnBytes = 128 * 4;  // of tensor memory: a column has 128 lanes of 32 bits

void limit(Residency* r, const char* resource, int64_t has, int64_t takes, std::string why) {
  if (has < 0 || takes < 1) return;
  r->limits.push_back({resource, has / takes, std::move(why)});
}

// Blocks of a cluster and warps of a block, as a mesh of a GPU has them: grid axes, cluster axes, then the axis of
// threads.
void read_mesh(const ir::Mesh& mesh, BlockNeeds* n) {
  const auto count = [&](const char* key) {
    const ir::Attr* a = ir::find(mesh.attrs, key);
    return a && a->is_int() ? static_cast<size_t>(std::max<int64_t>(a->i, 0)) : 0;
  };
  const size_t grid = count("grid"), cluster = count("cluster"), threads = count("threads");
  for (size_t i = grid; i < std::min(grid + cluster, mesh.axes.size()); ++i)
    n->cluster = memory::mul(n->cluster, std::max<int64_t>(mesh.axes[i].size, 1));
  if (threads > 0 && !mesh.axes.empty())
    n->warps = memory::mul(kWarpgroupWarps, std::max<int64_t>(mesh.axes.back().size, 1));
}

}  // namespace

BlockNeeds block_needs(const ir::Module& m) {
  BlockNeeds n;
  if (const ir::Attr* params = ir::find(m.attrs, "params"))
    for (size_t i = 0; i < params->keys.size(); ++i)
      if (params->keys[i] == "num_warps" && params->items[i].is_int()) n.warps = params->items[i].i;
  for (const ir::Mesh& mesh : m.meshes)
    if (core_kind(mesh.kind) == CoreKind::Sm && mesh.kind != "warp") read_mesh(mesh, &n);
  for (const SpaceUse& use : space_use(m)) {
    if (use.space == ir::Space::GpuSmem) n.smem_bytes = use.bytes;
    if (use.space == ir::Space::Tmem) n.tmem_columns = (use.bytes + kColumnBytes - 1) / kColumnBytes;
  }
  return n;
}

Residency residency(const BlockNeeds& n, const Profile& p) {
  Residency r;
  if (n.warps < 1 || p.warps_per_sm < 0 || p.blocks_per_sm < 0 || p.device_cores < 1) return r;
  limit(&r, "blocks", p.blocks_per_sm, 1, fmt::format("{} blocks", p.blocks_per_sm));
  limit(&r, "warps", p.warps_per_sm, n.warps, fmt::format("{} of {} warps", n.warps, p.warps_per_sm));
  if (n.smem_bytes != kUnknown && p.smem_reserved_bytes >= 0)
    limit(&r, "shared memory", p.smem_per_sm_bytes, memory::add(n.smem_bytes, p.smem_reserved_bytes),
          fmt::format("{} bytes and {} of the system's, of {}", n.smem_bytes, p.smem_reserved_bytes,
                      p.smem_per_sm_bytes));
  if (n.regs_per_thread > 0)
    limit(
        &r, "registers", p.regs_per_sm, memory::mul(memory::mul(n.regs_per_thread, kWarp), n.warps),
        fmt::format("{} for each of {} threads, of {}", n.regs_per_thread, memory::mul(kWarp, n.warps), p.regs_per_sm));
  if (n.tmem_columns > 0) {
    const int64_t columns = std::max<int64_t>(
        32, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(n.tmem_columns, 1LL << 40)))));
    const int64_t has = p.capacity("tmem_per_sm_bytes");
    limit(&r, "tensor memory", has < 0 ? has : has / kColumnBytes, columns,
          fmt::format("{} of {} columns", columns, has / kColumnBytes));
  }
  std::stable_sort(r.limits.begin(), r.limits.end(), [](const auto& a, const auto& b) { return a.blocks < b.blocks; });
  r.per_sm = r.limits.front().blocks;
  const int64_t cluster = std::max<int64_t>(n.cluster, 1);
  r.blocks = std::max(cluster, memory::mul(p.device_cores, r.per_sm) / cluster * cluster);
  return r;
}

}  // namespace pallasim::hw
