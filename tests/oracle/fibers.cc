#include "fibers.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace pallasim::oracle {

namespace {

constexpr size_t kStackBytes = 1 << 20;  // of address space; the pages that a body touches are memory

// A stack above a page that nobody may touch: a body that nests too deep ends the process, and writes nowhere else.
struct Stack {
  Stack() : first(mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (first == MAP_FAILED || mprotect(first, static_cast<size_t>(getpagesize()), PROT_NONE) != 0)
      throw std::bad_alloc();
  }
  ~Stack() { munmap(first, kStackBytes); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  void* first;
};

// Stacks of ended fibers: the next evaluation finds their pages in place.
std::vector<std::unique_ptr<Stack>>& idle_stacks() {
  static thread_local std::vector<std::unique_ptr<Stack>> idle;
  return idle;
}

std::unique_ptr<Stack> take_stack() {
  auto& idle = idle_stacks();
  if (idle.empty()) return std::make_unique<Stack>();
  std::unique_ptr<Stack> s = std::move(idle.back());
  idle.pop_back();
  return s;
}

}  // namespace

struct Fibers::Fiber {
  std::function<void()> body;
  std::unique_ptr<Stack> stack;
  ucontext_t context{};
  bool began = false, ended = false;
  // What sanitizers want to know of who goes on; [first, first + bytes) is the stack that they saw.
  void* fake_stack = nullptr;
  const void* first = nullptr;
  size_t bytes = 0;
  void* sanitizer = nullptr;
};

static void before_switch([[maybe_unused]] void** keep, [[maybe_unused]] const void* first,
                          [[maybe_unused]] size_t bytes, [[maybe_unused]] void* sanitizer) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(keep, first, bytes);
#elif defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(sanitizer, 0);
#endif
}

static void behind_switch([[maybe_unused]] void* kept, [[maybe_unused]] const void** first,
                          [[maybe_unused]] size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(kept, first, bytes);
#endif
}

Fibers::Fibers(std::vector<std::function<void()>> bodies) : outside_(std::make_unique<Fiber>()) {
  for (auto& body : bodies) all_.push_back(std::make_unique<Fiber>()), all_.back()->body = std::move(body);
}

Fibers::~Fibers() {
  for (auto& f : all_) {
#if defined(__SANITIZE_THREAD__)
    if (f->sanitizer) __tsan_destroy_fiber(f->sanitizer);
#endif
    if (f->stack) idle_stacks().push_back(std::move(f->stack));
  }
}

size_t Fibers::add(const std::function<void(size_t)>& body, size_t from) {
  size_t i = from;
  while (i < all_.size() && !all_[i]->ended) ++i;
  if (i == all_.size()) all_.push_back(std::make_unique<Fiber>());
  Fiber& f = *all_[i];
  f.body = [body, i] { body(i); };
  f.began = f.ended = false;
  return i;
}

bool Fibers::began(size_t i) const { return all_[i]->began; }
bool Fibers::ended(size_t i) const { return all_[i]->ended; }

// makecontext passes ints alone: the address comes in two.
void Fibers::enter(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fibers*>(uintptr_t{high} << 32 | low);
  behind_switch(nullptr, &self->outside_->first, &self->outside_->bytes);
  Fiber& f = *self->all_[self->running_];
  f.body();
  f.ended = true;
  before_switch(nullptr, self->outside_->first, self->outside_->bytes, self->outside_->sanitizer);
  setcontext(&self->outside_->context);
}

void Fibers::switch_to(size_t i) {
  Fiber& f = *all_[i];
  running_ = i;
  if (!f.began) {
    f.began = true;
    if (!f.stack) f.stack = take_stack();
    f.first = f.stack->first, f.bytes = kStackBytes;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack->first;
    f.context.uc_stack.ss_size = kStackBytes;
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&f.context, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
#if defined(__SANITIZE_THREAD__)
    outside_->sanitizer = __tsan_get_current_fiber();
    if (f.sanitizer) __tsan_destroy_fiber(f.sanitizer);
    f.sanitizer = __tsan_create_fiber(0);
#endif
  }
  before_switch(&outside_->fake_stack, f.first, f.bytes, f.sanitizer);
  swapcontext(&outside_->context, &f.context);
  behind_switch(outside_->fake_stack, nullptr, nullptr);
}

void Fibers::leave() {
  Fiber& f = *all_[running_];
  before_switch(&f.fake_stack, outside_->first, outside_->bytes, outside_->sanitizer);
  swapcontext(&f.context, &outside_->context);
  behind_switch(f.fake_stack, &outside_->first, &outside_->bytes);
}

}  // namespace pallasim::oracle
