#include "debug_target.h"

#include <fmt/format.h>

#include "io.h"
#include "launches.h"
#include "pallasim/capsule/archive.h"
#include "verdict.h"

namespace pallasim::cli {

DebugTarget::DebugTarget(const RunOptions& o) {
  const std::string bytes = read_program(o.file, engine_options(o).max_memory);
  if (looks_like_zip(bytes)) of_capsule(o, bytes);
  else of_text(o, bytes);
}

void DebugTarget::take(Launch l) {
  options_ = l.options;
  args_ = std::move(l.in);
  results_ = std::move(l.to);
  devices_.assign(l.devices.begin(), l.devices.end());
}

void DebugTarget::of_text(const RunOptions& o, const std::string& text) {
  Launch l = kernel_launch(o, text, engine_options(o));
  text_ = ir::print(interp::module_of(*l.plan));  // shapes are bound
  file_ = shown(o.file);
  take(std::move(l));
}

void DebugTarget::of_capsule(const RunOptions& o, const std::string& bytes) {
  const int64_t budget = engine_options(o).max_memory - static_cast<int64_t>(bytes.size());
  const Capsule capsule(bytes, shown(o.file), budget);
  if (capsule.launches().empty()) fail("PS-CLI-001", "the capsule has no launch");
  refuse_operands(o);
  require_launch(o, capsule);
  Launches launches(capsule, shown(o.file), budget,
                    [&](interp::Options recorded) { return engine_options(o, std::move(recorded)); });
  // The one that failed, where nobody says which.
  const size_t i = launches.first_of(o.launch > 0 ? static_cast<size_t>(o.launch) - 1 : launches.failing());
  text_ = launches.text(i);
  file_ = launches.text_name(i);
  take(launches.load(i));
}

std::unique_ptr<interp::Debugger> DebugTarget::start() const {
  std::vector<std::vector<interp::Buffer>> in, to;
  std::vector<interp::DeviceCall> calls;
  for (size_t i = 0; i < args_.size(); ++i) {
    in.push_back(buffers(args_[i]));
    to.push_back(buffers(results_[i]));
  }
  for (size_t i = 0; i < args_.size(); ++i) calls.push_back({devices_[i], in[i], to[i]});
  ir::Module m = ir::parse(text_, file_);
  return placed(m, [&] { return std::make_unique<interp::Debugger>(std::move(m), calls, options_); });
}

}  // namespace pallasim::cli
