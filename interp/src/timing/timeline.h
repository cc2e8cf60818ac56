// What happened when, for pictures: slices on tracks, arrows between them, counters.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace pallasim::interp {

struct Timeline {
  struct Slice {
    double begin, end;
    int32_t track, name, line;  // into `tracks`, `names`; `line` of the prediction's, -1: none
    int64_t flow = -1;          // an arrow leaves it, or arrives where `arrives`
    bool arrives = false;
  };
  std::vector<std::string> tracks, names;
  std::vector<Slice> slices;
  size_t most = 1'000'000;  // slices that are kept
  int64_t dropped = 0;
  int32_t track(const std::string& name);
  int32_t name(const std::string& text);
  void add(const Slice& s) {
    if (slices.size() < most) slices.push_back(s);
    else ++dropped;
  }
};

}  // namespace pallasim::interp
