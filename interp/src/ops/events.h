// What bodies and the engine say of what they do, beside the memory that steps touch (footprint.h). They say it to
// nobody where nobody observes the launch.
#pragma once
#include "pallasim/interp/observer.h"

namespace pallasim::interp {

// What observers know at a moment (Observer::state).
struct ObserverStates {
  std::vector<std::shared_ptr<const void>> of;  // in their order
  int64_t time = 0;
};

struct Step;
struct Thread;
struct Window;

class Events {
 public:
  virtual ~Events() = default;
  static Events& nobody();
  virtual void launch() {}                    // memory is bound, semaphores have what they hold from before
  virtual void step(Thread&, const Step&) {}  // is about to run: what it touches is told now
  virtual void point(const Thread&) {}        // a grid point begins
  // A thread sees the block at the program ids, or the one at `place` (Window::places() numbers).
  virtual void window(const Thread&, const Window&) {}
  virtual void window_at(const Thread&, const Window&, const int64_t*) {}
  // An operation is issued: what its sides touch is told now, unless it was when its step began.
  virtual void issued(const Thread&, const Step&, const memory::AsyncOperation&) {}
  virtual void moved(const memory::AsyncOperation&) {}
  virtual void completed(const memory::AsyncOperation&) {}
  virtual void sync(const SyncEvent&) {}
  virtual void memory(const MemoryEvent&) {}
  virtual void thread(ThreadEvent::What, int32_t) {}
  virtual void finding(const ir::Diagnostic&) {}
  virtual void print(const Thread&, const std::string&) {}
  virtual ObserverStates states() const { return {}; }
  virtual void restore(const ObserverStates&) {}
};

}  // namespace pallasim::interp
