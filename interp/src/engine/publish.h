// From what steps do to the events of observers.
#pragma once
#include <array>
#include <bit>
#include <optional>
#include <span>
#include <vector>

#include "../ops/events.h"
#include "../ops/execution.h"

namespace pallasim::interp {

// Tells the observers of one execution. While it lives, the execution runs observed: step by step, or where observers
// want no more than the accesses that runs of scalar steps end with (kRunsTell), in such runs.
class Publisher : public Events {
 public:
  static constexpr bool kRunsTell = true;
  Publisher(Execution&, std::span<Observer* const>, bool runs_tell = false);
  ~Publisher() override;
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  void launch() override;
  void step(Thread&, const Step&) override;
  void point(const Thread&) override;
  void window(const Thread&, const Window&) override;
  void window_at(const Thread&, const Window&, const int64_t* place) override;
  void issued(const Thread&, const Step&, const memory::AsyncOperation&) override;
  void moved(const memory::AsyncOperation&) override;
  void completed(const memory::AsyncOperation&) override;
  void sync(const SyncEvent&) override;
  void memory(const MemoryEvent&) override;
  void thread(ThreadEvent::What, int32_t) override;
  void finding(const ir::Diagnostic&) override;
  void print(const Thread&, const std::string&) override;
  ObserverStates states() const override;
  void restore(const ObserverStates&) override;

 private:
  class Accesses;
  void tell_sides(const Thread&, const Step&, const memory::AsyncOperation&);
  using Observers = std::vector<Observer*>;
  const Observers& who(uint32_t bit) const { return by_bit_[static_cast<size_t>(std::countr_zero(bit))]; }
  const Observers& who_sees(uint32_t buffer);  // accesses to it
  bool any(uint32_t bit) const { return !who(bit).empty(); }
  bool asks_for_all(const Thread&) const;  // some observer, of the thread's steps
  [[gnu::noinline]] bool is_known(const Thread&, const Step&);
  [[gnu::noinline]] void tell_step(Thread&, const Step&);
  template <typename F>
  void tell(uint32_t bit, const F& f) const {
    for (Observer* o : who(bit)) f(*o);
  }

  Execution& ex_;
  Observers all_;
  std::array<Observers, 16> by_bit_;                          // of Observer::wants()
  std::vector<std::optional<Observers>> by_buffer_;           // who sees accesses to it, once somebody asked
  Observers touching_;                                        // kTouching
  bool all_steps_ = false;                                    // somebody wants them
  enum class Touches : uint8_t { Nothing, Element, Memory };  // Memory: or it takes a longer look
  static Touches touches(const Step&);
  std::vector<Touches> touches_;  // by step
  int64_t time_ = 0;
};

}  // namespace pallasim::interp
