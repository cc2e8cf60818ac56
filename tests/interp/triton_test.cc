// The Triton machine: atomics, programs that run at the same time, blocks at the edge of an array.
#include <algorithm>
#include <limits>
#include <numeric>

#include "run.h"

namespace pallasim::interp::test {
namespace {

Options on(const char* chip, uint64_t seed = 0) {
  Options o;
  o.chip = hw::find_profile(chip);
  if (seed) o.random_seed = seed;
  return o;
}

// One program applies `kind` to 8 elements of x with 8 values; o0: memory afterwards, o1: what the operation returned.
std::string atomic_kernel(const std::string& kind, const std::string& type, bool masked = false) {
  return R"(pallasim-ir 1
module "k" {machine = triton}
input "x" : )" +
         type + R"([8] {space = gmem}
input "v" : )" +
         type + R"([8] {space = gmem}
input "m" : bool[8] {space = gmem}
output "o" : )" +
         type + R"([8] {space = gmem}
output "old" : )" +
         type + R"([8] {space = gmem}
alias {input = 0, output = 0}
body (%0 "x": ref<)" +
         type + "[8], gmem>, %1 \"v\": ref<" + type + "[8], gmem>, %2 \"m\": ref<bool[8], gmem>, %3 \"o\": ref<" +
         type + "[8], gmem>, %4 \"old\": ref<" + type + R"([8], gmem>) {
  %5 = get %1 : )" +
         type + R"([8]
  %6 = get %2 : bool[8]
  %7 = atomic_rmw %3, %5)" +
         (masked ? ", %6 {kind = " + kind + ", mask = $2}" : " {kind = " + kind + "}") + " : " + type + R"([8]
  store %4, %7
  yield
}
)";
}

template <typename T>
struct Result {
  std::vector<T> memory, old;
};
template <typename T>
Result<T> atomic(const std::string& kind, ir::DType t, std::vector<T> x, std::vector<T> v,
                 std::vector<uint8_t> mask = {}) {
  const bool masked = !mask.empty();
  if (!masked) mask.assign(8, 1);
  const Outcome r = run(atomic_kernel(kind, std::string(ir::name(t)), masked),
                        {array(t, {8}, x), array(t, {8}, v), array(ir::DType::Bool, {8}, mask)});
  return {r.results[0].template as<T>(), r.results[1].template as<T>()};
}

template <typename T>
void expect_integers(ir::DType t) {
  const T lo = std::numeric_limits<T>::min(), hi = std::numeric_limits<T>::max();
  const std::vector<T> x = {0, 1, lo, hi, 5, hi, lo, 42}, v = {3, 1, lo, 1, static_cast<T>(-1), hi, hi, 7};
  using U = std::make_unsigned_t<T>;
  const std::pair<const char*, T (*)(T, T)> kinds[] = {
      {"add", [](T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }},
      {"xchg", [](T, T b) { return b; }},
      {"max", [](T a, T b) { return std::max(a, b); }},
      {"min", [](T a, T b) { return std::min(a, b); }},
      {"and", [](T a, T b) { return static_cast<T>(a & b); }},
      {"or", [](T a, T b) { return static_cast<T>(a | b); }},
      {"xor", [](T a, T b) { return static_cast<T>(a ^ b); }}};
  for (const auto& [kind, f] : kinds) {
    const auto r = atomic<T>(kind, t, x, v);
    EXPECT_EQ(r.old, x) << kind;
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(r.memory[i], f(x[i], v[i])) << kind << ' ' << i;
  }
  const std::vector<uint8_t> mask = {1, 0, 1, 0, 0, 1, 1, 0};
  const auto r = atomic<T>("xor", t, x, v, mask);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(r.memory[i], mask[i] ? static_cast<T>(x[i] ^ v[i]) : x[i]);
    EXPECT_EQ(r.old[i], mask[i] ? x[i] : T{0});
  }
}

TEST(TritonAtomics, Integers) {
  expect_integers<int32_t>(ir::DType::I32);
  expect_integers<uint32_t>(ir::DType::U32);
  expect_integers<int64_t>(ir::DType::I64);
  expect_integers<uint64_t>(ir::DType::U64);
}

