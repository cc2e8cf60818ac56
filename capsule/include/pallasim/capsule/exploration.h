// What an exploration found, as JSON: `pallasim explore --json` and Python's Exploration.to_json() print it.
#pragma once
#include <nlohmann/json.hpp>

#include "pallasim/interp/explore.h"

namespace pallasim::capsule {

// One launch. Of arrays dtype, shape, a hash of their bytes and the first eight elements.
nlohmann::ordered_json to_json(const interp::Exploration&);

}  // namespace pallasim::capsule
