// pallasim debug: lines come from a terminal, from standard input, or from a file.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iostream>

#include "commands.h"
#include "debug_session.h"
#include "io.h"

#ifdef PALLASIM_EDITLINE
#include <editline/readline.h>
#endif

namespace pallasim::cli {
namespace {

std::atomic<interp::Debugger*> g_debugger{nullptr};

// Ctrl-C stops the kernel and not the debugger.
class Interrupts {
 public:
  explicit Interrupts(interp::Debugger& d) {
    g_debugger = &d;
    struct sigaction action = {};
    action.sa_handler = [](int) {
      if (interp::Debugger* d = g_debugger.load()) d->interrupt();
    };
    sigaction(SIGINT, &action, &before_);
  }
  ~Interrupts() {
    sigaction(SIGINT, &before_, nullptr);
    g_debugger = nullptr;
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  struct sigaction before_ = {};
};

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

constexpr const char* kPrompt = "(pallasim) ";

#ifdef PALLASIM_EDITLINE
DebugSession* g_completed = nullptr;
std::vector<std::string> g_words;
size_t g_next = 0;

char* next_word(const char* text, int state) {
  if (state == 0) g_words = g_completed->completions(text), g_next = 0;
  return g_next < g_words.size() ? ::strdup(g_words[g_next++].c_str()) : nullptr;
}

void at_terminal(DebugSession& session) {
  g_completed = &session;
  rl_completion_entry_function = next_word;
  const char* home = std::getenv("HOME");
  const std::string history = home ? std::string(home) + "/.pallasim_history" : "";
  using_history();
  stifle_history(1000);
  if (!history.empty()) read_history(history.c_str());
  for (bool more = true; more;) {
    char* line = readline(kPrompt);
    if (!line) break;
    if (*line) add_history(line);
    more = session.command(line);
    std::free(line);
  }
  if (!history.empty()) write_history(history.c_str());
  g_completed = nullptr;
}
#else
void at_terminal(DebugSession& session) {
  for (std::string line;;) {
    print(kPrompt);
    if (!std::getline(std::cin, line) || !session.command(line)) break;
  }
}
#endif

// Each line is shown before what comes of it, so that a session reads like one at a terminal.
bool from_stream(DebugSession& session, std::istream& in) {
  for (std::string line; std::getline(in, line);) {
    print(kPrompt + escaped(line) + "\n");
    if (line.empty() || line[0] == '#') continue;
    if (!session.command(line)) return false;
  }
  return true;
}

}  // namespace

int debug(const DebugCommand& o, Out&) {
  const DebugTarget target(o.run);
  DebugSession session(target.start(), print, terminal_colours());
  const Interrupts interrupts(session.debugger());
  session.greet();
  bool more = true;
  for (const std::string& file : o.commands) {
    std::ifstream in(file);
    if (!in) fail("PS-IO-001", fmt::format("{} cannot be read", escaped(file)));
    if (more) more = from_stream(session, in);
  }
  if (!more || o.batch) return kOk;
  if (::isatty(STDIN_FILENO)) at_terminal(session);
  else from_stream(session, std::cin);
  return kOk;
}

}  // namespace pallasim::cli
