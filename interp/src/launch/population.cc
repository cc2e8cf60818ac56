#include "population.h"

#include "../engine/token.h"

#include <algorithm>

#include "pallasim/hw/occupancy.h"
#include "pallasim/memory/saturate.h"

namespace pallasim::interp {
namespace {

constexpr int64_t kMost = 1 << 16;  // threads at a time where nobody knows how many there are

// Thread blocks that the chip holds at a time; kUnknown where nobody knows.
int64_t resident_blocks(const Plan& p, const Options& o) {
  return hw::residency(hw::block_needs(p.module), *o.chip).blocks;
}

}  // namespace

Population population_of(const Plan& p, const Options& o, const std::vector<int64_t>& grid) {
  const Body& b = p.first();
  if (b.model->in_order() || p.bodies.size() > 1) return {};
  Population r;
  if (b.mesh >= 0) {
    const memory::Mesh& mesh = p.threads.units.meshes().front();
    if (mesh.clusters.empty()) return {};
    const int64_t blocks = memory::product(mesh.cores), resident = resident_blocks(p, o);
    r.programs = memory::product(mesh.clusters);
    r.crew = static_cast<int32_t>(blocks * mesh.threads);
    r.resident = resident == hw::kUnknown ? kMost / std::max(r.crew, 1) : resident / blocks;
  } else {
    if (p.module.grid.empty() || p.threads.count > 1) return {};
    const bool in_order = o.policy() == Options::Policy::RunToBlock || o.replay == kRunToBlockToken;
    const bool waits = p.threads.concurrent || (b.model->programs == hw::Programs::Cooperative && p.memory.waits());
    if (!waits && in_order) return {};
    const int64_t resident = resident_blocks(p, o);
    r.programs = memory::product(grid);
    r.resident = resident == hw::kUnknown ? kMost : resident;
  }
  r.resident = std::clamp<int64_t>(r.resident, 1, std::max<int64_t>(r.programs, 1));
  return r;
}

}  // namespace pallasim::interp
