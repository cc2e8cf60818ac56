// Control flow.
#include "run.h"

namespace pallasim::interp::test {
namespace {

TEST(Control, LoopsCarryScalars) {
  std::vector<int32_t> x(16);
  for (int i = 0; i < 16; ++i) x[static_cast<size_t>(i)] = i + 1;
  const auto r = run(read_file("pass/loop_carry.psir"), {i32({16}, x)});
  EXPECT_EQ(r.results[0].as<int32_t>(), (std::vector<int32_t>{136, 136}));
  for (int32_t& v : x) v = 1;
  EXPECT_EQ(run(read_file("pass/loop_carry.psir"), {i32({16}, x)}).results[0].as<int32_t>(),
            (std::vector<int32_t>{16, 128}));
}

std::string carried(const std::string& body, const std::string& types) {
  return "pallasim-ir 1\nmodule \"t\" {machine = generic}\ninput \"x_ref\" : f32[4,8] {space = any}\noutput \"o_ref\" "
         ": f32[4,8] {space = any}\n"
         "output \"p_ref\" : f32[4,8] {space = any}\nbody (%0 \"x_ref\": ref<f32[4,8], any>, %1 \"o_ref\": "
         "ref<f32[4,8], any>, %2 \"p_ref\": ref<f32[4,8], any>) {\n" +
         body + types;
}

TEST(Control, CarriesMaySwap) {
  const std::string text = carried(R"(  %3 = get %0 : f32[4,8]
  %4 = constant {value = f32 0x40000000} : f32[]
  %5 = mul %3, %4 : f32[4,8]
  %6 = constant {value = i32 0x0} : i32[]
  %7 = constant {value = i32 0x3} : i32[]
  %8 = constant {value = i32 0x1} : i32[]
  %9, %10 = for %6, %7, %8, %3, %5 (%11: i32[], %12: f32[4,8], %13: f32[4,8]) {
    yield %13, %12
  } : f32[4,8], f32[4,8]
  store %1, %9
  store %2, %10
  yield
}
)",
                                   "");
  const Array x = noise({4, 8});
  const auto r = run(text, {x});
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(r.results[0].as<float>()[i], 2 * x.as<float>()[i]);
    EXPECT_EQ(r.results[1].as<float>()[i], x.as<float>()[i]);
  }
}

TEST(Control, TensorCarryUpdatedInPlaceFromAShiftedSelf) {
  // carry <- concat(carry[1:], carry[:1]): reads its own place at other elements.
  const std::string text = carried(R"(  %3 = get %0 : f32[4,8]
  %4 = constant {value = i32 0x0} : i32[]
  %5 = constant {value = i32 0x5} : i32[]
  %6 = constant {value = i32 0x1} : i32[]
  %7 = for %4, %5, %6, %3 (%8: i32[], %9: f32[4,8]) {
    %10 = slice %9 {start = [1, 0], limit = [4, 8]} : f32[3,8]
    %11 = slice %9 {start = [0, 0], limit = [1, 8]} : f32[1,8]
    %12 = concatenate %10, %11 {axis = 0} : f32[4,8]
    yield %12
  } : f32[4,8]
  store %1, %7
  %13 = transpose %7 {perm = [1, 0]} : f32[8,4]
  %14 = reshape %13 : f32[4,8]
  store %2, %14
  yield
}
)",
                                   "");
  const Array x = noise({4, 8});
  const auto r = run(text, {x});
  const auto a = x.as<float>(), o = r.results[0].as<float>(), p = r.results[1].as<float>();
  for (size_t i = 0; i < 4; ++i)
    for (size_t j = 0; j < 8; ++j) {
      EXPECT_EQ(o[i * 8 + j], a[(i + 1) % 4 * 8 + j]);
      EXPECT_EQ(p[j * 4 + i], o[i * 8 + j]);
    }
}

TEST(Control, SwitchClampsItsIndex) {
  const char* text = R"(pallasim-ir 1
module "t" {machine = generic}
input "i_ref" : i32[1] {space = smem}
output "o_ref" : i32[1] {space = smem}
body (%0 "i_ref": ref<i32[1], smem>, %1 "o_ref": ref<i32[1], smem>) {
  %2 = get %0 {view = [index(0)]} : i32[]
  %3 = cond %2 () {
    %4 = constant {value = i32 0xa} : i32[]
    yield %4
  } () {
    %5 = constant {value = i32 0xb} : i32[]
    yield %5
  } () {
    %6 = constant {value = i32 0xc} : i32[]
    yield %6
  } : i32[]
  store %1, %3 {view = [index(0)]}
  yield
}
)";
  const std::pair<int32_t, int32_t> cases[] = {{-5, 10}, {0, 10}, {1, 11}, {2, 12}, {9, 12}};
  for (auto [in, out] : cases) EXPECT_EQ(run(text, {i32({1}, {in})}).results[0].as<int32_t>()[0], out);
}

TEST(Control, ReadBeforeAWriteInABranchKeepsTheOldValue) {
  const char* text = R"(pallasim-ir 1
module "t" {machine = generic}
output "o_ref" : f32[4] {space = any}
output "p_ref" : f32[4] {space = any}
body (%0 "o_ref": ref<f32[4], any>, %1 "p_ref": ref<f32[4], any>) {
  %2 = constant {value = f32 0x3f800000} : f32[]
  %3 = broadcast_in_dim %2 {dims = []} : f32[4]
  store %0, %3
  %4 = get %0 : f32[4]
  %5 = add %4, %4 : f32[4]
  %6 = constant {value = bool 0x1} : bool[]
  cond %6 () {
    yield
  } () {
    %7 = constant {value = f32 0x40a00000} : f32[]
    %8 = broadcast_in_dim %7 {dims = []} : f32[4]
    store %0, %8
    yield
  }
  %9 = add %4, %5 : f32[4]
  store %1, %9
  yield
}
)";
  const auto r = run(text, {});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{5, 5, 5, 5}));
  EXPECT_EQ(r.results[1].as<float>(), (std::vector<float>{3, 3, 3, 3}));
}

TEST(Control, LivelockIsReported) {
  const char* text = R"(pallasim-ir 1
module "spin" {machine = generic}
output "o_ref" : i32[1] {space = smem}
body (%0 "o_ref": ref<i32[1], smem>) {
  %1 = constant {value = i32 0x0} : i32[]
  %2 = while %1 (%3: i32[]) {
    %4 = constant {value = bool 0x1} : bool[]
    yield %4
  } (%5: i32[]) {
    yield %5
  } : i32[]
  store %0, %2 {view = [index(0)]}
  yield
}
)";
  Options o;
  o.livelock_steps = 3'000'000;
  EXPECT_EQ(error_code(text, {}, o), "PS-LIVE-001");
  o.max_steps = 1000;
  EXPECT_EQ(error_code(text, {}, o), "PS-LIVE-002");
}

}  // namespace
}  // namespace pallasim::interp::test
