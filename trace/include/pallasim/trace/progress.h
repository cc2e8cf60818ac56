// One line that says how far a launch is.
#pragma once
#include <cstdint>
#include <string>

namespace pallasim::trace {

// From when on people are shown it, and how often.
constexpr double kLongLaunchSeconds = 2, kProgressSeconds = 0.5;

// "matmul: 1024 of 4096 grid points (25 %), 512 per second, about 6 s left". The rate is that of the whole launch. A
// kernel of one grid point only says for how long it has run.
std::string progress_line(const std::string& kernel, int64_t done, int64_t total, double seconds);

// What shows the line in place of the one before on the terminal `file`, cut where the terminal ends; and what wipes
// it.
std::string over_line(int file, std::string line);
constexpr const char* kWipeLine = "\r\x1b[K";

}  // namespace pallasim::trace