TEST(TritonAtomics, FloatsAreOrderedByTheirBits) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1, -1, nan, 2, -3, nan, 0.0f, -inf}, v = {2, -2, 5, nan, 1, -5, -0.0f, inf};
  const auto up = atomic<float>("max", ir::DType::F32, x, v).memory;
  EXPECT_EQ(up[0], 2);
  EXPECT_EQ(up[1], -1);
  EXPECT_TRUE(std::isnan(up[2]));  // NaN in memory stays
  EXPECT_TRUE(std::isnan(up[3]));  // NaN as a value is written
  EXPECT_EQ(up[4], 1);
  EXPECT_TRUE(std::isnan(up[5]));
  EXPECT_EQ(up[7], inf);
  const auto down = atomic<float>("min", ir::DType::F32, x, v).memory;
  EXPECT_EQ(down[0], 1);
  EXPECT_EQ(down[1], -2);
  EXPECT_EQ(down[2], 5);  // NaN on either side is ignored
  EXPECT_EQ(down[3], 2);
  EXPECT_EQ(down[4], -3);
  EXPECT_EQ(down[5], -5);
  EXPECT_TRUE(std::signbit(down[6]));
  EXPECT_EQ(down[7], -inf);
}

TEST(TritonAtomics, FloatAdditionFlushesSubnormals) {
  const float tiny = 1e-40f;
  const auto r = atomic<float>("add", ir::DType::F32, {1, tiny, tiny, -tiny, 1.2e-38f, 3, 0, 0},
                               {2, tiny, 0, 0, -1.19e-38f, tiny, -tiny, 5})
                     .memory;
  EXPECT_EQ(r[0], 3);
  for (size_t i : {1, 2, 3, 4, 6}) EXPECT_EQ(r[i], 0) << i;
  EXPECT_EQ(r[5], 3);
  const auto wide =
      atomic<double>("add", ir::DType::F64, {1e-310, 0, 0, 0, 0, 0, 0, 1}, {1e-310, 0, 0, 0, 0, 0, 0, 2}).memory;
  EXPECT_EQ(wide[0], 2e-310);
  EXPECT_EQ(wide[7], 3);
}

TEST(TritonAtomics, WhatTheMachineLacksIsRefused) {
  const std::vector<int16_t> none(8);
  for (const char* kind : {"max", "and", "xchg"})
    EXPECT_EQ(
        error_code(atomic_kernel(kind, "f16"), {array(ir::DType::F16, {8}, none), array(ir::DType::F16, {8}, none),
                                                array(ir::DType::Bool, {8}, std::vector<uint8_t>(8))}),
        "PS-UNSUP-001")
        << kind;
}

// Every occurrence of an index counts.
TEST(TritonAtomics, RepeatedIndicesAndAddUpdate) {
  for (const char* op : {"%6 = atomic_rmw %2, %5, %4 {kind = add, view = [index(array($2))]} : i32[8]",
                         "addupdate %2, %5, %4 {view = [index(array($2))]}"}) {
    const auto r = run(std::string(R"(pallasim-ir 1
module "histogram" {machine = triton}
input "x" : i32[8] {space = gmem}
input "zero" : i32[4] {space = gmem}
output "o" : i32[4] {space = gmem}
alias {input = 1, output = 0}
body (%0 "x": ref<i32[8], gmem>, %1 "zero": ref<i32[4], gmem>, %2 "o": ref<i32[4], gmem>) {
  %3 = constant {value = i32 0x1} : i32[]
  %4 = get %0 : i32[8]
  %5 = broadcast_in_dim %3 {dims = []} : i32[8]
  )") + op + "\n  yield\n}\n",
                       {i32({8}, {3, 3, 0, 1, 3, 0, 3, 3}), i32({4}, {0, 0, 0, 100})});
    EXPECT_EQ(r.results[0].as<int32_t>(), (std::vector<int32_t>{2, 1, 0, 105}));
  }
}

// Each program takes a ticket; o[i] is that of program i.
std::string tickets(int programs) {
  const std::string n = std::to_string(programs);
  return R"(pallasim-ir 1
module "tickets" {machine = triton, params = {num_warps = 4}}
grid {size = )" +
         n + R"(}
input "c" : i32[1] {space = gmem}
output "o" : i32[)" +
         n + R"(] {space = gmem}
output "counter" : i32[1] {space = gmem}
alias {input = 0, output = 1}
body (%0 "c": ref<i32[1], gmem>, %1 "o": ref<i32[)" +
         n + R"(], gmem>, %2 "counter": ref<i32[1], gmem>) {
  %3 = program_id {axis = 0} : i32[]
  %4 = constant {value = i32 0x1} : i32[]
  %5 = atomic_rmw %2, %4 {kind = add, view = [index(0)]} : i32[]
  store %1, %5, %3 {view = [index($2)]}
  yield
}
)";
}

