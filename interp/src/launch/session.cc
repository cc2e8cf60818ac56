#include "session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "../ops/bodies.h"
#include "pallasim/ir/made.h"

namespace pallasim::interp {

Session::Session() : state_(std::make_unique<State>()) {}
Session::~Session() = default;

namespace {

// The handles of one device's semaphores of one operand.
void exchange_semaphores(Execution& ex, const Call& c, const PlanMemory::OuterSemaphores& o, size_t device, bool in) {
  Session::State& session = c.session.state();
  auto* handles = reinterpret_cast<int32_t*>(c.operands[device][static_cast<size_t>(o.operand)]);
  const memory::SemaphoreBlock& block = c.plan.memory.semaphores.blocks()[static_cast<size_t>(o.block)];
  for (int64_t i = 0; i < block.count; ++i) {
    // A ref to semaphores that was made outside kernels is zeros until a kernel sees it.
    if (handles[i] == 0 && o.in_place) handles[i] = session.allocate();
    const int32_t h = handles[i];
    if (h <= 0 || h >= Session::State::kHandles)
      bad_argument(c.plan, fmt::format("{} holds no semaphore", block.name), {fmt::format("element {} is {}", i, h)},
                   "semaphores outside kernels are made by kernels, as outputs in semaphore memory, or as refs");
    for (int core = 0; core < ex.semaphore_layout.owners(o.block); ++core) {
      const int64_t id = ex.semaphore_layout.id_of_unit(o.block, i, static_cast<int64_t>(device), core);
      if (in) ex.semaphores.set(id, session.count(h, core));
      else session.set(h, core, ex.semaphores.count(id));
    }
  }
}

// Semaphores that live outside the kernel come in with their counts and go out with them.
void exchange_semaphores(Execution& ex, const Call& c, bool in) {
  if (c.plan.memory.outer_semaphores.empty()) return;
  const std::lock_guard lock(c.session.state().mutex);
  for (const PlanMemory::OuterSemaphores& o : c.plan.memory.outer_semaphores)
    for (size_t device = 0; device < c.operands.size(); ++device) exchange_semaphores(ex, c, o, device, in);
}

std::byte* core_memory(const Execution& ex, const Call& c, const Body::CoreArray& a, size_t device, int core) {
  const Body& b = c.plan.first();
  const size_t thread = device * static_cast<size_t>(ex.device_threads) + static_cast<size_t>(b.thread(core));
  return ex.threads[thread].bases[b.temps] + a.offset;
}

// Every core gets what it had in the program's launches before this one, as long as nobody else changed the array.
void enter_cores(const Execution& ex, const Call& c) {
  if (c.plan.first().core_arrays.empty()) return;
  Session::State& session = c.session.state();
  const std::lock_guard lock(session.mutex);
  for (const Body::CoreArray& a : c.plan.first().core_arrays)
    for (size_t device = 0; device < c.operands.size(); ++device) {
      const auto bytes = static_cast<size_t>(a.bytes);
      const std::byte* array = c.operands[device][static_cast<size_t>(a.input >= 0 ? a.input : a.output)];
      const Session::State::CoreArray* before =
          a.input < 0 ? nullptr : session.find(c.run, c.first_device + static_cast<int32_t>(device), array);
      if (before && (static_cast<int>(before->cores.size()) != c.plan.threads.count ||
                     before->cores[0].size() != bytes || std::memcmp(before->cores[0].data(), array, bytes) != 0))
        before = nullptr;
      for (int core = 0; core < c.plan.threads.count; ++core)
        std::memcpy(core_memory(ex, c, a, device, core),
                    before ? before->cores[static_cast<size_t>(core)].data() : array, bytes);
    }
}

void leave_cores(const Execution& ex, const Call& c) {
  if (c.plan.first().core_arrays.empty()) return;
  Session::State& session = c.session.state();
  const std::lock_guard lock(session.mutex);
  for (const Body::CoreArray& a : c.plan.first().core_arrays)
    for (size_t device = 0; a.output >= 0 && device < c.operands.size(); ++device) {
      std::byte* array = c.operands[device][static_cast<size_t>(a.output)];
      Session::State::CoreArray left{c.run, c.first_device + static_cast<int32_t>(device), array, {}};
      for (int core = 0; core < c.plan.threads.count; ++core) {
        const std::byte* memory = core_memory(ex, c, a, device, core);
        left.cores.emplace_back(memory, memory + a.bytes);
      }
      std::memcpy(array, left.cores[0].data(), static_cast<size_t>(a.bytes));
      session.keep(std::move(left));
    }
}

}  // namespace

void enter_session(Execution& ex, const Call& c) {
  exchange_semaphores(ex, c, true);
  enter_cores(ex, c);
}

void leave_session(Execution& ex, const Call& c) {
  leave_cores(ex, c);
  exchange_semaphores(ex, c, false);
}

namespace {
// Of the barrier semaphore that devices of a launch meet at: that of which run and collective_id; nothing: of none.
std::optional<std::pair<int64_t, int64_t>> meeting_place(const Call& c) {
  const ir::Attr* id = ir::find(c.plan.module.attrs, "collective_id");
  if (c.run == 0 || !id || c.plan.memory.barrier_semaphore < 0 || c.operands.size() < 2) return std::nullopt;
  return std::pair(c.run, id->i);
}
}  // namespace

void note_shared_barrier(const Call& c, Report* report) {
  const auto place = meeting_place(c);
  if (!place) return;
  Session::State& session = c.session.state();
  const std::string& kernel = c.plan.module.name;
  std::string other;
  {
    const std::lock_guard lock(session.mutex);
    const auto [at, first] = session.met.try_emplace(*place, Session::State::Met{kernel, std::nullopt, false});
    Session::State::Met& met = at->second;
    if (!first && met.early && !std::exchange(met.told, true)) report->findings.push_back(*met.early);
    if (!first && met.kernel != kernel) other = met.kernel;
    if (session.met.size() > Session::State::kMet) session.met.erase(session.met.begin());
    if (other.empty()) return;
  }
  ir::Diagnostic d =
      ir::Diagnostic("PS-TPU-002", fmt::format("{} and {} meet at one barrier semaphore: both have collective_id {}",
                                               other, kernel, place->second))
          .of(kernel)
          .at(ir::site_of(c.locs, ir::argument_at(c.plan.module, c.locs, "collective_id")))
          .with({"a device that is in the second kernel already signals who is still in the first one"})
          .hinted("a collective_id for each, unless both let the same devices wait for each other at their ends");
  d.severity = ir::Severity::Note;
  report->findings.push_back(std::move(d));
}

void keep_early(const Call& c, std::optional<ir::Diagnostic> early) {
  const auto place = meeting_place(c);
  if (!place || !early) return;
  Session::State& session = c.session.state();
  const std::lock_guard lock(session.mutex);
  if (const auto at = session.met.find(*place); at != session.met.end()) at->second.early = std::move(early);
}

void make_semaphores(Session::State& session, const Plan& p, const ir::Operand& o, std::byte* data) {
  const std::lock_guard lock(session.mutex);
  auto* handles = reinterpret_cast<int32_t*>(data);
  const int64_t n = o.array->num_elements();
  for (int64_t i = 0; i < n; ++i) {
    handles[i] = session.allocate();
    if (handles[i] == 0)
      bad_argument(p, "no semaphore is left for " + o.name, {fmt::format("{} exist", Session::State::kHandles - 1)},
                   "somebody signals semaphores and never waits");
  }
}

}  // namespace pallasim::interp
