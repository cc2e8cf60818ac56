#include <gtest/gtest.h>

#include "pallasim/hw/rules.h"
#include "pallasim/hw/tiles.h"

namespace pallasim::hw {
namespace {

using ir::DType;

int64_t bytes(DType t, std::vector<int64_t> dims) { return tiled_bytes(t, dims); }

TEST(Tiles, TwoMinorDimensionsAreWholeTiles) {
  EXPECT_EQ(bytes(DType::F32, {8, 128}), 4096);
  EXPECT_EQ(bytes(DType::F32, {9, 129}), 16 * 256 * 4);
  EXPECT_EQ(bytes(DType::F32, {3, 5}), 4 * 128 * 4);     // fewer rows, a smaller tile
  EXPECT_EQ(bytes(DType::F32, {7, 1, 1}), 7 * 1 * 128 * 4);
  EXPECT_EQ(bytes(DType::BF16, {1, 128}), 2 * 128 * 2);  // a word packs two rows
  EXPECT_EQ(bytes(DType::I8, {8, 128}), 1024);
  EXPECT_EQ(bytes(DType::I4, {8, 128}), 512);
  EXPECT_EQ(bytes(DType::Bool, {8, 128}), 4096);
}

TEST(Tiles, OneDimensionIsRowsOfWords) {
  EXPECT_EQ(bytes(DType::F32, {1}), 512);
  EXPECT_EQ(bytes(DType::F32, {129}), 1024);
  EXPECT_EQ(bytes(DType::I8, {1}), 512);
  EXPECT_EQ(bytes(DType::F32, {}), 4);
  EXPECT_EQ(bytes(DType::F32, {0, 128}), 0);
}

TEST(Tiles, AbsurdSizesStayLarge) { EXPECT_EQ(bytes(DType::F32, {1LL << 40, 1LL << 40}), std::numeric_limits<int64_t>::max() / 8 + 1); }

const Occupancy* find(const std::vector<Occupancy>& all, ir::Space s) {
  for (const Occupancy& o : all)
    if (o.space == s) return &o;
  return nullptr;
}

const char* const kMap = " (%0: i32[]) {\n  %1 = constant {value = i32 0x0} : i32[]\n  yield %0, %1\n}\n";
const char* const kFixed = " (%0: i32[]) {\n  %1 = constant {value = i32 0x0} : i32[]\n  yield %1, %1\n}\n";

// Windows count once per buffer; a scope counts while it is open; the largest moment counts.
TEST(Occupancy, WindowsScratchAndScopes) {
  const std::string block = "{space = vmem, block = [blocked(8), blocked(128)]";
  const ir::Module m = ir::parse(
      "pallasim-ir 1\nmodule \"k\" {machine = tpu}\ngrid {size = 4}\n"
      "input \"moves\" : f32[32,128] " + block + "}" + kMap +
      "input \"stays\" : f32[32,128] " + block + "}" + kFixed +
      "input \"single\" : f32[32,128] " + block + ", pipeline = buffered(1)}" + kMap +
      "output \"o\" : f32[8,128] {space = vmem}\n"
      "scratch \"acc\" : ref<bf16[8,128], vmem>\n"
      "scratch \"sems\" : ref<dma_sem[3], semaphore>\n"
      "body (%0 \"moves\": ref<f32[8,128], vmem>, %1 \"stays\": ref<f32[8,128], vmem>, %2 \"single\": ref<f32[8,128], vmem>, %3 \"o\": ref<f32[8,128], vmem>, "
      "%4 \"acc\": ref<bf16[8,128], vmem>, %5 \"sems\": ref<dma_sem[3], semaphore>) {\n"
      "  run_scoped (%6 \"small\": ref<f32[8,128], vmem>) {\n    yield\n  }\n"
      "  run_scoped (%7 \"large\": ref<f32[16,128], vmem>) {\n"
      "    run_scoped (%8 \"inner\": ref<i32[4], smem>) {\n      yield\n    }\n    yield\n  }\n"
      "  yield\n}\n");
  ir::verify(m);
  const std::vector<Occupancy> all = occupancy(m);
  const Occupancy* vmem = find(all, ir::Space::Vmem);
  ASSERT_TRUE(vmem);
  std::map<std::string, int64_t> copies;
  for (const BufferUse& b : vmem->buffers) copies[b.name] = b.copies;
  EXPECT_EQ(copies, (std::map<std::string, int64_t>{{"moves", 2}, {"stays", 1}, {"single", 1}, {"o", 1}, {"acc", 1}, {"large", 1}}));
  EXPECT_EQ(vmem->bytes, 5 * 4096 + 2048 + 8192);
  EXPECT_EQ(find(all, ir::Space::Smem)->bytes, 16);
  EXPECT_EQ(find(all, ir::Space::Semaphore)->bytes, 3);
  EXPECT_EQ(find(all, ir::Space::Cmem), nullptr);
}

}  // namespace
}  // namespace pallasim::hw
