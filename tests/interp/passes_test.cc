// The passes over a module: each hits, is counted, can be looked at and left out.
#include "pallasim/interp/passes.h"

#include <map>

#include "run.h"

namespace pallasim::interp::test {
namespace {

// What every pass finds something in: a coordinate that is at least 0, a branch as `pl.when` writes it, one product
// twice, a value that is stored for a copy.
const char* const kKernel = R"(pallasim-ir 1
module "k" {machine = tpu}
grid {size = 4}
output "o_ref" : i32[4,32] {space = vmem}
scratch "s_ref" : ref<i32[1,32], vmem>
scratch "sem" : ref<dma_sem[], semaphore>
body (%0 "o_ref": ref<i32[4,32], vmem>, %20 "s_ref": ref<i32[1,32], vmem>, %21 "sem": ref<dma_sem[], semaphore>) {
  %1 = program_id {axis = 0} : i32[]
  %2 = constant {value = i32 0x0} : i32[]
  %3 = constant {value = i32 0x8} : i32[]
  %4 = ge %1, %2 : bool[]
  %5 = select_n %4, %3, %1 : i32[]
  %6 = eq %1, %3 : bool[]
  %7 = constant {value = i32 0x1} : i32[]
  %8 = eq %1, %7 : bool[]
  %9 = convert %8 : i32[]
  %10 = mul %5, %3 : i32[]
  %11 = mul %1, %3 : i32[]
  %12 = add %10, %7 : i32[]
  %22 = broadcast_in_dim %1 {dims = []} : i32[1,32]
  store %20, %22
  dma_start %20, %0, %1, %21 {src = view($0, []),
    dst = view($1, [index(slice($2, 1), slice(0, 32))]), dst_sem = view($3, [])}
  dma_wait %20, %0, %1, %21 {src = view($0, []),
    dst = view($1, [index(slice($2, 1), slice(0, 32))]), dst_sem = view($3, [])}
  cond %9 () {
    store %0, %12, %1 {view = [index($2, 3)]}
    yield
  } () {
    %13 = add %11, %7 : i32[]
    store %0, %13, %1 {view = [index($2, 4)]}
    yield
  }
  yield
}
)";

std::map<std::string_view, PassObserver::Run> runs_of(const PlanOptions& options, PassObserver watch = {}) {
  compile(ir::parse(kKernel), options, watch);
  std::map<std::string_view, PassObserver::Run> r;
  for (PassObserver::Run& run : watch.runs) r.emplace(run.name, std::move(run));
  return r;
}

TEST(Passes, EachHitsAndIsCounted) {
  const auto runs = runs_of({});
  ASSERT_EQ(runs.size(), pass_rows().size());
  for (const PassRow& row : pass_rows()) EXPECT_GT(runs.at(row.name).changes, 0) << row.name;
  PlanOptions plain;
  plain.fuse = false;
  EXPECT_TRUE(runs_of(plain).empty());
}

TEST(Passes, PrintBeforeAndAfter) {
  const auto runs = runs_of({}, {{"branch_on_truth"}, {}});
  const PassObserver::Run& run = runs.at("branch_on_truth");
  EXPECT_NE(run.before.find("cond %11"), std::string::npos) << run.before;
  EXPECT_NE(run.after.find("cond %10"), std::string::npos) << run.after;
  EXPECT_TRUE(runs.at("fold_ranges").before.empty());
}

TEST(Passes, AreLeftOut) {
  PlanOptions options;
  options.without = {"merge_equal"};
  const auto runs = runs_of(options);
  EXPECT_FALSE(runs.contains("merge_equal"));
  EXPECT_TRUE(runs.contains("fold_ranges"));
  EXPECT_NE(plan_key(options), plan_key(PlanOptions{}));
}

}  // namespace
}  // namespace pallasim::interp::test
