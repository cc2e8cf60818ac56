// Exploration for Python.
#pragma once
#include <nanobind/nanobind.h>

#include "pallasim/ir/diagnostic.h"

namespace pallasim::python {

// How findings and their sites are shown to Python.
struct Shown {
  nanobind::dict (*finding)(const ir::Diagnostic&);
  nanobind::dict (*site)(const ir::Site&);
};
void define_explore(nanobind::module_&, const Shown&);

}  // namespace pallasim::python
