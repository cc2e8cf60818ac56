#include "progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "pallasim/trace/progress.h"

namespace pallasim::cli {
namespace {

bool on_terminal() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) && !(terminal && std::string_view(terminal) == "dumb");
}

}  // namespace

ProgressLine::ProgressLine(bool wanted, std::string kernel) : kernel_(std::move(kernel)) {
  if (wanted && on_terminal()) writer_ = std::thread([this] { write(); });
}

void ProgressLine::wipe() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  over_.notify_all();
  writer_.join();
}

void ProgressLine::write() {
  using Seconds = std::chrono::duration<double>;
  const auto begin = std::chrono::steady_clock::now();
  bool shown = false;
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, Seconds(shown ? trace::kProgressSeconds : trace::kLongLaunchSeconds),
                         [this] { return ended_; })) {
    const double seconds = Seconds(std::chrono::steady_clock::now() - begin).count();
    const std::string line =
        trace::over_line(STDERR_FILENO, trace::progress_line(kernel_, progress_.done(), progress_.total(), seconds));
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
    shown = true;
  }
  if (shown) std::fputs(trace::kWipeLine, stderr), std::fflush(stderr);
}

}  // namespace pallasim::cli
