// The tables of options and of diagnostic codes, for Python.
#pragma once
#include <nanobind/nanobind.h>

namespace pallasim::python {

void define_tables(nanobind::module_&);

}  // namespace pallasim::python
