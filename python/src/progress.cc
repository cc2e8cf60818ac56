#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <list>
#include <mutex>
#include <string_view>
#include <utility>

#include "pallasim/trace/progress.h"

namespace pallasim::python {
namespace {

struct Running {
  std::mutex mutex;
  std::list<WatchedLaunch*> launches;  // in the order in which they began
};
// Never destroyed: worker threads of XLA may outlive static destructors.
Running& running() {
  static Running& r = *new Running;
  return r;
}
std::atomic<bool> g_watched{false};

void write_error(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

// Under the lock. The launch and its line, or null.
std::pair<WatchedLaunch*, std::string> oldest(double least_seconds) {
  for (WatchedLaunch* l : running().launches) {
    const double seconds = l->seconds();
    if (seconds < least_seconds) continue;
    std::string line = l->line(seconds);
    if (const size_t others = running().launches.size() - 1) line += fmt::format("; {} more", others);
    return {l, std::move(line)};
  }
  return {nullptr, {}};
}

}  // namespace

WatchedLaunch::WatchedLaunch(const std::string& kernel, bool wanted) {
  if (!wanted || !g_watched.load(std::memory_order_relaxed)) return;
  kernel_ = kernel;
  watched_ = true;
  begin_ = std::chrono::steady_clock::now();
  const std::lock_guard lock(running().mutex);
  running().launches.push_back(this);
}

void WatchedLaunch::end() {
  if (!std::exchange(watched_, false)) return;
  const std::lock_guard lock(running().mutex);
  running().launches.remove(this);
  if (shown) write_error(trace::kWipeLine);
}

double WatchedLaunch::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

std::string WatchedLaunch::line(double seconds) const {
  std::string name = kernel_;
  for (char& c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return trace::progress_line(name, progress_.done(), progress_.total(), seconds);
}

void watch_progress(bool on) { g_watched.store(on, std::memory_order_relaxed); }

std::string progress_of_oldest(double least_seconds) {
  const std::lock_guard lock(running().mutex);
  return oldest(least_seconds).second;
}

void show_progress(double least_seconds) {
  const std::lock_guard lock(running().mutex);
  const auto [launch, line] = oldest(least_seconds);
  if (!launch) return;
  for (WatchedLaunch* l : running().launches) l->shown = false;
  launch->shown = true;
  write_error(trace::over_line(STDERR_FILENO, line));
}

}  // namespace pallasim::python
