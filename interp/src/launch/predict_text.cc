// A prediction for people, and for programs.
#include <fmt/format.h>

#include <cmath>

#include "pallasim/interp/predict.h"
#include "time_text.h"

namespace pallasim::interp {

std::string time_text(double s) {
  if (std::abs(s) < 1e-6) return fmt::format("{:.3g} ns", s * 1e9);
  if (std::abs(s) < 1e-3) return fmt::format("{:.4g} us", s * 1e6);
  if (std::abs(s) < 1) return fmt::format("{:.4g} ms", s * 1e3);
  return fmt::format("{:.4g} s", s);
}

namespace {

std::string rate_text(double per_second, const char* unit) {
  const char* kPrefix[] = {"", "k", "M", "G", "T", "P"};
  int p = 0;
  while (std::abs(per_second) >= 1000 && p < 5) per_second /= 1000, ++p;
  return fmt::format("{:.3g} {}{}", per_second, kPrefix[p], unit);
}

std::string short_place(const ir::Site& s) {
  if (s.source.file.empty()) return "";
  const size_t slash = s.source.file.rfind('/');
  return fmt::format("{}:{}", slash == std::string::npos ? s.source.file : s.source.file.substr(slash + 1),
                     s.source.line);
}

std::string number(double v) { return std::isfinite(v) ? fmt::format("{:.9g}", v) : "null"; }
std::string quoted(const std::string& s) {
  std::string r = "\"";
  for (const char c : s)
    if (c == '"' || c == '\\') r += '\\', r += c;
    else if (static_cast<unsigned char>(c) < 0x20) r += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else r += c;
  return r + "\"";
}

std::string site_json(const ir::Site& s) {
  return fmt::format("{{\"file\":{},\"line\":{},\"text\":{},\"scope\":{}}}", quoted(s.source.file), s.source.line,
                     quoted(s.source.text), quoted(s.scope));
}

template <typename List, typename F>
std::string list_json(const List& all, const F& one) {
  std::string r = "[";
  for (const auto& x : all) r += (r.size() > 1 ? "," : "") + one(x);
  return r + "]";
}

constexpr size_t kShown = 6;  // rows of a table

}  // namespace

std::string to_text(const Prediction& p) {
  std::string r = fmt::format("{} on {}: {} predicted, bound by {}", p.kernel, p.chip, time_text(p.seconds), p.bound);
  if (!p.next.empty()) r += fmt::format(", then {}", p.next);
  r += fmt::format("\n  {}, {} ({:.0f} % of the roofline's {})\n", rate_text(p.flops / p.seconds, "flop/s"),
                   rate_text((p.bytes_read + p.bytes_written) / p.seconds, "B/s of device memory"),
                   100 * p.peak_seconds / p.seconds, time_text(p.peak_seconds));
  if (p.programs > 0) r += fmt::format("  {} programs, {} at a time: {:.2f} waves\n", p.programs, p.resident, p.waves);
  r += "  critical path\n";
  for (size_t i = 0; i < std::min(kShown, p.critical.size()); ++i)
    r += fmt::format("    {:>10}  {:>3.0f} %  {}\n", time_text(p.critical[i].seconds),
                     100 * p.critical[i].seconds / p.seconds, p.critical[i].name);
  r += "  alone it would take\n";
  for (size_t i = 0; i < std::min(kShown, p.bounds.size()); ++i)
    r += fmt::format("    {:>10}  {:>3.0f} %  {}\n", time_text(p.bounds[i].seconds), 100 * p.bounds[i].busy,
                     p.bounds[i].name);
  r += "  lines of the critical path\n";
  for (size_t i = 0; i < std::min(kShown, p.lines.size()); ++i)
    if (p.lines[i].seconds > 0)
      r += fmt::format("    {:>10}  {:>3.0f} %  {}  {}\n", time_text(p.lines[i].seconds),
                       100 * p.lines[i].seconds / p.seconds, short_place(p.lines[i].site), p.lines[i].site.source.text);
  bool waits = false;
  for (size_t i = 0; i < std::min(kShown, p.waits.size()); ++i) {
    if (!waits) r += "  threads wait\n";
    waits = true;
    r += fmt::format("    {:>10}  {} times, {} each  {}  {}\n", time_text(p.waits[i].seconds), p.waits[i].count,
                     time_text(p.waits[i].seconds / static_cast<double>(p.waits[i].count)),
                     short_place(p.waits[i].site), p.waits[i].what);
  }
  bool guessed = false;
  for (const Prediction::Figure& f : p.figures) {
    if (!f.change || std::abs(*f.change) < 0.005 * p.seconds) continue;
    if (!guessed) r += "  figures that are guessed and matter: were they a quarter larger\n";
    guessed = true;
    r += fmt::format("    {:>+9.1f} %  {} = {:.4g} {}\n", 100 * *f.change / p.seconds, f.figure.name, f.figure.value,
                     f.figure.unit);
  }
  if (!p.advice.empty()) r += "  what the numbers advise\n";
  for (const Prediction::Advice& a : p.advice) {
    const std::string at = short_place(a.site);
    r += fmt::format("    {}{}\n", a.text, at.empty() ? "" : "  " + at);
  }
  for (const std::string& n : p.notes) r += "  note: " + n + "\n";
  return r;
}

std::string to_json(const Prediction& p) {
  std::string r = fmt::format(
      "{{\"kernel\":{},\"chip\":{},\"seconds\":{},\"bound\":{},\"next\":{},\"flops\":{},\"bytes_read\":{},"
      "\"bytes_written\":{},\"bytes_cached\":{},\"peak_flops\":{},\"peak_bandwidth\":{},\"peak_seconds\":{},"
      "\"programs\":{},\"programs_run\":{},\"resident\":{}"
      ","
      "\"waves\":{},\"with_values\":{},\"reads_inputs\":{}",
      quoted(p.kernel), quoted(p.chip), number(p.seconds), quoted(p.bound), quoted(p.next), number(p.flops),
      number(p.bytes_read), number(p.bytes_written), number(p.bytes_cached), number(p.peak_flops),
      number(p.peak_bandwidth), number(p.peak_seconds), p.programs, p.programs_run, p.resident, number(p.waves),
      p.with_values, p.reads_inputs);
  r += ",\"critical\":" + list_json(p.critical, [](const Prediction::Share& s) {
         return fmt::format("{{\"name\":{},\"seconds\":{}}}", quoted(s.name), number(s.seconds));
       });
  r += ",\"bounds\":" + list_json(p.bounds, [](const Prediction::Bound& b) {
         return fmt::format("{{\"name\":{},\"seconds\":{},\"busy\":{}}}", quoted(b.name), number(b.seconds),
                            number(b.busy));
       });
  r += ",\"lines\":" + list_json(p.lines, [](const Prediction::Line& l) {
         return fmt::format("{{\"site\":{},\"seconds\":{},\"busy\":{}}}", site_json(l.site), number(l.seconds),
                            number(l.busy));
       });
  r += ",\"waits\":" + list_json(p.waits, [](const Prediction::Wait& w) {
         return fmt::format("{{\"site\":{},\"what\":{},\"seconds\":{},\"longest\":{},\"count\":{}}}", site_json(w.site),
                            quoted(w.what), number(w.seconds), number(w.longest), w.count);
       });
  r += ",\"figures\":" + list_json(p.figures, [](const Prediction::Figure& f) {
         return fmt::format("{{\"name\":{},\"value\":{},\"unit\":{},\"status\":{},\"source\":{},\"change\":{}}}",
                            quoted(f.figure.name), number(f.figure.value), quoted(f.figure.unit),
                            quoted(std::string(hw::name(f.figure.status))), quoted(f.figure.source),
                            f.change ? number(*f.change) : "null");
       });
  r += ",\"advice\":" + list_json(p.advice, [](const Prediction::Advice& a) {
         std::string numbers;
         for (const auto& [name, v] : a.numbers)
           numbers += fmt::format("{}{}:{}", numbers.empty() ? "" : ",", quoted(name), number(v));
         return fmt::format("{{\"text\":{},\"seconds\":{},\"predicted\":{},\"site\":{},\"numbers\":{{{}}}}}",
                            quoted(a.text), number(a.seconds), a.predicted ? number(*a.predicted) : "null",
                            site_json(a.site), numbers);
       });
  r += ",\"notes\":" + list_json(p.notes, [](const std::string& n) { return quoted(n); });
  r += ",\"text\":" + quoted(to_text(p));
  return r + "}";
}

}  // namespace pallasim::interp
