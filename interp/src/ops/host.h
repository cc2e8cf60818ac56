// What the host lends to a run: OS threads, registers, who is called, and who asks how far it is.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../plan/plan.h"

namespace pallasim::interp {

class Helpers;  // parts.h

// Who is asked at each Kind::stop_point.
class StopPoints {
 public:
  virtual ~StopPoints() = default;
  virtual bool pauses(const Thread&, const Step&) = 0;  // whether the thread is to pause before it
};

struct Host {
  explicit Host(int max_strips);

  Helpers* helpers = nullptr;            // who takes parts of steps (ops/parts.h); null: nobody
  Breakpoints* breakpoints = nullptr;    // who is called at once
  StopPoints* stops = nullptr;           // null: nobody
  bool keeps_calls = false;              // debug_callbacks are recorded among the prints
  uint64_t interrupt_epoch = 0;          // when the launch began
  std::vector<uint8_t> judged;           // by step: how often Options::verify_footprints looked at it
  std::vector<uint8_t> seen;             // by step: what is known of whether others can tell (engine/visible.h)
  bool announces = false;                // a thread says what it is going to wait for and has its turn ended
  std::atomic<int64_t> points_ended{0};  // grid points, of all threads; other OS threads read it (Progress)
  // No other OS thread writes it.
  void end_point() { points_ended.store(points_ended.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  // Strip registers of a part of a step; those of part 0 are every thread's. Made before parts run.
  std::byte* strips_of(int part) const;
  void make_strips(int parts);
  int64_t strip_bytes() const;

 private:
  int max_strips_;
  std::vector<std::unique_ptr<std::byte[]>> strips_;  // by part
};

}  // namespace pallasim::interp
