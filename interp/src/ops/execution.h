// One launch in progress: the machine's state and memory, what the launch is bound to, what it said so far, and what
// the host lends it. Kept warm between launches of a plan.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "binding.h"
#include "events.h"
#include "host.h"
#include "log.h"
#include "state.h"

namespace pallasim::interp {

namespace ops {
class Diagnostics;  // findings.h
}

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

struct Execution : Binding, State {
  Execution(const Plan&, const ops::Diagnostics&);
  ~Execution();

  const Plan* plan = nullptr;
  const ops::Diagnostics* diagnostics = nullptr;  // the words for what is found
  Log log;
  Host host;
  // Slots and temporaries of one thread, and where its buffers lie.
  struct Arena {
    Bytes memory;
    std::vector<std::byte*> bases;  // by buffer index
  };
  std::vector<std::unique_ptr<Arena>> arenas;  // one per thread; of programs: as many as ever ran at a time
  struct SharedMemory {                        // an allocation that threads share
    size_t allocation;                         // index into PlanMemory::allocations
    std::vector<Bytes> of_units;               // one per owner; apart: none where the owner's program did not begin
    std::vector<Bytes> free;                   // of ended programs
  };
  std::vector<SharedMemory> shared_memory;
  Options::Copies copies_move = Options::Copies::AtIssue;
  bool rows_apart = true;  // where copies move one by one, chosen rows of one copy do as well
  // Bytes may stay where copies get them: not where somebody is told of what loads read.
  bool elides_copies = true;
  Events* events = &Events::nobody();  // told of what steps do
  bool observed = false;               // each step tells `events` first what it touches
  bool joined = false;                 // it goes through runs of scalar steps: nobody else can have a turn within one

  // `arrays`: operands of each device of the launch; `first`: the number of the first device among those around the
  // kernel.
  void bind(std::span<const std::vector<std::byte*>> arrays, std::span<const int64_t> grid_sizes, int32_t first = 0,
            const Population& = {});
  void poison_gaps(const DeferredInit&) const;
  void add_finding(ir::Diagnostic d) {
    log.findings.push_back(std::move(d));
    events->finding(log.findings.back());
  }
  int64_t stream_of(memory::AsyncEngine engine, int32_t thread) const {
    return (static_cast<int64_t>(engine) - 1) * static_cast<int64_t>(threads.size()) + thread;
  }
  int64_t linear_point(const Thread&) const;
  int core_of(const Thread&) const;  // that runs the thread's grid point

  // -- copy_elision.cc --
  const memory::Allocation& elidable_allocation(int32_t number) const;
  ElidedCopies& elided_copies(int32_t number, int32_t unit);
  std::byte* elidable_memory(int32_t number, const Thread&) const;
  void materialise(int32_t number, const Thread&);  // all of it lies in memory that the thread knows

  // -- population.cc --
  void start(const GridBox& box);  // together: resets threads to their entries
  // Apart: arenas are taken when a thread first runs, so that run-to-block needs those of one program.
  void start_programs();
  void begin_program(Thread&);  // before its first step; throws PS-SIZE-001 where memory would exceed the limit
  // Of a thread that ended. Where its program has by that, its place goes to the next one, if there is one: whose
  // threads are returned, ready to run.
  std::vector<int32_t> end_program(Thread&);
  // The threads of a state that came from elsewhere, and memory that may lie elsewhere.
  void rebind();
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
  // A thread of the device whose array the place is in, or the place's own.
  int32_t thread_of(const memory::Place& p) const { return p.thread >= 0 ? p.thread : ~p.thread * device_threads; }
  std::byte* address(const memory::Place& p) const {
    std::byte* base =
        p.thread < 0 ? operand(~p.thread, p.buffer) : threads[static_cast<size_t>(p.thread)].bases[p.buffer];
    return base + p.offset;
  }
  // From now on the thread's buffer stands for another one.
  void set_alias(Thread&, uint32_t buffer, BufferAlias);
  // Whose buffer it is that the number stands for, and which.
  std::pair<int32_t, uint32_t> stands_for(const Thread&, uint32_t buffer) const;
  // The same, as a place: an array is its device's.
  memory::Place place(const Thread&, uint32_t buffer, int64_t offset) const;

 private:
  std::unique_ptr<Arena> new_arena(const Body&);
  GridPart make_part(GridBox) const;
  std::byte* base_of(const BufferAlias&) const;
  void clear_elided();
  void reset_streams();
  void reset(const GridBox&);                   // what is no thread's
  void enter(Thread&, const Body&, int64_t n);  // slots and scratch as at the start; `n`: its number in the body
  void bind_arena(Arena&, int32_t unit) const;
  Arena& arena_of(const Thread& t) const { return *arenas[static_cast<size_t>(t.home)]; }
  std::vector<BufferAlias>& aliases_of(const Thread& t) { return aliases[static_cast<size_t>(t.home)]; }
  void take_arena(Thread&, uint32_t temps);
  int32_t take_free_arena(const Body&);  // its number
  void begin_crew(int64_t place);
  void end_crew(int64_t place, Thread& last);
  memory::Barriers first_barriers_;  // as they are at the start

 public:
  // False: only what control, addresses and synchronisation go by is there; operations in flight end and move nothing.
  bool makes_values = true;
  // What a launch begins with in memory that nobody has written. Without values only what control may read.
  bool fills(ir::Space s) const { return makes_values || s == ir::Space::Smem || s == ir::Space::Index; }
};

// Fills `count` elements at `at` with what nobody wrote.
void poison(std::byte* at, int64_t count, ir::DType, Options::Fill);

// Requests to stop (Ctrl-C) so far: a run compares it with what it was when its launch began.
extern std::atomic<uint64_t> g_interrupt_epoch;

}  // namespace pallasim::interp
