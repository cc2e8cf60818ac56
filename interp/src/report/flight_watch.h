// Checked runs: accesses to what an asynchronous copy still uses.
#pragma once
#include <map>
#include <set>
#include <string>

#include "instances.h"
#include "pallasim/memory/shadow/in_flight.h"
#include "race_words.h"

namespace pallasim::interp {

// Nobody may touch what an asynchronous copy writes, or change what it reads, before the copy is awaited. A wait covers
// the oldest copies of its semaphore, as far as its bytes go.
class FlightWatch : public AccessWatch {
 public:
  FlightWatch(const Plan& plan, Instances& instances) : plan_(plan), instances_(instances) {}
  void see(Execution&, Seen&) override;
  void on_copy(Execution&, const memory::AsyncCopy&, const Step&) override;
  void on_taken(Execution&, const Thread&, int64_t semaphore, int64_t amount) override;
  void on_complete(Execution&, const memory::AsyncCopy&) override;
  void on_passed(Execution&, const Thread&, int64_t barrier, int64_t phase) override {
    flights_.saw_phase(barrier, phase);
  }
  void on_groups(Execution&, const Thread&, int64_t stream, int64_t, int64_t last, bool reads) override {
    flights_.saw_groups(stream, last, reads);
  }
  void on_freed(Execution&, const Thread&, int64_t offset, int64_t bytes) override;
  void finish(Execution&, std::vector<ir::Diagnostic>&) override;

 private:
  void look(Execution&, const memory::shadow::Access&, int32_t thread);
  void report(Execution&, const memory::shadow::InFlightUse&);
  void add(ir::Diagnostic, const Step& issued, const std::string& ref, bool by_itself);
  const Plan& plan_;
  Instances& instances_;
  std::set<int32_t> adding_;  // steps whose copies add
  struct Issue {
    int32_t thread;
    std::string text;  // from where to where
    memory::Place src, dst;
  };
  std::map<int64_t, Issue> issues_;  // of the copies since none was in flight
  memory::shadow::InFlight flights_;
  std::vector<Meeting> findings_;
};

}  // namespace pallasim::interp
