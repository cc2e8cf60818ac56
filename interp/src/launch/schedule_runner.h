// Runs one launch again and again, each time from the same bytes.
#pragma once
#include <memory>
#include <optional>

#include "../engine/touches.h"
#include "../report/checks.h"
#include "bound.h"
#include "pallasim/interp/explore.h"
#include "run.h"

namespace pallasim::interp {

// One schedule's end.
struct ScheduleEnd {
  Report report;
  std::optional<ir::Diagnostic> stop;
  bool abandoned = false, over = false;
  uint64_t outputs = 0;  // of their bytes, where it did not stop
  int64_t turns = 0;
  // Equal for ends that are one outcome.
  std::string key() const;
  // The part of a key that outputs have no part in; none: of one that stopped.
  static std::optional<std::string_view> beside_outputs(std::string_view key);
};

class ScheduleRunner {
 public:
  ScheduleRunner(const Plan&, const ir::LocTable&, std::span<const DeviceCall>, const Options&);
  ~ScheduleRunner();
  ScheduleRunner(const ScheduleRunner&) = delete;
  // `touches`: what turns touch is told (Guide::touches), which is slower.
  ScheduleEnd run(Policy&, bool touches = false, std::vector<Choice>* record = nullptr, const std::string& token = "-");
  void heed_later_requests() { bound_->call.interrupt_epoch = interrupt_epoch(); }  // to stop, and no earlier ones
  Execution& execution() { return **lease_; }
  Touches& touches() { return *touches_; }
  std::vector<ExploredArray> outputs() const;

  // -- for who runs the launch by itself --
  const Call& call() const { return bound_->call; }
  void reset(bool arrays = true);      // they, and the session, are as before any run
  Touches& touches_of_runs();          // an observer; it is there from the first call
  void finish(ScheduleEnd*, Checks*);  // what the run that is over or was stopped came to

 private:
  struct Array {
    std::vector<std::byte> bytes, first;
  };
  Buffer own(const Buffer&);
  uint64_t hash_of_outputs() const;
  const Plan& plan_;
  const ir::LocTable& locs_;
  Options options_;
  Session session_;
  std::vector<std::unique_ptr<Array>> arrays_;
  std::vector<std::vector<Buffer>> args_, results_;
  std::vector<DeviceCall> calls_;
  std::unique_ptr<Bound> bound_;
  std::vector<std::pair<std::byte*, std::vector<std::byte>>> first_;  // what arrays that are written begin with
  std::unique_ptr<Lease> lease_;
  std::unique_ptr<Touches> touches_;
};

}  // namespace pallasim::interp
