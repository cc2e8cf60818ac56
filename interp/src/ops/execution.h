// One launch in progress: threads, buffers, semaphores, grid box. Kept warm between launches of a plan.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "../plan/plan.h"
#include "elided_copies.h"
#include "events.h"
#include "pallasim/memory/barriers.h"
#include "pallasim/memory/interval_set.h"
#include "pallasim/memory/streams.h"

namespace pallasim::interp {

class Helpers;  // parts.h
namespace ops {
class Diagnostics;  // findings.h
}

// A box of grid points, run in lexicographic order.
struct GridBox {
  std::vector<int64_t> lo, hi;
};

// The part of the grid that one core runs.
struct GridPart {
  GridBox box;                   // of positions; without Options::grid_order they are the program ids
  std::vector<int64_t> advance;  // per axis, per window: offset change when that axis steps
};

struct Print {
  int64_t order;  // linear grid index, then sequence
  std::string text;
  std::shared_ptr<HostCall> call;  // instead of a text
};

// Memory that begins on a cache line.
template <typename T>
struct CacheLineAllocator {
  using value_type = T;
  CacheLineAllocator() = default;
  template <typename U>
  explicit CacheLineAllocator(const CacheLineAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64})); }
  template <typename U>
  void construct(U* p) {
    ::new (static_cast<void*>(p)) U;  // bytes stay as they are: nobody reads what was not written
  }
  void deallocate(T* p, size_t) { ::operator delete (p, std::align_val_t{64}); }
  bool operator==(const CacheLineAllocator&) const = default;
};
using Bytes = std::vector<std::byte, CacheLineAllocator<std::byte>>;

// Whose buffer another number stands for (PlanMemory::aliases): a thread's, or an operand of a device, which outlives
// its threads.
struct BufferAlias {
  int32_t thread = 0;   // or ~device
  uint32_t buffer = 0;  // 0: of nobody yet
  static BufferAlias of_operand(int32_t device, uint32_t buffer) { return {~device, buffer}; }
  bool operator==(const BufferAlias&) const = default;
};

// Which threads there are. Together: all threads of all bodies, from the start. Apart: programs, which are points of a
// grid or clusters of thread blocks, begin when others end.
struct Population {
  int64_t programs = 0;  // in all, row-major over the grid or the axes of clusters; 0: together
  int64_t first = 0;     // of them, or of the threads of a device, where others run elsewhere
  int64_t resident = 0;  // of them at a time
  int32_t crew = 1;      // threads of a program
  int64_t threads = 0;   // together: from `first` on so many; 0: all
  bool runs(int64_t thread) const { return threads == 0 || (thread >= first && thread < first + threads); }
  bool operator==(const Population&) const = default;
};

struct Execution {
  Execution(const Plan&, const ops::Diagnostics&);
  ~Execution();

