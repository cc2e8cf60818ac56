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

// Grid points that run at once share no element that one of them writes: those of a `parallel` axis by its promise, those
// of a Triton launch because every one is a program. Programs that wait for each other are not looked at.
class ParallelClaim : public Listener {
 public:
  explicit ParallelClaim(const Plan&);
  bool empty() const { return axes_.empty(); }
  void on_grid_point(Execution&, std::span<const int64_t>) override;
  void on_access(Execution&, const Access&) override;
  void finish(Execution&, std::vector<ir::Diagnostic>&) override;

 private:
  struct Mark {
    int32_t writer = -1, reader = -1;  // coordinates on the parallel axes
    ir::LocId written = -1, read = -1;
  };
  void report(Execution&, const Access&, const std::string& name, int64_t earlier, ir::LocId loc, bool wrote);
  const Plan& plan_;
  bool programs_;
  std::vector<size_t> axes_;
  std::vector<std::vector<Mark>> shadow_;  // per buffer, per element
  std::set<std::string> reported_;
  std::vector<ir::Diagnostic> findings_;
  int64_t unit_ = 0;
  std::vector<int64_t> point_;
};

}  // namespace pallasim::interp
