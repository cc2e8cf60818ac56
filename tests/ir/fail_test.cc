// Every file of tests/fail/ir is refused with exactly the report next to it. PALLASIM_REBASE=1 rewrites the reports.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "files.h"
#include "pallasim/ir/module.h"

namespace pallasim::ir {
namespace {

namespace fs = std::filesystem;

// First line `// bind n=4 m=2` asks for bind_shapes after verification.
std::vector<std::pair<std::string, int64_t>> bindings(const std::string& text) {
  std::vector<std::pair<std::string, int64_t>> r;
  const size_t at = text.find("// bind");
  if (at == std::string::npos) return r;
  std::stringstream line(text.substr(at + 7, text.find('\n', at) - at - 7));
  for (std::string item; line >> item;) {
    const size_t eq = item.find('=');
    r.emplace_back(item.substr(0, eq), std::stoll(item.substr(eq + 1)));
  }
  return r;
}

Diagnostic refusal(const fs::path& p) {
  const std::string text = read(p);
  try {
    Limits limits;
    limits.max_nesting = 32;  // keeps the example of the limit short
    const Module m = parse(text, p.filename().string(), limits, Unplaced::Text);
    verify(m);
    if (text.find("// bind") != std::string::npos) bind_shapes(m, bindings(text));
  } catch (const DiagnosticError& e) { return e.diagnostic(); }
  ADD_FAILURE() << p << " is not refused";
  return {"PS-BUG-001", "not refused"};
}

TEST(Fail, ReportsAreExact) {
  const bool rebase = std::getenv("PALLASIM_REBASE") != nullptr;
  const auto files = psir_files("fail/ir");
  ASSERT_GE(files.size(), 40u);
  for (const fs::path& p : files) {
    SCOPED_TRACE(p.filename().string());
    const std::string report = render(refusal(p));
    const fs::path expected = fs::path(p).replace_extension(".expected");
    if (rebase) std::ofstream(expected, std::ios::binary) << report;
    EXPECT_EQ(report, read(expected));
  }
}

TEST(Fail, EveryCodeHasAnExampleAndAPage) {
  std::set<std::string> codes, pages;
  for (const fs::path& p : psir_files("fail/ir")) codes.insert(std::string(refusal(p).code.text()));
  const fs::path docs = fs::path(PALLASIM_TESTS_DIR) / "../docs/diagnostics";
  for (const auto& e : fs::directory_iterator(docs))
    if (e.path().filename().string().rfind("PS-IR-", 0) == 0) pages.insert(e.path().stem().string());
  EXPECT_EQ(codes, pages);
  // A page shows one of the golden examples with its report as it is today.
  for (const std::string& code : pages) {
    SCOPED_TRACE(code);
    const std::string page = read(docs / (code + ".md"));
    const size_t from = page.find("tests/fail/ir/") + 14, to = page.find(".psir", from);
    const fs::path example = fs::path(PALLASIM_TESTS_DIR) / "fail/ir" / page.substr(from, to - from);
    EXPECT_NE(page.find(read(example.string() + ".psir")), std::string::npos);
    EXPECT_NE(page.find(read(example.string() + ".expected")), std::string::npos);
  }
}

}  // namespace
}  // namespace pallasim::ir
