#include "recording.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace pallasim::python {
namespace {

struct Recorder {
  std::mutex mutex;
  uint64_t number = 0;  // of recordings so far: a launch that outlives its recording is not mixed into the next one
  int64_t left = 0;     // bytes
  Recording recording;
};
// Never destroyed: worker threads of XLA may outlive static destructors.
Recorder& recorder() {
  static Recorder& r = *new Recorder;
  return r;
}
std::atomic<bool> g_on{false};

int64_t byte_count(const interp::Buffer& b) {
  int64_t n = ir::byte_size(b.dtype);
  for (int64_t d : b.dims) n *= d;
  return n;
}

RecordedArray copy(const interp::Buffer& b, bool content) {
  RecordedArray a{b.dtype, b.dims, {}};
  if (content) a.bytes.assign(static_cast<const char*>(b.data), static_cast<size_t>(byte_count(b)));
  return a;
}

std::vector<RecordedArray> copy(std::span<const interp::Buffer> all, bool content) {
  std::vector<RecordedArray> r;
  for (const interp::Buffer& b : all) r.push_back(copy(b, content));
  return r;
}

int64_t byte_count(std::span<const interp::Buffer> all) {
  int64_t n = 0;
  for (const interp::Buffer& b : all) n += byte_count(b);
  return n;
}

}  // namespace

bool start_recording(int64_t max_bytes) {
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  if (g_on) return false;
  ++r.number;
  r.left = max_bytes;
  r.recording = {};
  g_on = true;
  return true;
}

Recording stop_recording() {
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  g_on = false;
  Recording all = std::exchange(r.recording, {});
  // What is still running has no end to record.
  all.omitted += static_cast<int64_t>(std::erase_if(all.launches, [](const RecordedLaunch& l) { return !l.plan; }));
  return all;
}

LaunchRecorder::LaunchRecorder(const std::shared_ptr<const interp::Plan>& plan, const std::string& options, int device,
                               std::span<const interp::Buffer> args) {
  if (!g_on.load(std::memory_order_relaxed)) return;
  Recorder& r = recorder();
  {
    std::lock_guard lock(r.mutex);
    const int64_t bytes = byte_count(args);
    // Once a launch is left out, all later ones are: a capsule is the beginning of the program.
    if (!g_on || r.recording.omitted || bytes > r.left) {
      r.recording.omitted += g_on;
      return;
    }
    r.left -= bytes;
    on_ = true;
    recording_ = r.number;
    place_ = r.recording.launches.size();
    r.recording.launches.emplace_back();
  }
  launch_.plan = plan;
  launch_.options = options;
  launch_.device = device;
  launch_.args = copy(args, true);
}

void LaunchRecorder::ended(std::span<const interp::Buffer> results) {
  if (!on_) return;
  launch_.results = copy(results, true);
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  if (!g_on || r.number != recording_) return;
  r.left -= byte_count(results);
  r.recording.launches[place_] = std::move(launch_);
}

void LaunchRecorder::failed(const ir::Diagnostic& d, std::span<const interp::Buffer> results) {
  if (!on_) return;
  launch_.results = copy(results, false);
  launch_.error = d.code;
  launch_.report = ir::render(d);
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  if (!g_on || r.number != recording_) return;
  r.recording.launches[place_] = std::move(launch_);
}

}  // namespace pallasim::python
