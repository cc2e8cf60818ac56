// The tables of options, diagnostic codes and chips, for Python.
#pragma once
#include <nanobind/nanobind.h>

namespace pallasim::python {

void define_tables(nanobind::module_&);

}  // namespace pallasim::python
