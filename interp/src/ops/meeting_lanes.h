// Lanes of one store that write to the same element.
#pragma once
#include <optional>

#include "execution.h"

namespace pallasim::interp::ops {

struct MeetingLanes {
  int64_t first = 0, second = 0;  // row-major in what is stored
  int64_t offset = 0;             // bytes, of the element in its buffer
  int64_t elements = 0;           // that several lanes write to
};

// Of a step that is about to run; nothing where no two lanes meet, or those that do store the same value.
std::optional<MeetingLanes> meeting_lanes(Thread&, const Step&);

}  // namespace pallasim::interp::ops
