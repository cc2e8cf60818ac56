#include "pallasim/capsule/launches.h"

#include <fmt/format.h>

#include <algorithm>

#include "pallasim/capsule/files.h"
#include "pallasim/capsule/placed.h"

namespace pallasim::capsule {
namespace {

std::vector<Argument> recorded_inputs(const Capsule& c, const CapsuleLaunch& l, int64_t* budget) {
  std::vector<Argument> all;
  for (const CapsuleArray& a : l.arguments) all.push_back({nullptr, a.name, c.array(a, budget), {}});
  return all;
}

// Shapes are those of the recording: a kernel's own may be open.
std::vector<Argument> memory_for_results(const CapsuleLaunch& l, int64_t* budget) {
  std::vector<Argument> all;
  for (const CapsuleArray& a : l.results) {
    if (a.bytes > *budget)
      fail("PS-SIZE-001", fmt::format("output {} is too large", escaped(a.name)),
           {fmt::format("{} bytes do not fit into the {} that are left", a.bytes, *budget)},
           "raise --max-memory if the machine has more");
    *budget -= a.bytes;
    all.push_back({nullptr, a.name, {a.dtype, a.dims, std::vector<std::byte>(static_cast<size_t>(a.bytes))}, {}});
  }
  return all;
}

}  // namespace

std::vector<interp::Buffer> buffers(std::vector<Argument>& all) {
  std::vector<interp::Buffer> r;
  for (Argument& a : all) r.push_back({a.array.data.data(), a.array.dtype, a.array.dims});
  return r;
}

std::string type_text(const Array& a) { return fmt::format("{}[{}]", ir::name(a.dtype), fmt::join(a.dims, ",")); }

const std::vector<interp::DeviceCall>& Launch::calls() {
  if (!calls_.empty()) return calls_;
  for (auto& a : in) args_.push_back(buffers(a));
  for (auto& a : to) results_.push_back(buffers(a));
  for (size_t d = 0; d < devices.size(); ++d)
    calls_.push_back({static_cast<int32_t>(devices[d]), args_[d], results_[d], 0});
  return calls_;
}

interp::Options without_schedule(interp::Options o) {
  o.random_seed.reset();
  o.replay.clear();
  return o;
}

interp::Options overridden(interp::Options o, const GivenOptions& given) {
  if (std::any_of(given.begin(), given.end(), [](const auto& p) { return p.first == "random_seed"; }))
    o = without_schedule(std::move(o));
  for (const auto& [name, text] : given) interp::set_option(o, name, text);
  return o;
}

std::shared_ptr<const interp::Plan> Launches::plan(size_t i, const interp::Options& options) {
  const CapsuleLaunch& l = all()[i];
  auto& plan = plans_[{l.module, l.options}];
  if (!plan) {
    ir::Module m = ir::parse(text(i), text_name(i));
    plan = placed(m, [&] { return interp::compile(std::move(m), options); });
  }
  return plan;
}

size_t Launches::devices(size_t i) {
  try {
    return std::min(static_cast<size_t>(interp::devices_of(*plan(i, options(i)))), all().size() - i);
  } catch (const ir::DiagnosticError&) { return 1; }
}

size_t Launches::first_of(size_t i) {
  size_t at = 0;
  for (size_t n; at + (n = devices(at)) <= i;) at += n;
  return at;
}

size_t Launches::failing() const {
  for (size_t i = 0; i < all().size(); ++i)
    if (!all()[i].error.empty()) return i;
  return 0;
}

Launch Launches::load(size_t i) {
  Launch l;
  l.options = options(i);
  l.plan = plan(i, l.options);
  const size_t n = devices(i);
  int64_t budget = max_bytes_;
  for (size_t d = i; d < i + n; ++d) {
    l.devices.push_back(all()[d].device);
    l.in.push_back(recorded_inputs(capsule_, all()[d], &budget));
    l.to.push_back(memory_for_results(all()[d], &budget));
  }
  l.left = budget;
  l.number = i + 1;
  l.of = all().size() > n ? all().size() : 1;
  return l;
}

Array Launches::result(size_t i, size_t which, int64_t budget) const {
  return capsule_.array(all()[i].results[which], &budget);
}

}  // namespace pallasim::capsule
