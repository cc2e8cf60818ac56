// CTAs of a cluster, as operations name them.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../../plan/payload/cluster.h"
#include "../values/emitter.h"

namespace pallasim::interp {

// An axis of the clusters of the body's mesh; nothing where it has none of that name.
std::optional<ClusterAxis> cluster_axis(Emitter&, const std::string& name);
// A list of axes, or of lists of axes that are one. `joint`: all of the list are one. Nothing where a name is no axis
// of a cluster.
std::optional<ClusterSet> cluster_set(Emitter&, const Attr& axes, bool joint);

// A view of another CTA's memory: that CTA, and the transforms that do not name it. Nothing where the view names none.
struct Elsewhere {
  ClusterPeer peer;
  std::vector<ir::View> rest;
};
std::optional<Elsewhere> elsewhere(Emitter&, const Op&, std::span<const ir::View>);
// The place `index`, an i32 slot, along the axis.
ClusterPeer peer_at(Emitter&, const Op&, const std::string& axis, uint32_t slot);

}  // namespace pallasim::interp
