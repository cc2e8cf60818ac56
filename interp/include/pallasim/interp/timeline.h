// What happened when, for pictures: slices on tracks, arrows between them, counters. Times are seconds of the chip, or
// where nobody predicts them, steps.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "pallasim/ir/diagnostic.h"

namespace pallasim::interp {

class Timeline {
 public:
  struct Slice {
    double begin, end;
    int32_t track, name;                // numbers of track() and name()
    int32_t line = -1;                  // into `lines`; -1: none
    int64_t leaves = -1, arrives = -1;  // arrows, by number: from this slice, to it
    std::vector<int64_t> point = {};    // of the grid
  };
  struct Count {
    double time;
    int32_t track;
    double value;
  };
  // By name; a new one is made.
  int32_t track(const std::string& name) { return number(&tracks, &track_numbers_, name); }
  int32_t name(const std::string& text) { return number(&names, &name_numbers_, text); }
  // Beyond `most` nothing is kept but how many there were.
  void add(Slice s) {
    if (slices.size() < most) slices.push_back(std::move(s));
    else ++dropped;
  }
  void count(double time, int32_t track, double value) {
    if (counts.size() < most) counts.push_back({time, track, value});
    else ++dropped;
  }
  int64_t new_arrow() { return arrows_++; }

  std::string kernel, unit = "ns";  // what a second of the time stands for 1e9 of
  std::vector<std::string> tracks, names;
  std::vector<ir::SourceLine> lines;
  std::vector<Slice> slices;
  std::vector<Count> counts;
  size_t most = 1'000'000;
  int64_t dropped = 0;

 private:
  static int32_t number(std::vector<std::string>* all, std::unordered_map<std::string, int32_t>* numbers,
                        const std::string& text) {
    const auto [it, fresh] = numbers->emplace(text, static_cast<int32_t>(all->size()));
    if (fresh) all->push_back(text);
    return it->second;
  }
  std::unordered_map<std::string, int32_t> track_numbers_, name_numbers_;
  int64_t arrows_ = 0;
};

}  // namespace pallasim::interp
