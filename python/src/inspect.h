// A module held against a chip, without running it.
#pragma once
#include <nanobind/nanobind.h>

namespace pallasim::python {

// Adds broken_rules, occupancy and capacities to the extension.
void define_inspection(nanobind::module_&);

}  // namespace pallasim::python
