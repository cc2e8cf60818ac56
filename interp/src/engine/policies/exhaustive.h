// All schedules that differ: a search over the choices, with what the last run did as its guide.
#pragma once
#include <memory>
#include <vector>

#include "../touches.h"
#include "pallasim/interp/policy.h"

namespace pallasim::interp {

// Runs that begin one after the other, each with new_execution and a series of next, and between them ended().
//
// Two turns of different threads (an operation in flight counts as one) depend on each other where their touches do.
// Runs in which turns that depend on each other come in the same order are one trace: they end alike. The search visits
// each trace once (Abdulla et al., Optimal dynamic partial order reduction, POPL 2014, the algorithm without wakeup
// trees):
// * A race is a pair of dependent turns that nothing else orders. Where the later one could have come first, some
//   thread that brings that about is to be tried in place of the earlier one (`todo` of its moment: a source set).
// * So is a thread whose turn was taken from it: what it waits for was there before a turn and is not behind it.
// * What was tried at a moment sleeps in later runs from there until a turn comes that depends on it. A run in which
//   all that can go on sleeps is given up: it is a part of a trace that was visited.
class Exhaustive : public Policy {
 public:
  bool new_execution(std::vector<uint64_t>& state) override;
  size_t next(const Choices&) override;
  uint64_t next_random() override { return 0; }

  // A thread that waits when a run is over, or would have gone on where it stopped.
  struct Pending {
    Choice who;
    std::vector<Touch> touches;
  };
  // The run is over. `last`: what its last turn touched; `stopped`: that one stopped it.
  void ended(int64_t turns, std::span<const Touch> last, const std::vector<Pending>&, bool stopped);
  // Turns that the next run has in common with the last one.
  size_t common() const { return common_; }

 private:
  using Bits = std::vector<uint64_t>;
  using Touched = std::shared_ptr<const std::vector<Touch>>;  // by many moments' sleepers; never null
  struct Event {                                              // a turn that was taken
    Choice who;
    Touched touches = std::make_shared<std::vector<Touch>>();
    Bits before;  // the turns that come before it in every run of its trace
    bool noted = false;
  };
  struct Sleeper {
    Choice who;
    Touched touches;
  };
  struct Moment {  // before a turn
    std::vector<Choice> enabled, todo, tried;
    std::vector<Sleeper> asleep;
  };
  void note(std::span<const Touch>);  // what the turn of the last moment touched
  void look_for_races(const Choice&, std::span<const Touch>, Bits* before);
  void reverse(size_t earlier, const Choice& later, const Bits& before_later);
  std::vector<Sleeper> asleep_after(const Moment&, const Event&) const;
  void try_what_was_prevented(const Choices& now, Moment& before);
  bool waits_for_change(const Choice&) const;
  size_t choose(const Choices&, Moment&) const;
  static bool sleeps(const Moment&, const Choice&);
  size_t take(const Choices&, const Choice&);

  std::vector<Moment> moments_;
  std::vector<Event> events_;    // of moments_ that are behind
  std::vector<Choice> planned_;  // the first turns of the run
  size_t common_ = 0;
  bool begun_ = false, again_ = false;
};

}  // namespace pallasim::interp
