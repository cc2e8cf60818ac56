// The one place where exceptions end.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "command_line.h"
#include "io.h"

namespace pallasim::cli {
namespace {

// Findings have colours where people read them, unless NO_COLOR (https://no-color.org) or a terminal without them says
// otherwise.
bool wants_colours(const std::string& when) {
  if (when != "auto") return when == "always";
  const char *none = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) && !(none && *none) && !(terminal && std::string_view(terminal) == "dumb");
}

// What the parser says, and what may have been meant.
[[noreturn]] void fail_usage(const CommandLine& line, std::string what, int argc, char** argv) {
  const CLI::App& app = line.app;
  std::replace(what.begin(), what.end(), '\n', ' ');
  const std::vector<std::string> given(argv + 1, argv + argc);
  what = as_given(std::move(what), given);
  std::string near = line.meant_value;
  if (near.empty()) near = meant(app, given);
  if (argc > 1 && argv[1][0] != '-' && !is_command(app, argv[1])) what = fmt::format("there is no command {}", argv[1]);
  const std::string help = "pallasim --help shows the commands, pallasim COMMAND --help their options";
  fail("PS-CLI-001", what, {}, near.empty() ? help : fmt::format("did you mean {}? {}", near, help));
}

ir::Diagnostic internal_bug(const std::string& what) {
  return ir::Diagnostic("PS-BUG-001", "internal error: " + what)
      .hinted("this is a mistake in Pallasim, not in the kernel; please report it with the file that shows it");
}

bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--json") return true;
  return false;
}

int main_guarded(int argc, char** argv) {
  Out out;
  // Only what was decided before a failure belongs into its report.
  auto failed = [&](const ir::Diagnostic& d) {
    Out report;
    report.json = out.json;
    report.colours = out.colours;
    report.object["ok"] = false;
    report.sarif = std::move(out.sarif);
    report.finding(d);
    const int code = exit_code_of(d);
    try {
      report.sarif.write(PALLASIM_VERSION, code == kFinding || code == kUnsupported);
    } catch (const ir::DiagnosticError& e) {
      if (e.diagnostic().code != d.code) report.finding(e.diagnostic());
    }
    try {
      report.flush(code);
    } catch (const ir::DiagnosticError&) {}
    return code;
  };
  try {
    CommandLine line;
    try {
      line.app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
      if (e.get_exit_code() == 0) return line.app.exit(e);  // --help, --version
      out.json = wants_json(argc, argv);
      out.colours = wants_colours("auto");
      fail_usage(line, e.what(), argc, argv);
    }
    out.json = line.json;
    out.error_on_warning = line.error_on_warning;
    out.colours = wants_colours(line.color);
    if (!line.sarif.empty()) out.sarif.begin(line.sarif, line.run.file);
    out.object["ok"] = true;
    out.object["findings"] = Json::array();
    const int code = line.execute(out);
    out.object["ok"] = code == kOk;
    out.sarif.write(PALLASIM_VERSION, true);
    out.flush(code);
    return code;
  } catch (const ir::DiagnosticError& e) { return failed(e.diagnostic()); } catch (const std::bad_alloc&) {
    return failed(ir::Diagnostic("PS-SIZE-001", "out of memory"));
  } catch (const std::exception& e) { return failed(internal_bug(e.what())); } catch (...) {
    return failed(internal_bug("unknown exception"));
  }
}

}  // namespace
}  // namespace pallasim::cli

int main(int argc, char** argv) {
  // The first Ctrl-C stops the launch with a report, the second one the process.
  struct sigaction action = {};
  action.sa_handler = [](int) { pallasim::interp::request_interrupt(); };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  return pallasim::cli::main_guarded(argc, argv);
}
