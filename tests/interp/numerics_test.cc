// Options::numerics: what changes in products of matrices, and that nothing else does.
#include <bit>

#include "run.h"

namespace pallasim::interp::test {
namespace {

std::string dot(const char* machine, const char* type, const char* precision) {
  const std::string t = type;
  return "pallasim-ir 1\nmodule \"k\" {machine = " + std::string(machine) + "}\ninput \"a\" : " + t +
         "[16,32] {space = any}\ninput \"b\" : " + t +
         "[32,16] {space = any}\noutput \"o\" : f32[16,16] {space = any}\nbody (%0 \"a\": ref<" + t +
         "[16,32], any>, %1 \"b\": ref<" + t +
         "[32,16], any>, %2 \"o\": ref<f32[16,16], any>) {\n  %3 = get %0 : " + t + "[16,32]\n  %4 = get %1 : " + t +
         "[32,16]\n  %5 = dot_general %3, %4 {lhs_contract = [1], rhs_contract = [0], lhs_batch = [], rhs_batch = [], "
         "precision = " +
         precision + "} : f32[16,16]\n  store %2, %5\n  yield\n}\n";
}

Options with(Options::Numerics n, const char* chip = "generic") {
  Options o;
  o.numerics = n;
  o.chip = hw::find_profile(chip);
  o.rules = Options::Rules::Off;  // the kernels load from any memory
  return o;
}
constexpr auto kIeee = Options::Numerics::Ieee, kReference = Options::Numerics::Reference,
               kDevice = Options::Numerics::Device;

std::vector<float> product(const char* machine, const char* precision, Options o) {
  return run(dot(machine, "f32", precision), {noise({16, 32}, 1), noise({32, 16}, 2)}, o).results[0].as<float>();
}

// Largest error against f64, with operands rounded by `round` first.
template <typename Round>
double error(const std::vector<float>& got, Round round) {
  const auto a = noise({16, 32}, 1).as<float>(), b = noise({32, 16}, 2).as<float>();
  double worst = 0;
  for (size_t i = 0; i < 16; ++i)
    for (size_t j = 0; j < 16; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 32; ++k) sum += static_cast<double>(round(a[i * 32 + k])) * round(b[k * 16 + j]);
      worst = std::max(worst, std::abs(sum - got[i * 16 + j]));
    }
  return worst;
}
float exactly(float x) { return x; }
float bf16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u);
}
float tf32(float x) { return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000) & 0xffffe000u); }

constexpr double kSum = 4e-6;  // 32 products of size 1 in f32

TEST(Numerics, TpuDotsTakeBf16Passes) {
  const auto once = product("tpu", "default", with(kDevice, "tpu-v5e"));
  EXPECT_LT(error(once, bf16), kSum);
  EXPECT_GT(error(once, exactly), 1e-3);
  const double three = error(product("tpu", "high", with(kDevice, "tpu-v5e")), exactly);
  EXPECT_LT(three, 1e-4);
  EXPECT_GT(three, error(product("tpu", "highest", with(kDevice, "tpu-v5e")), exactly));
  EXPECT_LT(error(product("tpu", "highest", with(kDevice, "tpu-v5e")), exactly), kSum);
  EXPECT_LT(error(product("tpu", "default", with(kIeee, "tpu-v5e")), exactly), kSum);
}

TEST(Numerics, TritonDotsTakeTf32OrWhatTheirNameSays) {
  for (const char* chip : {"gpu-a100", "gpu-h100"}) {
    const auto once = product("triton", "default", with(kDevice, chip));
    EXPECT_LT(error(once, tf32), kSum) << chip;
    EXPECT_GT(error(once, exactly), 1e-4) << chip;
    EXPECT_EQ(product("triton", "high", with(kDevice, chip)), once);
    EXPECT_LT(error(product("triton", "highest", with(kDevice, chip)), exactly), kSum) << chip;
    EXPECT_LT(error(product("triton", "tf32_tf32_f32_x3", with(kDevice, chip)), exactly), 2e-5) << chip;
    EXPECT_LT(error(product("triton", "bf16_bf16_f32", with(kDevice, chip)), bf16), kSum) << chip;
    EXPECT_LT(error(product("triton", "bf16_bf16_f32_x3", with(kDevice, chip)), exactly), 1e-4) << chip;
    EXPECT_LT(error(product("triton", "bf16_bf16_f32_x9", with(kDevice, chip)), exactly), 2e-5) << chip;
  }
  EXPECT_NE(product("triton", "default", with(kDevice, "gpu-a100")),
            product("triton", "default", with(kDevice, "gpu-h100")));
}

// The first row of a times the first column of b, other elements zero.
float first_element(const std::vector<float>& a, const std::vector<float>& b, const char* chip) {
  std::vector<uint16_t> x(16 * 32), y(32 * 16);
  for (size_t k = 0; k < a.size(); ++k) {
    x[k] = static_cast<uint16_t>(std::bit_cast<uint32_t>(a[k]) >> 16);
    y[k * 16] = static_cast<uint16_t>(std::bit_cast<uint32_t>(b[k]) >> 16);
  }
  return run(dot("triton", "bf16", "default"),
             {array(ir::DType::BF16, {16, 32}, x), array(ir::DType::BF16, {32, 16}, y)}, with(kDevice, chip))
      .results[0]
      .as<float>()[0];
}

