// What becomes of what a launch sees: for the Python side alone, beside the options of the run.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace pallasim::python {

// What becomes of the warnings and notes of a launch: told at once (each place once), kept for take_findings only, or
// the first of them fails the launch.
enum class Delivery : uint8_t { Warn, Collect, Raise };

// Recordings are numbered by Python; 0: none.
struct Settings {
  Delivery findings = Delivery::Warn;
  bool progress = true;      // a long launch says how far it is
  bool time = false;         // predicted, too, of the chip
  int64_t record_grid = 0;   // for take_grid_points
  int64_t record_calls = 0;  // for take_calls
  // The debug_callbacks that stop the launch, and the number under which Python knows them; 0: none.
  struct Breakpoints {
    int64_t number = 0;
    std::vector<int64_t> callbacks;
  } breakpoints;
};

// "findings=collect;progress=0;time=1;record_grid=3". Throws DiagnosticError (PS-OPT-001).
Settings parse_settings(std::string_view text);

}  // namespace pallasim::python
