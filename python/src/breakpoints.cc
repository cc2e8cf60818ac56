#include "breakpoints.h"

#include <algorithm>
#include <atomic>

namespace pallasim::python {
namespace {
std::atomic<StopAt> g_stop{nullptr};
}  // namespace

void stop_with(StopAt stop) { g_stop = stop; }

bool LaunchBreakpoints::has(int64_t callback) const {
  const std::vector<int64_t>& all = settings_.breakpoints.callbacks;
  return std::find(all.begin(), all.end(), callback) != all.end();
}

std::string LaunchBreakpoints::stop(const interp::HostCall& call, const ir::Diagnostic& where) {
  const StopAt stop = g_stop;
  if (!stop) return {};
  ir::Diagnostic d = where;
  ir::place(d, m_);
  return stop(settings_.breakpoints.number, call, d);
}

}  // namespace pallasim::python
