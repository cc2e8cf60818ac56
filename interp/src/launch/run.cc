#include "run.h"

#include "../engine/engine.h"
#include "../engine/snapshot.h"
#include "../report/words.h"
#include "float_environment.h"
#include "idle.h"
#include "pallasim/interp/progress.h"

namespace pallasim::interp {

Lease::Lease(const Plan& p) : exec_(idle_executions().take(p)) {
  if (!exec_) exec_ = std::make_unique<Execution>(p, Words::all());
}

Lease::~Lease() {
  exec_->host.helpers = nullptr;
  exec_->rest();
  idle_executions().give(std::move(exec_));
}

namespace {

// The part of a launch that one execution runs, as far as it is.
class CountedPart {
 public:
  CountedPart(Progress* progress, const Execution& ex) : progress_(progress), ex_(ex) {
    if (progress_) progress_->begin(&ex_.host.points_ended);
  }
  ~CountedPart() {
    if (progress_) progress_->end(&ex_.host.points_ended);
  }
  CountedPart(const CountedPart&) = delete;
  CountedPart& operator=(const CountedPart&) = delete;

 private:
  Progress* progress_;
  const Execution& ex_;
};

}  // namespace

void begin_part(Execution& ex, const Call& c, const Population& who, const GridBox& box) {
  ex.options = &c.options;
  ex.locs = &c.locs;
  ex.host.keeps_calls = c.watch.recorder && c.watch.recorder->keep_calls;
  ex.host.breakpoints = c.watch.breakpoints;
  ex.bind(c.operands, c.grid, c.first_device, who);
  ex.host.interrupt_epoch = c.interrupt_epoch;  // requests since the launch began count
  if (who.programs > 0) ex.start_programs();
  else ex.start(box);
  ex.deferred_init.clear();
  for (const int o : c.deferred_init) {
    const ir::Type& t = *c.plan.module.operands[static_cast<size_t>(o)].array;
    ex.deferred_init.push_back({c.plan.first().windows[static_cast<size_t>(o)].buffer, t.num_bytes(), t.dtype, {}});
  }
  enter_session(ex, c);
  ex.events->launch();
  ex.elides_copies = !ex.observed;
}

void end_part(Execution& ex, const Call& c) {
  leave_session(ex, c);
  for (const DeferredInit& u : ex.deferred_init) ex.poison_gaps(u);
}

std::string run_part(Execution& ex, const Call& c, const Population& who, const GridBox& box, WrittenPages* written,
                     const Guide& guide) {
  const FloatEnvironment environment;
  begin_part(ex, c, who, box);
  const CountedPart counted(c.watch.progress, ex);
  const bool restoring = c.options.verify_restore > 0 && c.watch.observers.empty();
  ex.elides_copies = ex.elides_copies && !guide.policy;
  std::string token =
      restoring ? run_restoring(ex, c.options, c.options.verify_restore, written) : run_threads(ex, c.options, guide);
  end_part(ex, c);
  return token;
}

}  // namespace pallasim::interp
