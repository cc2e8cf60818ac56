// How far a launch is, for another thread to read while it runs.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace pallasim::interp {

// Given to one launch, which counts in it the grid points that ended, of all its devices; where every thread of a mesh
// runs the grid, of every thread. A kernel without a grid has one point.
class Progress {
 public:
  int64_t total() const { return total_.load(std::memory_order_relaxed); }  // 0 until the arguments are bound
  int64_t done() const;

  // For the launch. Counters are written by the one thread that runs their part, and read until `end`.
  using Counter = std::atomic<int64_t>;
  void expect(int64_t points) { total_.store(points, std::memory_order_relaxed); }
  void begin(const Counter* part);
  void end(const Counter* part);

 private:
  std::atomic<int64_t> total_{0};
  mutable std::mutex mutex_;
  int64_t ended_ = 0;  // of parts that are over
  std::vector<const Counter*> running_;
};

}  // namespace pallasim::interp
