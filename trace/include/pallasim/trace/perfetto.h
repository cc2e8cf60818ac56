// Timelines in the protobuf of Perfetto (ui.perfetto.dev; protos/perfetto/trace of its sources).
#pragma once
#include <string>
#include <vector>

#include "pallasim/interp/timeline.h"

namespace pallasim::trace {

// The bytes of a trace. Tracks of a device or core lie below it; slices of a thread lie within those of its named
// scopes, and have their source line and grid point as arguments; arrows are flows; counters are tracks of their own.
// What is in flight at the same time lies on tracks of one name.
std::string to_perfetto(const interp::Timeline&);
// Launches one after the other, each below a track of its kernel's name.
std::string to_perfetto(const std::vector<interp::Timeline>&);

// Slices of each track in the order of their time, by lanes: none of a lane begins before the one before it ends.
struct Lane {
  int32_t track;
  std::vector<size_t> slices;
};
std::vector<Lane> lanes_of(const interp::Timeline&);

}  // namespace pallasim::trace
