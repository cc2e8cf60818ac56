// What outlives a launch: semaphores and memory of cores that live outside kernels.
#pragma once
#include <deque>
#include <map>
#include <mutex>

#include "../ops/execution.h"

namespace pallasim::interp {

// Counts of the semaphores that live outside kernels. An array of semaphores holds handles: indices of this table.
struct Session::State {
  static constexpr int kHandles = 1 << 16;
  std::mutex mutex;
  std::vector<int64_t> counts;                    // of a device's first core; 0 behind its end
  std::map<std::pair<int, int>, int64_t> others;  // by handle and core: counts that are not 0
  int next = 1;                                   // 0 is no semaphore

  int64_t at_first(int handle) const {
    const auto h = static_cast<size_t>(handle);
    return h < counts.size() ? counts[h] : 0;
  }
  int64_t count(int handle, int core) const {
    if (core == 0) return at_first(handle);
    const auto it = others.find({handle, core});
    return it == others.end() ? 0 : it->second;
  }
  void set(int handle, int core, int64_t count) {
    const auto h = static_cast<size_t>(handle);
    if (core == 0 && count != 0 && h >= counts.size()) counts.resize(h + 1, 0);
    if (core == 0 && h < counts.size()) counts[h] = count;
    if (core == 0) return;
    if (count != 0) others[{handle, core}] = count;
    else others.erase({handle, core});
  }
  bool is_free(int handle) const {
    const auto it = others.lower_bound({handle, 0});
    return at_first(handle) == 0 && (it == others.end() || it->first.first != handle);
  }

  // An array in memory that every core has for itself, as a launch left it. Programs know its first core's.
  struct CoreArray {
    int64_t run;
    int32_t device;
    const std::byte* array;
    std::vector<std::vector<std::byte>> cores;
  };
  static constexpr size_t kCoreArrays = 64;  // the oldest ones go
  std::deque<CoreArray> arrays;
  const CoreArray* find(int64_t run, int32_t device, const std::byte* array) const {
    const auto it = std::find_if(arrays.begin(), arrays.end(), [&](const CoreArray& a) {
      return a.run == run && a.device == device && a.array == array;
    });
    return it == arrays.end() ? nullptr : &*it;
  }
  void keep(CoreArray a) {
    std::erase_if(arrays,
                  [&](const CoreArray& b) { return b.run == a.run && b.device == a.device && b.array == a.array; });
    arrays.push_back(std::move(a));
    if (arrays.size() > kCoreArrays) arrays.pop_front();
  }

  // Who met at the barrier semaphore of a collective_id, by run of a program.
  struct Met {
    std::string kernel;                   // the first one
    std::optional<ir::Diagnostic> early;  // how a launch lets a device run ahead, to be told of at the next one
    bool told = false;                    // of that
  };
  std::map<std::pair<int64_t, int64_t>, Met> met;
  static constexpr size_t kMet = 256;  // the oldest runs go

  // A handle whose count is 0, taken in turn, so that one that was given out comes back late.
  int allocate() {
    for (int tries = 0; tries < kHandles; ++tries) {
      const int h = next;
      next = next + 1 == kHandles ? 1 : next + 1;
      if (is_free(h)) return h;
    }
    return 0;
  }
};

// What every box of a launch needs.
struct Call {
  const Plan& plan;
  const ir::LocTable& locs;  // of the text that this launch came with
  Session& session;
  const Options& options;
  std::vector<std::vector<std::byte*>> operands;  // per device
  std::vector<int64_t> grid;
  Population who;
  int32_t first_device = 0;
  int64_t run = 0;
  uint64_t interrupt_epoch = 0;    // when the launch began
  std::vector<int> deferred_init;  // outputs (operands of Window::init_deferred) that are not poisoned yet; one device
  Watch watch;
};

// What was given to a launch does not fit its plan (PS-ARG-001).
[[noreturn]] void bad_argument(const Plan&, std::string message, std::vector<std::string> numbers, std::string hint);

// Into the cores before a launch runs, and out of them after it: the counts of semaphores and the arrays that live
// outside.
void enter_session(Execution&, const Call&);
void leave_session(Execution&, const Call&);
// A note where another kernel of the same run of a program met at the same barrier semaphore: that of the
// collective_id.
void note_shared_barrier(const Call&, Report*);
// How this launch lets a device run ahead (PS-SEM-003): the next one at the same barrier semaphore is told.
void keep_early(const Call&, std::optional<ir::Diagnostic>);
// New semaphores for an array of handles. Throws DiagnosticError where none is left.
void make_semaphores(Session::State&, const Plan&, const ir::Operand&, std::byte* data);

}  // namespace pallasim::interp
