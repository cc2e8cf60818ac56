// A launch in parts, each of which has an execution of its own, on several OS threads.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "session.h"

namespace pallasim::interp {

struct Part {
  Population who;
  GridBox box;  // where `who` has no programs
};

class PartitionedRun {
 public:
  enum class Apart : uint8_t {
    Proven,      // nobody can tell: prints and findings come in grid order, the error of the first grid point wins
    Speculative  // believed: the run is void as soon as two parts meet, or one has something to say
  };
  // Who is told of what a part does (null: nobody), before it begins. Speculative parts meet by throwing Conflict.
  using Observe = std::function<std::shared_ptr<Observer>(int part, const Execution&)>;
  struct Conflict {};

  PartitionedRun(const Call&, std::vector<Part>, Apart, Observe = {});
  // The parts on so many OS threads, on one in their order; Options::verify_parts: in an adverse one. Adds to the
  // report what they say. False: the run is void, and the report as it was. Throws the error of the first grid point,
  // and what is not the kernel's doing.
  bool run(int workers, Report*);
  // Whether it is void by now; a part need not go on then.
  bool is_void() const { return void_.load(std::memory_order_relaxed); }

 private:
  // A finding, and the step that reports no more than one in a run; null: reports all.
  struct PartFinding {
    ir::Diagnostic diagnostic;
    const Step* step = nullptr;
  };
  void part(int i);
  void take(Execution&);  // what it says
  void stopped(const ir::DiagnosticError&);
  void forget_later();
  void add_findings(Report*);

  const Call& call_;
  const std::vector<Part> parts_;
  const Apart apart_;
  const Observe observe_;
  std::atomic<bool> void_{false};
  std::mutex mutex_;  // of what follows
  int64_t steps_ = 0;
  std::unique_ptr<ir::DiagnosticError> error_;
  std::exception_ptr internal_;
  std::vector<Print> prints_;
  std::vector<PartFinding> findings_;
};

// Prints of a run to the report, and calls to the recorder; `sort`: in the order of the grid.
void deliver(std::vector<Print> prints, const Call&, bool sort, Report*);

}  // namespace pallasim::interp
