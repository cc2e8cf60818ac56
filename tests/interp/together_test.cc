// Grids of scalars, many points at a time, against loops over their points.
#include <fmt/format.h>

#include <functional>

#include "pallasim/interp/progress.h"
#include "pallasim/interp/rewrites.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

// Point (i, j) of a grid of kRows x kPoints has x + i at hand, where x is its element of an array of the grid's shape.
constexpr int kRows = 3, kPoints = 24, kAll = kRows * kPoints;

struct Kernel {
  const char* name;
  bool together;
  std::string output;                                           // its declaration, behind the name
  std::string ref;                                              // its type in the body
  std::string body;                                             // %0 x, %1 o, %2 i, %3 j, %4 the value, %5 kPoints
  std::function<void(std::vector<int>&, int, int, int)> point;  // what it does: o, i, j, value
};

constexpr const char* kFlat = "  %6 = mul %2, %5 : i32[]\n  %7 = add %6, %3 : i32[]\n";

std::string text_of(const Kernel& k) {
  return fmt::format(R"(pallasim-ir 1
module "k" {{machine = generic}}
grid {{size = {}}}
grid {{size = {}}}
input "x" : i32[{},{}] {{space = any}}
output "o" : {}
body (%0 "x": ref<i32[{},{}], any>, %1 "o": {}) {{
  %2 = program_id {{axis = 0}} : i32[]
  %3 = program_id {{axis = 1}} : i32[]
  %x = get %0, %2, %3 {{view = [index($1, $2)]}} : i32[]
  %4 = add %x, %2 : i32[]
  %5 = constant {{value = i32 {:#x}}} : i32[]
{}  yield
}}
)",
                     kRows, kPoints, kRows, kPoints, k.output, kRows, kPoints, k.ref, kPoints, k.body);
}

std::string numbered(std::string text) {
  for (size_t at; (at = text.find("%x")) != std::string::npos;) text.replace(at, 2, "%100");
  return text;
}

const std::vector<Kernel> kKernels = {
    {"element by element", true, "i32[72] {space = any}", "ref<i32[72], any>",
     std::string(kFlat) + "  store %1, %4, %7 {view = [index($2)]}\n",
     [](std::vector<int>& o, int i, int j, int v) { o[static_cast<size_t>(i * kPoints + j)] = v; }},
    {"blocks of one", true,
     "i32[3,24] {space = any, block = [squeezed, blocked(1)]} (%0: i32[], %1: i32[]) {\n  yield %0, %1\n}",
     "ref<i32[1], any>", "  store %1, %4 {view = [index(0)]}\n",
     [](std::vector<int>& o, int i, int j, int v) { o[static_cast<size_t>(i * kPoints + j)] = v; }},
    {"across", true, "i32[24,3] {space = any}", "ref<i32[24,3], any>",
     "  store %1, %4, %3, %2 {view = [index($2, $3)]}\n",
     [](std::vector<int>& o, int i, int j, int v) { o[static_cast<size_t>(j * kRows + i)] = v; }},
    {"two each, read again", true, "i32[144] {space = any}", "ref<i32[144], any>", std::string(kFlat) + R"(
  %8 = constant {value = i32 0x2} : i32[]
  %9 = mul %7, %8 : i32[]
  %10 = constant {value = i32 0x1} : i32[]
  %11 = add %9, %10 : i32[]
  store %1, %4, %9 {view = [index($2)]}
  %12 = get %1, %9 {view = [index($1)]} : i32[]
  %13 = add %12, %12 : i32[]
  store %1, %13, %11 {view = [index($2)]}
  store %1, %3, %9 {view = [index($2)]}
)",
     [](std::vector<int>& o, int i, int j, int v) {
       const auto at = static_cast<size_t>(2 * (i * kPoints + j));
       o[at + 1] = 2 * v, o[at] = j;
     }},
    {"the last row stays", true, "i32[24] {space = any}", "ref<i32[24], any>",
     "  store %1, %4, %3 {view = [index($2)]}\n",
     [](std::vector<int>& o, int, int j, int v) { o[static_cast<size_t>(j)] = v; }},
    {"the same value in all", true, "i32[72] {space = any}", "ref<i32[72], any>",
     std::string(kFlat) + "  store %1, %2, %7 {view = [index($2)]}\n",
     [](std::vector<int>& o, int i, int j, int) { o[static_cast<size_t>(i * kPoints + j)] = i; }},
    {"points that meet", false, "i32[73] {space = any}", "ref<i32[73], any>", std::string(kFlat) + R"(
  %8 = constant {value = i32 0x1} : i32[]
  %9 = add %7, %8 : i32[]
  store %1, %4, %7 {view = [index($2)]}
  store %1, %3, %9 {view = [index($2)]}
)",
     [](std::vector<int>& o, int i, int j, int v) {
       const auto at = static_cast<size_t>(i * kPoints + j);
       o[at] = v, o[at + 1] = j;
     }},
    {"one element for all", false, "i32[1] {space = any}", "ref<i32[1], any>", "  store %1, %4 {view = [index(0)]}\n",
     [](std::vector<int>& o, int, int, int v) { o[0] = v; }},
    {"backwards", false, "i32[72] {space = any}", "ref<i32[72], any>", std::string(kFlat) + R"(
  %8 = constant {value = i32 0x47} : i32[]
  %9 = sub %8, %7 : i32[]
  store %1, %4, %9 {view = [index($2)]}
)",
     [](std::vector<int>& o, int i, int j, int v) { o[static_cast<size_t>(kAll - 1 - i * kPoints - j)] = v; }},
    {"a diagonal", false, "i32[24,24] {space = any}", "ref<i32[24,24], any>",
     "  store %1, %4, %3, %3 {view = [index($2, $3)]}\n",
     [](std::vector<int>& o, int, int j, int v) { o[static_cast<size_t>(j * kPoints + j)] = v; }}};

Array operand() {
  std::vector<int32_t> v(kAll);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<int32_t>(7 * i % 50) - 20;
  return i32({kRows, kPoints}, v);
}

void expect_as_loops(const Kernel& k) {
  const std::vector<int> x = operand().as<int>();
  Options zeros;
  zeros.uninitialized = Options::Fill::Zero;
  for (const bool fuse : {true, false}) {
    zeros.fuse = fuse;
    const int64_t before = hits(Rewrite::PointsTogether);
    const Outcome got = run(numbered(text_of(k)), {operand()}, zeros);
    EXPECT_EQ(hits(Rewrite::PointsTogether) - before, k.together && fuse) << k.name;
    EXPECT_EQ(got.report.grid_points, kAll);
    std::vector<int> want(got.results[0].as<int>().size(), 0);
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kPoints; ++j) k.point(want, i, j, x[static_cast<size_t>(i * kPoints + j)] + i);
    EXPECT_EQ(got.results[0].as<int>(), want) << k.name;
  }
}

TEST(Together, ArraysEndAsLoopsOverThePoints) {
  for (const Kernel& k : kKernels)
    if (k.together) expect_as_loops(k);
}

TEST(Together, PointsThatMeetKeepTheirOrder) {
  for (const Kernel& k : kKernels)
    if (!k.together) expect_as_loops(k);
}

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
