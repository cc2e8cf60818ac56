// Detectors of checked runs.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "byte_places.h"
#include "definedness_detector.h"
#include "instances.h"
#include "pallasim/memory/shadow/claims.h"
#include "pallasim/memory/shadow/written.h"

namespace pallasim::interp {

// Accesses and bytes per operand, and its blocks as a pipeline moves them.
struct TrafficDetector : Detector {
  explicit TrafficDetector(const Plan&);
  uint32_t wants() const override { return kLaunch | kWindow; }
  void see(Seen&) override;
  bool sees_places() const override { return true; }
  void on_launch(const LaunchEvent&) override;
  void on_window(const WindowEvent&) override;
  void finish(std::vector<ir::Diagnostic>&) override;
  void count(const Access&);
  // Of `boxes` boxes of so many bytes each.
  void count(uint32_t buffer, int64_t offset, bool write, int64_t bytes, int64_t boxes);
  std::vector<Traffic> traffic;

 private:
  struct Stage {  // of the temporaries: a copy of a block counts as its operand
    int64_t begin, end;
    size_t operand;
  };
  std::vector<Stage> stages_;
  void shows(int core, const Window&, const int64_t* place);
  void write_back(const Window&, const std::vector<int64_t>& place);
  std::map<std::pair<int, const Window*>, std::vector<int64_t>> shown_;  // by core: the place of the block it has
};

// Grid points that run at once share no element that one of them writes: those of a `parallel` axis by its promise,
// those of a Triton launch because every one is a program. Programs that wait for each other are not looked at. Throws
// PS-SIZE-001 where what is remembered of the accesses exceeds Options::max_memory.
class ClaimDetector : public Detector {
 public:
  ClaimDetector(const Plan&, const Options&, Instances&);
  bool empty() const { return axes_.empty(); }
  uint32_t wants() const override { return kPoint | (programs_ ? kStep | kTouching : 0); }
  void on_point(const PointEvent&) override;
  void on_step(const StepEvent&) override;
  void see(Seen&) override;
  bool sees_places() const override { return true; }
  void finish(std::vector<ir::Diagnostic>&) override;
  // A core read `name` before anybody wrote to it (`read`), because what sets it runs at no point of that core: `sets`,
  // a clause that the names of such refs end.
  void starts_late(const ir::Diagnostic& read, const std::string& name, std::string sets);

 private:
  struct SharedRef {
    std::string name;
    std::vector<size_t> axes;  // on which the two points differ
    bool carries = false;      // the later one reads what the earlier one left there
    int says = 0;              // how much of it the report says
    ir::Diagnostic found;
    std::string late;  // told by starts_late: what sets it
    bool is_of(const SharedRef& s) const { return name == s.name && axes == s.axes; }
  };
  struct Writes {  // that are about to be done, to what another unit wrote
    SharedRef found;
    BytePlaces place;
    std::vector<std::byte> before;
  };
  std::optional<SharedRef> note(Execution&, const Access&, const memory::shadow::Shared&, int64_t unit,
                                const std::string& name, bool kept) const;
  static void keep(std::vector<SharedRef>*, SharedRef);
  void compare();
  std::vector<size_t> differing(const Execution&, int64_t unit, int64_t other) const;
  std::string coordinates(const Execution&, int64_t unit) const;
  ir::Diagnostic report(const std::vector<SharedRef*>&) const;
  const Plan& plan_;
  Instances& instances_;
  bool programs_;
  std::vector<size_t> axes_;
  memory::shadow::Claims claims_;
  std::vector<SharedRef> shared_, same_;  // same_: two units wrote the same bytes
  std::vector<Writes> writes_;
  std::vector<int64_t> units_;  // of each thread: the coordinates on the parallel axes of its grid point, row-major
};

// Where the access begins.
inline const std::byte* address(const Execution& ex, const Access& a) {
  return ex.threads[static_cast<size_t>(a.owner < 0 ? a.thread : a.owner)].bases[a.buffer] + a.offset;
}

// Bytes from `begin` to before `end`, of a buffer.
struct ByteRun {
  int64_t begin, end;
};
// The runs of adjacent bytes of a strided region at `at`, in ascending order.
std::vector<ByteRun> byte_runs(int64_t at, const int64_t* dims, const int64_t* strides, int rank, int element_bytes);
bool overlap(const std::vector<ByteRun>&, const std::vector<ByteRun>&);

// On `generic` an aliased input and its output are one buffer: a read through the input's name of what the output wrote
// shows the new value, where other ways to run the kernel show the old one. Blocks that are copies of their own (at an
// array's edge) are not looked at.
class AliasDetector : public Detector {
 public:
  explicit AliasDetector(const Plan&);
  bool empty() const { return pairs_.empty(); }
  uint32_t wants() const override { return 0; }
  void see(Seen&) override;
  void finish(std::vector<ir::Diagnostic>&) override;
  size_t found() const override { return findings_.size(); }
  ir::Diagnostic found(size_t n) const override { return findings_[n]; }

