// A barrier on the semaphore that launches share: whether a device may come to it again while another one still counts.
#include <fmt/format.h>

#include "causes.h"
#include "race_detector.h"
#include "report.h"

namespace pallasim::interp {

void RaceDetector::note_barrier_semaphore(const SyncEvent& e) {
  const Execution& ex = this->ex();
  if (ex.devices < 3 || plan_.memory.barrier_semaphore < 0 || ex.has_early_semaphores()) return;
  const int64_t of_device = ex.semaphore_layout.total(1), at = e.object % of_device;
  const int block = plan_.memory.barrier_semaphore;
  const memory::SemaphoreBlock& b = ex.semaphore_layout.blocks()[static_cast<size_t>(block)];
  if (at < b.first || at >= b.first + b.count * ex.semaphore_layout.owners(block)) return;
  BarrierSemaphore& met = barrier_semaphores_[e.object];
  if (e.what == SyncEvent::What::Signal) {
    met.signalled.insert(ex.device_of(thread(e.thread)));
  } else {
    met.taken = order_.now(e.thread);
    met.step = e.step;
  }
}

// Units of a semaphore are alike. A device that ends the launch without having to come behind the wait of another one
// may signal it for the next launch: the wait counts it twice, and one of the others not at all.
std::optional<ir::Diagnostic> RaceDetector::early() const {
  if (barrier_semaphores_.empty()) return std::nullopt;  // also where a launch ended before it began
  Execution& ex = this->ex();
  if (!all_ended(ex)) return std::nullopt;
  for (const auto& [object, met] : barrier_semaphores_) {
    const auto device = static_cast<int32_t>(object / ex.semaphore_layout.total(1));
    std::vector<int32_t> others;
    for (const int32_t by : met.signalled)
      if (by != device) others.push_back(by);
    if (met.step < 0 || others.size() < 2) continue;
    for (const int32_t by : others) {
      bool behind = false;
      for (int32_t i = 0; i < ex.device_threads && !behind; ++i)
        behind = order_.ordered(met.taken, by * ex.device_threads + i);
      if (behind) continue;
      const int32_t left_out = others[0] == by ? others[1] : others[0];
      ir::Diagnostic d = diagnostic_at(
          thread(device * ex.device_threads), &step(met.step), "PS-SEM-003",
          fmt::format("the barrier may count device {} twice: it may be in the next launch while device {} still waits "
                      "here",
                      by, device));
      std::vector<std::string> names;
      for (const int32_t n : others) names.push_back(std::to_string(n));
      d.numbers = {fmt::format("devices {} signal device {}; nothing that device {} does before its end comes behind "
                               "the wait of device {}",
                               listed(names), device, by, device),
                   fmt::format("device {} goes on with two signals of device {} and none of device {}, which may not "
                               "have begun",
                               device, by, left_out)};
      d.hint =
          "a second round behind the barrier, on a semaphore of the kernel's own: who was let go signals the same "
          "devices again and waits for them; or let something else make devices wait between the launches";
      d.severity = ir::Severity::Note;
      return d;
    }
  }
  return std::nullopt;
}

}  // namespace pallasim::interp
