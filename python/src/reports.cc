#include "reports.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>

namespace pallasim::python {
namespace {

constexpr size_t kMaxFindings = 4096;
constexpr size_t kMaxRecorded = 256;

struct Shared {
  std::mutex mutex;
  std::deque<ir::Diagnostic> findings;
  std::string last;
  ir::Diagnostic last_finding;
  LastRun run;
  std::deque<std::pair<int64_t, GridPoints>> recorded;
  std::deque<std::pair<int64_t, std::vector<interp::HostCall>>> calls;
};
// Never destroyed: worker threads of XLA may outlive static destructors.
Shared& shared() {
  static Shared& s = *new Shared;
  return s;
}
std::atomic<int64_t> g_launches{0};

}  // namespace

void note_launch() { g_launches.fetch_add(1, std::memory_order_relaxed); }
int64_t launch_count() { return g_launches.load(std::memory_order_relaxed); }

void note_finding(const ir::Diagnostic& d) {
  Shared& s = shared();
  std::string text = ir::render(d);
  std::lock_guard lock(s.mutex);
  s.findings.push_back(d);
  if (s.findings.size() > kMaxFindings) s.findings.pop_front();
  s.last = std::move(text);
  s.last_finding = d;
}

bool last_finding(ir::Diagnostic* out) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  *out = s.last_finding;
  return !s.last.empty();
}

std::vector<ir::Diagnostic> take_findings() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  std::vector<ir::Diagnostic> r(s.findings.begin(), s.findings.end());
  s.findings.clear();
  return r;
}

std::string last_report() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  return s.last;
}

namespace {
bool is_race(const ir::Diagnostic& d) { return d.code.starts_with("PS-RACE-") || d.code.starts_with("PS-PAR-"); }
// Where one core was asked for, a false claim is a finding, but nothing races.
bool raced(const ir::Diagnostic& d, int cores) { return is_race(d) && !(cores == 1 && d.code.starts_with("PS-PAR-")); }
}  // namespace

std::string note_failure(const ir::Diagnostic& d) {
  note_finding(d);
  {
    Shared& s = shared();
    std::lock_guard lock(s.mutex);
    s.run.races = is_race(d);
  }
  return ir::render(d);
}

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

void note_report(interp::Report r, const interp::Options& options) {
  for (const ir::Diagnostic& d : r.findings) note_finding(d);
  if (!r.prints.empty()) {
    std::string all;
    for (const std::string& line : r.prints) {
      all += line;
      if (all.empty() || all.back() != '\n') all += '\n';
    }
    static std::mutex& output = *new std::mutex;
    std::lock_guard lock(output);
    std::FILE* log = options.chip->family == hw::Family::Tpu ? stderr : stdout;  // the log of a TPU
    std::fwrite(all.data(), 1, all.size(), log);
    std::fflush(log);
  }
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  s.run.token = r.token;
  s.run.steps = r.steps;
  s.run.grid_points = r.grid_points;
  s.run.threads = r.threads;
  s.run.units = r.units;
  s.run.races = std::any_of(r.findings.begin(), r.findings.end(), [&](const ir::Diagnostic& d) { return raced(d, options.cores); });
  s.run.traffic = r.traffic;
  keep(s.recorded, options.record_grid, std::move(r.points));
  keep(s.calls, options.record_calls, std::move(r.calls));
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

LastRun last_run() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  return s.run;
}

}  // namespace pallasim::python
