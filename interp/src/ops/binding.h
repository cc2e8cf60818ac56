// What a launch is bound to, from its beginning to its end: arrays, the grid, the units of its devices.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../plan/plan.h"
#include "pallasim/memory/barriers.h"

namespace pallasim::interp {

// A box of grid points, run in lexicographic order.
struct GridBox {
  std::vector<int64_t> lo, hi;
};

// The part of the grid that one core runs.
struct GridPart {
  GridBox box;                   // of positions; without Options::grid_order they are the program ids
  std::vector<int64_t> advance;  // per axis, per window: offset change when that axis steps
};

// Which threads each device has. Together: all threads of all bodies, from the start. Apart: programs, which are
// points of a grid or clusters of thread blocks, begin when others end.
struct Population {
  int64_t programs = 0;  // of a device, row-major over the grid or the axes of clusters; 0: together
  int64_t first = 0;     // of them, or of the threads of a device, where others run elsewhere
  int64_t resident = 0;  // of them at a time
  int64_t stride = 1;    // `first`, the one so many behind it, and so on (a prediction's sample)
  int32_t crew = 1;      // threads of a program
  int64_t threads = 0;   // together: from `first` on so many; 0: all
  bool runs(int64_t thread) const { return threads == 0 || (thread >= first && thread < first + threads); }
  bool operator==(const Population&) const = default;
};

struct Binding {
  const Options* options = nullptr;
  const ir::LocTable* locs = nullptr;  // of the text that this launch came with: reports name its lines
  int32_t devices = 1, first_device = 0;
  bool bound = false;  // units, semaphores and barriers are those of `devices` and `population`
  std::vector<std::vector<std::byte*>> operands;  // per device
  std::vector<int64_t> grid;                      // bound extents
  Population population;
  std::vector<GridPart> parts;                 // one per core where cores share the grid, else one
  memory::Units units;                         // of all devices; apart: of the programs that are resident
  int32_t device_threads = 1;                  // of them, on one device
  int64_t unit_threads = 1, max_children = 0;  // all of them; how many each may spawn
  memory::SemaphoreLayout semaphore_layout;    // PlanMemory::semaphores of `units`, or of all programs
  memory::BarrierLayout barrier_layout;        // PlanMemory::barriers of `units`
  bool check_windows = false;                  // some window leaves its array somewhere: checked at every grid point

  std::byte* operand(int32_t device, uint32_t buffer) const {
    return operands[static_cast<size_t>(device)][buffer - kFirstOperandBuffer];
  }
  int32_t device_of(const Thread& t) const { return devices == 1 ? 0 : t.unit / device_threads; }
  // Whether semaphores are there from the start for programs that begin later: another device may signal those.
  bool has_early_semaphores() const { return devices > 1 && population.programs > 0; }
  // Of the thread's program on the unit's device, the place of a thread in the semaphores' layout.
  int64_t semaphore_place(const Thread& t, int32_t unit) const {
    if (!has_early_semaphores()) return unit;
    const int64_t crew = population.crew;
    return unit / device_threads * population.programs * crew + t.point * crew + unit % crew;
  }
  const GridPart& part(const Thread& t) const {
    return parts[parts.size() == 1 ? 0 : static_cast<size_t>(t.unit % device_threads)];
  }
};

}  // namespace pallasim::interp
