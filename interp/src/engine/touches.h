// What a turn touches that others can reach: two turns of different threads may change places exactly where no touch of
// the one depends on one of the other.
#pragma once
#include <optional>
#include <vector>

#include "../ops/execution.h"
#include "pallasim/interp/policy.h"
#include "pallasim/memory/shadow/box.h"

namespace pallasim::interp {

struct Touch {
  enum class What : uint8_t {
    Memory,
    Semaphore,
    Barrier,
    Stream,
    Thread,      // that spawns or is spawned, or the place of a program
    Programs,    // which program begins next
    Everything,  // the run stops
  };
  // Looks, and additions, leave the same state in either order. So do an addition and a Take, which takes what it
  // waited for: where that was there without the addition; where it was not, there is no other order.
  enum class How : uint8_t { Look, Add, Take, Change };
  What what = What::Everything;
  How how = How::Change;
  uint64_t object = 0;
  memory::shadow::Box box;  // Memory
  // Not null: an operation whose bytes moved within the turn of a thread, as it had no choice.
  std::optional<Choice> forced = std::nullopt;
};
bool depend(const Touch&, const Touch&);
bool depend(std::span<const Touch>, std::span<const Touch>);

// Collects them, as an observer of the run.
class Touches : public Observer {
 public:
  explicit Touches(const Execution&);
  uint32_t wants() const override { return kStep | kAccess | kInternal | kOperation | kSync | kThread; }
  void on_step(const StepEvent&) override;
  void on_access(const Access&) override;
  void on_operation(const OperationEvent&) override;
  void on_sync(const SyncEvent&) override;
  void on_thread(const ThreadEvent&) override;

  void begin_turn(const Choice&);
  void add(Touch t) { all_.push_back(std::move(t)); }
  std::span<const Touch> all() const { return all_; }
  int32_t step() const { return step_; }  // with which the turn began, or that issued the operation; -1: none yet

 private:
  void add_memory(const Access&, std::optional<Choice> forced);
  uint64_t object_of(const Access&) const;
  Touch sync(Touch::What what, Touch::How how, int64_t object) const;
  const Execution& ex_;
  bool bytes_at_barriers_;           // arrivals bring bytes, or named barriers take numbers: their order may matter
  std::vector<int32_t> allocation_;  // by buffer: that threads share; -1
  Choice who_;
  int32_t step_ = -1;
  std::vector<Touch> all_;
  size_t of_body_ = 0;  // touches before the step's body ran
};

}  // namespace pallasim::interp
