// Prediction for Python.
#pragma once
#include <nanobind/nanobind.h>

namespace pallasim::python {

void define_predict(nanobind::module_&);

}  // namespace pallasim::python
