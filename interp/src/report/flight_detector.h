// Checked runs: accesses to what an asynchronous copy still uses.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>

#include "instances.h"
#include "pallasim/memory/shadow/in_flight.h"
#include "race_words.h"

namespace pallasim::interp {

// Nobody may touch what an asynchronous copy writes, or change what it reads, before the copy is awaited. A wait covers
// the oldest copies of its semaphore, as far as its bytes go. Of several receivers each awaits its own bytes: to each
// goes a flight of its own.
class FlightDetector : public Detector {
 public:
  FlightDetector(const Plan& plan, Instances& instances) : plan_(plan), instances_(instances) {}
  uint32_t wants() const override { return kThread | kOperation | kSync | kMemory; }
  void see(Seen&) override;
  bool sees_places() const override { return true; }
  bool idle() const { return flights_.empty(); }  // accesses say nothing
  void on_thread(const ThreadEvent&) override;
  void on_operation(const OperationEvent&) override;
  void on_sync(const SyncEvent&) override;
  void on_memory(const MemoryEvent&) override;
  void finish(std::vector<ir::Diagnostic>&) override;
  // The pipeline of a grid uses the memory of a window again, in which the thread saw that box of its operand.
  void refilled(const Window&, const memory::shadow::Box&, int32_t thread);
  size_t found() const override { return findings_.size(); }
  ir::Diagnostic found(size_t n) const override;

 private:
  // When a thread came to a step: its grid point, and the trip of each loop around the step, the innermost first.
  struct Moment {
    std::vector<int64_t> point;
    std::vector<int32_t> trips;
    bool operator==(const Moment&) const = default;
  };
  void issued(const memory::AsyncOperation&);
  void start(const memory::AsyncOperation&, size_t receiver, int64_t id);
  enum class Looks { yes, no };
  memory::shadow::Flight flight(const memory::AsyncOperation&, size_t receiver, Looks);
  bool rows_meet(const memory::AsyncOperation&);
  void fall_apart(int64_t id);
  void moved(const memory::AsyncOperation&);
  Moment moment(const Thread&, int32_t step);
  std::string moment_text(const Moment&, int32_t step);
  void look(Execution&, const memory::shadow::Access&, int32_t thread);
  void report(Execution&, const memory::shadow::InFlightUse&);
  void in_doubt(const Thread&, const memory::shadow::InFlightUse&);
  void report(const Window&, const memory::shadow::InFlightUse&, int32_t thread);
  void add(ir::Diagnostic, const Step& issued, const std::string& ref, bool by_itself);
  const Plan& plan_;
  Instances& instances_;
  std::set<int32_t> adding_;  // steps whose copies add
  struct Issue {
    int32_t thread;
    CopyWay way;
    Moment when;
    std::shared_ptr<const memory::AsyncOperation> rows;  // that it moves one by one
  };
  std::map<int64_t, Issue> issues_;                       // of the flights since there was none
  std::map<int32_t, std::vector<const Step*>> loops_of_;  // around steps that start copies
  memory::shadow::InFlight flights_;
  std::vector<Meeting> findings_;
};

}  // namespace pallasim::interp