  const Plan* plan = nullptr;
  const ops::Diagnostics* diagnostics = nullptr;  // the words for what is found
  const ir::LocTable* locs = nullptr;             // of the text that this launch came with: reports name its lines
  const Options* options = nullptr;
  uint64_t interrupt_epoch = 0;  // when the launch began
  int32_t devices = 1, first_device = 0;
  bool bound = false;  // units, semaphores and barriers are those of `devices` and `population`
  Population population;
  std::vector<int64_t> grid;    // bound extents
  std::vector<GridPart> parts;  // one per core where cores share the grid, else one
  // Those of the units in their order, then room for those that each of them may spawn.
  std::vector<Thread> threads;
  // Slots and temporaries of one thread, and where its buffers lie.
  struct Arena {
    Bytes memory;
    std::vector<std::byte*> bases;     // by buffer index
    std::vector<BufferAlias> aliases;  // by place among PlanMemory::aliases
  };
  std::byte* operand(int32_t device, uint32_t buffer) const {
    return operands[static_cast<size_t>(device)][buffer - kFirstOperandBuffer];
  }
  // From now on the thread's buffer stands for another one.
  void set_alias(Thread&, uint32_t buffer, BufferAlias);
  // Whose buffer it is that the number stands for, and which.
  std::pair<int32_t, uint32_t> stands_for(const Thread&, uint32_t buffer) const;
  std::vector<std::unique_ptr<Arena>> arenas;  // one per thread; of programs: as many as ever ran at a time
  memory::Units units;                         // of all devices; apart: of the programs that are resident
  int32_t device_threads = 1;                  // of them, on one device
  int64_t unit_threads = 1, max_children = 0;  // all of them; how many each may spawn
  struct SharedMemory {                        // an allocation that threads share
    size_t allocation;                         // index into PlanMemory::allocations
    std::vector<Bytes> of_units;               // one per owner; apart: none where the owner's program did not begin
    std::vector<Bytes> free;                   // of ended programs
  };
  std::vector<SharedMemory> shared_memory;
  std::vector<ElidedCopies> elided;  // of each unit, PlanMemory::elidable
  // Bytes may stay where copies get them: not where somebody is told of what loads read.
  bool elides_copies = true;
  const memory::Allocation& elidable_allocation(int32_t number) const;
  ElidedCopies& elided_copies(int32_t number, int32_t unit);
  std::byte* elidable_memory(int32_t number, const Thread&) const;
  void materialise(int32_t number, const Thread&);  // all of it lies in memory that the thread knows
  void clear_elided();
  memory::SemaphoreLayout semaphore_layout;  // PlanMemory::semaphores of `units`
  memory::Semaphores semaphores;
  memory::BarrierLayout barrier_layout;  // PlanMemory::barriers of `units`
  memory::Barriers barriers;
  // One per thread of bulk copies, then one per thread of products: each product is a group of its own, and its issue
  // awaits all before it (JAX, pallas/gpu/reference).
  memory::Streams streams;
  int64_t product_stream(int32_t thread) const { return static_cast<int64_t>(threads.size()) + thread; }
  size_t barriers_told = 0;  // findings of `barriers` that were reported
  memory::CopyQueue copies;  // in flight
  int64_t copies_issued = 0;
  Options::Copies copies_move = Options::Copies::AtIssue;
  std::vector<int32_t> woken;
  Events* events = &Events::nobody();  // told of what steps do
  bool observed = false;               // each step tells `events` first what it touches
  Helpers* helpers = nullptr;          // who takes parts of steps (ops/parts.h); null: nobody
  // Strip registers of a part of a step; those of part 0 are every thread's. Made before parts run.
  std::byte* strips_of(int part) const;
  void make_strips(int parts);
  int64_t strip_bytes() const {
    return (1 + static_cast<int64_t>(strips_of_parts_.size())) * plan->memory.max_strips * kStripBytes;
  }
  std::vector<Print> prints;
  bool keeps_calls = false;              // debug_callbacks are recorded among them
  Breakpoints* breakpoints = nullptr;    // who is called at once instead
  std::vector<ir::Diagnostic> findings;  // that did not stop the run
  void add_finding(ir::Diagnostic d) {
    findings.push_back(std::move(d));
    events->finding(findings.back());
  }
  // Outputs of Window::init_deferred, which are poisoned where copies wrote nothing once the run is over.
  struct DeferredInit {
    uint32_t buffer;
    std::byte* at;
    int64_t bytes;
    ir::DType dtype;
    memory::IntervalSet written;
  };
  std::vector<DeferredInit> deferred_init;
  std::map<const Step*, size_t> noted;  // accesses out of bounds that are among them, and where
  struct Visits {
    std::vector<int64_t> now;                                   // the block's place
    std::map<std::vector<int64_t>, std::vector<int64_t>> seen;  // place -> grid point
    bool reported = false;
  };
  std::map<std::pair<int32_t, int>, Visits> visits;  // by thread and output: the blocks that output_visit saw
  int64_t steps = 0;
  bool progressed = false;               // memory was written or a semaphore signalled since the last look
  bool check_windows = false;            // some window leaves its array somewhere: checked at every grid point
  int64_t spins = 0;                     // reads of a waiting loop that found nothing new, since something was written
  std::vector<uint8_t> judged;           // by step: how often Options::verify_footprints looked at it
  std::atomic<int64_t> points_ended{0};  // grid points, of all threads; other OS threads read it (Progress)
  int64_t points = 0, next_point = 0;    // programs: in all, and the first that no thread has got yet; 0: together
  std::vector<int64_t> begun;  // programs: of each place among the resident ones, the last one that began there

