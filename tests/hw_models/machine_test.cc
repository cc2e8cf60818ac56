#include "pallasim/hw/machine.h"

#include <gtest/gtest.h>

namespace pallasim::hw {
namespace {

using ir::Machine, ir::Scope, ir::Space;

TEST(Machines, AMeshSaysWhichCoreRunsABody) {
  EXPECT_EQ(core_kind("tensorcore"), CoreKind::TensorCore);
  EXPECT_EQ(core_kind("scalar_subcore"), CoreKind::ScalarSubcore);
  EXPECT_EQ(core_kind("vector_subcore"), CoreKind::VectorSubcore);
  EXPECT_EQ(core_kind("warp"), CoreKind::Sm);
  EXPECT_EQ(core_kind("generic"), CoreKind::Default);
  const ir::Module m = ir::parse(
      "pallasim-ir 1\nmodule \"k\" {machine = tpu}\nmesh \"a\" {kind = tensorcore, axes = [axis(\"x\", 1)]}\n"
      "mesh \"b\" {kind = vector_subcore, axes = [axis(\"y\", 1)]}\nbody \"a\" () {\n  yield\n}\nbody \"b\" () {\n  "
      "yield\n}\n");
  EXPECT_EQ(&model(m, m.bodies[0]), &model(Machine::Tpu));
  EXPECT_EQ(&model(m, m.bodies[1]), &model(Machine::Tpu, CoreKind::VectorSubcore));
  EXPECT_NE(&model(m, m.bodies[0]), &model(m, m.bodies[1]));
  EXPECT_EQ(&model(m), &model(m, m.bodies[0]));
  EXPECT_EQ(&model(Machine::Generic, CoreKind::VectorSubcore), &model(Machine::Generic));
}

// The differences that kernels meet, by machine.
TEST(Machines, SayWhatDiffers) {
  const MachineModel &generic = model(Machine::Generic), &tpu = model(Machine::Tpu), &triton = model(Machine::Triton),
                     &mosaic = model(Machine::MosaicGpu);
  EXPECT_EQ(generic.programs, Programs::InOrder);
  EXPECT_EQ(tpu.programs, Programs::InOrder);
  EXPECT_EQ(triton.programs, Programs::Concurrent);
  EXPECT_EQ(mosaic.programs, Programs::Cooperative);
  EXPECT_FALSE(triton.arithmetic.nan_propagates_in_minmax);
  EXPECT_TRUE(mosaic.arithmetic.nan_propagates_in_minmax && mosaic.arithmetic.sign_of_nan_is_one);
  EXPECT_TRUE(generic.arithmetic.int_rem_zero_is_x && tpu.arithmetic.int_rem_zero_is_x);
  EXPECT_FALSE(triton.arithmetic.int_rem_zero_is_x || mosaic.arithmetic.int_rem_zero_is_x);
  EXPECT_TRUE(triton.spaces.has(BlockAccess::Pointer));
  EXPECT_FALSE(tpu.spaces.has(BlockAccess::Pointer));
  EXPECT_EQ(generic.negative_indices, NegativeIndex::FromEnd);
  EXPECT_EQ(tpu.negative_indices, NegativeIndex::Outside);
  EXPECT_EQ(generic.left_in_semaphores, ir::Severity::Warning);
  EXPECT_EQ(tpu.left_in_semaphores, ir::Severity::Error);
}

// What a model compares with its chips, they state.
TEST(Machines, CapacitiesAreFiguresOfTheirChips) {
  size_t compared = 0;
  for (const Machine machine : {Machine::Generic, Machine::Tpu, Machine::Triton, Machine::MosaicGpu})
    for (const CoreKind core : {CoreKind::Default, CoreKind::ScalarSubcore, CoreKind::VectorSubcore})
      for (const Chip& c : chips()) {
        const MachineModel& m = model(machine, core);
        const Profile& p = *find_profile(c.name);
        if (p.family != m.family || (core != CoreKind::Default && p.sparsecores < 1)) continue;
        for (size_t s = 0; s < kSpaces; ++s) {
          const Capacity& has = m.spaces[static_cast<Space>(s)].capacity;
          if (!has.figure) continue;
          EXPECT_TRUE(c.find(has.figure)) << c.name << ' ' << has.figure;
          EXPECT_GE(p.capacity(has.figure), 0) << c.name << ' ' << has.figure;
          EXPECT_TRUE(*has.holder && *has.advice) << has.figure;
          ++compared;
        }
      }
  EXPECT_GT(compared, 40u);
}

TEST(Machines, OperandsHaveDefaultSpaces) {
  EXPECT_EQ(model(Machine::Tpu).defaults.unnamed, Space::Vmem);
  EXPECT_EQ(model(Machine::Tpu).defaults.scalars, Space::Smem);
  EXPECT_EQ(model(Machine::Triton).defaults.any, Space::Gmem);
  EXPECT_EQ(model(Machine::MosaicGpu).defaults.unnamed, Space::GpuSmem);
  EXPECT_EQ(model(Machine::Generic).defaults.unnamed, Space::Any);
}

TEST(Machines, SpacesHaveOwners) {
  EXPECT_EQ(model(Machine::Tpu).spaces[Space::Vmem].owner, Scope::Thread);
  EXPECT_EQ(model(Machine::Tpu).spaces[Space::Hbm].owner, Scope::Device);
  EXPECT_EQ(model(Machine::Tpu).spaces[Space::Vmem].layout, Layout::Tiles);
  EXPECT_EQ(model(Machine::Tpu).spaces[Space::Smem].layout, Layout::Rows);
  EXPECT_EQ(model(Machine::Tpu, CoreKind::VectorSubcore).spaces[Space::VmemShared].owner, Scope::SubcoreGroup);
  EXPECT_EQ(model(Machine::MosaicGpu).spaces[Space::GpuSmem].owner, Scope::Cta);
  EXPECT_EQ(model(Machine::Triton).spaces[Space::Gmem].owner, Scope::Device);
}

}  // namespace
}  // namespace pallasim::hw
