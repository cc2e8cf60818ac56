// Checked runs: accesses that nothing orders.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>

#include "instances.h"
#include "race_words.h"

namespace pallasim::interp {

// Threads that use the same memory without a semaphore between them: happens-before, for any number of threads
// (memory_model, shadow/order.h). Of a thread's own memory only kernels whose copies reach into other threads' are
// looked at. Throws PS-SIZE-001 where what is remembered exceeds Options::max_memory.
class RaceWatch : public AccessWatch {
 public:
  // `devices`: of the launch.
  RaceWatch(const Plan&, size_t devices, const Options&, Instances&);
  bool empty() const { return !active_; }
  void on_start(Execution&) override;
  void see(Execution&, Seen&) override;
  void on_copy(Execution&, const memory::AsyncCopy&, const Step&) override;
  void on_complete(Execution&, const memory::AsyncCopy&) override;
  void on_signal(Execution&, const Thread&, int64_t semaphore, int64_t amount) override;
  void on_taken(Execution&, const Thread&, int64_t semaphore, int64_t amount) override;
  void on_looked(Execution&, const Thread&, int64_t semaphore, int64_t value) override;
  void on_arrive(Execution&, const Thread& t, int64_t barrier) override { order_.arrive(t.index, barrier); }
  void on_phase(Execution&, int64_t barrier) override { order_.end_phase(barrier); }
  void on_passed(Execution&, const Thread& t, int64_t barrier, int64_t phase) override {
    order_.passed(t.index, barrier, phase);
  }
  void on_commit(Execution&, const Thread&, int64_t stream) override { order_.commit(stream); }
  void on_groups(Execution&, const Thread& t, int64_t stream, int64_t most, int64_t, bool reads) override {
    order_.wait_group(t.index, stream, most, reads);
  }
  void on_fence(Execution&, const Thread& t) override { order_.fence(t.index); }
  void on_trips(Execution&, const Thread&, Trips) override;
  void on_product(Execution&, const Thread& t, const Step&) override;
  void on_products_awaited(Execution&, const Thread& t, int64_t most) override {
    order_.wait_group(t.index, products_of(t), most, false);
  }
  void on_shared(Execution&, const std::byte* base, int64_t bytes) override {
    races_.fresh(instances_.of(base), 0, bytes);
  }
  void on_spawn(Execution&, const Thread& parent, const Thread& child) override {
    order_.spawn(parent.index, child.index);
  }
  void on_join(Execution&, const Thread& parent, const Thread& child) override {
    order_.join(parent.index, child.index);
  }
  void on_fresh(Execution& ex, const Thread& t, int64_t offset, int64_t bytes, const std::string&) override {
    forget(ex, t, offset, bytes);
  }
  void on_scope(Execution&, const Thread&, int64_t offset, int64_t bytes) override;
  void on_freed(Execution&, const Thread&, int64_t offset, int64_t bytes) override;
  void finish(Execution&, std::vector<ir::Diagnostic>&) override;

 private:
  struct Where {     // what an access is to, for its report
    int32_t thread;  // that accesses
    int32_t owner;   // whose memory it is
    uint32_t buffer;
    int64_t offset;
  };
  void forget(Execution&, const Thread&, int64_t offset, int64_t bytes);
  void look(Execution&, const memory::shadow::Access&, const Where&);
  void report(Execution&, memory::shadow::Race, const Where&);
  std::string deed(const Execution&, const memory::shadow::Party&) const;
  void add(ir::Diagnostic, const memory::shadow::Race&, const std::string& ref);
  // PS-RACE-002, once per step: a copy into memory of a device of which the issuer does not know that it began.
  void check_begun(Execution&, const memory::AsyncCopy&, memory::shadow::Actor);
  void unfenced(const Thread&, const memory::shadow::Race&, const std::string& name, const std::string& ref);
  void between_trips(const Thread&, const memory::shadow::Race&, const std::string& name);
  // The stream of a thread's products; those of its copies are numbered from 0.
  static int64_t products_of(const Thread& t) { return (int64_t{1} << 32) + t.index; }
  bool in_shared_memory(uint32_t buffer, int64_t offset) const;
  std::optional<std::string> ref_of(const Thread& owner, const Where&, const std::string& name) const;
  const Plan& plan_;
  bool active_ = false, reached_ = false;
  bool alone_ = false;  // there is one thread: what it does to its copies in flight is told of by FlightWatch
  bool has_trips_ = false;
  std::map<std::pair<int32_t, int64_t>, int64_t> scopes_;  // by thread and offset, where they end: memory of refs
  Instances& instances_;
  memory::shadow::Order order_{true};
  memory::shadow::Races races_;
  std::map<int64_t, memory::shadow::Issued> issued_;  // copies in flight
  struct Product {
    memory::shadow::Issued issued;
    std::pair<uint32_t, int64_t> accumulator;  // buffer and offset
  };
  std::map<int32_t, Product> products_;    // by thread: the last one
  std::set<int32_t> too_early_;            // steps with a PS-RACE-002
  std::map<int32_t, std::string> copies_;  // by step: from where to where its last one went
  std::vector<Meeting> findings_;
};

}  // namespace pallasim::interp
