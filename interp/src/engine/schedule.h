// Gives turns. A schedule is data: its token replays it; where it stands is part of the execution's state (Turn).
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "../ops/execution.h"

namespace pallasim::interp {

class Scheduler {
 public:
  // All threads that can run, in their order, under the options' policy. Throws PS-TOK-001 for a token that is none.
  Scheduler(Execution&, const RunOptions&);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  // One thread runs until its turn ends, at most `most` steps, or one copy moves; false: nothing is left that could.
  bool turn(int64_t most = INT64_MAX);
  // After the last turn: copies that are left move. Throws PS-DEAD-001, or what is left in semaphores.
  void finish();
  std::string token() const;

 private:
  struct Order;
  void wake();
  Execution& ex_;
  const RunOptions& options_;
  std::unique_ptr<Order> order_;
};

}  // namespace pallasim::interp
