// How far a long launch is, on the terminal that standard error is.
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "pallasim/interp/progress.h"

namespace pallasim::cli {

// Around one launch of a kernel, named as people may see it. Without a terminal, or where nobody wants it, no thread is
// started and nothing is counted.
class ProgressLine {
 public:
  ProgressLine(bool wanted, std::string kernel);
  ~ProgressLine() { wipe(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  interp::Progress* counter() { return writer_.joinable() ? &progress_ : nullptr; }
  // The line goes away, and none comes any more.
  void wipe();

 private:
  void write();

  std::string kernel_;
  interp::Progress progress_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool ended_ = false;
  std::thread writer_;
};

}  // namespace pallasim::cli
