// The report of launches: one HTML file that needs nothing else, and the data that it shows (trace/report).
#pragma once
#include <string>
#include <vector>

#include "pallasim/hw/chips.h"
#include "pallasim/interp/predict.h"
#include "pallasim/ir/module.h"

namespace pallasim::trace {

// What a page shows of a launch.
struct Reported {
  const interp::Timeline* timeline = nullptr;
  const interp::Prediction* prediction = nullptr;  // null: times are steps
  const ir::Module* module = nullptr;
  const hw::Profile* chip = nullptr;
  std::vector<int64_t> grid;  // bound extents; of a kernel without dynamic ones those of the module
  std::vector<ir::Diagnostic> findings;
  std::vector<interp::Traffic> traffic;
};

// Limits of a timeline that a page can hold.
interp::Timeline report_limits();
// The data of one launch, as JSON.
std::string report_data(const Reported&);
// A page of launches, each as report_data has it.
std::string report_page(const std::string& title, const std::vector<std::string>& launches);

}  // namespace pallasim::trace
