#include "interrupt.h"

#include <csignal>

#include <atomic>
#include <mutex>

#include "pallasim/interp/launch.h"

namespace pallasim::python {
namespace {

constexpr int64_t kNone = INT64_MIN;
std::atomic<int64_t> g_latest{kNone}, g_stopped{kNone};  // executions
struct sigaction g_before;  // who has the signal besides us; written before our handler is there

void on_interrupt(int signal, siginfo_t* info, void* context) {
  g_stopped.store(g_latest.load(std::memory_order_relaxed), std::memory_order_relaxed);
  interp::request_interrupt();
  if (g_before.sa_flags & SA_SIGINFO) g_before.sa_sigaction(signal, info, context);
  else g_before.sa_handler(signal);
}

bool is_ours(const struct sigaction& a) { return (a.sa_flags & SA_SIGINFO) != 0 && a.sa_sigaction == on_interrupt; }

}  // namespace

bool watch_interrupts(int64_t run) {
  if (g_stopped.load(std::memory_order_relaxed) == run) return true;
  g_latest.store(run, std::memory_order_relaxed);
  struct sigaction now = {};
  if (sigaction(SIGINT, nullptr, &now) != 0 || is_ours(now)) return false;
  const bool silent = (now.sa_flags & SA_SIGINFO) == 0 && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN);
  if (silent) return false;
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  if (sigaction(SIGINT, nullptr, &now) != 0 || is_ours(now)) return false;
  g_before = now;
  struct sigaction ours = now;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = on_interrupt;
  sigaction(SIGINT, &ours, nullptr);
  return false;
}

}  // namespace pallasim::python
