#include "junit.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace pallasim::cli {
namespace {

bool is_utf8(const std::string& text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::type_error&) { return false; }
}

// Control characters, which XML does not have, become question marks, and so does what is no UTF-8: names of files need
// not be.
std::string xml(const std::string& text) {
  const bool utf8 = is_utf8(text);
  std::string r;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&') r += "&amp;";
    else if (c == '<') r += "&lt;";
    else if (c == '>') r += "&gt;";
    else if (c == '"') r += "&quot;";
    else if (c == '\n') r += "&#10;";
    else if (c == '\t' || (byte >= 0x20 && byte < 0x7f) || (byte >= 0x80 && utf8)) r += c;
    else r += '?';
  }
  return r;
}

}  // namespace

std::string junit(const std::string& suite, const std::vector<JUnitCase>& cases, double seconds) {
  using Verdict = JUnitCase::Verdict;
  const auto count = [&](Verdict v) {
    return std::count_if(cases.begin(), cases.end(), [&](const JUnitCase& c) { return c.verdict == v; });
  };
  const std::string counts =
      fmt::format(R"(name="{}" tests="{}" failures="{}" errors="{}" skipped="{}" time="{:.3f}")", xml(suite),
                  cases.size(), count(Verdict::Failed), count(Verdict::Error), count(Verdict::Skipped), seconds);
  std::string r =
      fmt::format("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<testsuites {}>\n<testsuite {}>\n", counts, counts);
  for (const JUnitCase& c : cases) {
    r += fmt::format(R"(<testcase classname="{}" name="{}" time="{:.3f}")", xml(suite), xml(c.name), c.seconds);
    if (c.verdict == Verdict::Passed) {
      r += "/>\n";
      continue;
    }
    const char* tag = c.verdict == Verdict::Failed ? "failure" : c.verdict == Verdict::Error ? "error" : "skipped";
    r += fmt::format(">\n<{} type=\"{}\" message=\"{}\">{}</{}>\n</testcase>\n", tag, xml(c.kind), xml(c.message),
                     xml(c.text), tag);
  }
  return r + "</testsuite>\n</testsuites>\n";
}

}  // namespace pallasim::cli
