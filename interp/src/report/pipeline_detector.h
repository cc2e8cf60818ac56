// Checked runs: what a grid's pipeline does to blocks at other times than the kernel sees them. A core's windows are
// memory of its own: the next block is fetched while the step before runs, and a block goes back while the next one is
// computed. A run that shows blocks in place has neither.
#pragma once
#include <deque>
#include <map>
#include <vector>

#include "flight_detector.h"
#include "instances.h"
#include "pallasim/memory/shadow/races.h"

namespace pallasim::interp {

// Blocks of an aliased input that are fetched around the write-back of an output's block at the same place: which value
// they have depends on how deep the pipeline is (PS-PIPE-002). Copies of the kernel's own that are not awaited when a
// window's memory is fetched into, or written, again: told to `flights`.
class PipelineDetector : public Detector {
 public:
  PipelineDetector(const Plan&, FlightDetector& flights);
  bool empty() const { return windows_.empty(); }
  uint32_t wants() const override { return kPoint | kWindow; }
  void see(Seen&) override {}
  bool sees_places() const override { return true; }
  void on_point(const PointEvent&) override;
  void on_window(const WindowEvent&) override;
  void finish(std::vector<ir::Diagnostic>&) override;
  size_t found() const override { return order_.size(); }
  ir::Diagnostic found(size_t n) const override { return findings_.at(order_[n]); }

 private:
  struct Block {
    std::vector<int64_t> place;
    memory::shadow::Box box;
    int64_t first = 0, last = 0;  // steps of the thread that have it
    std::vector<int64_t> point;   // the first one's
  };
  struct Step {
    int64_t number = 0;
    std::vector<int64_t> point;
  };
  static constexpr size_t kMostKept = 8;
  struct Moved {
    const Window* window = nullptr;
    int64_t copies = 2;  // blocks that the core holds at a time
    int partner = -1;    // of an aliased pair: the other operand
  };
  void fetched(const WindowEvent&, const Moved&, const Block&);
  void report(const WindowEvent&, const Block& fetched, const Block& written);
  std::map<size_t, Moved> windows_;                                // by operand
  std::map<std::pair<int32_t, size_t>, std::deque<Block>> shown_;  // by thread and operand, the latest last
  std::map<int32_t, Step> steps_;
  const Plan& plan_;
  FlightDetector& flights_;
  std::map<size_t, ir::Diagnostic> findings_;  // by operand
  std::vector<size_t> order_;                  // as they were found
};

}  // namespace pallasim::interp
