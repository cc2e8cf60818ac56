// Listeners of checked runs.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "../exec.h"

namespace pallasim::interp {

// Accesses and bytes per operand.
struct TrafficListener : Listener {
  explicit TrafficListener(const Plan&);
  void on_access(Execution&, const Access&) override;
  std::vector<Traffic> traffic;
};

// A `parallel` axis promises that its coordinates share no element that one of them writes.
class ParallelClaim : public Listener {
 public:
  explicit ParallelClaim(const Plan&);
  bool empty() const { return axes_.empty(); }
  void on_grid_point(Execution&, std::span<const int64_t>) override;
  void on_access(Execution&, const Access&) override;
  void finish(Execution&, std::vector<ir::Diagnostic>&) override;

 private:
  struct Mark {
    int32_t unit = -1;  // the last writer's coordinates on the parallel axes
    ir::LocId loc = -1;
  };
  void report(Execution&, const Access&, const std::string& name, const Mark& earlier);
  const Plan& plan_;
  std::vector<size_t> axes_;
  std::vector<std::vector<Mark>> shadow_;  // per buffer, per element
  std::set<std::string> reported_;
  std::vector<ir::Diagnostic> findings_;
  int64_t unit_ = 0;
  std::vector<int64_t> point_;
};

}  // namespace pallasim::interp
