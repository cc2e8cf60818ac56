// SARIF files of findings that Python has, maybe from other processes.
#pragma once
#include <nanobind/nanobind.h>

namespace pallasim::python {

void define_sarif(nanobind::module_&);

}  // namespace pallasim::python
