// What a user may have meant, and completion for shells: both read the commands and options that main.cc declares.
#include "completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "io.h"
#include "pallasim/interp/options.h"
#include "pallasim/ir/nearest.h"

namespace pallasim::cli {
namespace {

std::vector<std::string> commands_of(const ::CLI::App& app) {
  std::vector<std::string> names;
  for (const ::CLI::App* c : app.get_subcommands([](const ::CLI::App*) { return true; }))
    names.push_back(c->get_name());
  return names;
}

std::vector<std::string> options_of(const ::CLI::App& app) {
  std::vector<std::string> names;
  for (const ::CLI::Option* o : app.get_options())
    for (const std::string& name : o->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string nearest(const std::string& word, const std::vector<std::string>& words) {
  return std::string(ir::nearest(word, {words.begin(), words.end()}));
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::string bash(const ::CLI::App& app) {
  std::string cases;
  for (const std::string& c : commands_of(app))
    cases += fmt::format("    {}) words=\"{}\" ;;\n", c, joined(options_of(*app.get_subcommand(c))));
  return fmt::format(R"sh(# bash: eval "$(pallasim completion bash)"
_pallasim() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
  case "${{COMP_WORDS[1]}}" in
{}    *) words="{}" ;;
  esac
  if [[ $COMP_CWORD -eq 1 ]]; then words="{}"; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ $COMP_CWORD -gt 1 && "$current" != -* ]]; then COMPREPLY+=($(compgen -f -- "$current")); fi
}}
complete -o filenames -F _pallasim pallasim
)sh",
                     cases, joined(options_of(app)), joined(commands_of(app)) + " " + joined(options_of(app)));
}

std::string zsh(const ::CLI::App& app) {
  // zsh runs functions that are written for bash.
  return "# zsh: eval \"$(pallasim completion zsh)\"\nautoload -U +X compinit bashcompinit\ncompinit\nbashcompinit\n" +
         bash(app);
}

// A description inside single quotes.
std::string quoted(const std::string& text) {
  std::string r = "'";
  for (char c : text) r += c == '\'' ? std::string("\\'") : std::string(1, c);
  return r + "'";
}

std::string fish(const ::CLI::App& app) {
  std::string r = "# fish: pallasim completion fish | source\n";
  const std::string none = "not __fish_seen_subcommand_from " + joined(commands_of(app));
  for (const std::string& c : commands_of(app)) {
    const ::CLI::App& command = *app.get_subcommand(c);
    r += fmt::format("complete -c pallasim -f -n {} -a {} -d {}\n", quoted(none), c, quoted(command.get_description()));
    for (const ::CLI::Option* o : command.get_options())
      for (const std::string& name : o->get_lnames())
        r += fmt::format("complete -c pallasim -n '__fish_seen_subcommand_from {}' -l {} -d {}\n", c, name,
                         quoted(o->get_description()));
  }
  return r;
}

}  // namespace

bool is_command(const ::CLI::App& app, const std::string& name) {
  const auto known = commands_of(app);
  return std::find(known.begin(), known.end(), name) != known.end();
}

std::string meant(const ::CLI::App& app, const std::vector<std::string>& words) {
  const ::CLI::App* command = nullptr;
  for (const std::string& word : words) {
    if (word.starts_with("--")) {
      const std::string name = word.substr(0, word.find('='));
      const auto known = options_of(command ? *command : app);
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      return nearest(name, known);
    }
    if (command || word.starts_with("-")) continue;
    if (!is_command(app, word)) return nearest(word, commands_of(app));
    command = app.get_subcommand(word);
  }
  return {};
}

std::string as_given(std::string what, const std::vector<std::string>& given) {
  const auto is_given = [&](const std::string& flag) {
    return std::any_of(given.begin(), given.end(),
                       [&](const std::string& g) { return g == flag || g.starts_with(flag + "="); });
  };
  const size_t end = what.find(':');
  if (!what.starts_with("--") || end == std::string::npos || is_given(what.substr(0, end))) return what;
  std::string name = what.substr(2, end - 2);
  std::replace(name.begin(), name.end(), '-', '_');
  if (const interp::OptionRow* row = interp::find_option(name))
    for (const std::string_view s : row->spellings) {
      std::string flag = fmt::format("--{}", s);
      std::replace(flag.begin(), flag.end(), '_', '-');
      if (is_given(flag)) return flag + what.substr(end);
    }
  return what;
}

std::string completion(const ::CLI::App& app, const std::string& shell) {
  if (shell == "bash") return bash(app);
  if (shell == "zsh") return zsh(app);
  return fish(app);
}

}  // namespace pallasim::cli
