#include "launch_call.h"

#include <mutex>

#include "pallasim/interp/options.h"
#include "recording.h"
#include "reports.h"

namespace pallasim::python {
namespace {

// State that outlives a launch (PRNG, barrier semaphores). One per process while one device is emulated.
interp::Session& session() {
  static interp::Session& s = *new interp::Session;
  return s;
}

Program::Shape shape_of(const ir::Type& t) {
  Program::Shape s;
  s.dtype = t.dtype;
  s.open = !t.is_static();
  if (!s.open)
    for (const ir::Dim& d : t.dims) s.dims.push_back(d.size);
  return s;
}

}  // namespace

std::shared_ptr<const Program> Program::make(std::string_view text, std::string_view options) {
  auto p = std::make_shared<Program>();
  p->options_ = interp::parse_options(options);
  p->option_text_ = options;
  p->plan_ = interp::compile_cached(text, p->options_);
  const ir::Module& m = interp::module_of(*p->plan_);
  // Dynamic grid bounds are one i32 or i64: `open` leaves dtype and shape to the launch.
  for (int i = 0; i < m.num_dynamic; ++i) p->args_.push_back({ir::DType::I32, {}, true});
  for (const ir::Operand& o : m.operands) {
    (o.kind == ir::Operand::Kind::Output ? p->results_ : p->args_).push_back(shape_of(*o.array));
    p->has_sub_byte_ = p->has_sub_byte_ || ir::bit_width(o.array->dtype) < 8;
  }
  return p;
}

void Program::run(std::span<const interp::DeviceCall> devices) const {
  note_launch();
  std::vector<LaunchRecorder> recorders;
  for (const interp::DeviceCall& d : devices) recorders.emplace_back(plan_, option_text_, d.device, d.args, d.results);
  interp::Outcome outcome = interp::try_launch(*plan_, session(), devices, options_);
  note_report(std::move(outcome.report), options_);
  if (outcome.stop) {
    for (size_t i = 0; i < devices.size(); ++i) recorders[i].failed(*outcome.stop, devices[i].results);
    throw ir::DiagnosticError(std::move(*outcome.stop));
  }
  for (size_t i = 0; i < devices.size(); ++i) recorders[i].ended(devices[i].results);
}

}  // namespace pallasim::python
