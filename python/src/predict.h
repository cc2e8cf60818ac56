// Prediction for Python.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "pallasim/interp/launch.h"

namespace pallasim::python {

// Memory that is zero and takes none before somebody writes to it.
struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Zeros = std::unique_ptr<void, Free>;
// Of a buffer's shape; throws std::bad_alloc.
void* zeros(const interp::Buffer&, std::vector<Zeros>* kept);

void define_predict(nanobind::module_&);

}  // namespace pallasim::python
