// Checked runs: accesses that nothing orders.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "byte_places.h"
#include "instances.h"
#include "race_words.h"

namespace pallasim::interp {

// Threads that use the same memory without a semaphore between them: happens-before, for any number of threads
// (memory_model, shadow/order.h). Of a thread's own memory only kernels whose copies reach into other threads' are
// looked at. Throws PS-SIZE-001 where what is remembered exceeds Options::max_memory.
class RaceDetector : public Detector {
 public:
  // `devices`: of the launch.
  RaceDetector(const Plan&, size_t devices, const Options&, Instances&);
  bool empty() const { return !active_; }
  uint32_t wants() const override { return kLaunch | kOperation | kSync | kMemory | kStep | kTouching; }
  void on_launch(const LaunchEvent&) override;
  void see(Seen&) override;
  bool sees_places() const override { return true; }
  void on_step(const StepEvent&) override;
  void on_operation(const OperationEvent&) override;
  void on_sync(const SyncEvent&) override;
  void on_memory(const MemoryEvent&) override;
  void finish(std::vector<ir::Diagnostic>&) override;
  size_t found() const override { return findings_.size(); }
  ir::Diagnostic found(size_t n) const override;
  // PS-SEM-003, of a launch that is over: a device may end it, and signal for the next one, while another one still
  // waits at the barrier semaphore; nothing: none may (barrier_semaphore.cc).
  std::optional<ir::Diagnostic> early() const;

 private:
  struct Where {     // what an access is to, for its report
    int32_t thread;  // that accesses
    int32_t owner;   // whose memory it is
    uint32_t buffer;
    int64_t offset;
  };
  void issued(const memory::AsyncOperation&);
  void moved(const memory::AsyncOperation&);
  bool is_operations(const Step&, int32_t thread, uint32_t buffer, int64_t offset) const;
  // `operation`: that accesses; -1: a step.
  void look(Execution&, const memory::shadow::Access&, const Where&, int64_t operation);
  // An atomic operation of a program acquires what those before it released at its elements (race_programs.cc).
  void meet_at(Seen&, const Step&);
  void atomics_done();
  // Two writes that nothing orders are no race as long as they leave the same bytes (race_writes.cc).
  void compare(const memory::shadow::Race&, memory::shadow::Actor earlier, const memory::shadow::Access&, const Where&,
               int64_t operation);
  void steps_done();
  void operation_moved(int64_t id);
  // As it is told of; none: it is told of elsewhere, or is the compiler's business.
  std::optional<Meeting> report(Execution&, memory::shadow::Race, const Where&) const;
  std::string deed(const Execution&, const memory::shadow::Party&) const;
  Meeting meeting(ir::Diagnostic, const memory::shadow::Race&, const std::string& ref) const;
  std::vector<Meeting> notes() const;
  // PS-RACE-002, once per step: a copy into memory of a device of which the issuer does not know that it began.
  void check_begun(Execution&, const memory::AsyncOperation&, const memory::Side&, memory::shadow::Actor);
  // Shared memory goes with its block of threads: accesses of others that its end does not wait for (race_ends.cc).
  struct Visit {
    memory::shadow::Epoch at;             // of the last one
    int64_t program = 0;                  // of the owner
    std::optional<ir::Diagnostic> found;  // if nothing orders them
  };
  // Of a GPU that reaches into another one: its last accesses, which that one has to wait for (peers.cc).
  struct Remote {
    memory::shadow::Epoch at;
    Where where;
    bool write = false;
    ir::LocId loc = -1;
    std::string who;
  };
  void note_remote(const memory::shadow::Access&, const Where&);
  void check_left();
  void note_visit(const memory::shadow::Access&, const Where&);
  void check_ends();  // of blocks that have ended
  // PS-BAR-002, once per block of barriers: a phase ends that may end before a thread saw the one before
  // (race_phases.cc).
  void check_phase(int64_t barrier);
  void note_barrier_semaphore(const SyncEvent&);
  Meeting unfenced(const Thread&, const memory::shadow::Race&, const std::string& name, const std::string& ref) const;
  Meeting between_trips(const Thread&, const memory::shadow::Race&, const std::string& name) const;
  bool in_shared_memory(uint32_t buffer, int64_t offset) const;
  std::optional<std::string> ref_of(const Thread& owner, const Where&, const std::string& name) const;
  bool only_read(uint32_t buffer) const { return buffer < only_read_.size() && only_read_[buffer]; }
  const Plan& plan_;
  std::vector<bool> only_read_;  // by buffer: an input that no operation writes, with which nothing can race
  bool active_ = false, reached_ = false;
  bool alone_ = false;  // there is one thread: what it does to its copies in flight is told of by FlightDetector
  bool has_trips_ = false;
  bool programs_ = false;                                  // points of a grid that wait for each other
  std::map<std::pair<int32_t, int64_t>, int64_t> scopes_;  // by thread and offset, where they end: memory of refs
  Instances& instances_;
  memory::shadow::Order order_{true};
  memory::shadow::Races races_;
  // Of a place that atomic operations meet at: what they released there.
  struct Met {
    memory::shadow::Epoch last;  // that came: before all else tells places apart
    memory::shadow::Order::Knowledge knows;
    int64_t heap_bytes() const { return knows.all.own_bytes() + knows.fenced.own_bytes(); }
    bool operator==(const Met&) const = default;
  };
  memory::shadow::InstanceRegions<Met> met_;
  struct Meets {  // an atomic operation that is about to be done
    int32_t instance;
    int element_bytes;
    BytePlaces place;
    std::vector<std::byte> before;                                  // its elements
    std::shared_ptr<const memory::shadow::Order::Knowledge> knows;  // before it
  };
  std::vector<Meets> meets_;
  std::map<int64_t, memory::shadow::Issued> issued_;  // operations in flight
  // By the owner's core, who accessed it, and site.
  std::map<std::tuple<int64_t, memory::shadow::Actor, int32_t>, Visit> visits_;
  std::map<std::pair<memory::shadow::Actor, int32_t>, Remote> remote_;  // by who accessed a device, and the device
  // Of a device's barrier semaphore: which devices signalled it, and the last wait.
  struct BarrierSemaphore {
    std::set<int32_t> signalled;
    memory::shadow::Epoch taken;
    int32_t step = -1;  // -1: nobody waited
  };
  std::map<int64_t, BarrierSemaphore> barrier_semaphores_;
  std::set<int32_t> told_of_ends_;     // sites
  std::set<int> missed_;               // blocks of barriers with a PS-BAR-002
  std::set<int32_t> too_early_;        // steps with a PS-RACE-002
  std::map<int32_t, CopyWay> copies_;  // by step: its last one
  std::map<int32_t, memory::AsyncKind> kinds_;
  std::vector<Meeting> findings_;
  struct Writes {  // until both have been done
    memory::shadow::Race race;
    std::optional<Meeting> found;
    BytePlaces place;
    std::vector<int64_t> earlier;  // operations that are to move their bytes yet
    int64_t operation;             // that is the later one; -1: the step that is about to run
    bool later_done = false;
    std::optional<std::vector<std::byte>> one;  // what the first of the two left
  };
  bool landed(Writes&);  // one of the two; true: so did the other one before
  std::vector<Writes> writes_;
  std::map<std::pair<int32_t, int32_t>, Meeting> same_;  // by sites: the same bytes so far
};

}  // namespace pallasim::interp
