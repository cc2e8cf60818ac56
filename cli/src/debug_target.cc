#include "debug_target.h"

#include <fmt/format.h>

#include <algorithm>

#include "capsule.h"
#include "io.h"
#include "launches.h"
#include "verdict.h"

namespace pallasim::cli {

DebugTarget::DebugTarget(const RunOptions& o) {
  const std::string bytes = read_program(o.file, engine_options(o).max_memory);
  if (looks_like_zip(bytes)) of_capsule(o, bytes);
  else of_text(o, bytes);
}

void DebugTarget::of_text(const RunOptions& o, const std::string& text) {
  FileLaunch l = kernel_launch(o, text, engine_options(o));
  text_ = ir::print(interp::module_of(*l.plan));  // shapes are bound
  file_ = shown(o.file);
  options_ = l.options;
  args_ = std::move(l.in);
  results_ = std::move(l.to);
  devices_.assign(l.devices.begin(), l.devices.end());
}

void DebugTarget::of_capsule(const RunOptions& o, const std::string& bytes) {
  int64_t budget = engine_options(o).max_memory - static_cast<int64_t>(bytes.size());
  const Capsule capsule(bytes, shown(o.file), budget);
  const auto& launches = capsule.launches();
  if (launches.empty()) fail("PS-CLI-001", "the capsule has no launch");
  if (!o.args.empty() || !o.dims.empty() || !o.fill.empty())
    fail("PS-CLI-001", "--arg, --dim and --fill have no use here: a capsule has its own inputs");
  if (o.launch > std::ssize(launches))
    fail("PS-CLI-001", fmt::format("--launch {}: the launches of the capsule are 1 to {}", o.launch, launches.size()));
  // The one that failed, where nobody says which.
  const auto failing = std::find_if(launches.begin(), launches.end(), [](const auto& l) { return !l.error.empty(); });
  size_t first = o.launch > 0                ? static_cast<size_t>(o.launch) - 1
                 : failing != launches.end() ? static_cast<size_t>(failing - launches.begin())
                                             : 0;
  const CapsuleLaunch& l = launches[first];
  options_ = engine_options(o, interp::parse_options(l.options));
  text_ = capsule.module_text(l);
  file_ = shown(o.file) + "/" + l.module;
  ir::Module m = ir::parse(text_, file_);
  const auto devices =
      static_cast<size_t>(interp::devices_of(*placed(m, [&] { return interp::compile(std::move(m), options_); })));
  while (devices > 1 && first > 0 && launches[first].device > 0 && launches[first - 1].module == l.module) --first;
  for (size_t i = first; i < std::min(first + devices, launches.size()); ++i) {
    auto& in = args_.emplace_back();
    for (const CapsuleArray& a : launches[i].arguments) {
      in.push_back({nullptr, a.name, {}, {}});
      in.back().array = capsule.array(a, &budget);
    }
    auto& to = results_.emplace_back();
    for (const CapsuleArray& a : launches[i].results) {
      budget -= a.bytes;
      if (budget < 0) fail("PS-SIZE-001", fmt::format("output {} is too large", escaped(a.name)));
      to.push_back({nullptr, a.name, {}, {}});
      to.back().array = {a.dtype, a.dims, std::vector<std::byte>(static_cast<size_t>(a.bytes))};
    }
    devices_.push_back(static_cast<int32_t>(launches[i].device));
  }
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
