// What differs between machines is data: a machine that no module can name, made of parts of several, runs a kernel.
#include "pallasim/hw/machine.h"

#include "run.h"

namespace pallasim::interp::test {
namespace {

using hw::BlockAccess, hw::MachineModel, hw::Programs;
using ir::Space;

// Blocks in `vmem` are windows of the program's own, those in `gmem` are reached by pointers; programs are there
// together.
MachineModel mixed() {
  return {
      .arithmetic = {.nan_propagates_in_minmax = false},
      .programs = Programs::Cooperative,
      .input_copies = true,
      .grid_pipeline = true,
      .atomic_addupdate = true,
      .spaces = {{}, {{Space::Vmem, {.owner = ir::Scope::Thread}}, {Space::Gmem, {.blocks = BlockAccess::Pointer}}}},
      .negative_indices = hw::NegativeIndex::FromEnd,
      .checks = {.aliased_inputs = true}};
}

// Three programs meet at a counter; the blocks of the last one end outside. Each changes its window of x, in place, and
// counts with a repeated index.
const char* const kKernel = R"(pallasim-ir 1
module "mixed" {machine = generic}
grid {size = 3}
input "x" : f32[10] {space = vmem, block = [blocked(4)]} (%0: i32[]) {
  yield %0
}
input "p" : f32[10] {space = gmem, block = [blocked(4)]} (%0: i32[]) {
  yield %0
}
input "zero" : i32[] {space = gmem}
input "zeros" : i32[4] {space = gmem}
output "o" : f32[10] {space = vmem, block = [blocked(4)]} (%0: i32[]) {
  yield %0
}
output "q" : f32[10] {space = gmem, block = [blocked(4)]} (%0: i32[]) {
  yield %0
}
output "count" : i32[] {space = gmem}
output "hist" : i32[4] {space = gmem}
alias {input = 2, output = 2}
alias {input = 3, output = 3}
body (%0 "x": ref<f32[4], vmem>, %1 "p": ref<f32[4], gmem>, %2 "zero": ref<i32[], gmem>, %3 "zeros": ref<i32[4], gmem>,
    %4 "o": ref<f32[4], vmem>, %5 "q": ref<f32[4], gmem>, %6 "count": ref<i32[], gmem>, %7 "hist": ref<i32[4], gmem>) {
  %8 = constant {value = i32 0x0} : i32[]
  %9 = constant {value = i32 0x1} : i32[]
  %10 = constant {value = i32 0x3} : i32[]
  %11 = atomic_rmw %6, %9 {kind = add} : i32[]
  %12 = while %8 (%13: i32[]) {
    %14 = lt %13, %10 : bool[]
    yield %14
  } (%15: i32[]) {
    %16 = atomic_rmw %6, %8 {kind = add} : i32[]
    yield %16
  } : i32[]
  %17 = convert %12 : f32[]
  %18 = get %0 : f32[4]
  %19 = add %18, %17 : f32[4]
  store %0, %19
  %20 = get %0 : f32[4]
  store %4, %20
  %21 = program_id {axis = 0} : i32[]
  %22 = constant {value = i32 0x4} : i32[]
  %23 = mul %21, %22 : i32[]
  %24 = iota {axis = 0} : i32[4]
  %25 = add %24, %23 : i32[4]
  %26 = constant {value = i32 0xa} : i32[]
  %27 = lt %25, %26 : bool[4]
  %28 = constant {value = f32 0x7fc00000} : f32[]
  %29 = masked_load %1, %27, %28 {mask = $1, other = $2} : f32[4]
  %30 = max %29, %20 : f32[4]
  masked_store %5, %30, %27 {mask = $2}
  %31 = constant {value = i32 0xffffffff} : i32[]
  %32 = broadcast_in_dim %31 {dims = []} : i32[2]
  %33 = broadcast_in_dim %9 {dims = []} : i32[2]
  addupdate %7, %33, %32 {view = [index(array($2))]}
  yield
}
)";

const float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<float> kX = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, kP = {9, kNan, 0, 0, 50, 0, 0, kNan, 0, 60};

std::vector<Array> arguments() { return {f32({10}, kX), f32({10}, kP), i32({}, {0}), i32({4}, {0, 0, 0, 0})}; }

void expect_right(const Outcome& r) {
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(r.results[1].as<float>(), (std::vector<float>{9, 4, 5, 6, 50, 8, 9, 10, 11, 60}));  // NaNs give way
  EXPECT_EQ(r.results[2].as<int32_t>()[0], 3);
  EXPECT_EQ(r.results[3].as<int32_t>(), (std::vector<int32_t>{0, 0, 0, 6}));  // -1, twice per program
}

Options on(const MachineModel& m, uint64_t seed = 0) {
  Options o;
  o.model = &m;
  if (seed) o.random_seed = seed;
  return o;
}

TEST(MixedMachine, RunsAKernelWhoseProgramsMeet) {
  const MachineModel m = mixed();
  for (uint64_t seed = 0; seed < 6; ++seed) {
    expect_right(run(kKernel, arguments(), on(m, seed)));
    Options o = on(m, seed);
    o.checked = true;
    expect_right(run(kKernel, arguments(), o));
    o.fuse = false;
    expect_right(run(kKernel, arguments(), o));
  }
}

// Each field by itself: what it says is what happens.
TEST(MixedMachine, EveryFieldCounts) {
  MachineModel m = mixed();
  m.programs = Programs::InOrder;
  Options o = on(m);
  o.livelock_steps = 100'000;
  EXPECT_EQ(error_code(kKernel, arguments(), o).substr(0, 7), "PS-LIVE");  // the first program waits for the second

  m = mixed();
  m.input_copies = false;
  EXPECT_EQ(error_code(kKernel, arguments(), on(m)), "PS-RO-001");

  m = mixed();
  m.arithmetic = {};
  const auto q = run(kKernel, arguments(), on(m)).results[1].as<float>();
  EXPECT_TRUE(std::isnan(q[1]) && std::isnan(q[7]));
  EXPECT_EQ(q[4], 50);

  m = mixed();
  m.negative_indices = hw::NegativeIndex::Outside;
  EXPECT_EQ(error_code(kKernel, arguments(), on(m)), "PS-OOB-001");

  m = mixed();
  m.atomic_addupdate = false;
  EXPECT_EQ(error_code(kKernel, arguments(), on(m)), "PS-UNSUP-001");  // at repeated indices only atomics add
}

// What programs at once do not go with is refused by name.
TEST(MixedMachine, AModelledPipelineIsRefused) {
  const MachineModel m = mixed();
  Options o = on(m);
  o.pipeline = Options::Pipeline::Modelled;
  std::string report;
  EXPECT_EQ(error_code(kKernel, arguments(), o, &report), "PS-UNSUP-001");
  EXPECT_NE(report.find("programs that may wait for each other"), std::string::npos) << report;
}

TEST(MixedMachine, PlansOfTwoMachinesAreTwo) {
  static const MachineModel one = mixed(), other = mixed();  // they outlive the cached plans
  const auto a = compile_cached(kKernel, on(one)).plan;
  EXPECT_EQ(a, compile_cached(kKernel, on(one)).plan);
  EXPECT_NE(a, compile_cached(kKernel, on(other)).plan);
}

}  // namespace
}  // namespace pallasim::interp::test
