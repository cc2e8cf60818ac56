// The table of errors in docs/numerics.md: no function is worse than it says, on a part of the arguments that it was
// made from.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "ulp.h"

namespace pallasim::interp {
namespace {

// function -> figures of the columns f32, f64, bf16, f16.
std::map<std::string, std::vector<double>> table() {
  std::ifstream file(PALLASIM_DOCS_DIR "/numerics.md");
  std::map<std::string, std::vector<double>> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| function |")) inside = true;
    else if (line.empty()) inside = false;
    if (!inside) continue;
    std::istringstream cells(line);
    std::string cell, name;
    std::getline(cells, cell, '|');
    std::getline(cells, cell, '|');
    std::istringstream(cell) >> name;
    for (double figure; rows[name].size() < std::size(ulp::kFormats) && std::getline(cells, cell, '|') &&
                        std::istringstream(cell) >> figure;)
      rows[name].push_back(figure);
  }
  return rows;
}

TEST(Accuracy, NoWorseThanTheTableSays) {
  const auto rows = table();
  for (const auto& f : ulp::functions()) {
    const auto row = rows.find(f.name);
    ASSERT_TRUE(row != rows.end() && row->second.size() == std::size(ulp::kFormats))
        << f.name << " is not in docs/numerics.md: run scripts/numerics.py";
    for (size_t i = 0; i < std::size(ulp::kFormats); ++i) {
      const auto w = ulp::measure(kernels(), f, ulp::kFormats[i], ulp::share(f, 120), ulp::kSeed);
      ASSERT_GE(w.ulp, 0) << f.name;
      EXPECT_LE(w.ulp, row->second[i] + 0.006)
          << f.name << ' ' << ir::name(ulp::kFormats[i].dtype) << " at " << w.x[0] << ", " << w.x[1] << ", " << w.x[2];
      EXPECT_GT(w.ulp, 0.2) << f.name;  // a body that returns the oracle's own bits, or nothing, would stand out
    }
  }
}

}  // namespace
}  // namespace pallasim::interp
