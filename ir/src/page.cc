#include "pallasim/ir/page.h"

namespace pallasim::ir {
namespace {
struct Page {
  std::string_view code, text;
};
constexpr Page kPages[] = {
#include "pages.inc"  // written from docs/diagnostics by pages.cmake
};

constexpr std::string_view find(std::string_view code) {
  for (const Page& p : kPages)
    if (p.code == code) return p.text;
  return {};
}
// A code without a page does not compile.
static_assert([] {
  for (const CodeRow& row : kCodes)
    if (find(row.text).empty()) return false;
  return true;
}());
}  // namespace

std::string_view page(Code c) { return find(c.text()); }

}  // namespace pallasim::ir
