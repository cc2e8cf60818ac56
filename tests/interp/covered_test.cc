// Outputs that need no poison because stores through indices fill them, and those that look alike and need it.
#include <fmt/format.h>

#include "pallasim/interp/rewrites.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

// Four points; %2 is the coordinate, %3 iota of 8, %4 eight ones, %5 the coordinate times 8, %6 eight of those and
// iota.
struct Kernel {
  const char* name;
  bool covered;
  int64_t size;  // of the output
  std::string body;
  std::vector<int64_t> missing;  // elements that nobody writes
};

std::string number(int id, int value) {
  return fmt::format("  %{} = constant {{value = i32 {:#x}}} : i32[]\n", id, value);
}
std::string below(int bound) { return number(20, bound) + "  %21 = lt %6, %20 : bool[8]\n"; }
constexpr const char* kMasked = "  masked_store %1, %4, %6, %21 {view = [index(array($2))], mask = $3}\n";
constexpr const char* kAll = "  masked_store %1, %4, %6 {view = [index(array($2))]}\n";

std::string text_of(const Kernel& k) {
  return fmt::format(R"(pallasim-ir 1
module "k" {{machine = triton}}
grid {{size = 4}}
output "o" : f32[{}] {{space = gmem}}
body (%1 "o": ref<f32[{}], gmem>) {{
  %2 = program_id {{axis = 0}} : i32[]
  %3 = iota {{axis = 0}} : i32[8]
  %30 = constant {{value = f32 0x3f800000}} : f32[]
  %4 = broadcast_in_dim %30 {{dims = []}} : f32[8]
  %31 = constant {{value = i32 0x8}} : i32[]
  %5 = mul %2, %31 : i32[]
  %6 = add %5, %3 : i32[8]
{}  yield
}}
)",
                     k.size, k.size, k.body);
}

std::vector<int64_t> from(int64_t begin, int64_t end, int64_t step = 1) {
  std::vector<int64_t> r;
  for (int64_t i = begin; i < end; i += step) r.push_back(i);
  return r;
}

const std::vector<Kernel> kKernels = {
    {"all of it", true, 32, kAll, {}},
    {"but for what is outside", true, 30, below(30) + kMasked, {}},
    {"a bound behind the end", true, 32, below(40) + kMasked, {}},
    {"not the last one", false, 30, below(29) + kMasked, {29}},
    {"not the first one",
     false,
     33,
     number(20, 1) + "  %21 = add %6, %20 : i32[8]\n  masked_store %1, %4, %21 {view = [index(array($2))]}\n",
     {0}},
    {"gaps between points",
     false,
     35,
     number(20, 9) + "  %21 = mul %2, %20 : i32[]\n  %22 = add %21, %3 : i32[8]\n"
                     "  masked_store %1, %4, %22 {view = [index(array($2))]}\n",
     {8, 17, 26}},
    {"every second one", false, 63,
     "  %21 = add %6, %6 : i32[8]\n  masked_store %1, %4, %21 {view = [index(array($2))]}\n", from(1, 63, 2)},
    {"one for all", false, 25,
     "  %21 = broadcast_in_dim %5 {dims = []} : i32[8]\n  masked_store %1, %4, %21 {view = [index(array($2))]}\n",
     [] {
       std::vector<int64_t> r;
       for (int64_t i = 0; i < 25; ++i)
         if (i % 8 != 0) r.push_back(i);
       return r;
     }()},
    {"each point one of its own",
     true,
     4,
     "  %21 = broadcast_in_dim %2 {dims = []} : i32[8]\n  masked_store %1, %4, %21 {view = [index(array($2))]}\n",
     {}},
    {"only sometimes", false, 32,
     number(20, 2) + "  %21 = ne %2, %20 : bool[]\n  cond %21 () {\n    yield\n  } () {\n  " + kAll +
         "    yield\n  }\n",
     from(16, 24)},
    {"by a mask of another index",
     false,
     32,
     number(20, 8) + "  %21 = lt %3, %20 : bool[8]\n" + number(22, 5) + "  %23 = lt %3, %22 : bool[8]\n" +
         "  %24 = and %21, %23 : bool[8]\n  masked_store %1, %4, %6, %24 {view = [index(array($2))], mask = $3}\n",
     {5, 6, 7, 13, 14, 15, 21, 22, 23, 29, 30, 31}},
    {"a slice", true, 32, "  store %1, %4, %5 {view = [index(slice($2, 8))]}\n", {}},
    {"a slice of every second one", false, 39, "  store %1, %4, %5 {view = [index(slice($2, 8, 2))]}\n",
     from(1, 39, 2)},
    {"the same slice for all", false, 32, "  store %1, %4 {view = [index(slice(0, 8))]}\n", from(8, 32)}};

