// Prints the time of parse, verify and print per 100 operations: a long elementwise body with locations.
#include <fmt/format.h>

#include <chrono>

#include "pallasim/ir/module.h"

using namespace pallasim::ir;

namespace {
std::string text_of(int n) {
  std::string s =
      "pallasim-ir 1\nmodule \"k\" {machine = tpu}\noutput \"o\" : f32[8,128] {space = vmem}\n"
      "body (%0 \"o\": ref<f32[8,128], vmem>) {\n  %1 = get %0 : f32[8,128] @0\n";
  for (int i = 2; i < n; ++i) {
    switch (i % 4) {
      case 0: s += fmt::format("  %{} = add %{}, %1 : f32[8,128] @0\n", i, i - 1); break;
      case 1: s += fmt::format("  %{} = exp %{} : f32[8,128] @0\n", i, i - 1); break;
      case 2:
        s += fmt::format("  %{} = get %0 {{view = [index(slice(0, 8), slice(0, 128))]}} : f32[8,128] @0\n", i);
        break;
      default: s += fmt::format("  %{} = transpose %{} {{perm = [0, 1]}} : f32[8,128] @0\n", i, i - 1); break;
    }
  }
  return s + "  yield\n}\nloc 0 {file = \"k.py\", line = 1}\n";
}

template <typename F>
double best_ms(F f) {
  double best = 1e9;
  for (int r = 0; r < 20; ++r) {
    const auto t = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - t).count());
  }
  return best;
}
}  // namespace

int main() {
  constexpr int kOps = 10000;
  for (int n : {100, kOps}) {
    const std::string text = text_of(n);
    const Module m = parse(text);
    const double per = 100.0 / n;
    fmt::print("{:6} ops: parse {:.4f} ms, verify {:.4f} ms, print {:.4f} ms per 100 ops\n", n,
               per * best_ms([&] { parse(text); }), per * best_ms([&] { verify(m); }),
               per * best_ms([&] { print(m); }));
  }
}
