#include <fmt/format.h>

#include "steps.h"

namespace pallasim::interp::run {
namespace {

int64_t semaphore_id(const Thread& t, const SemPayload& p) {
  const int64_t index = p.index.offset + (p.index.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(p.index.dyn));
  return t.exec->plan->semaphores.id(p.block, index, p.core_slot == Addr::kNoSlot ? t.index : t.slot<int32_t>(p.core_slot));
}

int64_t amount(const Thread& t, const SemPayload& p) {
  if (p.value_slot == Addr::kNoSlot) return p.value;
  return p.value_wide ? t.slot<int64_t>(p.value_slot) : t.slot<int32_t>(p.value_slot);
}

}  // namespace

const Step* sem_signal(Thread& t, const Step* s) {
  const auto& p = *static_cast<const SemPayload*>(s->payload);
  const int threads = static_cast<int>(t.exec->threads.size());
  if (p.core_slot != Addr::kNoSlot) {
    const int32_t core = t.slot<int32_t>(p.core_slot);
    if (core < 0 || core >= threads)
      fail(t, s, "PS-SEM-001", fmt::format("signal to core {}, but there are {}", core, threads), {},
           "core_index counts the cores of the kernel's mesh");
  }
  t.exec->semaphores.signal(semaphore_id(t, p), amount(t, p), &t.exec->woken);
  t.exec->progressed = true;
  return s + 1;
}

const Step* sem_wait(Thread& t, const Step* s) {
  const auto& p = *static_cast<const SemPayload*>(s->payload);
  const int64_t id = semaphore_id(t, p), value = amount(t, p);
  if (t.exec->semaphores.wait(id, value, p.decrement, t.index)) {
    t.wait_sem = -1;
    return s + 1;
  }
  t.wait_sem = id;
  t.wait_value = value;
  t.pc = s;
  t.stop = Stop::Blocked;
  return nullptr;
}

const Step* sem_read(Thread& t, const Step* s) {
  const auto& p = *static_cast<const SemPayload*>(s->payload);
  t.slot<int64_t>(s->dst) = t.exec->semaphores.count(semaphore_id(t, p));
  return s + 1;
}

}  // namespace pallasim::interp::run
