// The table of options as files that are kept: `python` prints python/pallasim/_options.py, `markdown` docs/options.md.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "pallasim/interp/options.h"

using pallasim::interp::OptionRow;
using Kind = OptionRow::Kind;

namespace {

bool can_be_off(const OptionRow& row) {
  return std::find(row.values.begin(), row.values.end(), "off") != row.values.end();
}

std::string type_of(const OptionRow& row) {
  switch (row.kind) {
    case Kind::Flag: return "bool";
    case Kind::Number: return "int";
    case Kind::MaybeNumber: return "int | None";
    case Kind::Choice:
      return fmt::format("{}Literal[\"{}\"]", can_be_off(row) ? "bool | " : "", fmt::join(row.values, "\", \""));
    default: return "str";
  }
}

std::string default_of(const OptionRow& row) {
  switch (row.kind) {
    case Kind::Flag: return row.default_text == "true" ? "True" : "False";
    case Kind::Number: return row.default_text;
    case Kind::MaybeNumber: return "None";
    default: return '"' + row.default_text + '"';
  }
}

// Lines of at most `width` characters, the first one after `head`, the others after `indent`.
std::string wrapped(std::string_view text, std::string head, const std::string& indent, size_t width) {
  std::string all, line = std::move(head);
  for (bool begins = true; !text.empty(); begins = false) {
    const size_t end = std::min(text.find(' '), text.size());
    if (!begins && line.size() + 1 + end > width) all += line + '\n', line = indent + std::string(text.substr(0, end));
    else line += (begins ? "" : " ") + std::string(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all + line + '\n';
}

void python() {
  fmt::print(
      "\"\"\"Options of a run, as checkers and editors see them.\n\nWritten by pallasim_option_reference from the "
      "table "
      "of options (interp/include/pallasim/interp/options.def).\n\"\"\"\n"
      "from __future__ import annotations\n\nimport dataclasses\nfrom typing import Literal, TypedDict\n\n\n"
      "class RunOptions(TypedDict, total=False):\n"
      "    \"\"\"Keyword arguments of `emulate` and `install` besides the machine.\"\"\"\n\n");
  for (const OptionRow& row : pallasim::interp::option_rows())
    if (row.name != "machine") fmt::print("    {}: {}\n", row.name, type_of(row));
  fmt::print("\n\n@dataclasses.dataclass(frozen=True, repr=False)\nclass RunParams:\n    \"\"\"\n");
  for (const OptionRow& row : pallasim::interp::option_rows())
    fmt::print("{}", wrapped(row.doc, fmt::format("    {}: ", row.name), "        ", 120));
  fmt::print("    \"\"\"\n\n");
  for (const OptionRow& row : pallasim::interp::option_rows())
    fmt::print("    {}: {} = {}\n", row.name, type_of(row), default_of(row));
}

std::string flags_of(const OptionRow& row) {
  const auto dashed = [](std::string_view name) {
    std::string s = "--" + std::string(name);
    std::replace(s.begin(), s.end(), '_', '-');
    return s;
  };
  std::string r = fmt::format("`{}`", dashed(row.name));
  for (std::string_view s : row.spellings) r += fmt::format(", `{}`", dashed(s));
  return r;
}

void markdown() {
  fmt::print(
      "# Options of a run\n\n"
      "Python and the command line have the same options with the same values. They are arguments by name of "
      "`pallasim.emulate`, `pallasim.install`,\n`pallasim.Params` and pytest's marker, and `NAME=VALUE` of "
      "`--pallasim-option` and of the variable `PALLASIM_EMULATE`. On the command line\nnames have dashes. "
      "A capsule keeps the options of its launches.\n\n"
      "The machine comes first and has no name: `emulate(\"tpu-v5e\")`, `--pallasim=tpu-v5e`, "
      "`PALLASIM_EMULATE=tpu-v5e,detect_races=True`. Python has further\noptions, which are not a run's: "
      "`pallasim.Params` says them all.\n\n"
      "This page is written from `interp/include/pallasim/interp/options.def` by `pallasim_option_reference`.\n");
  for (const OptionRow& row : pallasim::interp::option_rows()) {
    const std::string standard = row.default_text.empty() ? std::string("none") : "`" + row.default_text + "`";
    std::string values = row.kind == Kind::Choice ? fmt::format("`{}`", fmt::join(row.values, "`, `")) : allowed(row);
    if (can_be_off(row)) values += "; true and false";
    fmt::print("\n## {}\n{}", row.name,
               wrapped(fmt::format("{}: {}. Without it: {}.", flags_of(row), values, standard), "", "", 160));
    fmt::print("\n{}", wrapped(row.doc, "", "", 160));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  if (what == "python") python();
  else if (what == "markdown") markdown();
  else return std::fputs("pallasim_option_reference python | markdown\n", stderr), 2;
  return 0;
}
