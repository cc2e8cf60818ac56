// Prints the table of largest errors of docs/numerics.md: kernels_ulp_table [strips].
#include <cstdio>
#include <cstdlib>

#include "ulp.h"

int main(int argc, char** argv) {
  using namespace pallasim::interp;
  const int strips = argc > 1 ? std::atoi(argv[1]) : 3000;
  std::printf("| function | f32 | f64 | bf16 | f16 | f32 at | f64 at |\n|---|---|---|---|---|---|---|\n");
  for (const auto& f : ulp::functions()) {
    std::printf("| %s |", f.name);
    ulp::Worst worst[2];
    for (size_t i = 0; i < std::size(ulp::kFormats); ++i) {
      const ulp::Worst w = ulp::measure(kernels(), f, ulp::kFormats[i], ulp::share(f, strips), ulp::kSeed);
      if (i < 2) worst[i] = w;
      std::printf(" %.2f |", w.ulp);
    }
    for (int i = 0; i < 2; ++i) {
      const int arity = f.one ? 1 : f.two ? 2 : 3;
      for (int k = 0; k < arity; ++k) std::printf("%s%.*g", k ? ", " : " ", i ? 17 : 9, worst[i].x[k]);
      std::printf(" |");
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}
