// Prediction for Python.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

// What a report of a launch begins with: its text, options and what it found, and of its arguments those that control
// may depend on.
struct Reportable {
  struct Kernel {
    std::string text;
    interp::Options options;
  };
  std::shared_ptr<const Kernel> kernel;
  std::vector<std::vector<std::optional<std::string>>> contents;  // by device and argument
  std::vector<ir::Diagnostic> findings;
  std::vector<interp::Traffic> traffic;
};
// That of the latest launch, of which it keeps one.
void keep_reportable(Reportable);
// The contents of arguments of those operands that are small and prefetched, or lie in SMEM.
std::vector<std::optional<std::string>> scalars_of(const ir::Module&, const interp::DeviceCall&);

void define_predict(nanobind::module_&);

}  // namespace pallasim::python
