// What a launch says of itself where it stops: prints and findings before the error; requests to stop.
#include <chrono>
#include <thread>

#include "run.h"

namespace pallasim::interp::test {
namespace {

// Prints its grid point; point 5 of 8 reads index 9 of 8.
constexpr const char* kPrints = R"(pallasim-ir 1
module "prints" {machine = generic}
grid {size = 8}
input "x_ref" : f32[8] {space = any}
output "o_ref" : f32[8] {space = any, block = [blocked(1)]} (%0: i32[]) {
  yield %0
}
body (%0 "x_ref": ref<f32[8], any>, %1 "o_ref": ref<f32[1], any>) {
  %2 = program_id {axis = 0} : i32[]
  debug_print %2 {format = "point {}", placeholders = true}
  %3 = constant {value = i32 0x5} : i32[]
  %4 = eq %2, %3 : bool[]
  %5 = constant {value = i32 0x9} : i32[]
  %6 = select_n %4, %2, %5 : i32[]
  %7 = get %0, %6 {view = [index($1)]} : f32[]
  %8 = broadcast_in_dim %7 {dims = []} : f32[1]
  store %1, %8
  yield
}
)";

// Counts to 2^40.
constexpr const char* kLong = R"(pallasim-ir 1
module "long" {machine = generic}
grid {size = 4}
output "o_ref" : i32[4] {space = any, block = [blocked(1)]} (%0: i32[]) {
  yield %0
}
body (%0 "o_ref": ref<i32[1], any>) {
  %1 = constant {value = i64 0x0} : i64[]
  %2 = constant {value = i64 0x10000000000} : i64[]
  %3 = constant {value = i64 0x1} : i64[]
  %4 = constant {value = i32 0x1} : i32[]
  %5 = for %1, %2, %3, %4 (%6: i64[], %7: i32[]) {
    %8 = mul %7, %7 : i32[]
    yield %8
  } : i32[]
  %9 = broadcast_in_dim %5 {dims = []} : i32[1]
  store %0, %9
  yield
}
)";

interp::Outcome attempt(const char* text, Options o) {
  const auto plan = compile(ir::parse(text), o);
  Array x = noise({8}),
        out = plan ? array<float>(result_types(*plan)[0]->dtype, {result_types(*plan)[0]->dims[0].size},
                                  std::vector<float>(static_cast<size_t>(result_types(*plan)[0]->dims[0].size)))
                   : Array{};
  std::vector<Buffer> in, res{out.buffer()};
  if (module_of(*plan).operands.size() == 2) in.push_back(x.buffer());
  const DeviceCall call{0, in, res, 0};
  Session session;
  return try_launch(*plan, session, std::span(&call, 1), o);
}

TEST(Outcome, WhatWasPrintedBeforeTheErrorStays) {
  for (int workers : {1, 2, 8})
    for (bool checked : {false, true}) {
      Options o;
      o.workers = workers;
      o.checked = checked;
      const interp::Outcome r = attempt(kPrints, o);
      ASSERT_TRUE(r.stop.has_value());
      EXPECT_EQ(r.stop->code, "PS-OOB-001");
      const std::vector<std::string> want{"point 0", "point 1", "point 2", "point 3", "point 4", "point 5"};
      EXPECT_EQ(r.report.prints, want) << workers;
      if (checked) {
        ASSERT_FALSE(r.report.traffic.empty());
        EXPECT_EQ(r.report.traffic[0].reads, 5);  // the sixth one is the error
      }
    }
}

TEST(Outcome, ARequestStopsAllWorkersOfWhatRunsAndNothingLater) {
  request_interrupt();  // nothing runs: nobody notices
  Options quick;
  quick.workers = 2;
  EXPECT_EQ(attempt(kPrints, quick).stop->code, "PS-OOB-001");
  for (int workers : {1, 2}) {
    Options o;
    o.workers = workers;
    std::chrono::steady_clock::time_point asked;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      asked = std::chrono::steady_clock::now();
      request_interrupt();
    });
    const interp::Outcome r = attempt(kLong, o);
    const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - asked).count();
    other.join();
    ASSERT_TRUE(r.stop.has_value());
    EXPECT_EQ(r.stop->code, "PS-INT-001");
    EXPECT_LT(waited, 30.0);  // without the request: hours; how soon it is measured elsewhere
  }
  EXPECT_EQ(attempt(kPrints, quick).stop->code, "PS-OOB-001");
}

}  // namespace
}  // namespace pallasim::interp::test
