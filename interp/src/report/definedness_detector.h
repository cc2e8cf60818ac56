// Checked runs: undefined elements that reach an output, or decide what happens.
#pragma once
#include <array>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "../ops/definedness.h"
#include "instances.h"
#include "window_visits.h"

namespace pallasim::interp {

// Keeps what is undefined of memory and slots, and what it comes from. Memory is undefined before somebody writes to
// it; what a mask leaves, what lies outside of an array and the rest of a block at its edge are, too. That elements are
// read is no finding: a value that decides something stops the kernel (PS-UNINIT-004), and of what an output holds at
// the end each origin is one report (PS-UNINIT-003).
class DefinednessDetector : public Detector, private ops::Shadow {
 public:
  DefinednessDetector(const Plan& plan, Instances& instances) : plan_(plan), instances_(instances), visits_(plan) {}
  uint32_t wants() const override {
    return kLaunch | kThread | kWindow | kStep | kTouching | kInternal | kTold | kOperation | kSync | kMemory;
  }
  // Slots that hold nothing undefined do not come to hold it from each other.
  bool all_steps(int32_t thread) const override { return !slots_[static_cast<size_t>(thread)].all_defined(); }
  void on_launch(const LaunchEvent&) override;
  void on_thread(const ThreadEvent&) override;
  void on_window(const WindowEvent&) override;
  void on_step(const StepEvent&) override;
  void on_told(const StepEvent&) override;
  void on_operation(const OperationEvent&) override;
  void on_sync(const SyncEvent&) override;
  void on_memory(const MemoryEvent&) override;
  void see(Seen&) override;
  bool sees_places() const override { return true; }
  // Of bytes that an element without anything undefined is written to.
  void define(int32_t instance, int64_t begin, int64_t end) {
    if (Definedness* of = memories_.find(instance); of && !of->all_defined()) of->set(begin, end, 0);
  }
  bool is_defined(int32_t instance, int64_t begin, int64_t end) const {
    const Definedness* of = memories_.find(instance);
    return !of || of->all_defined() || of->find(begin, end) == 0;
  }
  bool is_visited(uint32_t buffer) const { return visits_.is_one(buffer); }
  // Whether accesses to the memory say nothing.
  bool all_defined(int32_t instance, uint32_t buffer) const {
    if (is_visited(buffer)) return false;
    const Definedness* of = memories_.find(instance);
    return !of || of->all_defined();
  }
  void settle();  // the launch is over: what outputs hold
  void finish(std::vector<ir::Diagnostic>&) override;
  // Whether elements of the memory that the kernel calls so were used undefined. Once it is settled.
  bool used(const std::string& name) const {
    return !ended_ || used_.count(name) != 0 || accumulated_.count(name) != 0;
  }
  // Whether nobody wrote the byte that the thread sees there.
  bool undefined(int32_t thread, uint32_t buffer, int64_t byte) { return memory(thread, buffer).at(byte) != 0; }
  const std::vector<std::vector<bool>>& undefined() const { return undefined_; }  // Report::undefined
  // What others have reports of already.
  void leave_out(std::set<std::string> names) { left_out_ = std::move(names); }

 private:
  using Birth = memory::shadow::Birth;
  using Definedness = memory::shadow::Definedness;
  using Births = memory::shadow::Births;
  // What a number of Birth stands for.
  struct Origin {
    enum class What : uint8_t { Scratch, Output, Window, Earlier, MaskedLane, Outside, Padding, Several };
    What what = What::Several;
    std::string name;                           // of the ref
    ir::LocId line = -1;                        // that read it first, or made it
    bool read = false;                          // by a step: no longer as it lay in memory
    std::string detail;                         // which place
    Birth of = 0;                               // not 0: what arithmetic made of that one
    ir::Diagnostic found{"PS-UNINIT-003", ""};  // where that was
  };
  Definedness& memory(int32_t thread, uint32_t buffer) override;
  Definedness& array(int32_t thread, uint32_t buffer) { return memories_[instances_.of(ex(), thread, buffer)]; }
  bool begins_undefined(const Window& w, Birth*) override;
  Definedness& slots(int32_t thread) override { return slots_[static_cast<size_t>(thread)]; }
  Birth made(const Thread&, const Step&, Making) override;
  Birth padding(const memory::AsyncOperation&) override;
  void read(const Thread&, const Step&, ir::LocId, Births*) override;
  void taken(const Thread&, const Step&, Births*) override;
  void stored(const Thread&, const Step&, const Addr&, const Births&) override;
  void decides(const Thread&, const Step&, Birth, Decides) override;

  Birth computed(Birth) override;
  Birth base(Birth b) const { return origins_[b].of ? origins_[b].of : b; }
  Birth birth(Origin::What, const std::string& name, ir::LocId line, bool read);
  void begin_thread(const Thread&);
  void begin_memory(int32_t thread, const memory::Allocation&);
  std::string source(const Origin&) const;
  static std::string hint(const Origin&);
  // `left`: those that a later launch is told of.
  void look_at_output(size_t operand, int32_t device, std::vector<bool>* undefined, std::vector<bool>* left);
  void look_at_input(const Window&, int32_t device);
  void leave(const Window&, int32_t device, const std::vector<bool>& undefined) const;

  const Plan& plan_;
  Instances& instances_;
  ByInstance<Definedness> memories_;
  WindowVisits visits_;
  std::vector<Definedness> slots_;                        // by thread
  std::vector<Origin> origins_{{}};                       // by birth
  std::map<std::pair<Birth, ir::LocId>, Birth> read_;     // by what it was called in memory, and the line
  std::map<std::pair<size_t, Birth>, ir::LocId> stored_;  // by output and birth: the line that stored it first
  std::map<int64_t, Births> held_;                        // by operation: of what it took from registers
  std::vector<std::vector<bool>> undefined_;
  std::map<std::string, std::string> earlier_;  // by input: whose undefined elements it holds
  std::array<Birth, 256> computed_{};           // by birth
  // Refs whose undefined elements were computed with and stored back: an accumulator that nobody set, even where all of
  // it is overwritten later.
  std::set<std::string> used_, accumulated_, left_out_;
  bool ended_ = true;  // of a launch that stopped nobody knows what its outputs would hold
  std::vector<std::pair<std::string, ir::Diagnostic>> found_;  // of which ref's memory
  // Of the step whose accesses are told now.
  bool collects_ = false, reads_undefined_ = false;
  struct Written {
    Definedness* of;
    int64_t offset, bytes;
    std::vector<int64_t> dims, strides, places;
  };
  std::vector<Written> writes_;
};

}  // namespace pallasim::interp
