// Windows of blocked outputs that are aliased, on machines whose cores hold windows in memory of their own: the alias
// joins arrays, not windows. A window begins undefined at every visit of its block, and as it is at the end of the
// visit it goes to the array (jax#24023).
#pragma once
#include <map>
#include <vector>

#include "../ops/execution.h"
#include "pallasim/memory/shadow/definedness.h"

namespace pallasim::interp {

class WindowVisits {
 public:
  using Birth = memory::shadow::Birth;
  using Definedness = memory::shadow::Definedness;
  explicit WindowVisits(const Plan&);
  bool is_one(uint32_t buffer) const { return windows_.count(buffer) != 0; }
  // Definedness of the window, as the thread sees the operand: at the places of the array.
  Definedness& of(int32_t thread, uint32_t buffer) { return visits_[{thread, buffer}].window; }
  // The thread sees the block at the place from now on. What it saw before is written to `array`.
  void show(const Thread&, uint32_t buffer, const int64_t* place, Birth undefined, Definedness* array);
  // All visits end. `array`: of a thread's operand.
  template <typename Array>
  void end(const Array& array) {
    for (auto& [key, visit] : visits_) leave(visit, *windows_.at(key.second), &array(key.first, key.second));
    visits_.clear();
  }

 private:
  struct Visit {
    std::vector<int64_t> place;  // empty: none yet
    Definedness window;
  };
  static void leave(Visit&, const Window&, Definedness* array);
  std::map<uint32_t, const Window*> windows_;  // in place, by buffer
  std::map<std::pair<int32_t, uint32_t>, Visit> visits_;
};

// Whether windows of the operand are such.
bool window_begins_undefined(const Plan&, const Window&);

}  // namespace pallasim::interp
