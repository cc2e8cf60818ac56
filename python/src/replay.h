// Capsules repeated for Python.
#pragma once
#include <nanobind/nanobind.h>

#include "explore.h"

namespace pallasim::python {

void define_replay(nanobind::module_&, const Shown&);

}  // namespace pallasim::python
