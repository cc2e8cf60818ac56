// Any bytes: parse throws DiagnosticError or gives a module that prints and parses back to an equal one. What verifies
// also binds.
//   fuzz_parser -dict=tests/fuzz/psir.dict corpus tests/pass tests/fail/ir
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "pallasim/ir/equal.h"
#include "pallasim/ir/module.h"

using namespace pallasim::ir;

namespace {
void require(bool ok) {
  if (!ok) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Limits limits;
  limits.max_nesting = 64;
  Module m;
  try {
    m = parse({reinterpret_cast<const char*>(data), size}, "fuzz", limits);
  } catch (const DiagnosticError& e) {
    require(e.diagnostic().site.source.line > 0);
    return 0;
  }
  const std::string text = print(m);
  const Module again = parse(text, "printed");
  require(equal(m, again));
  require(print(again) == text);
  try {
    verify(m);
    std::vector<std::pair<std::string, int64_t>> values;
    for (const std::string& p : m.params) values.emplace_back(p, 8);
    const Module bound = bind_shapes(m, values);
    parse(print(bound, {.literal_comments = true}));
  } catch (const DiagnosticError& e) { require(!e.diagnostic().message.empty()); }
  return 0;
}
