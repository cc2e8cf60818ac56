#include "partitioned_run.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include "../engine/publish.h"
#include "run.h"
#include "workers.h"

namespace pallasim::interp {
namespace {

bool precedes(const ir::Diagnostic& a, const ir::Diagnostic& b) { return a.grid_point < b.grid_point; }

// Number 1: the last part comes first; others are drawn.
std::vector<int> adverse_order(int parts, int64_t number) {
  std::vector<int> r(static_cast<size_t>(parts));
  std::iota(r.rbegin(), r.rend(), 0);
  if (number > 1) std::shuffle(r.begin(), r.end(), std::mt19937_64(static_cast<uint64_t>(number)));
  return r;
}

}  // namespace

void deliver(std::vector<Print> prints, const Call& c, bool sort, Report* report) {
  if (sort)
    std::stable_sort(prints.begin(), prints.end(), [](const Print& a, const Print& b) { return a.order < b.order; });
  for (Print& p : prints) {
    if (p.call) c.watch.recorder->calls.push_back(std::move(*p.call));
    else report->prints.push_back(std::move(p.text));
  }
}

PartitionedRun::PartitionedRun(const Call& c, std::vector<Part> parts, Apart apart, Observe observe)
    : call_(c), parts_(std::move(parts)), apart_(apart), observe_(std::move(observe)) {}

bool PartitionedRun::run(int workers, Report* report) {
  const int n = static_cast<int>(parts_.size());
  if (const int64_t number = call_.options.verify_parts) {
    for (const int i : adverse_order(n, number)) part(i);
  } else if (workers == 1) {
    for (int i = 0; i < n; ++i) part(i);
  } else {
    on_workers(workers, n, [this](int i) { part(i); });
  }
  if (internal_) std::rethrow_exception(internal_);
  if (void_) return false;
  report->steps += steps_;
  report->units = n;
  report->token = "ps2:run-to-block";
  if (error_) forget_later();
  deliver(std::move(prints_), call_, true, report);
  add_findings(report);
  if (error_) throw *error_;
  return true;
}

void PartitionedRun::part(int i) {
  if (is_void()) return;
  const Part& p = parts_[static_cast<size_t>(i)];
  Lease ex(call_.plan);
  try {
    const std::shared_ptr<Observer> observer = observe_ ? observe_(i, *ex) : nullptr;
    std::optional<Publisher> publisher;
    Observer* const observers[] = {observer.get()};
    if (observer) publisher.emplace(*ex, observers, apart_ == Apart::Speculative);
    run_part(*ex, call_, p.who, p.box);
  } catch (const Conflict&) { void_ = true; } catch (const ir::DiagnosticError& e) {
    stopped(e);
  } catch (...) {
    void_ = true;
    const std::lock_guard lock(mutex_);
    internal_ = std::current_exception();
  }
  take(*ex);
}

void PartitionedRun::stopped(const ir::DiagnosticError& e) {
  if (apart_ == Apart::Speculative) {
    void_ = true;
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!error_ || precedes(e.diagnostic(), error_->diagnostic())) error_ = std::make_unique<ir::DiagnosticError>(e);
}

void PartitionedRun::take(Execution& ex) {
  if (apart_ == Apart::Speculative && (!ex.log.prints.empty() || !ex.log.findings.empty())) void_ = true;
  const std::lock_guard lock(mutex_);
  steps_ += ex.steps;
  std::move(ex.log.prints.begin(), ex.log.prints.end(), std::back_inserter(prints_));
  const size_t first = findings_.size();
  for (ir::Diagnostic& d : ex.log.findings) findings_.push_back({std::move(d)});
  for (const auto& [step, at] : ex.log.noted) findings_[first + at].step = step;
  ex.log.clear();
}

// What the grid in one piece would not have come to.
void PartitionedRun::forget_later() {
  const std::vector<int64_t>& stop = error_->diagnostic().grid_point;
  if (stop.size() != call_.grid.size()) return;
  int64_t last = 0;
  for (size_t g = 0; g < stop.size(); ++g) last = last * call_.grid[g] + stop[g];
  std::erase_if(prints_, [&](const Print& p) { return p.order > last; });
  std::erase_if(findings_, [&](const PartFinding& f) { return precedes(error_->diagnostic(), f.diagnostic); });
}

// Of every step that reports once the finding that the first grid point met.
void PartitionedRun::add_findings(Report* report) {
  std::stable_sort(findings_.begin(), findings_.end(),
                   [](const PartFinding& a, const PartFinding& b) { return precedes(a.diagnostic, b.diagnostic); });
  std::set<const Step*> seen;
  for (PartFinding& f : findings_)
    if (!f.step || seen.insert(f.step).second) report->findings.push_back(std::move(f.diagnostic));
}

}  // namespace pallasim::interp
