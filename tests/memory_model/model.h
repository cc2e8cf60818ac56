// Random programs on the objects of memory_model, run twice: on the classes (Machine), and on a reference that keeps
// every event, all of happens-before and every byte (Reference). The two share the program and nothing else.
#pragma once
#include <bitset>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "pallasim/memory/async.h"
#include "pallasim/memory/barriers.h"
#include "pallasim/memory/semaphores.h"
#include "pallasim/memory/shadow/in_flight.h"
#include "pallasim/memory/shadow/races.h"
#include "pallasim/memory/shadow/written.h"
#include "pallasim/memory/streams.h"

namespace pallasim::memory::model {

// Part of one of the arrays of 6 x 8 elements of 4 bytes.
struct Part {
  int32_t array = 0;
  int64_t row = 0, column = 0, rows = 1, columns = 1;
};

struct Instruction {
  enum class Kind {
    Access,
    Fresh,
    Signal,
    Wait,
    Arrive,
    Expect,
    ArriveExpecting,
    BarrierWait,
    Copy,
    Commit,
    GroupWait,
    Fence
  };
  Kind kind;
  int64_t object = 0;  // semaphore, barrier, stream
  int64_t amount = 0;  // units, arrivals, bytes, groups
  bool flag = false;   // Wait: takes; GroupWait: reads
  bool write = false, atomic = false;
  Part part, to;                                        // Access, Fresh; Copy: from and to
  int64_t stream = -1;                                  // Copy
  bool in_order = false, proxy = false, empty = false;  // empty: moves nothing
  Completion after_read, after_write;
};

struct Program {
  std::vector<std::vector<Instruction>> threads;
  int64_t semaphores = 2;
  std::vector<Barrier> barriers;
  std::vector<bool> streams;  // in order?
  CopyCompletion policy = CopyCompletion::AtIssue;
  bool proxies = false;
};
Program random_program(std::mt19937_64& rng);

// What both sides tell of each other's business.
struct Status {
  std::vector<size_t> pc;
  std::vector<int64_t> counts, phases, groups;  // groups: not complete, reads and writes by turns
  std::vector<int64_t> completed;               // operations, in order
  std::vector<int64_t> movable;                 // operations that a scheduler may complete now
  int64_t over_arrivals = 0, unwaited = 0, passed = 0;
  bool operator==(const Status&) const = default;
};
std::string text(const Status&);

class Machine {
 public:
  explicit Machine(const Program&);
  bool runnable(size_t thread) const;  // neither ended nor waiting
  bool ended(size_t thread) const { return pc_[thread] == program_->threads[thread].size(); }
  void step(size_t thread);
  void complete(int64_t operation);
  Status status() const;
  const std::vector<shadow::Race>& races() const { return races_.found(); }
  bool operator==(const Machine&) const = default;

 private:
  void finish(AsyncOperation);
  void done(const Completion&, const AsyncOperation&, shadow::Actor, bool reads);
  bool semaphore_wait(size_t thread, const Instruction&);
  bool barrier_wait(size_t thread, const Instruction&);
  bool group_wait(size_t thread, const Instruction&);
  void access(shadow::Actor, const Part&, const Instruction&, bool write, int32_t thread);
  void copy(size_t thread, const Instruction&);
  void satisfy(const Awaited&);
  void phase_ended(bool ended, int64_t barrier);
  bool run(size_t thread, const Instruction&);

  const Program* program_;
  std::vector<size_t> pc_;
  std::vector<char> waiting_;
  std::vector<std::map<int64_t, int64_t>> seen_;  // phases of barriers, in the thread's own keeping
  Semaphores semaphores_;
  Barriers barriers_;
  Streams streams_;
  AsyncQueue queue_;
  std::map<int64_t, shadow::Issued> issued_;
  shadow::Order order_;
  shadow::Races races_;
  shadow::InFlight in_flight_;
  std::map<int32_t, shadow::Written> written_;
  std::vector<int64_t> completed_;
  std::vector<int32_t> woken_;
  int64_t operations_ = 0;
  int32_t sites_ = 0;
};

class Reference {
 public:
  explicit Reference(const Program& p)
      : program_(p),
        threads_(p.threads.size()),
        semaphores_(static_cast<size_t>(p.semaphores)),
        barriers_(p.barriers.size()),
        streams_(p.streams.size()) {}
  bool would_block(size_t thread) const;
  void step(size_t thread);
  void complete(int64_t operation);
  Status status() const;
  // Pairs of sites and kinds, and the bytes at which they meet.
  using Pair = std::tuple<int32_t, int32_t, bool>;  // earlier, later, unfenced
  std::map<Pair, std::set<std::pair<int32_t, int64_t>>> pairs;
  // The bytes at which a site met a race as the first since they were given out.
  std::map<int32_t, std::set<std::pair<int32_t, int64_t>>> first_at;

 private:
  static constexpr size_t kMost = 1024;
  using Past = std::bitset<kMost>;
  struct Thread {
    size_t pc = 0;
    int last = -1;                      // event
    std::map<int64_t, int64_t> passed;  // barriers
  };
  struct Unit {
    int event;  // -1: orders nobody
  };
  struct Semaphore {
    std::vector<Unit> units;
    std::vector<int> paid;
    int64_t owed = 0;
  };
  struct BarrierEvent {
    enum class Kind { Arrive, Expect, Deliver, Pass } kind;
    int64_t amount;
    int event;
    int64_t expecting = 0;  // Arrive: bytes
  };
  struct Operation {
    int64_t id;
    const Instruction* what;
    int reads, writes;  // events
    int64_t group = -1;
    bool done = false;
  };
  struct Stream {
    std::vector<int64_t> operations;
    int64_t group = 0;
  };
  struct Done {
    int event;
    int32_t site;
    bool write, atomic, proxy;
    int32_t array;
    std::set<int64_t> bytes;
  };
  struct Phases {
    int64_t arrived = 0, due = 0, phase = 0, over = 0, unwaited = 0, passed = 0;
    std::vector<std::vector<int>> events;  // by phase
  };
  int event(std::vector<int> after, int thread);
  void touch(int event, const Part&, const Instruction&, bool write);
  Phases replay(size_t barrier) const;
  int64_t outstanding(size_t stream, bool reads) const;
  void signal(int64_t semaphore, int64_t units, int event, bool whole, size_t thread);
  std::vector<int> front(const Semaphore&, int64_t units) const;
  void issue(size_t thread, const Instruction&);
  void satisfy(const Instruction&, size_t thread);
  int64_t next_on_the_way(const Instruction&) const;
  bool behind_another(const Operation&) const;
  void done(const Completion&, const Operation&, int event);

  const Program& program_;
  std::vector<Thread> threads_;
  std::vector<Semaphore> semaphores_;
  std::vector<std::vector<BarrierEvent>> barriers_;
  std::vector<Stream> streams_;
  std::vector<Operation> operations_;
  std::vector<int64_t> completed_;
  std::vector<Past> past_;  // of each event
  std::vector<int> fences_;
  std::vector<Done> accesses_;
  std::set<std::pair<int32_t, int64_t>> racy_;
  int32_t sites_ = 0;
};

}  // namespace pallasim::memory::model
