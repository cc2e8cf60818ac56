#include "pallasim/trace/sarif.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "pallasim/ir/page.h"

namespace pallasim::trace {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kRoot = "SRCROOT";

// A path as part of a URI (RFC 3986).
std::string percent_encoded(const std::string& path) {
  std::string r;
  for (const unsigned char c : path) {
    if (std::isalnum(c) || std::string_view("-._~/").find(static_cast<char>(c)) != std::string_view::npos)
      r += static_cast<char>(c);
    else r += fmt::format("%{:02X}", c);
  }
  return r;
}

class Writer {
 public:
  explicit Writer(const std::string& root) : root_(fs::path(root).lexically_normal()) {}

  void add(const SarifResult& r) {
    const ir::SourceLine& at = r.finding.site.source.file.empty() ? r.instead : r.finding.site.source;
    const std::string print = fingerprint(r.finding, at);
    const auto [known, is_new] = by_print_.try_emplace(print, results_.size());
    if (is_new) results_.push_back(made(r, at, print));
    Json& result = results_[known->second];
    if (!is_new) {
      result["occurrenceCount"] = result.value("occurrenceCount", 1) + 1;
      if (r.expected.empty()) result.erase("suppressions");
      if (level(r) < level_of(result["level"])) result["level"] = ir::name(level(r));
    }
    Json& tests = result["properties"]["tests"];
    if (!r.test.empty() && std::find(tests.begin(), tests.end(), r.test) == tests.end()) tests.push_back(r.test);
  }

  Json document(const std::string& version, bool complete) {
    for (Json& r : results_)
      if (r["properties"]["tests"].empty()) r["properties"].erase("tests");
    Json driver = {{"name", "Pallasim"}, {"semanticVersion", version}, {"rules", rules_}};
    Json run = {{"tool", {{"driver", driver}}},
                {"invocations", {{{"executionSuccessful", complete}}}},
                {"originalUriBaseIds", {{kRoot, {{"uri", "file://" + percent_encoded(root_.string()) + "/"}}}}},
                {"columnKind", "utf16CodeUnits"},
                {"results", results_}};
    return {{"$schema", "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"},
            {"version", "2.1.0"},
            {"runs", Json::array({run})}};
  }

 private:
  static ir::Severity level(const SarifResult& r) { return r.fails ? ir::Severity::Error : r.finding.severity; }
  static ir::Severity level_of(const Json& name) {
    return name == "error" ? ir::Severity::Error : name == "warning" ? ir::Severity::Warning : ir::Severity::Note;
  }

  // Relative to the root where it lies below. A relative path is one of the folder that the program runs in, if there
  // is such a file.
  Json artifact(const std::string& file) const {
    std::error_code none;
    const fs::path path = (fs::exists(file, none) ? fs::absolute(file, none) : root_ / file).lexically_normal();
    const std::string relative = path.lexically_relative(root_).string();
    if (relative.empty() || relative.starts_with("..")) return {{"uri", "file://" + percent_encoded(path.string())}};
    return {{"uri", percent_encoded(relative)}, {"uriBaseId", kRoot}};
  }

  // Columns of Python count from 0, which is "not known" here; those of text that could not be read from 1, as SARIF's.
  Json location(const ir::SourceLine& s, int first_column = 0) const {
    Json physical = {{"artifactLocation", artifact(s.file)}};
    if (s.line > 0) {
      Json region = {{"startLine", s.line}};
      if (s.column > 0) region["startColumn"] = s.column + 1 - first_column;
      physical["region"] = region;
    }
    return {{"physicalLocation", physical}};
  }

  // Of what stays where a kernel's lines move and its sizes change.
  std::string fingerprint(const ir::Diagnostic& d, const ir::SourceLine& at) const {
    std::string what =
        fmt::format("{}\n{}\n{}\n", d.code.text(), at.file.empty() ? "" : artifact(at.file)["uri"].get<std::string>(),
                    at.text.empty() ? fmt::format("line {}", at.line) : at.text);
    for (const char c : d.message)
      if (!std::isdigit(static_cast<unsigned char>(c))) what += c;
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const unsigned char c : what) hash = (hash ^ c) * 0x100000001b3;
    return fmt::format("{:016x}", hash);
  }

  size_t rule(ir::Code code) {
    const auto [known, is_new] = by_code_.try_emplace(std::string(code.text()), rules_.size());
    if (is_new) {
      const std::string_view page = ir::page(code);
      constexpr std::string_view kNext = "\n\n";
      const size_t begin = page.find(kNext) + kNext.size();
      rules_.push_back({{"id", code.text()},
                        {"shortDescription", {{"text", code.title()}}},
                        {"fullDescription", {{"text", page.substr(begin, page.find(kNext, begin) - begin)}}},
                        {"defaultConfiguration", {{"level", ir::name(code.severity())}}},
                        {"help", {{"text", page}, {"markdown", page}}},
                        {"properties", {{"tags", {"pallas", "kernel"}}}}});
    }
    return known->second;
  }

  static void describe(Json& at, const std::string& text) {
    if (!text.empty()) at["message"] = {{"text", text}};
  }

  Json made(const SarifResult& r, const ir::SourceLine& at, const std::string& print) {
    const ir::Diagnostic& d = r.finding;
    Json result = {{"ruleId", d.code.text()}, {"ruleIndex", rule(d.code)}, {"level", ir::name(level(r))}};
    result["message"] = {{"text", d.hint.empty() ? d.message : fmt::format("{}\n{}", d.message, d.hint)}};
    if (!at.file.empty()) {
      Json where = location(at, d.code.of_unread_text());
      if (!d.kernel.empty()) where["logicalLocations"] = {{{"name", d.kernel}, {"kind", "function"}}};
      result["locations"] = Json::array({where});
    }
    Json related = Json::array();
    const auto relate = [&](const ir::SourceLine& s, const std::string& what) {
      if (s.file.empty()) return;
      Json place = location(s);
      place["id"] = related.size() + 1;
      describe(place, what);
      related.push_back(place);
    };
    for (const ir::SourceLine& c : d.site.callers) relate(c, "called from here");
    for (const ir::Site& s : d.also) relate(s.source, s.what);
    if (!d.site.source.file.empty() && !r.test.empty()) relate(r.instead, "found by " + r.test);
    if (!related.empty()) result["relatedLocations"] = related;
    result["partialFingerprints"] = {{"pallasim/v1", print}};
    if (!r.expected.empty())
      result["suppressions"] = {{{"kind", "external"}, {"status", "accepted"}, {"justification", r.expected}}};
    result["properties"] = {{"report", ir::render(d)}, {"tests", Json::array()}};
    return result;
  }

  fs::path root_;
  Json rules_ = Json::array(), results_ = Json::array();
  std::map<std::string, size_t> by_print_, by_code_;
};

}  // namespace

std::string sarif(const std::vector<SarifResult>& results, const std::string& root, const std::string& version,
                  bool complete) {
  Writer writer(root);
  for (const SarifResult& r : results) writer.add(r);
  return writer.document(version, complete).dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + '\n';
}

std::string source_root(const std::string& start) {
  std::error_code none;
  const fs::path from = fs::absolute(start, none).lexically_normal();
  if (const char* workspace = std::getenv("GITHUB_WORKSPACE"); workspace && *workspace) {
    const std::string relative = from.lexically_relative(workspace).string();
    if (!relative.empty() && !relative.starts_with("..")) return workspace;
  }
  for (fs::path p = from;; p = p.parent_path()) {
    if (fs::exists(p / ".git", none)) return p.string();
    if (p == p.parent_path()) return from.string();
  }
}

}  // namespace pallasim::trace
