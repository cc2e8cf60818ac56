#include "rendezvous.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace pallasim::python {
namespace {

// XLA has a thread per device in every program seen; when it has too few, the others never come.
std::chrono::seconds patience() {
  const char* text = std::getenv("PALLASIM_DEVICE_TIMEOUT");
  const int64_t seconds = text ? std::atoll(text) : 0;
  return std::chrono::seconds(seconds > 0 ? seconds : 10);
}

struct Rendezvous {
  std::map<int32_t, interp::DeviceCall> calls;  // by device; their arrays live while their threads wait
  bool ended = false;
  std::exception_ptr error;
  std::condition_variable changed;
};

struct Meeting {
  std::mutex mutex;
  // A device that waits cannot come again, so that a run and a kernel have one rendezvous at a time.
  std::map<std::pair<int64_t, const Program*>, std::shared_ptr<Rendezvous>> open;
};
Meeting& meeting() {
  static Meeting& m = *new Meeting;
  return m;
}

std::exception_ptr stayed_away(const Program& p, const Rendezvous& g, int devices) {
  std::string missing;
  for (int d = 0; d < devices; ++d)
    if (!g.calls.count(d)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", d);
  ir::Diagnostic d =
      ir::Diagnostic("PS-DEV-001",
                     fmt::format("{} of {} devices did not come to a kernel that reaches into all of them",
                                 devices - static_cast<int>(g.calls.size()), devices))
          .of(interp::module_of(p.plan()).name)
          .with({"missing: " + missing, fmt::format("waited {} s for the next one", patience().count())})
          .hinted(
              "every device of the mesh must run the kernel; where many launches are queued, a larger NPROC gives XLA "
              "more threads");
  ir::place(d, interp::module_of(p.plan()), *p.cached().locs);
  d.chip = p.chip();
  return std::make_exception_ptr(Failure(std::move(d)));
}

void end(Rendezvous& g, std::exception_ptr error) {
  g.ended = true;
  g.error = std::move(error);
  g.changed.notify_all();
}

}  // namespace

ir::Diagnostic interrupted(const Program& p) {
  ir::Diagnostic d = ir::Diagnostic("PS-INT-001", "interrupted")
                         .of(interp::module_of(p.plan()).name)
                         .with({"the kernel had not begun"})
                         .hinted("the run was stopped by request");
  d.chip = p.chip();
  return d;
}

void run_together(const Program& p, int64_t run, const interp::DeviceCall& call) {
  const int devices = interp::devices_of(p.plan());
  Meeting& m = meeting();
  std::unique_lock lock(m.mutex);
  const auto key = std::make_pair(run, &p);
  std::shared_ptr<Rendezvous>& slot = m.open[key];
  if (!slot) slot = std::make_shared<Rendezvous>();
  const std::shared_ptr<Rendezvous> rendezvous = slot;
  rendezvous->calls.emplace(call.device, call);
  if (static_cast<int>(rendezvous->calls.size()) == devices) {
    m.open.erase(key);
    std::vector<interp::DeviceCall> calls;
    for (const auto& [device, c] : rendezvous->calls) calls.push_back(c);
    lock.unlock();
    std::exception_ptr error;
    try {
      p.run(calls);
    } catch (...) { error = std::current_exception(); }
    lock.lock();
    end(*rendezvous, error);
  }
  // Who comes wakes nobody: the others look now and then. All of them at each arrival would be the square of the
  // devices.
  const uint64_t epoch = interp::interrupt_epoch();
  constexpr auto kLook = std::chrono::milliseconds(50);
  auto patient_until = std::chrono::steady_clock::now() + patience();
  for (size_t came = rendezvous->calls.size(); !rendezvous->ended;) {
    rendezvous->changed.wait_for(lock, kLook);
    const bool complete = static_cast<int>(rendezvous->calls.size()) == devices;
    if (rendezvous->ended || complete) continue;  // the launch itself notices a request to stop
    const bool stop = interp::interrupt_epoch() != epoch;
    if (came != rendezvous->calls.size()) patient_until = std::chrono::steady_clock::now() + patience();
    came = rendezvous->calls.size();
    if (!stop && std::chrono::steady_clock::now() < patient_until) continue;
    m.open.erase(key);
    end(*rendezvous, stop ? std::make_exception_ptr(Failure(interrupted(p))) : stayed_away(p, *rendezvous, devices));
  }
  if (rendezvous->error) std::rethrow_exception(rendezvous->error);
}

}  // namespace pallasim::python
