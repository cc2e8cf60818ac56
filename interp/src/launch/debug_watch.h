// Elements of memory that somebody watches.
#pragma once
#include <string>
#include <vector>

#include "../ops/execution.h"
#include "pallasim/interp/debug.h"
#include "pallasim/interp/observer.h"

namespace pallasim::interp {

// Elements of one buffer as one thread sees it, or of an operand of a device.
struct WatchedElements {
  int32_t thread = 0;
  uint32_t buffer = 0;
  ir::DType dtype = ir::DType::F32;
  int bytes = 4;                                  // of an element
  std::vector<int64_t> offsets;                   // of the elements from the buffer's base, ascending
  const std::byte* base(const Execution&) const;  // null: its thread has no memory now
};

struct Watched {
  int number = 0;
  std::string text, condition;
  Debugger::Watch kind = Debugger::Watch::Write;
  WatchedElements elements;
  std::vector<std::byte> before;  // their bytes when they were looked at last
};

// Told of all accesses of a run. What it saw is a note until somebody asks for it.
class WatchObserver : public Observer {
 public:
  explicit WatchObserver(Execution& ex) : ex_(ex) {}
  uint32_t wants() const override { return kAccess | kOperation | kFinding; }
  void on_access(const Access&) override;
  void on_operation(const OperationEvent&) override;
  void on_finding(const ir::Diagnostic&) override;

  std::vector<const WatchedElements*> watched;  // null: nobody's any more
  struct Hit {
    size_t which;  // of `watched`
    bool write;
    int32_t thread;
    ir::LocId line;
  };
  std::vector<Hit> hits;                 // since they were cleared, of each kind one
  std::vector<ir::Diagnostic> findings;  // likewise

 private:
  friend class WatchedSides;
  void see(const Access&);
  Execution& ex_;
};

}  // namespace pallasim::interp
