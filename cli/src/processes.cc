#include "processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "io.h"

namespace pallasim::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Running {
  size_t piece = 0;
  pid_t process = 0;
  int pipe = -1;  // what it says comes here
  Clock::time_point begin;
  std::string said;
};

double seconds_of(const Running& r) { return std::chrono::duration<double>(Clock::now() - r.begin).count(); }

// In the new process, which never returns.
[[noreturn]] void be_worker(size_t piece, int pipe, int64_t bytes, const std::function<std::string(size_t)>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGINT, SIG_IGN);  // Ctrl-C goes to all processes of a terminal: the first one decides
  if (bytes > 0) {
    const rlimit limit{static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
    ::setrlimit(RLIMIT_DATA, &limit);
  }
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  std::string said;
  try {
    said = work(piece);
  } catch (...) { ::_exit(kInternal); }  // this is no place to go on from
  for (size_t at = 0; at < said.size();) {
    const ssize_t n = ::write(pipe, said.data() + at, said.size() - at);
    if (n < 0 && errno != EINTR) ::_exit(1);
    at += n > 0 ? static_cast<size_t>(n) : 0;
  }
  ::_exit(0);
}

Running start(size_t piece, int64_t bytes, const std::function<std::string(size_t)>& work) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("PS-IO-001", "cannot make a pipe", {std::strerror(errno)});
  const pid_t process = ::fork();
  if (process < 0) {
    const int why = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    fail("PS-IO-001", "cannot start a process", {std::strerror(why)});
  }
  if (process == 0) be_worker(piece, ends[1], bytes, work);
  ::close(ends[1]);
  return {piece, process, ends[0], Clock::now(), {}};
}

// Waits for its end; `how` other than Done: it was ended.
Ended finish(Running& r, Ended::How how) {
  const double seconds = seconds_of(r);
  ::close(r.pipe);
  if (how != Ended::How::Done) ::kill(r.process, SIGKILL);
  int status = 0;
  while (::waitpid(r.process, &status, 0) < 0 && errno == EINTR) {}
  Ended e{how, std::move(r.said), {}, seconds};
  if (how != Ended::How::Done || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return e;
  e.how = Ended::How::Died;
  e.why = WIFSIGNALED(status) ? fmt::format("signal {}, {}", WTERMSIG(status), ::strsignal(WTERMSIG(status)))
                              : fmt::format("exit code {}", WEXITSTATUS(status));
  return e;
}

// False at the end of what it says.
bool listen_to(Running& r) {
  char chunk[1 << 16];
  const ssize_t n = ::read(r.pipe, chunk, sizeof chunk);
  if (n > 0) r.said.append(chunk, static_cast<size_t>(n));
  return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

// Until somebody speaks, or for a moment: limits and Ctrl-C are looked at in between.
std::vector<pollfd> wait_for_any(const std::vector<Running>& running) {
  std::vector<pollfd> who;
  for (const Running& r : running) who.push_back({r.pipe, POLLIN, 0});
  ::poll(who.data(), who.size(), 50);
  return who;
}

}  // namespace

bool run_apart(size_t n, const ProcessLimits& limits, const std::function<std::string(size_t)>& work,
               const std::function<void(size_t, Ended)>& each, const std::function<bool()>& stop) {
  std::vector<Running> running;
  const auto ended = [&](size_t i, Ended::How how) {
    Running r = std::move(running[i]);
    running.erase(running.begin() + static_cast<ptrdiff_t>(i));
    each(r.piece, finish(r, how));
  };
  for (size_t next = 0; next < n || !running.empty();) {
    if (stop()) {
      while (!running.empty()) ended(running.size() - 1, Ended::How::Stopped);
      return false;
    }
    while (next < n && running.size() < static_cast<size_t>(limits.jobs))
      running.push_back(start(next, limits.bytes, work)), ++next;
    const std::vector<pollfd> who = wait_for_any(running);
    for (size_t i = running.size(); i-- > 0;) {
      const bool speaks = (who[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
      if (speaks && !listen_to(running[i])) ended(i, Ended::How::Done);
      else if (limits.seconds > 0 && seconds_of(running[i]) > limits.seconds) ended(i, Ended::How::OverTime);
    }
  }
  return true;
}

}  // namespace pallasim::cli