// One instruction sums 16 products, cut off 25 bits below the largest, and cuts the sum off to f32.
TEST(Numerics, HopperCutsOffWhatLiesBelowTheLargestTerm) {
  const auto terms = [](float small) {
    std::vector<float> a(16, small);
    a[0] = 1;
    return a;
  };
  const std::vector<float> ones(16, 1.0f);
  EXPECT_EQ(first_element(terms(0x1p-24f), ones, "gpu-h100"), 1 + 7 * 0x1p-23f);  // 15 x 2^-24, the half is cut off
  EXPECT_EQ(first_element(terms(0x1p-26f), ones, "gpu-h100"), 1);                 // each is cut off
  EXPECT_EQ(first_element(terms(-0x1p-26f), ones, "gpu-h100"), 1);                // towards zero
  std::vector<float> late(32, 0.0f), all(32, 1.0f);
  late[0] = 1;
  for (size_t k = 16; k < 32; ++k) late[k] = 0x1p-25f;
  EXPECT_EQ(first_element(late, all, "gpu-h200"), 1 + 4 * 0x1p-23f);  // 16 x 2^-25 reach the accumulator
}

TEST(Numerics, ReferenceAgreesOutsideContractionsBitForBit) {
  const std::string text = R"(pallasim-ir 1
module "k" {machine = generic}
input "a" : f32[16,32] {space = any}
output "o" : f32[16,32] {space = any}
output "s" : f32[16] {space = any}
body (%0 "a": ref<f32[16,32], any>, %1 "o": ref<f32[16,32], any>, %2 "s": ref<f32[16], any>) {
  %3 = get %0 : f32[16,32]
  %4 = exp %3 : f32[16,32]
  %5 = tanh %4 : f32[16,32]
  %6 = add %5, %3 : f32[16,32]
  store %1, %6
  %7 = reduce_sum %6 {axes = [1]} : f32[16]
  store %2, %7
  yield
}
)";
  const auto fast = run(text, {noise({16, 32}, 3)}, with(kIeee)),
             plain = run(text, {noise({16, 32}, 3)}, with(kReference));
  for (size_t i : {0, 1}) {
    EXPECT_EQ(fast.results[i].bytes, plain.results[i].bytes);
    EXPECT_FALSE(all_zero(plain.results[i]));
  }
  // A contraction sums in order of k.
  const auto a = noise({16, 32}, 1).as<float>(), b = noise({32, 16}, 2).as<float>();
  const auto got = product("generic", "default", with(kReference));
  for (size_t i = 0; i < 16; ++i)
    for (size_t j = 0; j < 16; ++j) {
      float sum = 0;
      for (size_t k = 0; k < 32; ++k) sum += a[i * 32 + k] * b[k * 16 + j];
      EXPECT_EQ(got[i * 16 + j], sum);
    }
}

// A sum that f32 loses, kept between the load and the store; a scratch ref and a kernel's own conversion round it.
TEST(Numerics, OracleRoundsAtStoresAndNarrowingConversions) {
  const std::string text = R"(pallasim-ir 1
module "k" {machine = generic}
input "a" : f32[2] {space = any}
output "o" : f32[2] {space = any}
output "b" : f32[2] {space = any}
output "c" : f32[2] {space = any}
scratch "s" : ref<f32[2], any>
body (%0 "a": ref<f32[2], any>, %1 "o": ref<f32[2], any>, %2 "b": ref<f32[2], any>, %3 "c": ref<f32[2], any>,
    %4 "s": ref<f32[2], any>) {
  %5 = get %0 : f32[2]
  %6 = constant {value = f32 0x4c800000} : f32[]
  %7 = broadcast_in_dim %6 {dims = []} : f32[2]
  %8 = add %5, %7 : f32[2]
  %9 = sub %8, %7 : f32[2]
  store %1, %9
  store %4, %8
  %10 = get %4 : f32[2]
  %11 = sub %10, %7 : f32[2]
  store %2, %11
  %12 = convert %9 : bf16[2]
  %13 = convert %12 : f32[2]
  store %3, %13
  yield
}
)";
  const std::vector<float> x = {0.3f, 1.0078125f};
  const auto exact = run(text, {f32({2}, x)}, with(Options::Numerics::Oracle)), plain = run(text, {f32({2}, x)});
  EXPECT_EQ(exact.results[0].as<float>(), x);
  EXPECT_EQ(plain.results[0].as<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(exact.results[1].as<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(exact.results[2].as<float>(), (std::vector<float>{bf16(0.3f), 1.0078125f}));
  // What ran is what was given: reports and capsules show the kernel's own types.
  Options o = with(Options::Numerics::Oracle);
  EXPECT_EQ(ir::print(module_of(*compile(ir::parse(text), o))), ir::print(ir::parse(text)));
}

}  // namespace
}  // namespace pallasim::interp::test
