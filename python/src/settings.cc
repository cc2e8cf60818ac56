#include "settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "pallasim/ir/diagnostic.h"

namespace pallasim::python {
namespace {

bool read(std::string_view text, Delivery* out) {
  constexpr std::string_view kNames[] = {"warn", "collect", "raise"};
  const auto it = std::find(std::begin(kNames), std::end(kNames), text);
  *out = static_cast<Delivery>(it - kNames);
  return it != std::end(kNames);
}

bool read(std::string_view text, int64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out >= 0;
}

bool read(std::string_view text, bool* out) {
  *out = text == "1";
  return *out || text == "0";
}

// "7:0,2": the number, then the callbacks.
bool read(std::string_view text, Settings::Breakpoints* out) {
  const size_t colon = std::min(text.find(':'), text.size());
  if (!read(text.substr(0, colon), &out->number) || colon == text.size()) return false;
  for (text.remove_prefix(colon + 1);;) {
    const size_t end = std::min(text.find(','), text.size());
    if (!read(text.substr(0, end), &out->callbacks.emplace_back())) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

bool set(Settings& s, std::string_view name, std::string_view value) {
  if (name == "findings") return read(value, &s.findings);
  if (name == "progress") return read(value, &s.progress);
  if (name == "time") return read(value, &s.time);
  if (name == "breakpoints") return read(value, &s.breakpoints);
  if (name == "record_grid") return read(value, &s.record_grid);
  return name == "record_calls" && read(value, &s.record_calls);
}

}  // namespace

Settings parse_settings(std::string_view text) {
  Settings s;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view item = text.substr(0, end);
    const size_t eq = std::min(item.find('='), item.size());
    if (!set(s, item.substr(0, eq), item.substr(std::min(eq + 1, item.size()))))
      ir::Diagnostic("PS-OPT-001", fmt::format("no launch has the setting '{}'", item))
          .hinted(
              "findings is warn, collect or raise, progress and time 0 or 1; record_grid and record_calls have "
              "numbers, "
              "breakpoints a number and callbacks, 7:0,2")
          .raise();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return s;
}

}  // namespace pallasim::python
