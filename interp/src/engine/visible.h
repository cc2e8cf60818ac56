// Turns that end where others could tell.
#pragma once
#include "../ops/execution.h"

namespace pallasim::interp {

// Which steps other threads, or operations in flight, can tell from their not having run yet.
class Visibility {
 public:
  explicit Visibility(Execution&);
  // Of the thread's next step.
  bool sees(Thread&, const Step&);

 private:
  bool looks(Thread&, const Step&) const;
  Execution& ex_;
  bool reached_;   // operations may reach what a thread has for itself
  bool constant_;  // steps with a static footprint touch the same buffers each time
};

// Runs the thread's next step, and on to the next one that others see, at most `most` steps. Where schedules ask who
// can go on (Host::announces), a thread that is about to wait says for what.
Stop run_to_visible(Execution&, Thread&, Visibility&, int64_t most);

// Whether what the thread waits for is there; true for one that does not wait.
bool can_go_on(const Execution&, const Thread&);

}  // namespace pallasim::interp
