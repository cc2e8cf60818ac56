// Units of the machine, as attributes and views of operations name them.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../values/emitter.h"
#include "../views/devices.h"

namespace pallasim::interp {

// The unit that attributes device_id and core_index name.
UnitSet named_unit(Emitter&, const Op&);
// A list of axes of the clusters, or of lists of axes that are one: all places along them. `joint`: all of the list are
// one. Nothing where a name is no axis of a cluster.
std::optional<UnitSet> units_along(Emitter&, const Attr& axes, bool joint);
// The CTA at the place `index`, an i32 slot, along the axis of the cluster.
UnitSet cta_at(Emitter&, const Op&, const std::string& axis, uint32_t slot);
// The subcore of the thread's core with the number in an i32 slot.
UnitSet subcore_at(Emitter&, uint32_t slot);

// All devices around the kernel, by the list of axes of theirs that an operation names: the engine has no others.
UnitSet all_devices(Emitter&, const Op&, const Attr& axes);
// All CTAs of the thread's cluster.
UnitSet cluster_of(Emitter&);
// An axis of the grid of clusters.
struct GridAxis {
  int64_t size, stride;  // clusters from one place to the next
};
std::optional<GridAxis> grid_axis(Emitter&, const std::string& name);
// The view of a ref without the transform that says that all devices are meant, and whether there was one.
bool drop_multicast(Emitter&, const Op&, std::vector<ir::View>*, UnitSet* devices);

// A view of another unit's memory: that unit, and the transforms that do not name it. Nothing where the view names
// none.
struct Elsewhere {
  UnitSet peer;
  std::vector<ir::View> rest;
};
std::optional<Elsewhere> elsewhere(Emitter&, const Op&, std::span<const ir::View>);

}  // namespace pallasim::interp
