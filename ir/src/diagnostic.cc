#include "pallasim/ir/diagnostic.h"

#include <fmt/format.h>

#include "pallasim/ir/escape.h"

namespace pallasim::ir {

std::string escaped(std::string_view text) {
  std::string r;
  for (unsigned char c : text) {
    if (c == '\t' || (c >= 0x20 && c != 0x7f)) r += static_cast<char>(c);
    else r += fmt::format("\\x{:02x}", c);
  }
  return r;
}

namespace {

std::string escaped(const std::string& s, bool on) { return on ? ir::escaped(s) : s; }

std::string json_string(std::string_view s) {
  std::string r = "\"";
  for (unsigned char c : s) {
    if (c == '"' || c == '\\') (r += '\\') += static_cast<char>(c);
    else if (c == '\n') r += "\\n";
    else if (c < 0x20 || c == 0x7f) r += fmt::format("\\u{:04x}", c);
    else r += static_cast<char>(c);
  }
  return r += '"';
}

std::string point(const std::vector<int64_t>& p) {
  std::string r = "(";
  for (size_t i = 0; i < p.size(); ++i) r += (i ? ", " : "") + std::to_string(p[i]);
  return r + (p.size() == 1 ? ",)" : ")");
}

void append_source(std::string& out, const SourceLine& s, const char* indent, const RenderOptions& o) {
  out += fmt::format("{}{}:{}", indent, escaped(s.file, o.escape_control), s.line);
  if (s.column) out += fmt::format(":{}", s.column);
  if (!s.function.empty()) out += " in " + escaped(s.function, o.escape_control);
  out += '\n';
  if (!s.text.empty()) out += fmt::format("      {}\n", escaped(s.text, o.escape_control));
}

void append_site(std::string& out, const Site& s, const RenderOptions& o) {
  if (!s.what.empty()) out += "  " + escaped(s.what, o.escape_control) + '\n';
  if (!s.source.file.empty()) append_source(out, s.source, "  at ", o);
  for (const SourceLine& c : s.callers) append_source(out, c, "  called from ", o);
  if (!s.scope.empty()) out += "  in scope " + escaped(s.scope, o.escape_control) + '\n';
}

// Only where there is one: most kernels name no scopes.
std::string scope_json(const Site& s) { return s.scope.empty() ? "" : R"("scope":)" + json_string(s.scope) + ","; }

}  // namespace

std::string_view name(Severity s) {
  constexpr std::string_view kNames[] = {"error", "warning", "note"};
  return kNames[static_cast<int>(s)];
}

std::optional<Code> Code::find(std::string_view text) {
  const size_t row = find_row(text);
  if (row == std::size(kCodes)) return std::nullopt;
  return Code(row);
}

Diagnostic&& Diagnostic::of(std::string kernel_name) && {
  kernel = std::move(kernel_name);
  return std::move(*this);
}
Diagnostic&& Diagnostic::at(Site s) && {
  site = std::move(s);
  return std::move(*this);
}
Diagnostic&& Diagnostic::with(std::vector<std::string> facts) && {
  for (std::string& f : facts) numbers.push_back(std::move(f));
  return std::move(*this);
}
Diagnostic&& Diagnostic::hinted(std::string text) && {
  hint = std::move(text);
  return std::move(*this);
}
void Diagnostic::raise() && { throw DiagnosticError(std::move(*this)); }

std::string render(const Diagnostic& d, const RenderOptions& o) {
  std::string out = fmt::format("{}[{}]: {}\n", name(d.severity), d.code.text(), escaped(d.message, o.escape_control));
  append_site(out, d.site, o);
  std::string where;
  if (!d.kernel.empty()) where += "kernel " + escaped(d.kernel, o.escape_control);
  if (!d.kernel.empty() && !d.chip.empty()) where += " on " + escaped(d.chip, o.escape_control);
  if (!d.thread.empty()) where += (where.empty() ? "" : ", ") + escaped(d.thread, o.escape_control);
  if (d.has_grid_point) where += (where.empty() ? "" : ", ") + std::string("grid point ") + point(d.grid_point);
  if (!where.empty()) out += "  in " + where + '\n';
  for (const std::string& n : d.numbers) out += "  " + escaped(n, o.escape_control) + '\n';
  for (const Site& s : d.also) append_site(out, s, o);
  if (!d.hint.empty()) out += "  hint: " + escaped(d.hint, o.escape_control) + '\n';
  return out;
}

std::string to_json(const Diagnostic& d) {
  auto site = [](const Site& s) {
    return fmt::format(R"({{"what":{},"file":{},"line":{},"function":{},{}"text":{}}})", json_string(s.what),
                       json_string(s.source.file), s.source.line, json_string(s.source.function), scope_json(s),
                       json_string(s.source.text));
  };
  std::string numbers, also, grid;
  for (const auto& n : d.numbers) numbers += (numbers.empty() ? "" : ",") + json_string(n);
  for (const auto& s : d.also) also += (also.empty() ? "" : ",") + site(s);
  for (int64_t g : d.grid_point) grid += (grid.empty() ? "" : ",") + std::to_string(g);
  const std::string chip = d.chip.empty() ? "" : R"("chip":)" + json_string(d.chip) + ",";
  return fmt::format(R"({{"code":{},"severity":"{}","message":{},"kernel":{},{}"thread":{},"grid_point":{},)"
                     R"("file":{},"line":{},{}"text":{},)"
                     R"("also":[{}],"numbers":[{}],"hint":{}}})",
                     json_string(d.code.text()), name(d.severity), json_string(d.message), json_string(d.kernel), chip,
                     json_string(d.thread), d.has_grid_point ? "[" + grid + "]" : "null",
                     json_string(d.site.source.file), d.site.source.line, scope_json(d.site),
                     json_string(d.site.source.text), also, numbers, json_string(d.hint));
}

DiagnosticError::DiagnosticError(Diagnostic d) : diagnostic_(std::move(d)), text_(render(diagnostic_)) {}

}  // namespace pallasim::ir
