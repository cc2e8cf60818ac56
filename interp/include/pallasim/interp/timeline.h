// What happened when, for pictures: slices on tracks, arrows between them, counters, tiles that move between memories.
// Times are seconds of the chip, or where nobody predicts them, steps.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pallasim/interp/observer.h"
#include "pallasim/ir/diagnostic.h"

namespace pallasim::interp {

class Timeline {
 public:
  // A device or core has tracks below it: of its threads, of the units that they use, of operations in flight, of what
  // is counted.
  enum class Kind : uint8_t { Group, Thread, Unit, Flight, Counter };
  struct Track {
    std::string name;
    int32_t parent;  // -1: none
    Kind kind;
  };
  struct Slice {
    double begin, end;
    int32_t track, name;                // numbers of track() and name()
    int32_t line = -1;                  // into `lines`; -1: none
    int32_t point = -1;                 // of the grid, as name() has its text: "(0, 3)"
    int64_t leaves = -1, arrives = -1;  // arrows, by number: from this slice, to it
    int32_t folded = 0;                 // how many slices it stands for, if more than itself
    double busy = 0;                    // of those, seconds in which there was one
    double seconds() const { return folded ? busy : end - begin; }
  };
  struct Count {
    double time;
    int32_t track;
    double value;
  };
  // Memory that tiles come from and go to.
  struct Room {
    std::string name, space;  // of the ref in the kernel; as the IR names spaces, "registers", "tensor core"
    int32_t core = -1;        // track of whose memory it is; -1: the device's
    int32_t device = 0;
    int64_t bytes = 0, slots = 1;  // in all; blocks that lie in it one behind the other
    std::vector<int64_t> dims;     // elements of all slots; may be empty
    double begin = 0, end = -1;    // while it is there; end -1: to the end
  };
  struct Move {
    double begin, end;
    int32_t name, line;
    int32_t from, to;                    // rooms
    int32_t from_box = -1, to_box = -1;  // "[0:128, 64:128]", as name() has it
    int32_t from_slot = 0, to_slot = 0;
    int64_t bytes = 0;
  };
  // A point of the grid, on the core that runs it.
  struct Point {
    double begin, end;
    int32_t core, name;  // a track; "(0, 3)"
  };

  // By name; a new one is made.
  int32_t track(const std::string& name, Kind kind = Kind::Thread, int32_t parent = -1);
  int32_t name(const std::string& text);
  int32_t room(const Room&);  // of that name, space, core and device
  // Beyond `most` slices those that are short and behind each other on their track become one: `folded` says how many
  // were lost by that. The first eighth stays as it is. Of other things those beyond their number are left out.
  void add(Slice);
  void count(double time, int32_t track, double value);
  bool add_move(const Move&);
  bool add_point(const Point&);
  // The track's last slice; null: it has none.
  Slice* last(int32_t track);
  int64_t new_arrow() { return arrows_++; }
  double end() const;
  // What was left out or put together, in words; empty: nothing.
  std::string left_out() const;

  std::string kernel, unit = "ns";  // what a second of the time stands for 1e9 of
  std::vector<Track> tracks;
  std::vector<std::string> names;
  std::vector<ir::Site> lines;
  std::vector<Slice> slices;
  std::vector<Count> counts;
  std::vector<Room> rooms;
  std::vector<Move> moves;
  std::vector<Point> points;
  size_t most = 1'000'000, most_counts = 1'000'000, most_moves = 200'000, most_points = 100'000;
  int32_t most_cores = 0;       // of each device, so many have pictures; 0: all
  bool moves_only = false;      // who makes it leaves out slices, counts and points
  int64_t trips_left_out = 0;   // of loops, whose slices say where
  int64_t points_left_out = 0;  // steps along an axis of the grid
  int64_t folded = 0, counts_folded = 0, moves_dropped = 0, points_dropped = 0, cores_left_out = 0;

 private:
  using Numbers = std::unordered_map<std::string, int32_t>;
  bool merge(Slice* into, const Slice&) const;
  void fold();
  void fold_counts();
  std::vector<Numbers> track_numbers_;  // by parent, from -1 on
  Numbers name_numbers_, room_numbers_;
  std::vector<int64_t> last_;       // slice by track
  std::vector<double> last_count_;  // time by track
  double resolution_ = 0, count_resolution_ = 0;
  int64_t arrows_ = 0;
};

// Makes a timeline of a launch without a model of time: step after step, as they ran.
std::unique_ptr<Observer> step_timeline(Timeline*);

}  // namespace pallasim::interp
