// The judge of a split (Options::verify_split). It shares no code with the proof in analysis/split.cc: it looks at what
// units do.
#pragma once
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "../ops/execution.h"

namespace pallasim::interp {

// Units run one after another in one thread, each told by begin(). Of every byte of memory, by its address, the judge
// knows which unit wrote and which ones read it. It throws PS-BUG-002 at the first access that makes an obligation
// false: units write disjoint memory; none reads what another one writes; what a thread keeps (scratch, copies of
// blocks, temporaries) is written before it is read inside each unit; units do not synchronise. Of outputs that do not
// begin as poison it also says whether every element was written, and none read before. What units leave to their
// successors without memory that they share (a copy of a block that does not come in again) shows in the bytes,
// compared with those of one piece.
class SplitJudge : public Observer {
 public:
  // `split`: there are units to compare; else only outputs are looked at.
  SplitJudge(const Plan&, const std::vector<int64_t>& grid, bool split);
  void begin(const GridBox& unit);
  // After the last unit of a run without errors. Throws PS-BUG-002.
  void end(const std::vector<std::byte*>& operands);
  // The units against the grid in one piece, each of which may have stopped: the same stop, the same bytes, prints and
  // findings. Throw PS-BUG-002.
  void compare_stops(const std::optional<ir::DiagnosticError>& one_piece,
                     const std::optional<ir::DiagnosticError>& units);
  void compare(const Report& one_piece, const std::vector<std::vector<std::byte>>& wanted, const Report& units,
               const std::vector<std::span<const std::byte>>& got);
  const std::optional<ir::DiagnosticError>& verdict() const { return verdict_; }

  void attach(const Execution& ex) { ex_ = &ex; }
  uint32_t wants() const override { return kPoint | kAccess | kInternal | kMemory | kOperation | kSync; }
  void on_point(const PointEvent&) override;
  void on_access(const Access&) override;
  void on_memory(const MemoryEvent&) override;
  void on_operation(const OperationEvent&) override;
  void on_sync(const SyncEvent&) override;

 private:
  struct Event {
    int64_t unit = 0, point = 0;
    int32_t step = -1;
  };
  struct Mark {  // events, 0: none
    uint32_t written = 0;
    uint32_t read = 0;    // the last one
    uint32_t before = 0;  // the last one of a unit before that of `read`
  };
  static constexpr uintptr_t kPageBytes = 512;
  struct Page {
    Mark marks[kPageBytes];
  };
  Mark& mark(const std::byte*);
  uint32_t event(int32_t step);
  uint32_t conflict(const Mark&, bool write, bool kept) const;
  void touch(const Access&, const std::byte* begin, const std::byte* end);
  const Step& step_of(int32_t i) const { return i < 0 ? *plan_.first().entry : plan_.steps[static_cast<size_t>(i)]; }
  std::string name_of(const Access&) const;
  std::string point_text(int64_t point) const;
  ir::Diagnostic unplaced() const { return ir::Diagnostic("PS-BUG-002", "").of(plan_.module.name); }
  [[noreturn]] void stop(ir::Diagnostic, std::string obligation, std::vector<std::string> numbers);
  void synchronises(int32_t thread, const char* what);

  const Plan& plan_;
  const Execution* ex_ = nullptr;
  std::vector<int64_t> grid_;
  const bool split_;
  int64_t unit_ = -1, point_ = 0;
  std::vector<Event> events_{1};
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  uintptr_t last_at_ = ~uintptr_t{0};
  Page* last_ = nullptr;
  std::optional<ir::DiagnosticError> verdict_;
};

}  // namespace pallasim::interp
