// What a launch may take of memory, and what of it stays behind.
#include <fmt/format.h>

#include "launch/idle.h"
#include "ops/execution.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

// Fills `bytes` of scratch and adds 1 to every element of x.
std::string with_scratch(const std::string& name, int64_t bytes) {
  return fmt::format(R"(pallasim-ir 1
module "{0}" {{machine = generic}}
input "x" : f32[8] {{space = any}}
output "o" : f32[8] {{space = any}}
scratch "s" : ref<f32[{1}], any>
body (%0 "x": ref<f32[8], any>, %1 "o": ref<f32[8], any>, %2 "s": ref<f32[{1}], any>) {{
  %3 = get %0 : f32[8]
  store %2, %3 {{view = [index(slice(0, 8))]}}
  %4 = get %2 {{view = [index(slice(0, 8))]}} : f32[8]
  %5 = constant {{value = f32 0x3f800000}} : f32[]
  %6 = add %4, %5 : f32[8]
  store %1, %6
  yield
}}
)",
                     name, bytes / 4);
}

TEST(Limits, ACachedPlanHoldsForItsMemoryLimitOnly) {
  const std::string text = with_scratch("limited", 1 << 20);
  Options o;
  const auto plan = compile_cached(text, o).plan;
  EXPECT_EQ(compile_cached(text, o).plan, plan);
  o.random_seed = 7;
  o.workers = 3;
  EXPECT_EQ(compile_cached(text, o).plan, plan);  // these do not shape plans
  o.max_memory = 1000;
  try {
    compile_cached(text, o);
    FAIL() << "a plan of 1 MiB was taken for one of 1,000 bytes";
  } catch (const ir::DiagnosticError& e) { EXPECT_EQ(e.diagnostic().code, "PS-SIZE-001"); }
}

std::set<std::string> shared_between_points(const std::string& text, Options o = {}) {
  o.checked = true;
  std::set<std::string> r;
  for (const ir::Diagnostic& d : run(text, {}, o).report.findings)
    if (d.code == "PS-PAR-001")
      for (const std::string& what : d.about)
        if (what.starts_with("ref ")) r.insert(what.substr(4));
  return r;
}

TEST(Limits, IdleExecutionsGiveTheirMemoryBack) {
  constexpr int64_t kEach = 200 << 20;
  const int64_t before = idle_executions().bytes();
  std::vector<std::shared_ptr<const Plan>> plans;
  Session session;
  Array x = noise({8}), o = noise({8}, 2);
  const std::vector<Buffer> args{x.buffer()}, results{o.buffer()};
  for (int i = 0; i < 5; ++i) {
    plans.push_back(compile(ir::parse(with_scratch(fmt::format("big{}", i), kEach))));
    launch(*plans.back(), session, args, results);
    EXPECT_EQ(o.as<float>()[3], x.as<float>()[3] + 1.0f);
    EXPECT_GE(idle_executions().bytes_of(*plans.back()), kEach);
    EXPECT_LE(idle_executions().bytes(), IdleExecutions::kLimit);
  }
  EXPECT_EQ(idle_executions().bytes_of(*plans[0]), 0);  // used least recently
  launch(*plans[0], session, args, results);
  EXPECT_GE(idle_executions().bytes_of(*plans[0]), kEach);
  plans.clear();
  EXPECT_LE(idle_executions().bytes(), before);
  const auto huge = compile(ir::parse(with_scratch("huge", IdleExecutions::kLimit + 64)));
  launch(*huge, session, args, results);
  EXPECT_EQ(idle_executions().bytes_of(*huge), 0);
}

TEST(Limits, CachedPlansHaveALimitInBytes) {
  std::weak_ptr<const Plan> first;
  for (int i = 0; i < 3; ++i) {
    const auto plan = compile_cached(with_scratch(fmt::format("cached{}", i), 64)).plan;
    EXPECT_GT(plan->bytes(), 0);
    EXPECT_LT(plan->bytes(), 1 << 20);
    if (i == 0) first = plan;
  }
  EXPECT_FALSE(first.expired());
  std::string text = with_scratch("padded", 64);
  text += "// " + std::string(static_cast<size_t>(kPlanCacheBytes / 8), 'x') + "\n";
  const auto large = compile_cached(text).plan;
  EXPECT_TRUE(first.expired());                 // made room
  EXPECT_EQ(compile_cached(text).plan, large);  // the last one stays whatever it takes
}

// In elements of their own widths, a[256] and b[0] have one number.
std::string two_widths(const std::string& body) {
  return R"(pallasim-ir 1
module "widths" {machine = generic}
grid {size = 2, semantics = parallel}
output "o" : i8[2] {space = any}
scratch "a" : ref<i8[1024], any>
scratch "b" : ref<f32[256], any>
body (%0 "o": ref<i8[2], any>, %1 "a": ref<i8[1024], any>, %2 "b": ref<f32[256], any>) {
  %3 = program_id {axis = 0} : i32[]
  %4 = constant {value = f32 0x3f800000} : f32[]
  %5 = constant {value = i8 0x5} : i8[]
)" + body +
         "  yield\n}\n";
}

TEST(Limits, ClaimsOfScratchOfSeveralWidthsAreKeptApart) {
  const std::string carried = two_widths(R"(  store %2, %4 {view = [index(0)]}
  %6 = get %1 {view = [index(256)]} : i8[]
  store %1, %5 {view = [index(256)]}
  store %0, %5, %3 {view = [index($2)]}
)");
  EXPECT_EQ(shared_between_points(carried), (std::set<std::string>{"a"}));
  const std::string own = two_widths(R"(  store %1, %5 {view = [index(256)]}
  %6 = get %1 {view = [index(256)]} : i8[]
  store %2, %4 {view = [index(0)]}
  store %0, %6, %3 {view = [index($2)]}
)");
  EXPECT_EQ(shared_between_points(own), (std::set<std::string>{}));
}

TEST(Limits, WhatACheckedRunRemembersOfClaimsCountsAsMemory) {
  const std::string text = R"(pallasim-ir 1
module "shadow" {machine = generic}
grid {size = 2, semantics = parallel}
input "x" : f32[65536] {space = any}
output "o" : f32[2] {space = any}
body (%0 "x": ref<f32[65536], any>, %1 "o": ref<f32[2], any>) {
  %2 = program_id {axis = 0} : i32[]
  %3 = constant {value = i32 0x0} : i32[]
  %4 = constant {value = i32 0x1000} : i32[]
  %5 = constant {value = i32 0x1} : i32[]
  %6 = constant {value = i32 0x3} : i32[]
  %7 = constant {value = f32 0x0} : f32[]
  %8 = for %3, %4, %5, %7 (%9: i32[], %10: f32[]) {
    %11 = mul %9, %6 : i32[]
    %12 = get %0, %11 {view = [index($1)]} : f32[]
    %13 = add %10, %12 : f32[]
    yield %13
  } : f32[]
  store %1, %8, %2 {view = [index($2)]}
  yield
}
)";
  const Array x = noise({65536});
  Options o;
  o.max_memory = 1 << 18;
  EXPECT_EQ(error_code(text, {x}, o), "");
  o.checked = true;
  EXPECT_EQ(error_code(text, {x}, o), "PS-SIZE-001");
  o.max_memory = 1 << 22;
  EXPECT_EQ(error_code(text, {x}, o), "");
}

}  // namespace
}  // namespace pallasim::interp::test
