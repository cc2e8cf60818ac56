// pallasim explain: the page of a diagnostic, which the program has with it.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "commands.h"
#include "io.h"
#include "pallasim/ir/nearest.h"
#include "pallasim/ir/page.h"

namespace pallasim::cli {
namespace {

// "oob-001" is PS-OOB-001.
std::string full_code(std::string_view text) {
  std::string r;
  for (const char c : text) r += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return r.starts_with("PS-") ? r : "PS-" + r;
}

std::string_view family_of(std::string_view code) { return code.substr(0, code.find('-', 3)); }

// "Options" and "options.md" name the page options.md.
bool names(std::string_view text, std::string_view page) {
  return text.size() <= page.size() && page.find('.') <= text.size() &&
         std::equal(text.begin(), text.end(), page.begin(), [](char a, char b) {
           return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
         });
}

// A line without its links, which lead nowhere from a terminal: "[the format](../capsule.md)" is "the format
// (capsule.md of the documentation)", another diagnostic its code.
std::string without_links(std::string_view line) {
  constexpr std::string_view kDocs = "../";
  std::string r;
  for (size_t open; (open = line.find('[')) != std::string_view::npos;) {
    const size_t close = line.find("](", open), end = line.find(')', open);
    if (close == std::string_view::npos || end == std::string_view::npos || end < close) break;
    const std::string_view target = line.substr(close + 2, end - close - 2);
    const std::string_view text = line.substr(open + 1, close - open - 1);
    r += line.substr(0, open);
    if (!target.starts_with(kDocs)) r += text;
    else if (const std::string_view page = target.substr(kDocs.size()); names(text, page))
      r += fmt::format("{} of the documentation", page);
    else r += fmt::format("{} ({} of the documentation)", text, page);
    line.remove_prefix(end + 1);
  }
  return r.append(line);
}

// For a terminal: without links, and without the comments by which the page is kept current.
std::string readable(std::string_view page) {
  std::string r;
  bool quoted = false;
  while (!page.empty()) {
    const std::string_view line = page.substr(0, std::min(page.find('\n'), page.size() - 1) + 1);
    if (line.starts_with("```")) quoted = !quoted;
    if (quoted) r += line;
    else if (!line.starts_with("<!--")) r += without_links(line);
    page.remove_prefix(line.size());
  }
  return r;
}

void list(std::string_view family, Out& out) {
  out.object["codes"] = Json::array();
  for (const ir::CodeRow& row : ir::kCodes) {
    if (!family.empty() && family_of(row.text) != family) continue;
    out.text(fmt::format("{:13} {:7}  {}\n", row.text, ir::name(row.severity), row.title));
    out.object["codes"].push_back({{"code", row.text}, {"severity", ir::name(row.severity)}, {"title", row.title}});
  }
}

[[noreturn]] void refuse(const std::string& given, const std::string& code) {
  std::vector<std::string_view> families, all;
  for (const ir::CodeRow& row : ir::kCodes) {
    all.push_back(row.text);
    if (families.empty() || families.back() != family_of(row.text)) families.push_back(family_of(row.text));
  }
  const std::string_view family = family_of(code);
  if (std::find(families.begin(), families.end(), family) != families.end()) {
    std::erase_if(all, [&](std::string_view c) { return family_of(c) != family; });
    fail("PS-CLI-001", fmt::format("there is no code {}", escaped(given)),
         {fmt::format("{} has {}", family, fmt::join(all, ", "))},
         fmt::format("pallasim explain {} lists them", family));
  }
  std::string_view meant = ir::nearest(code, all);
  if (meant.empty()) meant = ir::nearest(code, families);
  fail("PS-CLI-001", fmt::format("there is no code {}", escaped(given)), {},
       fmt::format("{}pallasim explain lists the codes", meant.empty() ? "" : fmt::format("did you mean {}? ", meant)));
}

}  // namespace

int explain(const ExplainOptions& o, Out& out) {
  if (o.code.empty()) return list({}, out), kOk;
  const std::string code = full_code(o.code);
  if (const auto known = ir::Code::find(code)) {
    out.text(readable(ir::page(*known)));
    out.object["code"] = known->text();
    out.object["severity"] = ir::name(known->severity());
    out.object["title"] = known->title();
    out.object["page"] = ir::page(*known);
    return kOk;
  }
  const auto in_family = [&](const ir::CodeRow& row) { return family_of(row.text) == code; };
  if (std::none_of(std::begin(ir::kCodes), std::end(ir::kCodes), in_family)) refuse(o.code, code);
  list(code, out);
  return kOk;
}

}  // namespace pallasim::cli
