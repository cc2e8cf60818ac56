// Listeners of checked runs.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../ops/execution.h"

namespace pallasim::interp {

// Accesses and bytes per operand.
struct TrafficListener : Listener {
  explicit TrafficListener(const Plan&);
  void on_access(Execution&, const Access&) override;
  std::vector<Traffic> traffic;
};

// Grid points that run at once share no element that one of them writes: those of a `parallel` axis by its promise, those
// of a Triton launch because every one is a program. Programs that wait for each other are not looked at. Throws
// PS-SIZE-001 where what is remembered of the accesses exceeds Options::max_memory.
class ParallelClaim : public Listener {
 public:
  explicit ParallelClaim(const Plan&);
  bool empty() const { return axes_.empty(); }
  void on_grid_point(Execution&, const Thread&, std::span<const int64_t>) override;
  void on_access(Execution&, const Access&) override;
  void finish(Execution&, std::vector<ir::Diagnostic>&) override;

 private:
  struct Mark {
    int32_t writer = -1, reader = -1;  // coordinates on the parallel axes
    ir::LocId written = -1, read = -1;
  };
  // An operand, or the scratch of one thread. A mark stands for `grain` bytes, the narrowest element seen.
  struct Shadow {
    std::string name;
    int64_t begin = 0;                 // of the buffer's bytes
    int64_t grain = 0;
    std::vector<Mark> marks;
  };
  Shadow* shadow_of(const Access&);
  void refine(const Execution&, Shadow*, int64_t grain);
  void grow(const Execution&, Shadow*, size_t marks);
  void mark(Execution&, const Access&, const Shadow&, Mark*);
  void report(Execution&, const Access&, const std::string& name, int64_t earlier, ir::LocId loc, bool wrote);
  const Plan& plan_;
  bool programs_;
  std::vector<size_t> axes_;
  std::map<std::pair<int, size_t>, Shadow> shadows_;  // by owner (-1: all threads) and operand or scratch
  int64_t marks_ = 0;
  std::set<std::string> reported_;
  std::vector<ir::Diagnostic> findings_;
  std::vector<int64_t> units_;  // of each thread: the coordinates on the parallel axes of its grid point, row-major
};

// Where the access begins.
inline const std::byte* address(const Execution& ex, const Access& a) {
  return ex.threads[static_cast<size_t>(a.owner < 0 ? a.thread : a.owner)].bases[a.buffer] + a.offset;
}

// Bytes from `begin` to before `end`, of the process.
struct ByteRun {
  const std::byte *begin, *end;
};
// The runs of adjacent bytes of a strided region at `at`, in ascending order of addresses where strides are not negative.
std::vector<ByteRun> byte_runs(const std::byte* at, const int64_t* dims, const int64_t* strides, int rank, int element_bytes);
bool overlap(const std::vector<ByteRun>&, const std::vector<ByteRun>&);

// Nobody may touch what an asynchronous copy writes, or change what it reads, before the copy is awaited. A wait covers the
// oldest copies of its semaphore, as far as its bytes go.
class CopyWatch : public Listener {
 public:
  explicit CopyWatch(const Plan& plan) : plan_(plan) {}
  void on_access(Execution&, const Access&) override;
  void on_copy(Execution&, const memory::AsyncCopy&, const Step&) override;
  void on_taken(Execution&, int64_t semaphore, int64_t amount) override;
  void finish(Execution&, std::vector<ir::Diagnostic>&) override;

