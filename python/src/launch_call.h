// One call of a compiled kernel on the caller's buffers. Used by the XLA handlers and by `_core.run`.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pallasim/interp/launch.h"
#include "predict.h"
#include "reports.h"
#include "settings.h"

namespace pallasim::python {

// A kernel ready to run: the plan, its options and what its buffers must look like. Shared by threads.
class Program {
 public:
  // `options` as interp::parse_options reads them, `settings` as parse_settings. Throws DiagnosticError: text that does
  // not verify, operations that cannot run.
  static std::shared_ptr<const Program> make(std::string_view text, std::string_view options,
                                             std::string_view settings = {});

  struct Shape {
    ir::DType dtype;
    std::vector<int64_t> dims;  // empty with `open`: shape parameters decide
    bool open = false;
  };
  size_t num_args() const { return args_.size(); }
  size_t num_results() const { return results_.size(); }
  const std::vector<Shape>& args() const { return args_; }
  const std::vector<Shape>& results() const { return results_; }
  bool has_sub_byte() const { return has_sub_byte_; }
  const interp::CachedPlan& cached() const { return plan_; }
  const interp::Plan& plan() const { return *plan_.plan; }
  // Empty on the generic machine.
  std::string chip() const { return options_.chip->family == hw::Family::Generic ? "" : options_.chip->name; }

  // Runs the kernel for one device, or for all that reach into each other, and tells what it found. Buffers were
  // checked. Throws Failure.
  void run(std::span<const interp::DeviceCall> devices) const;

 private:
  struct Predicted {
    std::string json;
    double seconds = 0;
  };
  Predicted predicted(std::span<const interp::DeviceCall>) const;
  interp::CachedPlan plan_;
  interp::Options options_;
  std::string option_text_;
  std::shared_ptr<const Reportable::Kernel> reportable_;
  Settings settings_;
  interp::CachedPlan timed_;  // Settings::time: the plan of predictions
  // The latest prediction, and of those contents of arrays that it depends on a hash; none: it depends on none.
  mutable std::mutex time_mutex_;
  mutable std::optional<Predicted> time_;
  mutable std::optional<uint64_t> time_inputs_;
  mutable bool time_with_values_ = false;
  std::vector<Shape> args_, results_;
  bool has_sub_byte_ = false;
};

}  // namespace pallasim::python
