#include "pallasim/ir/module.h"

#include <algorithm>

namespace pallasim::ir {
namespace {
constexpr std::string_view kMachines[] = {"generic", "tpu", "triton", "mosaic_gpu"};
constexpr int kMaxCallers = 64;
}  // namespace

std::string_view name(Machine m) { return kMachines[static_cast<size_t>(m)]; }

bool parse_machine(std::string_view text, Machine* out) {
  const auto* it = std::find(std::begin(kMachines), std::end(kMachines), text);
  if (it == std::end(kMachines)) return false;
  *out = static_cast<Machine>(it - kMachines);
  return true;
}

int Module::count(Operand::Kind kind) const {
  return static_cast<int>(
      std::count_if(operands.begin(), operands.end(), [&](const Operand& o) { return o.kind == kind; }));
}

bool Module::is_aliased_input(size_t operand) const {
  return std::any_of(aliases.begin(), aliases.end(),
                     [&](const Alias& a) { return static_cast<size_t>(a.input) == operand; });
}

bool Module::is_aliased_output(size_t operand) const {
  const size_t inputs = operands.size() - static_cast<size_t>(count(Operand::Kind::Output));
  return std::any_of(aliases.begin(), aliases.end(),
                     [&](const Alias& a) { return inputs + static_cast<size_t>(a.output) == operand; });
}

void place(Diagnostic& d, const Module& m, const LocTable& locs) {
  const Attr* call = find(m.attrs, "call");
  if (!d.site.source.file.empty() || !call || !call->is_int() || call->i < 0 ||
      call->i >= static_cast<int64_t>(locs.size()))
    return;
  std::string what = std::move(d.site.what);
  d.site = site_of(locs, static_cast<LocId>(call->i));
  d.site.what = std::move(what);
}

Site site_of(const LocTable& locs, LocId id) {
  Site s;
  auto known = [&](LocId i) { return i >= 0 && i < static_cast<LocId>(locs.size()); };
  if (!known(id)) return s;
  s.loc = id;
  const Loc* loc = &locs[static_cast<size_t>(id)];
  s.source = loc->source;
  s.scope = loc->scope;
  // The chain comes from untrusted text and may be a cycle.
  while (known(loc->caller) && s.callers.size() < kMaxCallers) {
    loc = &locs[static_cast<size_t>(loc->caller)];
    s.callers.push_back(loc->source);
  }
  return s;
}

void relocate(Diagnostic& d, const LocTable& locs) {
  const auto move = [&](Site& s) {
    if (s.loc < 0) return;
    std::string what = std::move(s.what);
    s = site_of(locs, s.loc);
    s.what = std::move(what);
  };
  move(d.site);
  for (Site& s : d.also) move(s);
}

}  // namespace pallasim::ir
