#include "reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <string_view>
#include <utility>

namespace pallasim::python {
namespace {

constexpr size_t kMaxFindings = 4096;
constexpr size_t kMaxRecorded = 256;
constexpr size_t kMaxTimed = 4096;

struct Shared {
  std::mutex mutex;
  std::deque<ir::Diagnostic> findings;  // not yet taken
  struct Kept {
    int64_t number;
    ir::Diagnostic error;
    uint64_t request;        // to stop: the last one before it
    bool asked_for = false;  // by interrupted_failure
  };
  std::deque<Kept> failures;
  int64_t failed = 0;
  RunLog runs;
  std::map<std::string, KernelTime> times;
  int64_t ended = 0;
  std::deque<std::pair<int64_t, GridPoints>> recorded;
  std::deque<std::pair<int64_t, std::vector<interp::HostCall>>> calls;

  Tell tell = nullptr;
  int telling = 0;
  std::condition_variable told;
};
// Never destroyed: worker threads of XLA may outlive static destructors.
Shared& shared() {
  static Shared& s = *new Shared;
  return s;
}
std::atomic<int64_t> g_launches{0};

bool is_claim(const ir::Diagnostic& d) { return d.code.family() == ir::CodeFamily::kPAR; }
bool is_race(const ir::Diagnostic& d) { return d.code.family() == ir::CodeFamily::kRACE || is_claim(d); }
// Where one core was asked for, a false claim is a finding, but nothing races.
// Itself, or by what it is the reason of.
bool raced(const ir::Diagnostic& d, int cores) {
  const auto told = [&](const std::string& line) {
    return line.starts_with("PS-RACE-") || (cores != 1 && line.starts_with("PS-PAR-"));
  };
  return (is_race(d) && !(cores == 1 && is_claim(d))) || std::any_of(d.numbers.begin(), d.numbers.end(), told);
}

// Their order is that of the ends of launches.
void keep_run(Run run) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  run.number = ++s.ended;
  KernelTime& time = s.times[s.times.size() < kMaxTimed || s.times.contains(run.kernel) ? run.kernel : ""];
  ++time.launches;
  time.checked += run.checked;
  time.seconds += run.seconds;
  s.runs.keep(std::move(run));
}

}  // namespace

void note_launch() { g_launches.fetch_add(1, std::memory_order_relaxed); }
int64_t launch_count() { return g_launches.load(std::memory_order_relaxed); }

void note_finding(const ir::Diagnostic& d) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  s.findings.push_back(d);
  if (s.findings.size() > kMaxFindings) s.findings.pop_front();
}

Failure::Failure(ir::Diagnostic d) : ir::DiagnosticError(std::move(d)) {
  note_finding(diagnostic());
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  number_ = ++s.failed;
  s.failures.push_back({number_, diagnostic(), interp::interrupt_epoch()});
  if (s.failures.size() > kMaxRecorded) s.failures.pop_front();
}

std::string Failure::text() const { return fmt::format("{}  failure {} of this process\n", what(), number_); }

namespace {
template <typename F>
Shared::Kept* latest_failure(Shared& s, const F& wanted) {
  const auto it = std::find_if(s.failures.rbegin(), s.failures.rend(), wanted);
  if (it == s.failures.rend()) return nullptr;
  return &*it;
}
}  // namespace

std::optional<ir::Diagnostic> failure(int64_t number) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  const Shared::Kept* f = latest_failure(s, [&](const Shared::Kept& k) { return k.number == number; });
  return f ? std::optional(f->error) : std::nullopt;
}

std::optional<ir::Diagnostic> interrupted_failure() {
  const uint64_t now = interp::interrupt_epoch();
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  Shared::Kept* f = latest_failure(s, [&](const Shared::Kept& k) {
    return !k.asked_for && k.request == now && k.error.code.blame() == ir::Blame::Interrupt;
  });
  if (!f) return std::nullopt;
  f->asked_for = true;
  return f->error;
}

int64_t running_launches() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  return launch_count() - s.ended;
}

std::vector<ir::Diagnostic> take_findings() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  std::vector<ir::Diagnostic> r(s.findings.begin(), s.findings.end());
  s.findings.clear();
  return r;
}

