#include "bound.h"

#include <fmt/format.h>

#include <algorithm>

#include "bind.h"
#include "learnt.h"

namespace pallasim::interp {
namespace {

void check_grid_order(const Plan& p, const Options& o, const std::vector<int64_t>& grid) {
  for (size_t g = 0; g < o.grid_order.size(); ++g) {
    std::vector<int32_t> sorted = o.grid_order[g];
    if (sorted.empty()) continue;
    std::sort(sorted.begin(), sorted.end());
    bool complete = g < grid.size() && static_cast<int64_t>(sorted.size()) == grid[g];
    for (size_t i = 0; complete && i < sorted.size(); ++i) complete = sorted[i] == static_cast<int32_t>(i);
    if (!complete)
      bad_argument(p, fmt::format("the order of grid axis {} is no permutation of its coordinates", g), {},
                   "name every coordinate once");
  }
  if (!o.grid_order.empty() && p.threads.count > 1 && p.threads.core_axis < 0)
    bad_argument(p, "a kernel on a mesh has no grid to order", {}, "");
}

void copy_own_inputs(const Plan& p, std::vector<std::byte*>* operands, std::vector<std::vector<std::byte>>* copies) {
  for (const int i : p.memory.own_inputs) {
    std::byte*& at = (*operands)[static_cast<size_t>(i)];
    if (!at) continue;
    copies->emplace_back(at, at + p.module.operands[static_cast<size_t>(i)].array->num_bytes());
    at = copies->back().data();
  }
}

void check_counts(const Plan& p, std::span<const DeviceCall> devices) {
  const ir::Module& m = p.module;
  const auto dynamic = static_cast<size_t>(m.num_dynamic);
  const auto outputs = static_cast<size_t>(m.count(ir::Operand::Kind::Output));
  const size_t inputs = m.operands.size() - outputs;
  for (const DeviceCall& d : devices)
    if (d.args.size() != dynamic + inputs || d.results.size() != outputs)
      bad_argument(p,
                   fmt::format("{} arrays and {} results for {} operands and {} outputs", d.args.size(),
                               d.results.size(), dynamic + inputs, outputs),
                   {}, "operands are dynamic grid bounds, prefetched scalars, inputs");
}

std::shared_ptr<const Plan> specialise(const Plan& p, const ir::LocTable& locs, std::span<const Buffer> arrays) {
  std::vector<std::vector<int64_t>> shapes;
  for (const Buffer& b : arrays) shapes.push_back(b.dims);
  std::vector<std::pair<std::string, int64_t>> values;
  if (const std::string missing = ir::infer_shapes(p.module, shapes, &values); !missing.empty())
    bad_argument(p, "no operand's shape gives the parameter " + missing, {},
                 "some operand must have a dimension that is linear in " + missing);
  std::string key;
  for (const auto& [name, v] : values) key += name + "=" + std::to_string(v) + ";";
  if (auto plan = learnt(p).find(key)) return plan;
  ir::Module module = ir::bind_shapes(p.module, values);
  module.locs = locs;  // what is refused is refused there
  auto plan = compile(std::move(module), p.options);
  learnt(p).keep(key, plan);
  return plan;
}

}  // namespace

std::shared_ptr<const Plan> specialised(const Plan& p, const ir::LocTable& locs, std::span<const DeviceCall> devices) {
  check_counts(p, devices);
  return specialise(p, locs, devices[0].args.subspan(static_cast<size_t>(p.module.num_dynamic)));
}

std::unique_ptr<Bound> bind_launch(const Plan& p, const ir::LocTable& locs, Session& session,
                                   std::span<const DeviceCall> devices, const Options& options, const Watch& watch,
                                   bool values) {
  check_counts(p, devices);
  if (static_cast<int>(devices.size()) != devices_of(p))
    bad_argument(p, fmt::format("{} of {} devices that reach into each other", devices.size(), devices_of(p)), {},
                 "one launch runs them all");

  auto bound = std::make_unique<Bound>(
      Bound{{p, locs, session, options, {}, {}, {}, devices[0].device, devices[0].run, interrupt_epoch(), {}, watch}});
  Call& call = bound->call;
  for (const DeviceCall& d : devices) {
    std::vector<int64_t> grid;
    call.operands.push_back(bind_device(p, session, d, options, &grid, &bound->points,
                                        devices.size() == 1 && !options.checked ? &call.deferred_init : nullptr,
                                        values));
    copy_own_inputs(p, &call.operands.back(), &bound->copies);
    if (d.device != devices[0].device && grid != call.grid)
      bad_argument(p, fmt::format("device {} has another grid than device {}", d.device, devices[0].device), {},
                   "devices that reach into each other run one grid");
    call.grid = std::move(grid);
  }
  check_grid_order(p, options, call.grid);
  return bound;
}

}  // namespace pallasim::interp
