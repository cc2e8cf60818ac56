// Launches that run, for the thread of Python that shows how far they are. Launches never call Python.
#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "pallasim/interp/progress.h"

namespace pallasim::python {

// Around one launch. Where nobody watches, nothing is kept.
class WatchedLaunch {
 public:
  WatchedLaunch(const std::string& kernel, bool wanted);
  ~WatchedLaunch() { end(); }
  WatchedLaunch(const WatchedLaunch&) = delete;
  WatchedLaunch& operator=(const WatchedLaunch&) = delete;

  interp::Progress* progress() { return watched_ ? &progress_ : nullptr; }
  // Nobody is told of it any more; its line is wiped off the terminal.
  void end();
  // How far it is: trace::progress_line.
  std::string line(double seconds) const;
  double seconds() const;

  bool shown = false;  // on the terminal; under the lock of the list

 private:
  std::string kernel_;
  bool watched_ = false;
  interp::Progress progress_;
  std::chrono::steady_clock::time_point begin_;
};

// Launches are watched from now on, or not.
void watch_progress(bool on);
// How far the oldest launch is that has run for so many seconds, and how many there are besides; empty for none.
std::string progress_of_oldest(double least_seconds);
// The same, written over the terminal's line of standard error.
void show_progress(double least_seconds);

}  // namespace pallasim::python