TEST(TritonPrograms, OrderFollowsTheSeedAndTheTokenRepeatsIt) {
  constexpr int kPrograms = 300;
  std::vector<int32_t> in_order(kPrograms);
  std::iota(in_order.begin(), in_order.end(), 0);
  EXPECT_EQ(run(tickets(kPrograms), {i32({1}, {0})}, on("gpu-h100")).results[0].as<int32_t>(), in_order);
  std::set<std::vector<int32_t>> orders;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const auto r = run(tickets(kPrograms), {i32({1}, {0})}, on("gpu-h100", seed));
    auto o = r.results[0].as<int32_t>();
    orders.insert(o);
    Options again = on("gpu-h100");
    again.replay = r.report.token;
    EXPECT_EQ(run(tickets(kPrograms), {i32({1}, {0})}, again).results[0].as<int32_t>(), o);
    std::sort(o.begin(), o.end());
    EXPECT_EQ(o, in_order);
  }
  EXPECT_EQ(orders.size(), 5u);
}

// Only what is resident runs: the first programs to draw tickets are among the first of the grid.
TEST(TritonPrograms, LaterProgramsStartWhenEarlierOnesHaveEnded) {
  constexpr int kPrograms = 4000, kResident = 108 * 16;
  const auto r = run(tickets(kPrograms), {i32({1}, {0})}, on("gpu-a100", 3));
  const auto o = r.results[0].as<int32_t>();
  for (int i = 0; i < kPrograms; ++i) EXPECT_GE(o[static_cast<size_t>(i)], i - kResident + 1);
}

// A lock around a read, an addition and a write.
std::string locked(int programs) {
  return R"(pallasim-ir 1
module "locked" {machine = triton}
grid {size = )" +
         std::to_string(programs) + R"(}
input "l" : i32[] {space = gmem}
input "c" : i32[4] {space = gmem}
output "lock" : i32[] {space = gmem}
output "count" : i32[4] {space = gmem}
alias {input = 0, output = 0}
alias {input = 1, output = 1}
body (%0 "l": ref<i32[], gmem>, %1 "c": ref<i32[4], gmem>, %2 "lock": ref<i32[], gmem>, %3 "count": ref<i32[4], gmem>) {
  %4 = constant {value = i32 0x0} : i32[]
  %5 = constant {value = i32 0x1} : i32[]
  %6 = while %5 (%7: i32[]) {
    %8 = ne %7, %4 : bool[]
    yield %8
  } (%9: i32[]) {
    %10 = atomic_cas %2, %4, %5 : i32[]
    yield %10
  } : i32[]
  %11 = get %3 : i32[4]
  %12 = add %11, %5 : i32[4]
  store %3, %12
  %13 = atomic_rmw %2, %4 {kind = xchg} : i32[]
  yield
}
)";
}

TEST(TritonPrograms, ALockExcludes) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const auto r = run(locked(200), {i32({}, {0}), i32({4}, {0, 1, 2, 3})}, on("gpu-h200", seed));
    EXPECT_EQ(r.results[1].as<int32_t>(), (std::vector<int32_t>{200, 201, 202, 203}));
    EXPECT_EQ(r.results[0].as<int32_t>()[0], 0);
  }
}

// Every program adds one and waits for all of the others.
std::string barrier(int programs, int warps) {
  char n[16];
  std::snprintf(n, sizeof n, "0x%x", programs);
  return R"(pallasim-ir 1
module "barrier" {machine = triton, params = {num_warps = )" +
         std::to_string(warps) + R"(}}
grid {size = )" +
         std::to_string(programs) + R"(}
input "c" : i32[] {space = gmem}
output "count" : i32[] {space = gmem}
alias {input = 0, output = 0}
body (%0 "c": ref<i32[], gmem>, %1 "count": ref<i32[], gmem>) {
  %2 = constant {value = i32 0x0} : i32[]
  %3 = constant {value = i32 0x1} : i32[]
  %4 = constant {value = i32 )" +
         n + R"(} : i32[]
  %5 = atomic_rmw %1, %3 {kind = add} : i32[]
  %6 = while %2 (%7: i32[]) {
    %8 = lt %7, %4 : bool[]
    yield %8
  } (%9: i32[]) {
    %10 = atomic_rmw %1, %2 {kind = add} : i32[]
    yield %10
  } : i32[]
  yield
}
)";
}

