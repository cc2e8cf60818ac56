#include "pallasim/hw/occupancy.h"

#include <gtest/gtest.h>

namespace pallasim::hw {
namespace {

const Profile& chip(const char* name) { return *find_profile(name); }

// Each resource by itself. 64 KiB and 100 KiB: 3 and 2 blocks per SM were measured on an H200.
TEST(Occupancy, TheTightestResourceLimits) {
  struct Case {
    BlockNeeds needs;
    int64_t per_sm;
    const char* resource;
  };
  const Case cases[] = {
      {{.warps = 4}, 16, "warps"},
      {{.warps = 1}, 32, "blocks"},
      {{.warps = 64}, 1, "warps"},
      {{.warps = 4, .smem_bytes = 64 << 10}, 3, "shared memory"},
      {{.warps = 4, .smem_bytes = 100 << 10}, 2, "shared memory"},
      {{.warps = 4, .smem_bytes = 232448}, 1, "shared memory"},
      {{.warps = 4, .smem_bytes = 0}, 16, "warps"},
      {{.warps = 4, .regs_per_thread = 255}, 2, "registers"},
      {{.warps = 12, .regs_per_thread = 168}, 1, "registers"},
  };
  for (const Case& c : cases) {
    const Residency r = residency(c.needs, chip("gpu-h200"));
    EXPECT_EQ(r.per_sm, c.per_sm) << c.resource;
    EXPECT_EQ(r.limits.front().resource, c.resource);
    EXPECT_EQ(r.blocks, 132 * c.per_sm);
  }
}

TEST(Occupancy, TensorMemoryIsTakenInPowersOfTwo) {
  EXPECT_EQ(residency({.tmem_columns = 256}, chip("gpu-b200")).per_sm, 2);
  EXPECT_EQ(residency({.tmem_columns = 257}, chip("gpu-b200")).per_sm, 1);
  EXPECT_EQ(residency({.tmem_columns = 8}, chip("gpu-b200")).per_sm, 16);  // 32 columns at least
  const Residency none = residency({.tmem_columns = 8}, chip("gpu-h100"));
  EXPECT_EQ(none.per_sm, 0);
  EXPECT_EQ(none.limits.front().resource, "tensor memory");
  EXPECT_EQ(none.blocks, 1);
}

TEST(Occupancy, ClustersAreWhole) {
  EXPECT_EQ(residency({.warps = 64, .cluster = 2}, chip("gpu-h100")).blocks, 132);
  EXPECT_EQ(residency({.warps = 64, .cluster = 8}, chip("gpu-h100")).blocks, 128);
  EXPECT_EQ(residency({.warps = 64, .cluster = 200}, chip("gpu-h100")).blocks,
            200);  // one begins, whatever the chip says
}

TEST(Occupancy, NobodyKnowsOthers) {
  for (const char* name : {"generic", "tpu-v4"}) {
    EXPECT_EQ(residency({}, chip(name)).blocks, kUnknown) << name;
    EXPECT_TRUE(residency({}, chip(name)).limits.empty()) << name;
  }
  EXPECT_EQ(residency({.warps = 0}, chip("gpu-h100")).blocks, kUnknown);
  EXPECT_EQ(
      residency({.warps = INT64_MAX, .regs_per_thread = INT64_MAX, .cluster = INT64_MAX}, chip("gpu-h100")).per_sm, 0);
}

TEST(Occupancy, AModuleSaysWhatItsBlocksNeed) {
  const BlockNeeds triton = block_needs(
      ir::parse("pallasim-ir 1\nmodule \"k\" {machine = triton, params = {num_warps = 8}}\nbody () {\n  yield\n}\n"));
  EXPECT_EQ(triton.warps, 8);
  EXPECT_EQ(triton.smem_bytes, kUnknown);
  const BlockNeeds mosaic = block_needs(ir::parse(
      "pallasim-ir 1\nmodule \"k\" {machine = mosaic_gpu}\n"
      "mesh \"gpu\" {kind = gpu, axes = [axis(\"x\", 5), axis(\"c\", 2), axis(\"wg\", 3)], grid = 1, cluster = 1, "
      "threads = 1}\n"
      "scratch \"buffer\" : ref<f32[64,130], gsmem>\nscratch \"acc\" : ref<f32[128,256], tmem>\n"
      "body \"gpu\" (%0 \"buffer\": ref<f32[64,130], gsmem>, %1 \"acc\": ref<f32[128,256], tmem>) {\n  yield\n}\n"));
  EXPECT_EQ(mosaic.warps, 12);
  EXPECT_EQ(mosaic.cluster, 2);
  EXPECT_EQ(mosaic.smem_bytes, 33 << 10);  // whole KiB
  EXPECT_EQ(mosaic.tmem_columns, 256);
  const Residency r = residency(mosaic, chip("gpu-b200"));
  EXPECT_EQ(r.per_sm, 2);
  EXPECT_EQ(r.limits.front().resource, "tensor memory");
  EXPECT_EQ(r.limits.front().why, "256 of 512 columns");
}

}  // namespace
}  // namespace pallasim::hw
