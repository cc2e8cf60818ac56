// From what happens in a launch to its timeline: which track, which memory, which box.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "../plan/plan.h"
#include "pallasim/interp/observer.h"
#include "pallasim/interp/timeline.h"

namespace pallasim::interp {

class Picture {
 public:
  // Where a thread is: numbers are those of `names`.
  struct Place {
    int64_t core = 0, device = 0;
    std::string core_name, thread_name;
  };
  struct Launch {
    const Plan* plan;
    const ir::LocTable* locs;
    int64_t devices = 1;
    std::function<Place(int32_t thread)> place;
    std::function<std::string(int64_t)> semaphore, barrier;  // names
    std::function<int64_t(int64_t)> owner;                   // of a semaphore: a thread that has it, or -1
  };
  Picture(Timeline*, Launch);

  // The number of a name that stands in the program's text: nobody looks at its letters twice.
  int32_t word(const char* literal);
  int32_t word(const std::string& text) { return to_->name(text); }
  void slice(int32_t thread, double begin, double end, int32_t word, ir::LocId line);
  // Further trips of a loop take as long as those around, and are not drawn.
  void left_out(int32_t thread, double at, int64_t trips, ir::LocId line);
  void points_left_out(int32_t thread, double at, int64_t points, int axis);
  void unit(int32_t thread, const char* unit, double begin, double end, int32_t word, ir::LocId line);
  void point(int32_t thread, double at, const std::vector<int64_t>& ids);
  // The issue is a slice of its own, or where it takes no time, part of the thread's last one.
  void issued(const memory::AsyncOperation&, double begin, double end, ir::LocId line);
  void completed(const memory::AsyncOperation&, double at);
  void sync(const SyncEvent&, double at);
  void memory(const MemoryEvent&, double at);
  // A load or store of a GPU's thread: bytes between an operand, if it is known, and registers.
  void access(int32_t thread, int operand, double bytes, bool writes, double begin, double end, ir::LocId line);
  void ends(double at);
  bool slices() const { return !to_->moves_only; }

 private:
  struct Where {
    bool known = false, pictured = true;
    int64_t device = 0;
    int32_t group = -1, track = -1;  // of the core, of the thread
    int32_t point = -1;
    double entered = 0;
    std::vector<std::pair<const char*, int32_t>> units;  // tracks of those that it used
  };
  // What below a core is told apart by a word of the program's text, and for memories, by a place.
  struct Below {
    int32_t group;
    const void* of;
    int64_t place;
    bool operator==(const Below&) const = default;
  };
  struct HashBelow {
    size_t operator()(const Below& b) const {
      return (static_cast<size_t>(b.group) * 31 + reinterpret_cast<size_t>(b.of)) * 0x9e3779b97f4a7c15u +
             static_cast<size_t>(b.place);
    }
  };
  template <typename T>
  using ByPlace = std::unordered_map<Below, T, HashBelow>;
  struct Flight {
    double issued;
    int64_t arrow, bytes;
    ir::LocId line;
  };
  struct Box {
    int32_t room = -1, box = -1, slot = 0;
  };
  Where& where(int32_t thread);
  int32_t line_of(ir::LocId);
  int32_t device_track(int64_t device);
  int32_t track_of(int32_t group, const char* word, Timeline::Kind, const char* behind = "");
  int32_t issue_word(memory::AsyncKind);
  int32_t room_of_operand(size_t operand, int64_t device) const {
    return array_rooms_[operand * static_cast<size_t>(launch_.devices) + static_cast<size_t>(device)];
  }
  int32_t room_of(const memory::Allocation&, const Where&);
  int32_t room_beside(const Where&, const char* name, const char* space);  // of a core, that nobody allocated
  Box box_of(const memory::Side&, int32_t thread, double at);
  Timeline::Room array_room(size_t operand, int64_t device) const;
  int32_t window_room(const Window&, const Where&);
  void still_memory(int32_t thread, double at);
  void hold(int32_t group, ir::Space, int64_t bytes, double at);
  void tell(int64_t semaphore, int64_t change, double at, int32_t thread);
  void moved(const memory::AsyncOperation&, const Flight&, double at);
  std::string box_text(const std::vector<int64_t>& dims, int64_t element, const int64_t* size, int rank) const;

  Timeline* to_;
  Launch launch_;
  std::deque<Where> where_;  // by thread; references stay as others come
  std::unordered_map<int64_t, Flight> flights_;
  std::unordered_map<int64_t, std::pair<int32_t, int64_t>> semaphores_, barriers_;  // track, value
  std::map<std::pair<int32_t, int>, int64_t> held_;                                 // bytes by core and space
  std::map<int32_t, int64_t> in_flight_;                                            // bytes by core
  std::map<std::pair<int64_t, int64_t>, int> cores_;                                // that have pictures, by device
  std::set<std::pair<int32_t, std::ptrdiff_t>> scoped_;  // allocations that are there, by thread
  std::unordered_map<const char*, int32_t> words_;
  std::vector<int32_t> issue_words_ = std::vector<int32_t>(memory::async_kinds().size(), -1);  // by kind
  std::vector<int32_t> array_rooms_;                                                           // by operand and device
  ByPlace<int32_t> tracks_, rooms_;                                                            // of words, of memories
};

}  // namespace pallasim::interp
