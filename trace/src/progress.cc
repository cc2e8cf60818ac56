#include "pallasim/trace/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>

namespace pallasim::trace {
namespace {

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(std::ceil(std::min(seconds, 1e9)));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

std::string rate(double per_second) {
  return per_second >= 10 ? fmt::format("{:.0f}", per_second) : fmt::format("{:.2g}", per_second);
}

}  // namespace

std::string progress_line(const std::string& kernel, int64_t done, int64_t total, double seconds) {
  done = std::min(done, total);
  if (total <= 1 || seconds <= 0) return fmt::format("{}: running for {}", kernel, duration(seconds));
  const std::string counts = fmt::format("{}: {} of {} grid points", kernel, done, total);
  if (done == 0) return fmt::format("{} after {}", counts, duration(seconds));
  const double per_second = static_cast<double>(done) / seconds;
  return fmt::format("{} ({} %), {} per second, about {} left", counts,
                     static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total)), rate(per_second),
                     duration(static_cast<double>(total - done) / per_second));
}

std::string over_line(int file, std::string line) {
  winsize size{};
  const size_t columns = ::ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
  if (line.size() >= columns) line.resize(columns - 1);
  return "\r" + line + "\x1b[K";
}

}  // namespace pallasim::trace
