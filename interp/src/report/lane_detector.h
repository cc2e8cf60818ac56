// Checked runs of programs of many lanes: stores in which two lanes write different values to one element. Which of
// them stays is not defined.
#pragma once
#include <map>
#include <vector>

#include "instances.h"

namespace pallasim::interp {

class LaneDetector : public Detector {
 public:
  explicit LaneDetector(const Plan&);
  bool empty() const { return !looks_; }
  uint32_t wants() const override { return kStep | kTouching; }
  void see(Seen&) override {}
  bool sees_places() const override { return true; }
  void on_step(const StepEvent&) override;
  void finish(std::vector<ir::Diagnostic>&) override;
  size_t found() const override { return order_.size(); }
  ir::Diagnostic found(size_t n) const override { return findings_.at(order_[n]); }

 private:
  bool looks_;
  std::map<int32_t, ir::Diagnostic> findings_;  // by step
  std::vector<int32_t> order_;                  // as they were found
};

}  // namespace pallasim::interp
