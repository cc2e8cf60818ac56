#include "launches.h"

#include <fmt/format.h>

#include <algorithm>

#include "capsule.h"
#include "io.h"
#include "verdict.h"

namespace pallasim::cli {

const std::vector<interp::DeviceCall>& FileLaunch::calls() {
  if (!calls_.empty()) return calls_;
  for (auto& a : in) args_.push_back(buffers(a));
  for (auto& a : to) results_.push_back(buffers(a));
  for (size_t d = 0; d < devices.size(); ++d)
    calls_.push_back({static_cast<int32_t>(devices[d]), args_[d], results_[d], 0});
  return calls_;
}

FileLaunch kernel_launch(const RunOptions& o, const std::string& text, const interp::Options& options) {
  if (o.launch) fail("PS-CLI-001", "--launch is for capsules");
  ir::Module m = load_module(text, o.file);
  FileLaunch l;
  l.options = options;
  l.in.push_back(make_arguments(&m, o));
  l.plan = placed(m, [&] { return interp::compile(std::move(m), l.options); });
  l.devices = {0};
  const auto n = static_cast<size_t>(interp::devices_of(*l.plan));
  for (size_t d = 1; d < n; ++d) l.in.push_back(l.in[0]), l.devices.push_back(static_cast<int64_t>(d));
  int64_t budget = l.options.max_memory;
  for (size_t d = 0; d < n; ++d) l.to.push_back(make_results(interp::module_of(*l.plan), &budget));
  return l;
}

namespace {

using Adapt = std::function<interp::Options(interp::Options)>;
using Then = std::function<void(FileLaunch&)>;

void of_capsule(const RunOptions& o, const std::string& bytes, const Adapt& adapt, const Then& then) {
  const int64_t budget = engine_options(o).max_memory - static_cast<int64_t>(bytes.size());
  const Capsule c(bytes, shown(o.file), budget);
  const auto& all = c.launches();
  if (!o.args.empty() || !o.dims.empty() || !o.fill.empty())
    fail("PS-CLI-001", "--arg, --dim and --fill have no use here: a capsule has its own inputs");
  if (o.launch > static_cast<int64_t>(all.size()))
    fail("PS-CLI-001", fmt::format("--launch {}: the launches of the capsule are 1 to {}", o.launch, all.size()));
  for (size_t i = 0, n = 1; i < all.size(); i += n) {
    FileLaunch l;
    l.options = engine_options(o, interp::parse_options(all[i].options));
    l.options.random_seed.reset();
    l.options.replay.clear();
    l.options = adapt(l.options);
    ir::Module m = ir::parse(c.module_text(all[i]), shown(o.file) + "/" + all[i].module);
    l.plan = placed(m, [&] { return interp::compile(std::move(m), l.options); });
    n = std::min(all.size() - i, static_cast<size_t>(interp::devices_of(*l.plan)));
    const auto chosen = static_cast<size_t>(o.launch);
    if (chosen && (chosen <= i || chosen > i + n)) continue;
    int64_t left = budget;
    for (size_t d = i; d < i + n; ++d) {
      l.devices.push_back(all[d].device);
      std::vector<Argument>& in = l.in.emplace_back();
      for (const CapsuleArray& a : all[d].arguments) in.push_back({nullptr, a.name, c.array(a, &left), {}});
      l.to.push_back(make_results(interp::module_of(*l.plan), &left));
    }
    l.number = i + 1;
    l.of = all.size() > n ? all.size() : 1;
    then(l);
  }
}

}  // namespace

void each_launch(const RunOptions& o, const Adapt& adapt, const Then& then) {
  const std::string text = read_program(o.file, engine_options(o).max_memory);
  if (looks_like_zip(text)) return of_capsule(o, text, adapt, then);
  FileLaunch l = kernel_launch(o, text, adapt(engine_options(o)));
  then(l);
}

}  // namespace pallasim::cli
