// What the engine itself costs: grid steps, scalar operations, small tiles, launches.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "pallasim/interp/launch.h"
#include "pallasim/ir/builder.h"

namespace pallasim::interp {
namespace {

struct Program {
  std::shared_ptr<const Plan> plan;
  std::vector<std::vector<float>> memory;
  std::vector<Buffer> args, results;
  Session session;
  Options options;

  Program(const std::string& text, std::vector<std::vector<int64_t>> in, std::vector<std::vector<int64_t>> out,
          ir::DType dtype = ir::DType::F32) {
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

benchmark::Counter per(benchmark::State& state, double count) {
  return benchmark::Counter(static_cast<double>(state.iterations()) * count,
                            benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

std::string empty_grid(int64_t n) {
  return "pallasim-ir 1\nmodule \"empty\" {machine = generic}\ngrid {size = " + std::to_string(n) +
         "}\ninput \"x\" : f32[8,128] {space = any}\nbody (%0 \"x\": ref<f32[8,128], any>) {\n  yield\n}\n";
}

// One input window that moves over an array of `n` rows.
std::string windowed_grid(int64_t n) {
  return "pallasim-ir 1\nmodule \"w\" {machine = generic}\ngrid {size = " + std::to_string(n) +
         "}\ninput \"x\" : f32[" + std::to_string(n) +
         ",8] {space = any, block = [blocked(1), blocked(8)]} (%0: i32[]) {\n  %1 = constant {value = i32 0x0} : "
         "i32[]\n  yield %0, %1\n}\n"
         "body (%0 \"x\": ref<f32[1,8], any>) {\n  yield\n}\n";
}

void EmptyGridStep(benchmark::State& state) {
  Program p(empty_grid(state.range(0)), {{8, 128}}, {});
  for (auto _ : state) p.run();
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["ns_per_step"] = per(state, static_cast<double>(state.range(0)));
}
BENCHMARK(EmptyGridStep)->Arg(1 << 20);

void WindowedGridStep(benchmark::State& state) {
  Program p(windowed_grid(state.range(0)), {{state.range(0), 8}}, {});
  for (auto _ : state) p.run();
  state.counters["ns_per_step"] = per(state, static_cast<double>(state.range(0)));
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
  state.counters["ns_per_op"] = per(state, 4e6);
}
BENCHMARK(ScalarLoop);

// A chain of 64 scalar operations in a loop: what it costs to get from one step to the next.
void OpDispatch(benchmark::State& state) {
  constexpr int kChain = 64, kIterations = 10000;
  ir::ModuleBuilder mb("ops", ir::Machine::Generic);
  mb.output("o", mb.type(ir::DType::I32, {1}), ir::Space::Smem);
  mb.body([](ir::BodyBuilder& b, const ir::Values& refs) {
    const ir::Value zero = b.constant(ir::DType::I32, 0), end = b.constant(ir::DType::I32, kIterations),
                    one = b.constant(ir::DType::I32, 1);
    const ir::Values last = b.loop(zero, end, one, {zero}, [](ir::BodyBuilder& b, const ir::Values& v) {
      ir::Value x = v[1];
      for (int i = 0; i < kChain; ++i) x = b.elementwise(i % 2 ? ir::OpCode::xor_ : ir::OpCode::add, {x, v[0]});
      return ir::Values{x};
    });
    b.store(refs[0], last[0], {0});
  });
  Program p(ir::print(mb.finish()), {}, {{1}}, ir::DType::I32);
  for (auto _ : state) p.run();
  state.counters["ns_per_op"] = per(state, double{kChain} * kIterations);
}
BENCHMARK(OpDispatch);

// One operation on an 8x128 tile, a hundred thousand times.
void TileOp(benchmark::State& state, ir::OpCode code) {
  constexpr int kSteps = 100000;
  const bool reduces = code == ir::OpCode::reduce_sum;
  ir::ModuleBuilder mb("tile", ir::Machine::Generic);
  const std::vector<ir::Dim> out = reduces                         ? std::vector<ir::Dim>{8}
                                   : code == ir::OpCode::transpose ? std::vector<ir::Dim>{128, 8}
                                                                   : std::vector<ir::Dim>{8, 128};
  mb.grid(kSteps).input("x", mb.type(ir::DType::F32, {8, 128})).output("o", mb.type(ir::DType::F32, out));
  mb.body([&](ir::BodyBuilder& b, const ir::Values& refs) {
    const ir::Value x = b.get(refs[0]);
    if (reduces) b.store(refs[1], b.reduce(code, x, {1}));
    else if (code == ir::OpCode::transpose) b.store(refs[1], b.transpose(x, {1, 0}));
    else b.store(refs[1], b.elementwise(code, ir::info(code).min_operands == 2 ? ir::Values{x, x} : ir::Values{x}));
  });
  std::vector<int64_t> dims;
  for (const ir::Dim& d : out) dims.push_back(d.size);
  Program p(ir::print(mb.finish()), {{8, 128}}, {dims});
  for (auto _ : state) p.run();
  state.counters["ns_per_tile"] = per(state, kSteps);
}

BENCHMARK_CAPTURE(TileOp, add, ir::OpCode::add);
BENCHMARK_CAPTURE(TileOp, mul, ir::OpCode::mul);
BENCHMARK_CAPTURE(TileOp, exp, ir::OpCode::exp);
BENCHMARK_CAPTURE(TileOp, tanh, ir::OpCode::tanh);
BENCHMARK_CAPTURE(TileOp, reduce_sum, ir::OpCode::reduce_sum);
BENCHMARK_CAPTURE(TileOp, transpose, ir::OpCode::transpose);

// A product of squares in one grid point, against the FLOPs it has.
void Gemm(benchmark::State& state, ir::DType dtype) {
  const int64_t n = state.range(0);
  ir::ModuleBuilder mb("gemm", ir::Machine::Generic);
  const ir::Type* square = mb.type(dtype, {n, n});
  mb.input("x", square).input("y", square).output("o", mb.type(ir::DType::F32, {n, n}));
  mb.body([](ir::BodyBuilder& b, const ir::Values& refs) {
    const ir::Value x = b.get(refs[0]), y = b.get(refs[1]);
    b.store(refs[2], b.matmul(x, y, ir::DType::F32));
  });
  Program p(ir::print(mb.finish()), {{n, n}, {n, n}}, {{n, n}});
  for (interp::Buffer& a : p.args) a.dtype = dtype;  // its memory is large enough for narrower elements
  for (auto _ : state) p.run();
  state.counters["GFLOP/s"] = benchmark::Counter(
      2e-9 * static_cast<double>(n * n * n) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// The same product by oneDNN, called directly on one thread.
void DirectGemm(benchmark::State& state, dnnl::memory::data_type type) try {
  omp_set_num_threads(1);
  const int64_t n = state.range(0);
  std::vector<float> a(static_cast<size_t>(n * n), 0.5f), b = a, c = a;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto square = [&](dnnl::memory::data_type t) {
    return dnnl::memory::desc({n, n}, t, dnnl::memory::format_tag::ab);
  };
  const dnnl::memory::desc narrow = square(type), wide = square(dnnl::memory::data_type::f32);
  const dnnl::matmul product({dnnl::matmul::desc(narrow, narrow, wide), engine});
  const std::unordered_map<int, dnnl::memory> args = {{DNNL_ARG_SRC, {narrow, engine, a.data()}},
                                                      {DNNL_ARG_WEIGHTS, {narrow, engine, b.data()}},
                                                      {DNNL_ARG_DST, {wide, engine, c.data()}}};
  for (auto _ : state) {
    product.execute(stream, args);
    stream.wait();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(
      2e-9 * static_cast<double>(n * n * n) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
} catch (const dnnl::error& e) {  // of a type that the CPU has no units for
  state.SkipWithError(e.what());
}
#define PALLASIM_GEMM_SIZES ->Arg(256)->Arg(512)->Arg(1024)->Repetitions(5)->ReportAggregatesOnly()
BENCHMARK_CAPTURE(Gemm, f32, ir::DType::F32) PALLASIM_GEMM_SIZES;
BENCHMARK_CAPTURE(DirectGemm, f32, dnnl::memory::data_type::f32) PALLASIM_GEMM_SIZES;
BENCHMARK_CAPTURE(Gemm, bf16, ir::DType::BF16) PALLASIM_GEMM_SIZES;
BENCHMARK_CAPTURE(DirectGemm, bf16, dnnl::memory::data_type::bf16) PALLASIM_GEMM_SIZES;

void Launch(benchmark::State& state) {
  Program p(empty_grid(1), {{8, 128}}, {});
  for (auto _ : state) p.run();
}
BENCHMARK(Launch);

void VectorAdd1M1024Steps(benchmark::State& state) {
  const std::string block = " {space = any, block = [blocked(1024)]} (%0: i32[]) {\n  yield %0\n}\n";
  const std::string text =
      "pallasim-ir 1\nmodule \"vadd\" {machine = generic}\ngrid {size = 1024}\ninput \"x\" : f32[1048576]" + block +
      "input \"y\" : f32[1048576]" + block + "output \"o\" : f32[1048576]" + block +
      "body (%0 \"x\": ref<f32[1024], any>, %1 \"y\": ref<f32[1024], any>, %2 \"o\": ref<f32[1024], any>) {\n"
      "  %3 = get %0 : f32[1024]\n  %4 = get %1 : f32[1024]\n  %5 = add %3, %4 : f32[1024]\n  store %2, %5\n  "
      "yield\n}\n";
  Program p(text, {{1 << 20}, {1 << 20}}, {{1 << 20}});
  for (auto _ : state) p.run();
}
BENCHMARK(VectorAdd1M1024Steps);

}  // namespace
}  // namespace pallasim::interp
BENCHMARK_MAIN();
