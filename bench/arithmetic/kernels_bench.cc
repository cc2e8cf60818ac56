// ns per element of strips and reductions, GF/s of contractions (CPU time of the thread).
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "pallasim/interp/kernels.h"

namespace {
using namespace pallasim::interp;
using pallasim::ir::DType;
using pallasim::ir::OpCode;

void per_element(benchmark::State& state, int64_t n) {
  state.counters["ns/elem"] =
      benchmark::Counter(static_cast<double>(n) * static_cast<double>(state.iterations()) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void strip(benchmark::State& state, const KernelTable* t, OpCode op, DType d) {
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> u(0.1f, 4);
  const int64_t n = kStrip;
  alignas(64) char a[kStrip * 8], b[kStrip * 8], r[kStrip * 8];
  std::vector<float> x(kStrip), y(kStrip);
  for (int i = 0; i < kStrip; ++i) x[static_cast<size_t>(i)] = u(rng), y[static_cast<size_t>(i)] = u(rng);
  t->convert(DType::F32, d)(a, x.data(), n, {});
  t->convert(DType::F32, d)(b, y.data(), n, {});
  StripParams p;
  p.dtype = d;
  const StripFn f = t->strip(op, d);
  for (auto _ : state) {
    f(r, a, b, a, n, p);
    benchmark::ClobberMemory();
  }
  per_element(state, n);
}

void reduce(benchmark::State& state, const KernelTable* t, OpCode op, DType d, int64_t rows, int64_t inner) {
  const int64_t outer = inner == 1 ? 128 : 1;
  const auto n = static_cast<size_t>(outer * rows * inner);
  std::vector<char> x(n * 8, 1), r(n * 8);
  const ReduceFn f = t->reduce(op, d);
  for (auto _ : state) {
    f(r.data(), x.data(), outer, rows, inner, {});
    benchmark::ClobberMemory();
  }
  per_element(state, static_cast<int64_t>(n));
}

void load_store(benchmark::State& state, const KernelTable* t, DType d, bool store) {
  std::vector<char> m(kStrip * 8, 1), r(kStrip * 8);
  t->load(d)(r.data(), m.data(), kStrip, 1);
  for (auto _ : state) {
    if (store) t->store(d)(m.data(), r.data(), kStrip, 1);
    else t->load(d)(r.data(), m.data(), kStrip, 1);
    benchmark::ClobberMemory();
  }
  per_element(state, kStrip);
}

void gemm(benchmark::State& state, GemmBackend backend, DType in, int64_t n) {
  std::vector<float> a(static_cast<size_t>(n * n), 1.5f), b(a), c(a);
  Contraction k;
  k.m = k.n = k.k = n;
  k.in = k.in_rhs = in;
  k.a_row = k.b_row = k.c_row = n;
  k.a_col = k.b_col = 1;
  for (auto _ : state) contract(k, c.data(), a.data(), b.data(), backend);
  state.counters["GF/s"] = benchmark::Counter(2e-9 * static_cast<double>(n) * static_cast<double>(n) *
                                                  static_cast<double>(n) * static_cast<double>(state.iterations()),
                                              benchmark::Counter::kIsRate);
}

void transpose(benchmark::State& state, int64_t n) {
  std::vector<float> a(static_cast<size_t>(n * n), 1), b(a);
  const int64_t dims[] = {n, n}, ds[] = {n, 1}, ss[] = {1, n};
  for (auto _ : state) {
    copy_strided(b.data(), ds, a.data(), ss, dims, 2, 4);
    benchmark::ClobberMemory();
  }
  per_element(state, n * n);
}

}  // namespace

int main(int argc, char** argv) {
  auto name = [](auto... parts) { return ((std::string(parts) + "/") + ...); };
  for (const char* isa : {"avx512", "avx2", "baseline"}) {
    const KernelTable* t = kernels_for(isa);
    if (!t) continue;
    for (OpCode op :
         {OpCode::add, OpCode::max, OpCode::div, OpCode::lt, OpCode::select_n, OpCode::exp, OpCode::tanh,
          OpCode::logistic, OpCode::log, OpCode::log1p, OpCode::sin, OpCode::rsqrt, OpCode::erf, OpCode::pow})
      benchmark::RegisterBenchmark(name("strip", isa, pallasim::ir::name(op), "f32").c_str(), strip, t, op, DType::F32);
    for (OpCode op : {OpCode::add, OpCode::exp})
      for (DType d : {DType::BF16, DType::F16, DType::F8E4M3FN, DType::F64})
        benchmark::RegisterBenchmark(name("strip", isa, pallasim::ir::name(op), pallasim::ir::name(d)).c_str(), strip,
                                     t, op, d);
    for (OpCode op : {OpCode::add, OpCode::mul, OpCode::div, OpCode::shift_left})
      benchmark::RegisterBenchmark(name("strip", isa, pallasim::ir::name(op), "i32").c_str(), strip, t, op, DType::I32);
    for (DType d : {DType::F32, DType::BF16, DType::F16, DType::F8E4M3FN, DType::I8}) {
      benchmark::RegisterBenchmark(name("load", isa, pallasim::ir::name(d)).c_str(), load_store, t, d, false);
      benchmark::RegisterBenchmark(name("store", isa, pallasim::ir::name(d)).c_str(), load_store, t, d, true);
    }
    for (OpCode op : {OpCode::reduce_sum, OpCode::reduce_max})
      for (DType d : {DType::F32, DType::BF16})
        for (auto [rows, inner] : {std::pair<int64_t, int64_t>{16, 1}, {128, 1}, {4096, 1}, {128, 128}, {8, 1024}})
          benchmark::RegisterBenchmark((name(pallasim::ir::name(op), isa, pallasim::ir::name(d)) +
                                        std::to_string(rows) + "x" + std::to_string(inner))
                                           .c_str(),
                                       reduce, t, op, d, rows, inner);
  }
  for (int64_t n : {8, 16, 24, 32, 64, 128, 256, 512, 1024})
    for (auto [b, label] :
         {std::pair{GemmBackend::Auto, "auto"}, {GemmBackend::OneDnn, "onednn"}, {GemmBackend::Eigen, "eigen"}})
      for (DType d : {DType::F32, DType::BF16})
        benchmark::RegisterBenchmark((name("gemm", label, pallasim::ir::name(d)) + std::to_string(n)).c_str(), gemm, b,
                                     d, n);
  for (int64_t n : {16, 128, 512})
    benchmark::RegisterBenchmark(("transpose/" + std::to_string(n)).c_str(), transpose, n);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