void tell_with(Tell tell) {
  Shared& s = shared();
  std::unique_lock lock(s.mutex);
  s.tell = tell;
  s.told.wait(lock, [&] { return s.telling == 0; });
}

namespace {
void say(const std::vector<ir::Diagnostic>& findings) {
  if (findings.empty()) return;
  Shared& s = shared();
  std::unique_lock lock(s.mutex);
  const Tell tell = s.tell;
  if (!tell) {
    for (const ir::Diagnostic& d : findings) {
      const std::string text = ir::render(d);
      std::fwrite(text.data(), 1, text.size(), stderr);
    }
    return;
  }
  ++s.telling;
  lock.unlock();
  tell(findings);
  lock.lock();
  --s.telling;
  s.told.notify_all();
}
}  // namespace

namespace {

template <typename T>
void keep(std::deque<std::pair<int64_t, T>>& kept, int64_t recording, T what) {
  if (recording == 0) return;
  kept.emplace_back(recording, std::move(what));
  if (kept.size() > kMaxRecorded) kept.pop_front();
}

template <typename T>
T take(std::deque<std::pair<int64_t, T>>& kept, int64_t recording) {
  const auto it = std::find_if(kept.begin(), kept.end(), [&](const auto& r) { return r.first == recording; });
  if (it == kept.end()) return {};
  T what = std::move(it->second);
  kept.erase(it);
  return what;
}

}  // namespace

namespace {
void show(const std::vector<std::string>& prints, const interp::Options& options) {
  if (prints.empty()) return;
  std::string all;
  for (const std::string& line : prints) {
    all += line;
    if (all.empty() || all.back() != '\n') all += '\n';
  }
  static std::mutex& output = *new std::mutex;
  std::lock_guard lock(output);
  std::FILE* log = options.chip->family == hw::Family::Tpu ? stderr : stdout;  // the log of a TPU
  std::fwrite(all.data(), 1, all.size(), log);
  std::fflush(log);
}
}  // namespace

void note_report(Run run, interp::Report r, const interp::Options& options, Delivery delivery,
                 const ir::Diagnostic* stop) {
  show(r.prints, options);
  run.token = r.token;
  run.steps = r.steps;
  run.grid_points = r.grid_points;
  run.threads = r.threads;
  run.units = r.units;
  run.checked = options.checked;
  run.races = std::any_of(r.findings.begin(), r.findings.end(),
                          [&](const ir::Diagnostic& d) { return raced(d, options.cores); });
  run.traffic = r.traffic;
  if (stop) run.races = run.races || is_race(*stop);
  run.findings = std::move(r.findings);
  if (stop) run.findings.insert(run.findings.begin(), *stop);
  const bool raise = !stop && delivery == Delivery::Raise && !run.findings.empty() &&
                     run.findings.front().severity != ir::Severity::Note;
  if (raise) run.findings.front().severity = ir::Severity::Error;
  run.failed = raise || stop;
  const std::vector<ir::Diagnostic> findings = run.findings;
  keep_run(std::move(run));
  // The one that is raised, or stopped the launch, is kept by who catches it.
  std::vector<ir::Diagnostic> told;
  for (size_t i = raise; i < findings.size(); ++i)
    if (!stop || findings[i].severity != ir::Severity::Error) told.push_back(findings[i]);
  for (const ir::Diagnostic& d : told) note_finding(d);
  if (delivery != Delivery::Collect) say(told);
  if (raise) throw Failure(findings.front());
}

std::map<std::string, KernelTime> take_kernel_times() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  return std::exchange(s.times, {});
}

void keep_recorded(const Settings& settings, interp::Recorder r) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  keep(s.recorded, settings.record_grid, std::move(r.points));
  keep(s.calls, settings.record_calls, std::move(r.calls));
}

GridPoints take_grid_points(int64_t recording) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  return take(s.recorded, recording);
}

std::vector<interp::HostCall> take_calls(int64_t recording) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  return take(s.calls, recording);
}

std::vector<Run> runs() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  return s.runs.all();
}

Run last_run() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  return s.runs.last();
}

}  // namespace pallasim::python
