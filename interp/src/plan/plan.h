// A compiled module. Immutable after compile(); launches share it.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "body.h"
#include "pallasim/interp/launch.h"
#include "pallasim/memory/allocation.h"
#include "pallasim/memory/async.h"
#include "pallasim/memory/barriers.h"
#include "pallasim/memory/saturate.h"
#include "pallasim/memory/semaphores.h"
#include "pallasim/memory/window.h"

namespace pallasim::interp {

class Plan {
 public:
  ir::Module module;
  std::unique_ptr<ir::Module> given;  // Numerics::Oracle: the module as it came
  Options options;                    // the parts that shaped the plan
  std::vector<Step> steps;            // of all bodies
  // One per mesh that has one, in the module's order; all run beside each other. None where shape parameters are not
  // bound.
  std::vector<std::unique_ptr<Body>> bodies;
  const Body& first() const { return *bodies.front(); }

  std::vector<std::byte> constants;  // read-only array constants, buffer kConstBuffer
  memory::Allocations allocations;   // scratch and what run_scoped allocates; those of Launch lifetime begin as poison
  uint32_t num_buffers = 0;          // length of Thread::bases
  // Whether every thread has a buffer for itself.
  bool is_private(uint32_t buffer) const {
    return buffer <= memory::kTempBuffer ||
           std::find(private_buffers.begin(), private_buffers.end(), buffer) != private_buffers.end();
  }
  std::vector<uint32_t> private_buffers;  // temporaries of further bodies, and of spawned threads
  int max_strips = 1;
  int cores = 1;       // TensorCores that share the grid
  int core_axis = -1;  // along this axis, in equal runs
  struct DeviceAxis {
    std::string name;
    int64_t size;
  };
  std::vector<DeviceAxis> device_axes;  // around the kernel, the last one fastest
  bool has_peers = false;               // devices reach into each other: all of them are one launch
  int64_t num_devices() const {
    int64_t n = 1;
    for (const DeviceAxis& a : device_axes) n = memory::mul(n, a.size);
    return n;
  }
  memory::SemaphoreLayout semaphores;
  std::vector<memory::BarrierBlock> barriers;
  struct OuterSemaphores {
    int block;
    int operand;
    bool in_place;
  };  // semaphores that live outside the kernel
  std::vector<OuterSemaphores> outer_semaphores;
  int barrier_semaphore = -1;            // block of the launch's barrier semaphores; -1: nobody asks for it
  std::vector<int> splittable;           // grid axes along which units are independent
  std::vector<ir::Diagnostic> findings;  // of the chip's rules, and no errors; every launch reports them
  std::string sequential_because;        // empty when something may be split
  double step_cost_ns = 0;               // rough cost of one grid point
  // Of one device: the meshes of the kernel, or the cores that share its grid where they can be told from one. Known
  // before any step is emitted.
  memory::Units units;
  int num_threads = 1;      // of one device
  bool concurrent = false;  // programs of the grid may wait for each other, or race on purpose (Triton)

  // Whether threads may wait for what others do.
  bool waits() const { return !semaphores.empty() || !barriers.empty(); }

  // Owned payloads of steps.
  template <typename T>
  T* own(T value) {
    constexpr int64_t kBeside = 256;  // of vectors and names that a payload holds
    payload_bytes_ += static_cast<int64_t>(sizeof(T)) + kBeside;
    auto p = std::make_shared<T>(std::move(value));
    T* raw = p.get();
    payloads_.push_back(std::move(p));
    return raw;
  }

  // Specialisations of a module with shape parameters, by binding text.
  mutable std::mutex mutex;
  mutable std::unordered_map<std::string, std::shared_ptr<const Plan>> specialised;

  int64_t bytes() const;  // that the plan holds, about; specialisations too

  Plan();
  ~Plan();

 private:
  std::vector<std::shared_ptr<void>> payloads_;
  int64_t payload_bytes_ = 0;
};

using memory::kConstBuffer, memory::kFirstOperandBuffer, memory::kSlotBuffer, memory::kTempBuffer;

// Texts and plans that compile_cached() keeps, bytes.
inline constexpr int64_t kPlanCacheBytes = 512LL << 20;

// Whether an output begins as one of the inputs.
bool is_aliased_output(const ir::Module&, int operand);

}  // namespace pallasim::interp
