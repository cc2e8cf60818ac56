#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>

#include "pallasim/hw/rules.h"
#include "pallasim/hw/tiles.h"

namespace pallasim::hw {
namespace {

using ir::DType;

int64_t bytes(DType t, std::vector<int64_t> dims) { return tiled_bytes(t, dims); }

TEST(Tiles, TwoMinorDimensionsAreWholeTiles) {
  EXPECT_EQ(bytes(DType::F32, {8, 128}), 4096);
  EXPECT_EQ(bytes(DType::F32, {9, 129}), 16 * 256 * 4);
  EXPECT_EQ(bytes(DType::F32, {3, 5}), 4 * 128 * 4);  // fewer rows, a smaller tile
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

TEST(Tiles, AbsurdSizesStayLarge) {
  EXPECT_EQ(bytes(DType::F32, {1LL << 40, 1LL << 40}), std::numeric_limits<int64_t>::max() / 8 + 1);
}

const SpaceUse* find(const std::vector<SpaceUse>& all, ir::Space s) {
  for (const SpaceUse& o : all)
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
      "input \"moves\" : f32[32,128] " +
      block + "}" + kMap + "input \"stays\" : f32[32,128] " + block + "}" + kFixed + "input \"single\" : f32[32,128] " +
      block + ", pipeline = buffered(1)}" + kMap +
      "output \"o\" : f32[8,128] {space = vmem}\n"
      "scratch \"acc\" : ref<bf16[8,128], vmem>\n"
      "scratch \"sems\" : ref<dma_sem[3], semaphore>\n"
      "body (%0 \"moves\": ref<f32[8,128], vmem>, %1 \"stays\": ref<f32[8,128], vmem>, %2 \"single\": ref<f32[8,128], "
      "vmem>, %3 \"o\": ref<f32[8,128], vmem>, "
      "%4 \"acc\": ref<bf16[8,128], vmem>, %5 \"sems\": ref<dma_sem[3], semaphore>) {\n"
      "  run_scoped (%6 \"small\": ref<f32[8,128], vmem>) {\n    yield\n  }\n"
      "  run_scoped (%7 \"large\": ref<f32[16,128], vmem>) {\n"
      "    run_scoped (%8 \"inner\": ref<i32[4], smem>) {\n      yield\n    }\n    yield\n  }\n"
      "  yield\n}\n");
  ir::verify(m);
  const std::vector<SpaceUse> all = space_use(m);
  const SpaceUse* vmem = find(all, ir::Space::Vmem);
  ASSERT_TRUE(vmem);
  std::map<std::string, int64_t> copies;
  for (const BufferUse& b : vmem->buffers) copies[b.name] = b.copies;
  EXPECT_EQ(copies, (std::map<std::string, int64_t>{
                        {"moves", 2}, {"stays", 1}, {"single", 1}, {"o", 1}, {"acc", 1}, {"large", 1}}));
  EXPECT_EQ(vmem->bytes, 5 * 4096 + 2048 + 8192);
  EXPECT_EQ(find(all, ir::Space::Smem)->bytes, 16);
  EXPECT_EQ(find(all, ir::Space::Semaphore)->bytes, 3);
  EXPECT_EQ(find(all, ir::Space::Cmem), nullptr);
}

// The first diagnostic of a capacity, "" where there is none.
std::string refused(const std::string& text, const char* chip, std::string* all = nullptr) {
  const ir::Module m = ir::parse(text);
  ir::verify(m);
  for (const ir::Diagnostic& d : broken_rules(m, *find_profile(chip))) {
    if (d.code != "PS-MEM-001") continue;
    for (size_t i = 0; all && i < d.numbers.size(); ++i) *all += d.numbers[i] + "\n";
    return d.message;
  }
  return "";
}

std::string scratch(const char* type) {
  const std::string ref = std::string("ref<") + type + ">";
  return "pallasim-ir 1\nmodule \"k\" {machine = mosaic_gpu}\nscratch \"buffer\" : " + ref +
         "\nbody (%0 \"buffer\": " + ref + ") {\n  yield\n}\n";
}

TEST(Capacity, SharedMemoryOfAGpu) {
  std::string table;
  EXPECT_EQ(refused(scratch("f32[1024,1024], gsmem"), "gpu-h100", &table),
            "the kernel exceeds available shared memory, too much SMEM: 4194304 bytes are needed, a thread block of "
            "gpu-h100 has 232448");
  EXPECT_NE(table.find("buffer  f32[1024,1024]       4194304       1        4194304  1804.4 %  scratch"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("buffer may take 232448 bytes"), std::string::npos) << table;
  EXPECT_EQ(refused(scratch("f32[1024,1024], gsmem"), "gpu-a100"),
            "the kernel exceeds available shared memory, too much SMEM: 4194304 bytes are needed, a thread block of "
            "gpu-a100 has 166912");
  EXPECT_EQ(refused(scratch("f32[1024,1024], gsmem"), "generic"), "");
  EXPECT_EQ(refused(scratch("i8[227,1024], gsmem"), "gpu-h100"), "");
  EXPECT_NE(refused(scratch("i8[227,1025], gsmem"), "gpu-h100"), "");
}

TEST(Capacity, TensorMemory) {
  EXPECT_EQ(refused(scratch("f32[128,512], tmem"), "gpu-b200"), "");
  EXPECT_EQ(refused(scratch("f32[128,513], tmem"), "gpu-b200"),
            "too much TMEM: 264192 bytes are needed, an SM of gpu-b200 has 262144");  // 4 columns at a time
  std::string numbers;
  EXPECT_EQ(refused(scratch("f32[128,8], tmem"), "gpu-h100", &numbers),
            "gpu-h100 has no TMEM, and 4096 bytes of it are needed");
  EXPECT_EQ(numbers, "");  // shares of nothing
}

std::string arrays(const char* machine, const char* space, bool alias) {
  const std::string a = std::string(" : f32[16384,1048576] {space = ") + space + "}\n",
                    r = std::string("ref<f32[16384,1048576], ") + space + ">";
  return std::string("pallasim-ir 1\nmodule \"k\" {machine = ") + machine + "}\ninput \"x\"" + a + "output \"o\"" + a +
         (alias ? "alias {input = 0, output = 0}\n" : "") + "body (%0 \"x\": " + r + ", %1 \"o\": " + r +
         ") {\n  yield\n}\n";
}

TEST(Capacity, ArraysOfACallFillTheDevice) {
  EXPECT_EQ(refused(arrays("tpu", "any", false), "tpu-v5e").substr(0, 53),
            "too much HBM: 137438953472 bytes are needed, a device");
  EXPECT_NE(refused(arrays("tpu", "hbm", false), "tpu-7x"), refused(arrays("tpu", "hbm", false), "tpu-v4"));
  EXPECT_NE(refused(arrays("tpu", "any", true), "tpu-v5e"), "");
  EXPECT_EQ(refused(arrays("triton", "gmem", false), "gpu-h100"),
            "too much HBM: 137438953472 bytes are needed, a device of gpu-h100 has 80000000000");
  EXPECT_EQ(refused(arrays("triton", "gmem", true), "gpu-h100"), "");  // one buffer
  EXPECT_EQ(refused(arrays("mosaic_gpu", "gmem", false), "gpu-h200"), "");
  EXPECT_EQ(refused(arrays("tpu", "host", false), "tpu-v5e"), "");
  EXPECT_EQ(refused(arrays("generic", "any", false), "generic"), "");
}

std::string product(const std::string& t, int m, int k, int n, const char* before = "") {
  const std::string a = t + "[" + std::to_string(m) + "," + std::to_string(k) + "]",
                    b = t + "[" + std::to_string(k) + "," + std::to_string(n) + "]",
                    c = "f32[" + std::to_string(m) + "," + std::to_string(n) + "]";
  const bool computed = *before != 0;
  return "pallasim-ir 1\nmodule \"k\" {machine = triton}\ninput \"x\" : " + a + " {space = gmem}\ninput \"y\" : " + b +
         " {space = gmem}\noutput \"o\" : " + c + " {space = gmem}\nbody (%0 \"x\": ref<" + a +
         ", gmem>, %1 \"y\": ref<" + b + ", gmem>, %2 \"o\": ref<" + c + ", gmem>) {\n" + "  %3 = get %0 : " + a +
         "\n  %4 = get %1 : " + b + "\n" + (computed ? "  %5 = " + std::string(before) + " %3 : " + a + "\n" : "") +
         (computed ? "  %6 = dot_general %5, %4" : "  %5 = dot_general %3, %4") +
         " {lhs_contract = [1], rhs_contract = [0], lhs_batch = [], rhs_batch = []} : " + c + "\n  store %2, " +
         (computed ? "%6" : "%5") + "\n  yield\n}\n";
}

// Bytes that Triton asked for on an H100 (JAX 0.11.2): 327680, 262144, 524288; the last three ran there, or have less.
TEST(Capacity, OperandsOfProductsOnTriton) {
  std::string table;
  EXPECT_EQ(refused(product("f16", 256, 512, 64), "gpu-h100", &table),
            "too much shared memory: 327680 bytes are needed, a thread block of gpu-h100 has 232448");
  EXPECT_NE(table.find("left operand"), std::string::npos) << table;
  EXPECT_NE(table.find("right operand"), std::string::npos) << table;
  EXPECT_EQ(refused(product("f16", 64, 1024, 64), "gpu-h200"),
            "too much shared memory: 262144 bytes are needed, a thread block of gpu-h200 has 232448");
  EXPECT_EQ(refused(product("f32", 256, 512, 64), "gpu-h100"),
            "too much shared memory: 524288 bytes are needed, a thread block of gpu-h100 has 232448");
  EXPECT_EQ(refused(product("f32", 128, 256, 128), "gpu-h100"), "");
  EXPECT_EQ(refused(product("f16", 64, 256, 64), "gpu-h100"), "");
  EXPECT_EQ(refused(product("f16", 64, 1024, 64), "gpu-a100"),
            "");  // nobody measured that both are held there: one fits
  EXPECT_EQ(refused(product("f16", 256, 512, 64, "neg"), "gpu-h100"), "");  // what is computed may stay in registers
}

}  // namespace
}  // namespace pallasim::hw
