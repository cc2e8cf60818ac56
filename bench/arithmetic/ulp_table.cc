// Prints the table of largest errors for docs/numerics.md: ulp_table [strips].
#include <cstdio>
#include <cstdlib>

#include "ulp.h"

int main(int argc, char** argv) {
  using namespace pallasim::interp;
  const int strips = argc > 1 ? std::atoi(argv[1]) : 3000;
  std::printf("| function | f32 | at | f64 | at |\n|---|---|---|---|---|\n");
  for (const auto& f : ulp::functions()) {
    const auto a = ulp::measure<float>(kernels(), f, strips, 1);
    const auto b = ulp::measure<double>(kernels(), f, strips, 2);
    auto at = [&](ulp::Worst w, char* s, size_t n) {
      if (f.two) std::snprintf(s, n, "%.9g, %.9g", w.x, w.y);
      else std::snprintf(s, n, "%.17g", w.x);
    };
    char x[80], y[80];
    at(a, x, sizeof x), at(b, y, sizeof y);
    std::printf("| %s | %.2f | %s | %.2f | %s |\n", f.name, a.ulp, x, b.ulp, y);
  }
}