TEST(TritonPrograms, ABarrierOfTheGridNeedsAllProgramsResident) {
  const std::vector<Array> zero = {i32({}, {0})};
  EXPECT_EQ(run(barrier(108 * 2, 32), zero, on("gpu-a100")).results[0].as<int32_t>()[0], 216);
  EXPECT_EQ(run(barrier(108 * 2, 32), zero, on("gpu-a100", 7)).results[0].as<int32_t>()[0], 216);
  Options o = on("gpu-a100");
  o.livelock_steps = 1'000'000;
  std::string report;
  EXPECT_EQ(error_code(barrier(108 * 2 + 1, 32), zero, o, &report), "PS-LIVE-003");
  EXPECT_NE(report.find("1 of 217 programs have not started: 216 are resident at a time on gpu-a100"),
            std::string::npos)
      << report;
  EXPECT_EQ(run(barrier(217, 32), zero).results[0].as<int32_t>()[0], 217);  // nobody knows the generic machine's size
}

// x is f32[2,6] in blocks of [2,4]: the second block reaches beyond the rows.
std::string edge(const std::string& access) {
  return R"(pallasim-ir 1
module "edge" {machine = triton}
grid {size = 2}
input "x" : f32[2,6] {space = gmem, block = [blocked(2), blocked(4)]} (%0: i32[]) {
  %1 = constant {value = i32 0x0} : i32[]
  yield %1, %0
}
output "o" : f32[2,8] {space = gmem, block = [blocked(2), blocked(4)]} (%0: i32[]) {
  %1 = constant {value = i32 0x0} : i32[]
  yield %1, %0
}
body (%0 "x": ref<f32[2,4], gmem>, %1 "o": ref<f32[2,4], gmem>) {
)" + access +
         R"(  store %1, %2
  yield
}
)";
}

TEST(TritonEdges, MaskedElementsAreNotTouched) {
  const auto r = run(edge(R"(  %3 = program_id {axis = 0} : i32[]
  %4 = constant {value = i32 0x4} : i32[]
  %5 = mul %3, %4 : i32[]
  %6 = iota {axis = 1} : i32[2,4]
  %7 = add %6, %5 : i32[2,4]
  %8 = constant {value = i32 0x6} : i32[]
  %9 = lt %7, %8 : bool[2,4]
  %10 = constant {value = f32 0xbf800000} : f32[]
  %2 = masked_load %0, %9, %10 {mask = $1, other = $2} : f32[2,4]
)"),
                     {f32({2, 6}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1}));
}

TEST(TritonEdges, UnmaskedOnesAreFoundOrReadWhatLiesThere) {
  const std::vector<Array> x = {f32({2, 6}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})};
  std::string report;
  Options o;
  o.out_of_bounds = Options::Oob::Error;
  EXPECT_EQ(error_code(edge("  %2 = get %0 : f32[2,4]\n"), x, o, &report), "PS-OOB-001");
  EXPECT_NE(report.find("the block begins at 4 of the array, which has 6"), std::string::npos) << report;
  const auto nobodys = run(edge("  %2 = get %0 : f32[2,4]\n"), x).results[0].as<float>();
  EXPECT_TRUE(std::isnan(nobodys[6]) && nobodys[8] == 6 && std::isnan(nobodys[15]));
  o.out_of_bounds = Options::Oob::Machine;
  const auto r = run(edge("  %2 = get %0 : f32[2,4]\n"), x, o).results[0].as<float>();
  EXPECT_EQ(std::vector<float>(r.begin(), r.begin() + 8),
            (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));  // the next row
  EXPECT_EQ(r[13], 11);
  EXPECT_TRUE(std::isnan(r[14]) && std::isnan(r[15]));  // beyond the array
}

}  // namespace
}  // namespace pallasim::interp::test
