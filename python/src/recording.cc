#include "recording.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

namespace pallasim::python {
namespace {

struct Active {
  int64_t left;  // bytes
  Recording recording;
};
struct Recorder {
  std::mutex mutex;
  uint64_t last = 0;
  std::map<uint64_t, Active> active;
};
// Never destroyed: worker threads of XLA may outlive static destructors.
Recorder& recorder() {
  static Recorder& r = *new Recorder;
  return r;
}
std::atomic<int> g_active{0};

int64_t byte_count(const interp::Buffer& b) {
  int64_t n = ir::byte_size(b.dtype);
  for (int64_t d : b.dims) n *= d;
  return n;
}

int64_t byte_count(std::span<const interp::Buffer> all) {
  int64_t n = 0;
  for (const interp::Buffer& b : all) n += byte_count(b);
  return n;
}

std::vector<RecordedArray> copy(std::span<const interp::Buffer> all, bool content) {
  std::vector<RecordedArray> r;
  for (const interp::Buffer& b : all) {
    r.push_back({b.dtype, b.dims, {}});
    if (content) r.back().bytes.assign(static_cast<const char*>(b.data), static_cast<size_t>(byte_count(b)));
  }
  return r;
}

}  // namespace

uint64_t start_recording(int64_t max_bytes) {
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  r.active[++r.last].left = max_bytes;
  g_active = static_cast<int>(r.active.size());
  return r.last;
}

Recording stop_recording(uint64_t number) {
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  const auto it = r.active.find(number);
  if (it == r.active.end()) return {};
  Recording all = std::move(it->second.recording);
  r.active.erase(it);
  g_active = static_cast<int>(r.active.size());
  all.omitted += static_cast<int64_t>(std::erase_if(all.launches, [](const auto& l) { return !l->done; }));
  return all;
}

LaunchRecorder::LaunchRecorder(const interp::CachedPlan& plan, const std::string& options, int device,
                               std::span<const interp::Buffer> args, std::span<const interp::Buffer> results) {
  if (!g_active.load(std::memory_order_relaxed)) return;
  const int64_t bytes = byte_count(args) + byte_count(results);
  auto launch = std::make_shared<RecordedLaunch>();
  {
    Recorder& r = recorder();
    std::lock_guard lock(r.mutex);
    for (auto& [number, active] : r.active) {
      // Once a launch is left out, all later ones are: a capsule is the beginning of the program.
      if (active.recording.omitted || bytes > active.left) {
        ++active.recording.omitted;
        continue;
      }
      active.left -= bytes;
      active.recording.launches.push_back(launch);
      launch_ = launch;
    }
  }
  if (!launch_) return;
  launch_->plan = plan;
  launch_->options = options;
  launch_->device = device;
  launch_->args = copy(args, true);
}

void LaunchRecorder::finish(std::span<const interp::Buffer> results, bool content, std::string error,
                            std::string report) {
  launch_->results = copy(results, content);
  launch_->error = std::move(error);
  launch_->report = std::move(report);
  std::lock_guard lock(recorder().mutex);
  launch_->done = true;
}

void LaunchRecorder::saw(const std::vector<ir::Diagnostic>& findings, const std::optional<PredictedTime>& predicted) {
  if (!launch_) return;
  launch_->findings = findings;
  launch_->predicted = predicted;
}

void LaunchRecorder::ended(std::span<const interp::Buffer> results) {
  if (launch_) finish(results, true, {}, {});
}

void LaunchRecorder::failed(const ir::Diagnostic& d, std::span<const interp::Buffer> results) {
  if (launch_) finish(results, false, std::string(d.code.text()), ir::render(d));
}

}  // namespace pallasim::python
