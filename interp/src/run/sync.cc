#include <fmt/format.h>

#include <set>

#include "steps.h"

namespace pallasim::interp::run {

namespace {
int32_t peer_thread(const Thread& t, const Peer& p) {
  if (!p.elsewhere()) return t.index;
  const int32_t cores = t.exec->plan->num_threads;
  const int32_t device = p.device_slot == Addr::kNoSlot ? t.exec->device_of(t) : t.slot<int32_t>(p.device_slot);
  return device * cores + (p.core_slot == Addr::kNoSlot ? t.index % cores : t.slot<int32_t>(p.core_slot));
}
}  // namespace

int64_t semaphore_id(const Thread& t, const SemPayload& p) {
  const int64_t index = p.index.offset + (p.index.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(p.index.dyn));
  return t.exec->plan->semaphores.id(p.block, index, peer_thread(t, p.peer));
}

namespace {
int64_t amount(const Thread& t, const SemPayload& p) {
  if (p.value_slot == Addr::kNoSlot) return p.value;
  return p.value_wide ? t.slot<int64_t>(p.value_slot) : t.slot<int32_t>(p.value_slot);
}

}  // namespace

int32_t target_thread(const Thread& t, const Step* s, const Peer& p, const char* what) {
  const Execution& ex = *t.exec;
  const auto check = [&](uint32_t slot, int32_t count, const char* of, const char* hint) {
    if (slot == Addr::kNoSlot) return;
    const int32_t i = t.slot<int32_t>(slot);
    if (i < 0 || i >= count)
      fail(t, s, "PS-SEM-001",
           fmt::format("{} to {} {}, but there {} {}", what, of, i, count == 1 ? "is" : "are", count), {}, hint);
  };
  check(p.core_slot, ex.plan->num_threads, "core", "core_index counts the cores of the kernel's mesh");
  check(p.device_slot, ex.devices, "device",
        "a logical device id counts the devices of the mesh around the kernel, the last axis fastest");
  return peer_thread(t, p);
}

const Step* sem_signal(Thread& t, const Step* s) {
  const auto& p = *static_cast<const SemPayload*>(s->payload);
  target_thread(t, s, p.peer, "signal");
  const int64_t id = semaphore_id(t, p);
  for (Listener* l : t.exec->listeners) l->on_signal(*t.exec, t, id);
  t.exec->semaphores.signal(id, amount(t, p), &t.exec->woken);
  t.exec->progressed = true;
  return s + 1;
}

// Copies that move when somebody waits do so now, oldest first, as long as the count does not suffice.
const Step* wait_for(Thread& t, const Step* s, int64_t id, int64_t value, bool decrement) {
  Execution& ex = *t.exec;
  if (ex.copies_move == Options::Copies::AtWait)
    for (size_t i; ex.semaphores.count(id) < value && (i = ex.copies.first_signalling(id)) < ex.copies.size();) complete_copy(ex, i);
  if (ex.semaphores.wait(id, value, decrement, t.index)) {
    t.wait_sem = -1;
    for (Listener* l : ex.listeners) {
      l->on_seen(ex, t, id);
      if (decrement) l->on_taken(ex, id, value);
    }
    return s + 1;
  }
  t.wait_sem = id;
  t.wait_value = value;
  t.pc = s;
  t.stop = Stop::Blocked;
  return nullptr;
}

const Step* sem_wait(Thread& t, const Step* s) {
  const auto& p = *static_cast<const SemPayload*>(s->payload);
  return wait_for(t, s, semaphore_id(t, p), amount(t, p), p.decrement);
}

const Step* sem_read(Thread& t, const Step* s) {
  const auto& p = *static_cast<const SemPayload*>(s->payload);
  Execution& ex = *t.exec;
  const int64_t id = semaphore_id(t, p);
  // Somebody who polls waits too.
  if (ex.copies_move == Options::Copies::AtWait)
    for (size_t i; (i = ex.copies.first_signalling(id)) < ex.copies.size();) complete_copy(ex, i);
  for (Listener* l : ex.listeners) l->on_seen(ex, t, id);
  int64_t& seen = t.slot<int64_t>(s->dst);
  const bool same = seen == ex.semaphores.count(id);
  seen = ex.semaphores.count(id);
  if (!p.polls || !same) return s + 1;
  // Somebody else must signal what this loop waits for.
  ++ex.spins;
  t.pc = s + 1;
  t.stop = Stop::Yielded;
  return nullptr;
}

std::string where(const Plan& p, ir::LocId loc) {
  const ir::Site site = ir::site_of(p.module, loc);
  return site.source.file.empty() ? std::string("an unknown line") : fmt::format("{}:{}", site.source.file, site.source.line);
}

namespace {
// note(block, how, location) of every step that adds to a semaphore.
template <typename F>
void for_each_signal(const Plan& p, const F& note) {
  for (const Step& s : p.steps) {
    if (s.fn == sem_signal) note(static_cast<const SemPayload*>(s.payload)->block, "is signalled", s.loc);
    if (s.fn != dma_start) continue;
    const auto& d = *static_cast<const DmaPayload*>(s.payload);
    const auto counts_bytes = [&](int block) { return p.semaphores.blocks()[static_cast<size_t>(block)].bytes; };
    note(d.dst_sem.block, counts_bytes(d.dst_sem.block) ? "counts the bytes of the copy started" : "is signalled by the copy started", s.loc);
    if (d.src_sem.block >= 0)
      note(d.src_sem.block, counts_bytes(d.src_sem.block) ? "counts the bytes read by the copy started" : "is signalled when its source was read by the copy started", s.loc);
  }
}
}  // namespace

std::vector<std::string> signallers(const Plan& p, const std::set<int>& blocks) {
  std::set<std::string> lines;
  for_each_signal(p, [&](int block, const char* how, ir::LocId loc) {
    if (blocks.count(block)) lines.insert(fmt::format("{} {} at {}", p.semaphores.blocks()[static_cast<size_t>(block)].name, how, where(p, loc)));
  });
  return {lines.begin(), lines.end()};
}

namespace {
// Who takes from the semaphores of a block, a line each.
std::vector<std::string> awaiters(const Plan& p, int block) {
  std::set<std::string> lines;
  const std::string& name = p.semaphores.blocks()[static_cast<size_t>(block)].name;
  for (const Step& s : p.steps) {
    if (s.fn == sem_wait && static_cast<const SemPayload*>(s.payload)->block == block) lines.insert(fmt::format("{} is awaited at {}", name, where(p, s.loc)));
    if (s.fn != dma_wait) continue;
    const auto& w = *static_cast<const DmaWaitPayload*>(s.payload);
    if (w.sem.block != block) continue;
    int64_t n = 1;
    for (int64_t d : w.extents.dims) n *= d;
    lines.insert(fmt::format("{} is awaited at {}, for {}", name, where(p, s.loc), w.extents.slots.empty() ? fmt::format("{} bytes", n * w.bits / 8) : "a size known at run time"));
  }
  if (lines.empty()) lines.insert(name + " is never awaited");
  return {lines.begin(), lines.end()};
}
}  // namespace

// A kernel may declare that its semaphores are not to be checked.
static bool checks_semaphores(const ir::Module& m) {
  const ir::Attr* params = ir::find(m.attrs, "params");
  for (size_t i = 0; params && i < params->keys.size(); ++i)
    if (params->keys[i] == "disable_semaphore_checks" && params->items[i].is_true()) return false;
  return true;
}

void report_left_over(Thread& t, const Step* s, int64_t id) {
  Execution& ex = *t.exec;
  const int64_t left = ex.semaphores.count(id);
  if (left == 0) return;
  const Plan& p = *ex.plan;
  ex.semaphores.set(id, 0);
  if (!checks_semaphores(p.module)) return;
  int block = -1;
  const std::string name = p.semaphores.name(id, static_cast<int64_t>(ex.threads.size()), &block);
  const bool bytes = block >= 0 && p.semaphores.blocks()[static_cast<size_t>(block)].bytes;
  ir::Diagnostic d = diagnostic_at(
      t, s, "PS-SEM-002",
      bytes ? fmt::format("{} ends with {} bytes that nobody waited for", name, left) : fmt::format("{} ends at {} instead of 0", name, left));
  for_each_signal(p, [&](int signalled, const char*, ir::LocId loc) {
    if (signalled == block && d.site.source.file.empty()) d.site = ir::site_of(p.module, loc);
  });
  d.numbers = signallers(p, {block});
  if (block >= 0)
    for (std::string& line : awaiters(p, block)) d.numbers.push_back(std::move(line));
  d.hint = bytes ? "every copy that is started needs a wait for its bytes; on hardware the next user of the semaphore goes wrong"
                 : "signals and waits must balance; on hardware the next user of the semaphore goes wrong";
  if (p.module.machine != ir::Machine::Generic) throw ir::DiagnosticError(std::move(d));
  d.severity = ir::Severity::Warning;
  ex.findings.push_back(std::move(d));
}

}  // namespace pallasim::interp::run