 private:
  struct Written {
    int64_t end;
    ir::LocId loc;  // where
  };
  using Runs = std::map<int64_t, Written>;  // by the first byte
  static void cut(Runs*, const ByteRun&);
  void report(const Access&, int input, int64_t at, ir::LocId writer);
  const Plan& plan_;
  std::map<int, int> pairs_;         // operands, input to output and output to input
  std::map<int32_t, Runs> written_;  // by instance, which a pair has in common: what outputs wrote last
  std::set<int> reported_;
  std::vector<ir::Diagnostic> findings_;
};

// What was written: outputs that stay as they were, and reads of memory that nobody wrote.
class WriteDetector : public Detector {
  struct Part;
  struct Memory;

 public:
  // `claims`: may be null. Reads of memory that nobody wrote are told of where `definedness` says that they were used.
  WriteDetector(const Plan& plan, Instances& instances, ClaimDetector* claims, const DefinednessDetector& definedness)
      : plan_(plan),
        instances_(instances),
        claims_(claims),
        definedness_(definedness),
        scratch_(plan.first().model->checks.written_before_read) {}
  const std::set<std::string>& told() const { return told_; }  // after finish(): refs whose reads are
  uint32_t wants() const override { return kLaunch | kMemory; }
  void on_launch(const LaunchEvent&) override;
  void see(Seen&) override;
  bool sees_places() const override { return true; }
  void on_memory(const MemoryEvent&) override;
  void finish(std::vector<ir::Diagnostic>&) override;
  size_t found() const override { return unset_.size(); }
  ir::Diagnostic found(size_t n) const override;
  // Bytes around an element of which accesses to single elements say no more than who wrote; and those around it of
  // which writes say that and that they are written. They stay so while holds().
  struct Settled {
    memory::shadow::Range bytes, place;
    Memory* memory = nullptr;  // null: nobody asks what is written there
    Part* part = nullptr;
    int64_t as_of = -1;
  };
  Settled settled(int32_t instance, const Access&);
  bool holds(const Settled& s) const { return s.as_of == changes_; }
  void write(const Settled& s, int64_t begin, int64_t end);
  void wrote(const Settled& s, int32_t by, ir::LocId loc) {
    if (s.part) s.part->note_writer(thread(by), loc);
  }

 private:
  void fresh(const MemoryEvent&);
  void freed(const MemoryEvent&);
  struct Part {  // of an instance that is looked at
    int64_t begin = 0, end = 0;
    std::string name;
    const Window* output = nullptr;  // an output's whole array
    const Window* stage = nullptr;   // a copy of a block of an output
    std::vector<int64_t> dims;       // elements, where known
    // Lines that wrote to it, how often, and the axes of the grid on which all of those points were the first.
    struct Writer {
      ir::LocId loc;
      int64_t times;
      uint64_t first_of;  // a bit per axis
    };
    std::vector<Writer> writers;
    void note_writer(const Thread&, ir::LocId);
    bool written_at(ir::LocId) const;
  };
  struct Memory {
    std::map<int64_t, Part> parts;  // by begin
    memory::shadow::Written written;
  };
  // A read of what nobody wrote.
  struct Unset {
    std::string name;
    std::string elements;  // that were read, where others of it were written before
    int32_t thread;
    uint32_t buffer;
    int64_t offset;  // of its part
    int32_t instance;
    ir::Diagnostic found;
  };
  void add(int32_t instance, Part);
  Part* see(Execution&, const Access&, Memory&, const memory::shadow::Box&);  // the part that it lies in
  void read(Execution&, const Access&, Memory&, const Part&, const memory::shadow::Box&);
  void mark_stage(Execution&, const Access&, const Part&, const memory::shadow::Box&);
  const Part* part_of(int32_t instance, int64_t offset) const;
  // Another core of the grid set it, at a line to which this one does not come: the axis is at fault.
  bool set_elsewhere(Execution&, const Unset&);
  void tell_when_set(const Unset&, ir::Diagnostic*) const;
  void report_unset(Execution&, std::vector<ir::Diagnostic>& out);
  void report_unwritten(Execution&, const Part&, Memory&, std::vector<ir::Diagnostic>& out);
  const Plan& plan_;
  Instances& instances_;
  ClaimDetector* claims_;
  const DefinednessDetector& definedness_;
  bool scratch_;  // is looked at, too
  ByInstance<Memory> memories_;
  std::set<std::string> reported_, told_;
  std::vector<Unset> unset_;
  int64_t changes_ = 0;  // to parts, or to what is written: that it is no more
};

}  // namespace pallasim::interp
