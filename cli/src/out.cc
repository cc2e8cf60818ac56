#include <cstdio>

#include "commands.h"
#include "io.h"

namespace pallasim::cli {

namespace {
// The first line in the colour of its severity, the advice in green.
std::string coloured(const ir::Diagnostic& d) {
  constexpr const char* kColours[] = {"\x1b[1;31m", "\x1b[1;33m", "\x1b[1;34m"};
  constexpr const char *kGreen = "\x1b[32m", *kPlain = "\x1b[0m";
  std::string text = ir::render(d);
  if (const size_t hint = text.rfind("\n  hint: "); hint != std::string::npos) {
    text.insert(text.size() - 1, kPlain);
    text.insert(hint + 1, kGreen);
  }
  const size_t head = text.find("]:");
  text.insert(head == std::string::npos ? 0 : head + 2, kPlain);
  return kColours[static_cast<int>(d.severity)] + text;
}
}  // namespace

int Out::finding(const ir::Diagnostic& d) {
  sarif.add(d);
  if (json) object["findings"].push_back(to_json_object(d));
  else errors_ += colours ? coloured(d) : ir::render(d);
  return error_on_warning && d.severity == ir::Severity::Warning ? kFinding : exit_code_of(d);
}

void Out::flush(int exit_code) {
  if (json) {
    object["exit"] = exit_code;
    text_ = object.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + '\n';
  }
  const bool ok = std::fwrite(text_.data(), 1, text_.size(), stdout) == text_.size() && std::fflush(stdout) == 0;
  std::fwrite(errors_.data(), 1, errors_.size(), stderr);
  text_.clear();
  errors_.clear();
  if (!ok) fail("PS-IO-002", "cannot write to standard output");
}

}  // namespace pallasim::cli