  // `arrays`: operands of each device of the launch; `first`: the number of the first device among those around the
  // kernel.
  void bind(std::span<const std::vector<std::byte*>> arrays, std::span<const int64_t> grid_sizes, int32_t first = 0,
            const Population& = {});
  void poison_gaps(const DeferredInit&) const;

  // -- population.cc --
  void start(const GridBox& box);  // together: resets threads to their entries
  // Apart: arenas are taken when a thread first runs, so that run-to-block needs those of one program.
  void start_programs();
  void begin_program(Thread&);  // before its first step; throws PS-SIZE-001 where memory would exceed the limit
  // Of a thread that ended. Where its program has by that, its place goes to the next one, if there is one: whose
  // threads are returned, ready to run.
  std::vector<int32_t> end_program(Thread&);
  void rebind();  // shared memory may lie elsewhere
  // Of a launch that is over. What is left in memory given away between its result and the next one may lie where that
  // one would have come.
  void rest();
  // The i-th of those that a thread may spawn. It begins with the parent's slots and memory, and temporaries of its own
  // in buffer `temps`.
  Thread& child(const Thread& parent, int64_t i) {
    return threads[static_cast<size_t>(unit_threads + int64_t{parent.unit} * max_children + i)];
  }
  Thread& begin_child(Thread& parent, int64_t i, uint32_t temps);
  void end_child(Thread&);

  bool joined = false;  // it goes through runs of scalar steps: nobody else can have a turn within one
  int64_t linear_point(const Thread&) const;
  int32_t device_of(const Thread& t) const { return devices == 1 ? 0 : t.unit / device_threads; }
  const GridPart& part(const Thread& t) const {
    return parts[parts.size() == 1 ? 0 : static_cast<size_t>(t.unit % device_threads)];
  }
  int core_of(const Thread&) const;  // that runs the thread's grid point
  // No other OS thread writes it.
  void end_point() { points_ended.store(points_ended.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  std::vector<int32_t> free_arenas;               // programs: of ended ones
  std::vector<std::vector<std::byte*>> operands;  // per device

 private:
  std::unique_ptr<Arena> new_arena(const Body&);
  GridPart make_part(GridBox) const;
  std::byte* base_of(const BufferAlias&) const;
  void reset(const GridBox&);                   // what is no thread's
  void enter(Thread&, const Body&, int64_t n);  // slots and scratch as at the start; `n`: its number in the body
  void bind_arena(Arena&, int32_t unit) const;
  Arena& arena_of(const Thread& t) const { return *arenas[static_cast<size_t>(t.home < 0 ? t.index : t.home)]; }
  void take_arena(Thread&, Arena&, uint32_t temps);
  Arena& free_arena(const Body&);
  void begin_crew(int64_t place);
  void end_crew(int64_t place, Thread& last);
  memory::Barriers first_barriers_;  // as they are at the start
  std::unique_ptr<std::byte[]> strips_;
  std::vector<std::unique_ptr<std::byte[]>> strips_of_parts_;  // from part 1 on
};

// Fills `count` elements at `at` with what nobody wrote.
void poison(std::byte* at, int64_t count, ir::DType, Options::Fill);

// Requests to stop (Ctrl-C) so far: a run compares it with what it was when its launch began.
extern std::atomic<uint64_t> g_interrupt_epoch;

}  // namespace pallasim::interp
