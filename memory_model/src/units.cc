#include "pallasim/memory/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

namespace pallasim::memory {
namespace {

int64_t product(const std::vector<int64_t>& v) {
  return std::accumulate(v.begin(), v.end(), int64_t{1}, std::multiplies<>());
}

std::vector<int64_t> place(int64_t index, const std::vector<int64_t>& extents) {
  std::vector<int64_t> r(extents.size());
  for (size_t d = extents.size(); d-- > 0; index /= extents[d]) r[d] = index % extents[d];
  return r;
}

Mesh plain(int64_t threads) {
  Mesh m;
  m.cores = {threads};
  return m;
}

std::string core_name(const Mesh& m, int64_t core) {
  if (m.core_axes.empty()) return fmt::format("{} {}", m.core, core);
  const std::vector<int64_t> at = place(core, m.cores);
  std::string r = m.core;
  for (size_t d = 0; d < at.size() && d < m.core_axes.size(); ++d)
    r += fmt::format("{}{}={}", d ? ", " : " ", m.core_axes[d], at[d]);
  return r;
}

std::string thread_name(const Mesh& m, int64_t thread) {
  if (m.first_thread.empty()) return fmt::format("{} {}", m.thread, thread);
  return thread == 0 ? m.first_thread : fmt::format("{} {}", m.thread, thread - 1);
}

}  // namespace

Units::Units(int64_t threads_per_device, int64_t devices) : Units({plain(threads_per_device)}, devices) {}

Units::Units(std::vector<Mesh> meshes, int64_t devices) : meshes_(std::move(meshes)), devices_(devices) {
  for (const Mesh& m : meshes_) {
    const int64_t below[kLevels] = {1, product(m.clusters), product(m.cores) / m.paired, m.paired, m.threads, m.warps};
    Sizes s{};
    for (size_t l = 0; l < kLevels; ++l) {
      s.count[l] = (l ? s.count[l - 1] : 1) * below[l];
      s.before[l] = l == 0 ? 0 : per_device_[l];
      per_device_[l] += s.count[l];
    }
    sizes_.push_back(s);
  }
  per_device_[0] = 1;
}

int Units::mesh_of(Level l, int64_t unit) const {
  int m = 0;
  if (l == Level::Device || meshes_.size() == 1) return m;
  int64_t rest = unit % per_device(l);
  for (; rest >= per_mesh(l, m); ++m) rest -= per_mesh(l, m);
  return m;
}

int64_t Units::unit_of(Level l, int64_t thread) const {
  const int64_t device = device_of(Level::Thread, thread);
  if (l == Level::Device) return device;
  const int m = mesh_of(Level::Thread, thread);
  const int64_t local = thread - first(Level::Thread, m, device), threads = per_mesh(Level::Thread, m),
                units = per_mesh(l, m);
  // Most machines of an emulator are small: few divisions.
  if (units == threads) return first(l, m, device) + local;
  if (units == 1) return first(l, m, device);
  return first(l, m, device) + (l == Level::Warp ? local * (units / threads) : local / (threads / units));
}

Units::Threads Units::threads_of(Level l, int64_t unit) const {
  if (l == Level::Device) return {unit * per_device(Level::Thread), per_device(Level::Thread)};
  const int m = mesh_of(l, unit);
  const int64_t device = device_of(l, unit), local = unit - first(l, m, device);
  const int64_t threads = per_mesh(Level::Thread, m), units = per_mesh(l, m), begin = first(Level::Thread, m, device);
  if (l == Level::Warp) return {begin + local / (units / threads), 1};
  return {begin + local * (threads / units), threads / units};
}

// The way down to the unit, from the part that has a name.
std::string Units::name(Level l, int64_t unit) const {
  const int64_t device = device_of(l, unit);
  const std::string on_device = fmt::format("device {}", device), of_device = devices_ > 1 ? " of " + on_device : "";
  if (l == Level::Device) return on_device;
  const int mesh = mesh_of(l, unit);
  const Mesh& m = meshes_[static_cast<size_t>(mesh)];
  int64_t local = unit - first(l, mesh, device);
  if (l == Level::Warp) {
    const int64_t thread = first(Level::Thread, mesh, device) + local / m.warps;
    const std::string of = name(Level::Thread, thread), warp = fmt::format("warp {}", local % m.warps);
    if (m.clusters.empty()) return warp + " of " + of;
    return fmt::format("{}, {}{}", of.substr(0, of.size() - of_device.size()), warp, of_device);
  }
  const int64_t thread = l == Level::Thread ? local % m.threads : 0;
  if (l == Level::Thread && m.core.empty()) {
    const bool alone = meshes_.size() == 1 && per_mesh(Level::Thread, 0) == 1 && devices_ > 1;
    return alone ? on_device : thread_name(m, local) + of_device;
  }
  if (l == Level::Thread) local /= m.threads;
  if (l == Level::Pair && m.paired == 1) l = Level::Core;
  const int64_t cores = product(m.cores), beside = l == Level::Pair ? cores / m.paired : cores,
                cluster = l == Level::Cluster ? local : local / beside;
  const std::string in_grid =
      m.clusters.empty() ? "" : fmt::format("cluster ({})", fmt::join(place(cluster, m.clusters), ","));
  if (l == Level::Cluster) return (in_grid.empty() ? fmt::format("cluster {}", cluster) : in_grid) + of_device;
  if (l == Level::Pair) {
    const std::string pair = fmt::format("{} pair {}", m.core.empty() ? "core" : m.core, local % beside);
    return (in_grid.empty() ? pair : in_grid + ", " + pair) + of_device;
  }
  const std::string core = m.core.empty() ? fmt::format("core {}", local % cores) : core_name(m, local % cores);
  const bool has_threads = l == Level::Thread && (m.threads > 1 || !m.first_thread.empty());
  if (in_grid.empty()) return (has_threads ? thread_name(m, thread) + " of " : "") + core + of_device;
  return in_grid + ", " + core + (has_threads ? ", " + thread_name(m, thread) : "") + of_device;
}

std::string Units::of(Level l, int64_t unit) const {
  if (count(l) == 1) return "";
  if (l == Level::Thread && meshes_.size() == 1 && meshes_[0].core.empty() && devices_ > 1 && per_device(l) > 1)
    return fmt::format(" of {} on device {}", thread_name(meshes_[0], unit % per_device(l)), device_of(l, unit));
  return " of " + name(l, unit);
}

}  // namespace pallasim::memory