TEST(Covered, WhatNobodyWritesIsPoison) {
  for (const Kernel& k : kKernels) {
    const int64_t before = hits(Rewrite::CoveredByStores);
    const Outcome got = run(text_of(k), {});
    EXPECT_EQ(hits(Rewrite::CoveredByStores) > before, k.covered) << k.name;
    const std::vector<float> o = got.results[0].as<float>();
    for (int64_t i = 0; i < k.size; ++i) {
      const bool missing = std::find(k.missing.begin(), k.missing.end(), i) != k.missing.end();
      const float at = o[static_cast<size_t>(i)];
      EXPECT_TRUE(missing ? std::isnan(at) : at == 1) << k.name << ": element " << i << " is " << at;
    }
  }
}

// Rows by the grid, columns within a tile; a mask for what lies outside in both directions.
std::string tiles(int64_t rows, int64_t columns, int row_bound, int column_bound) {
  return fmt::format(R"(pallasim-ir 1
module "k" {{machine = triton}}
grid {{size = 3}}
output "o" : f32[{0},{1}] {{space = gmem}}
body (%1 "o": ref<f32[{0},{1}], gmem>) {{
  %2 = program_id {{axis = 0}} : i32[]
  %3 = iota {{axis = 0}} : i32[4]
  %4 = constant {{value = i32 0x4}} : i32[]
  %5 = mul %2, %4 : i32[]
  %6 = add %5, %3 : i32[4]
  %7 = broadcast_in_dim %6 {{dims = [0]}} : i32[4,1]
  %8 = broadcast_in_dim %3 {{dims = [1]}} : i32[1,4]
  %9 = constant {{value = i32 {2:#x}}} : i32[]
  %10 = lt %7, %9 : bool[4,1]
  %11 = constant {{value = i32 {3:#x}}} : i32[]
  %12 = lt %8, %11 : bool[1,4]
  %13 = broadcast_in_dim %10 {{dims = [0, 1]}} : bool[4,4]
  %14 = broadcast_in_dim %12 {{dims = [0, 1]}} : bool[4,4]
  %15 = and %13, %14 : bool[4,4]
  %16 = constant {{value = f32 0x3f800000}} : f32[]
  %17 = broadcast_in_dim %16 {{dims = []}} : f32[4,4]
  masked_store %1, %17, %7, %8, %15 {{view = [index(array($2), array($3))], mask = $4}}
  yield
}}
)",
                     rows, columns, row_bound, column_bound);
}

TEST(Covered, TilesAreFilledInBothDirections) {
  const auto check = [](const std::string& text, bool covered, int64_t written) {
    const int64_t before = hits(Rewrite::CoveredByStores);
    const std::vector<float> o = run(text, {}).results[0].as<float>();
    EXPECT_EQ(hits(Rewrite::CoveredByStores) > before, covered) << text;
    EXPECT_EQ(std::count(o.begin(), o.end(), 1.0f), written);
    EXPECT_EQ(std::count_if(o.begin(), o.end(), [](float v) { return std::isnan(v); }),
              static_cast<int64_t>(o.size()) - written);
  };
  check(tiles(12, 4, 12, 4), true, 48);
  check(tiles(10, 3, 10, 3), true, 30);
  check(tiles(10, 3, 10, 2), false, 20);
  check(tiles(10, 3, 9, 3), false, 27);
  check(tiles(10, 5, 10, 5), false, 40);
  check(tiles(13, 4, 13, 4), false, 48);
  check(R"(pallasim-ir 1
module "diagonal" {machine = triton}
grid {size = 3}
output "o" : f32[12,12] {space = gmem}
body (%1 "o": ref<f32[12,12], gmem>) {
  %2 = program_id {axis = 0} : i32[]
  %3 = iota {axis = 0} : i32[4]
  %4 = constant {value = i32 0x4} : i32[]
  %5 = mul %2, %4 : i32[]
  %6 = add %5, %3 : i32[4]
  %7 = constant {value = f32 0x3f800000} : f32[]
  %8 = broadcast_in_dim %7 {dims = []} : f32[4]
  masked_store %1, %8, %6, %6 {view = [index(array($2), array($3))]}
  yield
}
)",
        false, 12);
}

}  // namespace
}  // namespace pallasim::interp::test
