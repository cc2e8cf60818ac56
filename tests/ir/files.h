#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace pallasim::ir {

inline std::string read(const std::filesystem::path& p) {
  std::ifstream in(p, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

inline std::vector<std::filesystem::path> psir_files(const char* folder) {
  std::vector<std::filesystem::path> r;
  for (const auto& e : std::filesystem::directory_iterator(std::filesystem::path(PALLASIM_TESTS_DIR) / folder))
    if (e.path().extension() == ".psir") r.push_back(e.path());
  std::sort(r.begin(), r.end());
  return r;
}

}  // namespace pallasim::ir
