// Grids of scalars, many points at a time: any number of points, who watches them, and what they say of errors. What
// they leave is in ../engine/grid_vectorisation.
#include <fmt/format.h>

#include "pallasim/interp/progress.h"
#include "pallasim/interp/rewrites.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

std::string doubled(int64_t n, int64_t size) {
  return fmt::format(R"(pallasim-ir 1
module "doubled" {{machine = generic}}
grid {{size = {}}}
input "x" : f32[{}] {{space = any}}
output "o" : f32[{}] {{space = any}}
body (%0 "x": ref<f32[{}], any>, %1 "o": ref<f32[{}], any>) {{
  %2 = program_id {{axis = 0}} : i32[]
  %3 = get %0, %2 {{view = [index($1)]}} : f32[]
  %4 = add %3, %3 : f32[]
  store %1, %4, %2 {{view = [index($2)]}}
  yield
}}
)",
                     n, size, size, size, size);
}

// In parts of equal size, which the workers share; a prime number of points has none.
TEST(Together, MorePointsThanAreTakenAtATime) {
  for (const int64_t n : {16, 4096, 5000, 60000, 4099}) {
    const int64_t before = hits(Rewrite::PointsTogether);
    const Array x = noise({n});
    Options o;
    o.workers = 2;
    const Outcome got = run(doubled(n, n), {x}, o);
    EXPECT_EQ(hits(Rewrite::PointsTogether) - before, n != 4099);
    EXPECT_EQ(got.report.grid_points, n);
    std::vector<float> want = x.as<float>();
    for (float& f : want) f += f;
    EXPECT_EQ(got.results[0].as<float>(), want) << n;
  }
}

// Who wants to see each point sees it.
TEST(Together, WhoeverLooksSeesEveryPoint) {
  const Outcome got = run(doubled(32, 32), {noise({32})}, {}, true);
  ASSERT_EQ(got.points.size(), 32u);
  EXPECT_EQ(got.points[31].ids, std::vector<int64_t>{31});
  Options few;
  few.max_steps = 20;
  EXPECT_EQ(error_code(doubled(32, 32), {noise({32})}, few), "PS-LIVE-002");
  std::string report;
  EXPECT_EQ(error_code(doubled(32, 30), {noise({30})}, {}, &report), "PS-OOB-001");
  EXPECT_NE(report.find("grid point (30,"), std::string::npos) << report;
}

TEST(Together, ProgressCountsPoints) {
  const std::string text = doubled(60000, 60000);
  auto plan = compile(ir::parse(text), {});
  Array x = noise({60000}), r = x;
  const std::vector<Buffer> in = {x.buffer()}, out = {r.buffer()};
  Session session;
  Progress progress;
  launch(*plan, session, in, out, {}, {nullptr, &progress});
  EXPECT_EQ(progress.total(), 60000);
  EXPECT_EQ(progress.done(), 60000);
}

}  // namespace
}  // namespace pallasim::interp::test
