#include "pallasim/hw/machine.h"

#include <algorithm>

#include "machines/machines.h"

namespace pallasim::hw {

bool SpaceTable::has(BlockAccess a) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const SpaceInfo& s) { return s.blocks == a; });
}

bool SpaceTable::has(Layout l) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const SpaceInfo& s) { return s.layout == l; });
}

CoreKind core_kind(std::string_view mesh_kind) {
  constexpr std::pair<std::string_view, CoreKind> kKinds[] = {{"tensorcore", CoreKind::TensorCore},
                                                              {"scalar_subcore", CoreKind::ScalarSubcore},
                                                              {"vector_subcore", CoreKind::VectorSubcore},
                                                              {"gpu", CoreKind::Sm},
                                                              {"warp", CoreKind::Sm}};
  for (const auto& [name, kind] : kKinds)
    if (name == mesh_kind) return kind;
  return CoreKind::Default;
}

const MachineModel& model(ir::Machine machine, CoreKind core) {
  switch (machine) {
    case ir::Machine::Generic: break;
    case ir::Machine::Tpu:
      return core == CoreKind::ScalarSubcore || core == CoreKind::VectorSubcore ? sparsecore(core) : tpu();
    case ir::Machine::Triton: return triton();
    case ir::Machine::MosaicGpu: return mosaic_gpu();
  }
  return generic_machine();
}

const MachineModel& model(const ir::Module& m, const ir::Body& b) {
  for (const ir::Mesh& mesh : m.meshes)
    if (mesh.name == b.mesh) return model(m.machine, core_kind(mesh.kind));
  return model(m.machine);
}

const MachineModel& model(const ir::Module& m) {
  return m.bodies.empty() ? model(m.machine) : model(m, m.bodies.front());
}

}  // namespace pallasim::hw
