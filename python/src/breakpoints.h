// Who is told when a launch comes to a breakpoint of its kernel.
#pragma once
#include <string>

#include "pallasim/interp/launch.h"
#include "settings.h"

namespace pallasim::python {

// `number`: Settings::breakpoints. Called from the launch's thread; returns why the launch is to end, "" to go on.
using StopAt = std::string (*)(int64_t number, const interp::HostCall&, const ir::Diagnostic& where);
void stop_with(StopAt);

// The breakpoints of one launch.
class LaunchBreakpoints : public interp::Breakpoints {
 public:
  LaunchBreakpoints(const Settings& settings, const ir::Module& m) : settings_(settings), m_(m) {}
  bool any() const { return settings_.breakpoints.number != 0; }
  bool has(int64_t callback) const override;
  std::string stop(const interp::HostCall&, const ir::Diagnostic& where) override;

 private:
  const Settings& settings_;
  const ir::Module& m_;
};

}  // namespace pallasim::python
