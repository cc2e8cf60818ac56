// What the engine itself costs: grid steps, scalar operations, small tiles, launches.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "pallasim/interp/launch.h"

namespace pallasim::interp {
namespace {

struct Program {
  std::shared_ptr<const Plan> plan;
  std::vector<std::vector<float>> memory;
  std::vector<Buffer> args, results;
  Session session;
  Options options;

  Program(const std::string& text, std::vector<std::vector<int64_t>> in, std::vector<std::vector<int64_t>> out, ir::DType dtype = ir::DType::F32) {
    options.workers = 1;
    plan = compile(ir::parse(text), options);
    auto add = [&](const std::vector<int64_t>& dims, std::vector<Buffer>* to) {
      int64_t n = 1;
      for (int64_t d : dims) n *= d;
      memory.emplace_back(static_cast<size_t>(n), 0.5f);
      to->push_back({memory.back().data(), dtype, dims});
    };
    memory.reserve(in.size() + out.size());
    for (auto& d : in) add(d, &args);
    for (auto& d : out) add(d, &results);
  }
  void run() { launch(*plan, session, args, results, options); }
};

std::string empty_grid(int64_t n) {
  return "pallasim-ir 1\nmodule \"empty\" {machine = generic}\ngrid {size = " + std::to_string(n) +
         "}\ninput \"x\" : f32[8,128] {space = any}\nbody (%0 \"x\": ref<f32[8,128], any>) {\n  yield\n}\n";
}

// One input window that moves over an array of `n` rows.
std::string windowed_grid(int64_t n) {
  return "pallasim-ir 1\nmodule \"w\" {machine = generic}\ngrid {size = " + std::to_string(n) + "}\ninput \"x\" : f32[" + std::to_string(n) +
         ",8] {space = any, block = [blocked(1), blocked(8)]} (%0: i32[]) {\n  %1 = constant {value = i32 0x0} : i32[]\n  yield %0, %1\n}\n"
         "body (%0 \"x\": ref<f32[1,8], any>) {\n  yield\n}\n";
}

void EmptyGridStep(benchmark::State& state) {
  Program p(empty_grid(state.range(0)), {{8, 128}}, {});
  for (auto _ : state) p.run();
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["ns_per_step"] = benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(EmptyGridStep)->Arg(1 << 20);

void WindowedGridStep(benchmark::State& state) {
  Program p(windowed_grid(state.range(0)), {{state.range(0), 8}}, {});
  for (auto _ : state) p.run();
  state.counters["ns_per_step"] = benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(WindowedGridStep)->Arg(1 << 12)->Arg(1 << 16)->Arg(1 << 20);

// Four scalar operations an iteration: load, add, add, loop.
void ScalarLoop(benchmark::State& state) {
  const std::string text = R"(pallasim-ir 1
module "loop" {machine = generic}
input "x" : i32[64] {space = smem}
output "o" : i32[1] {space = smem}
body (%0 "x": ref<i32[64], smem>, %1 "o": ref<i32[1], smem>) {
  %2 = constant {value = i32 0x0} : i32[]
  %3 = constant {value = i32 0xf4240} : i32[]
  %4 = constant {value = i32 0x1} : i32[]
  %5 = constant {value = i32 0x3f} : i32[]
  %6 = for %2, %3, %4, %2 (%7: i32[], %8: i32[]) {
    %9 = and %7, %5 : i32[]
    %10 = get %0, %9 {view = [index($1)]} : i32[]
    %11 = add %8, %10 : i32[]
    yield %11
  } : i32[]
  store %1, %6 {view = [index(0)]}
  yield
}
)";
  Program p(text, {{64}}, {{1}}, ir::DType::I32);
  for (auto _ : state) p.run();
  state.counters["ns_per_op"] = benchmark::Counter(static_cast<double>(state.iterations()) * 4e6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(ScalarLoop);

// add of one 8x128 tile, a million times.
void Tile8x128(benchmark::State& state) {
  const std::string text = R"(pallasim-ir 1
module "tile" {machine = generic}
grid {size = 100000}
input "x" : f32[8,128] {space = any}
output "o" : f32[8,128] {space = any}
body (%0 "x": ref<f32[8,128], any>, %1 "o": ref<f32[8,128], any>) {
  %2 = get %0 : f32[8,128]
  %3 = add %2, %2 : f32[8,128]
  store %1, %3
  yield
}
)";
  Program p(text, {{8, 128}}, {{8, 128}});
  for (auto _ : state) p.run();
  state.counters["ns_per_tile"] = benchmark::Counter(static_cast<double>(state.iterations()) * 1e5, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(Tile8x128);

void Launch(benchmark::State& state) {
  Program p(empty_grid(1), {{8, 128}}, {});
  for (auto _ : state) p.run();
}
BENCHMARK(Launch);

void VectorAdd1M1024Steps(benchmark::State& state) {
  const std::string block = " {space = any, block = [blocked(1024)]} (%0: i32[]) {\n  yield %0\n}\n";
  const std::string text = "pallasim-ir 1\nmodule \"vadd\" {machine = generic}\ngrid {size = 1024}\ninput \"x\" : f32[1048576]" + block +
                           "input \"y\" : f32[1048576]" + block + "output \"o\" : f32[1048576]" + block +
                           "body (%0 \"x\": ref<f32[1024], any>, %1 \"y\": ref<f32[1024], any>, %2 \"o\": ref<f32[1024], any>) {\n"
                           "  %3 = get %0 : f32[1024]\n  %4 = get %1 : f32[1024]\n  %5 = add %3, %4 : f32[1024]\n  store %2, %5\n  yield\n}\n";
  Program p(text, {{1 << 20}, {1 << 20}}, {{1 << 20}});
  for (auto _ : state) p.run();
}
BENCHMARK(VectorAdd1M1024Steps);

}  // namespace
}  // namespace pallasim::interp
BENCHMARK_MAIN();
