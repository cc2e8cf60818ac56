// Gives turns. A schedule is data: its token replays it; where it stands is part of the execution's state (Turn).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine.h"
#include "token.h"
#include "touches.h"
#include "visible.h"

namespace pallasim::interp {

class Scheduler {
 public:
  // All threads that can run, in their order, as the guide says, or where it has no policy, the options. Throws
  // PS-TOK-001 for a token that is none, or of another kernel.
  Scheduler(Execution&, const RunOptions&, const Guide& = {});
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  // One thread runs until its turn ends, at most `most` steps, or one copy moves; false: nothing is left that could.
  // A thread that pauses keeps its turn: the next call goes on with it.
  bool turn(int64_t most = INT64_MAX);
  // After the last turn: copies that are left move. Throws PS-DEAD-001, or what is left in semaphores.
  void finish();
  std::string token() const;
  bool abandoned() const { return abandoned_; }  // by the policy
  bool over() const { return over_; }            // the policy had no schedule left

 private:
  class Ready;
  void wake();
  void move(size_t choice);                       // of operations in flight
  bool chosen_turn(size_t copies, int64_t most);  // as the policy says
  void begin_turn(size_t at, int64_t most);       // of one of those that are ready
  // Of the thread whose turn it is, until that ends or pauses.
  enum class Went : uint8_t { On, Nowhere, Paused };  // Nowhere: it only waits
  Went run_thread();
  bool go_on();  // with a turn that was paused
  void note(const Choice&);
  void judge_look(const Thread&, Stop);
  Execution& ex_;
  const RunOptions& options_;
  Guide guide_;
  Schedule schedule_;                     // of the options
  std::optional<Visibility> visibility_;  // where a policy chooses, as is the next
  std::unique_ptr<Ready> ready_;
  bool abandoned_ = false, over_ = false;
};

}  // namespace pallasim::interp