 private:
  struct Flight {
    const Step* step;
    int64_t src_sem, dst_sem;
    int64_t src_owed, dst_owed;  // bytes that waits must take before the side is free; 0: free
    std::vector<ByteRun> src, dst;
  };
  void report(Execution&, const Access&, const Flight&, bool dst);
  const Plan& plan_;
  std::deque<Flight> flights_;
  std::set<std::pair<const Step*, const Step*>> reported_;
  std::vector<ir::Diagnostic> findings_;
};

// Cores and devices that use the same memory without a semaphore between them. Who saw a semaphore knows what all who signalled
// it, or started a copy that does, had done by then (vector clocks). Of a core's own memory, scratch and allocations are looked
// at into which some core or device copies.
class CoreRaces : public Listener {
 public:
  CoreRaces(const Plan&, size_t devices);
  bool empty() const { return clocks_.empty(); }
  void on_access(Execution&, const Access&) override;
  void on_copy(Execution&, const memory::AsyncCopy&, const Step&) override;
  void on_signal(Execution&, const Thread&, int64_t semaphore) override;
  void on_seen(Execution&, const Thread&, int64_t semaphore) override;
  void on_fresh(Execution&, const Thread&, int64_t offset, int64_t bytes, const std::string& name) override;
  void finish(Execution&, std::vector<ir::Diagnostic>&) override;

 private:
  using Clock = std::vector<int64_t>;  // per thread, what is known of it
  struct Record {
    int thread;
    int64_t at;  // the thread's own clock
    bool write;
    const Step* step;
    std::vector<ByteRun> runs;
  };
  struct Reached {  // of a thread's temporaries: others copy to there
    int64_t begin, end;
    std::string name;
  };
  void note_reached(int64_t offset, const std::string& name);
  const Reached* reached(const Access&) const;
  void publish(int thread, std::initializer_list<int64_t> semaphores);
  void report(Execution&, const Access&, const Record&);
  const Plan& plan_;
  std::vector<Clock> clocks_;           // per thread
  std::map<int64_t, Clock> published_;  // per semaphore
  std::vector<Reached> reached_;
  std::deque<Record> records_;          // that not everybody knows of yet
  std::set<std::pair<const Step*, const Step*>> reported_;
  std::vector<ir::Diagnostic> findings_;
};

// On `generic` an aliased input and its output are one buffer: a read through the input's name of what the output wrote
// shows the new value, where other ways to run the kernel show the old one. Blocks that are copies of their own (at an
// array's edge) are not looked at.
class AliasWatch : public Listener {
 public:
  explicit AliasWatch(const Plan&);
  bool empty() const { return pairs_.empty(); }
  void on_access(Execution&, const Access&) override;
  void finish(Execution&, std::vector<ir::Diagnostic>&) override;

 private:
  struct Written {
    const std::byte* end;
    const Step* step;
  };
  void cut(const ByteRun&);  // of what is written
  void report(Execution&, const Access&, int input, const std::byte* at, const Step* writer);
  const Plan& plan_;
  std::map<int, int> pairs_;                       // operands, input to output and output to input
  std::map<const std::byte*, Written> written_;    // by begin: what outputs wrote last
  std::set<int> reported_;
  std::vector<ir::Diagnostic> findings_;
};

// What was written: outputs that stay as they were, and reads of memory that nobody wrote.
class WriteWatch : public Listener {
 public:
  explicit WriteWatch(const Plan& plan);
  void on_access(Execution&, const Access&) override;
  void on_fresh(Execution&, const Thread&, int64_t offset, int64_t bytes, const std::string& name) override;
  void finish(Execution&, std::vector<ir::Diagnostic>&) override;

 private:
  struct Region {
    const std::byte* begin = nullptr;
    std::string name;
    std::vector<bool> written;   // per byte
    const Window* output = nullptr;  // an output's whole array
    const Window* stage = nullptr;   // a copy of a block of an output
    int thread = -1;
    std::vector<int64_t> dims;       // where known
  };
  void track(Execution&);
  Region* region_of(const std::byte*);
  void touch(Execution&, const Access&, Region&, const std::vector<ByteRun>&);
  void report_part(Execution&, const Access&, const Region&, const std::vector<ByteRun>&);
  void mark_stage(Execution&, const Access&, const Region&, const std::vector<ByteRun>&);
  const Plan& plan_;
  std::map<const std::byte*, Region> regions_;  // by begin
  std::set<std::string> reported_;
  std::vector<ir::Diagnostic> findings_;
  bool tracking_ = false;
};

}  // namespace pallasim::interp
