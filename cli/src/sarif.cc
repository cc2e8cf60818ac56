#include "sarif.h"

#include <filesystem>

#include "io.h"

namespace pallasim::cli {

void Sarif::begin(std::string file, std::string about) {
  file_ = std::move(file);
  about_ = std::move(about);
}

void Sarif::add(const ir::Diagnostic& d) {
  if (file_.empty()) return;
  const std::string here = about_.empty() || about_ == "-" ? "" : std::filesystem::absolute(about_).string();
  results_.push_back({.finding = d, .instead = {.file = here}, .test = {}, .expected = {}});
  ir::SourceLine& at = results_.back().finding.site.source;
  if (at.file == "<stdin>") at = {};  // which is no place
}

void Sarif::write(const std::string& version, bool complete) const {
  if (file_.empty()) return;
  const std::string root = trace::source_root(std::filesystem::current_path().string());
  write_file(file_, trace::sarif(results_, root, version, complete));
}

}  // namespace pallasim::cli
