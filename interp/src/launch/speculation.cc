#include "speculation.h"

#include <algorithm>
#include <cstring>

#include "../plan/kinds.h"
#include "../report/checked.h"
#include "bind.h"
#include "conflict_detector.h"
#include "learnt.h"
#include "pallasim/interp/progress.h"
#include "partitioned_run.h"

namespace pallasim::interp {
namespace {

// Of one part: what it uses of the arrays that the launch writes, which are all that it is told of.
class PartObserver : public Observer {
 public:
  PartObserver(const Execution& ex, ConflictDetector& conflicts, int part, const PartitionedRun& run,
               const std::vector<bool>& written)
      : ex_(ex), conflicts_(conflicts), written_(written), part_(part), run_(run) {}
  uint32_t wants() const override { return kAccess | kInternal; }
  bool wants_buffer(uint32_t buffer) const override {
    const size_t operand = buffer - kFirstOperandBuffer;
    return buffer >= kFirstOperandBuffer && operand < written_.size() && written_[operand];
  }
  void on_access(const Access& a) override {
    if (run_.is_void() || !conflicts_.use(part_, address(ex_, a), a.dims, a.strides, a.rank, a.element_bytes, a.write))
      throw PartitionedRun::Conflict{};
  }

 private:
  const Execution& ex_;
  ConflictDetector& conflicts_;
  const std::vector<bool>& written_;
  const int part_;
  const PartitionedRun& run_;
};

// Whether programs, or the threads of a mesh where none of them names another one, can have executions of their own.
// Clusters that take the work of others have to know all of those.
bool may_part(const Call& c) {
  const Plan& p = c.plan;
  if (!p.may_speculate()) return false;
  const auto asks = [](const Step& s) { return s.kind == Kind::cluster_request; };
  if (c.who.programs > 0) return c.who.programs > 1 && std::none_of(p.steps.begin(), p.steps.end(), asks);
  return p.first().mesh >= 0 && p.threads.count > 1 && p.first().max_children == 0 &&
         p.shares_arrays_only(memory::Level::Core);
}

// The outputs of a launch before it runs, to begin with twice.
class Outputs {
 public:
  Outputs(const Call& c, ConflictDetector* conflicts) : call_(c), at_(c.operands[0]) {
    for (const Window& w : c.plan.first().windows) {
      if (!w.is_output) continue;
      const auto o = static_cast<size_t>(w.operand);
      const int64_t bytes = c.plan.module.operands[o].array->num_bytes();
      if (std::find(c.deferred_init.begin(), c.deferred_init.end(), w.operand) == c.deferred_init.end())
        conflicts->watch(at_[o], bytes);
      else
        conflicts->watch_unwritten(at_[o], bytes, memory::uninitialized(w.dtype, c.options.uninitialized),
                                   ir::byte_size(w.dtype));
      if (c.plan.module.is_aliased_output(o)) before_.push_back({o, {at_[o], at_[o] + bytes}});
    }
  }
  void restore() const {
    for (const auto& [o, was] : before_) std::memcpy(at_[o], was.data(), was.size());
    for (const Window& w : call_.plan.first().windows)
      if (w.is_output && !w.fully_written && !call_.plan.module.is_aliased_output(static_cast<size_t>(w.operand)))
        poison_output(call_.plan, call_.options, static_cast<size_t>(w.operand), at_[static_cast<size_t>(w.operand)]);
  }
  // Per operand: outputs, and inputs whose memory is theirs.
  std::vector<bool> written() const {
    std::vector<bool> r(at_.size());
    for (size_t i = 0; i < at_.size(); ++i)
      for (const Window& w : call_.plan.first().windows)
        if (w.is_output && at_[static_cast<size_t>(w.operand)] == at_[i]) r[i] = true;
    return r;
  }

 private:
  const Call& call_;
  const std::vector<std::byte*>& at_;
  std::vector<std::pair<size_t, std::vector<std::byte>>> before_;
};

// Neighbours are a part. Of programs as few at a time as would run if nobody else were there: their memory stays in the
// caches.
std::vector<Part> parts_of(const Call& c, int workers) {
  const Population& who = c.who;
  // Clusters differ, and the last ones end late; threads of a mesh are alike.
  const int64_t each = who.programs > 0 ? 16 : 4, all = who.programs > 0 ? who.programs : c.plan.threads.count,
                n = std::min({all, workers * each, int64_t{ConflictDetector::kMostParts}});
  std::vector<Part> parts;
  for (int64_t i = 0; i < n; ++i) {
    Population p = who;
    p.first = all * i / n;
    (who.programs > 0 ? p.programs : p.threads) = all * (i + 1) / n - p.first;
    p.resident = std::min(who.resident, all / n);
    parts.push_back({p, {}});
  }
  return parts;
}

}  // namespace

bool run_speculatively(const Call& c, int workers, Report* report) {
  const bool in_order =
      c.options.policy() == Options::Policy::RunToBlock && c.options.copies == Options::Copies::AtIssue;
  if (!in_order || c.operands.size() != 1 || !may_part(c) || learnt(c.plan).conflicted.load(std::memory_order_relaxed))
    return false;
  Options options = c.options;
  options.max_memory /= workers;
  Call call{c.plan, c.locs,         c.session, options,           c.operands, c.grid,
            {},     c.first_device, c.run,     c.interrupt_epoch, {},         {}};
  call.watch.progress = c.watch.progress;
  ConflictDetector conflicts;
  const Outputs outputs(c, &conflicts);
  const std::vector<bool> written = outputs.written();
  PartitionedRun run(call, parts_of(c, workers), PartitionedRun::Apart::Speculative,
                     [&](int part, const Execution& ex) -> std::shared_ptr<Observer> {
                       return std::make_shared<PartObserver>(ex, conflicts, part, run, written);
                     });
  if (!run.run(workers, report)) {
    if (interrupt_epoch() == c.interrupt_epoch) learnt(c.plan).conflicted.store(true, std::memory_order_relaxed);
    outputs.restore();
    if (Progress* all = c.watch.progress) all->expect(all->total() + all->done());  // what ended comes again
    return false;
  }
  conflicts.fill_rest();
  return true;
}

}  // namespace pallasim::interp
