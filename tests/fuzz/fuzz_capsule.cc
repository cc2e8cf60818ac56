// Any bytes are a capsule or a diagnostic, and take no more memory than the limit.
#include "pallasim/capsule/capsule.h"
#include "pallasim/ir/diagnostic.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pallasim;
  constexpr int64_t kLimit = 16 << 20;
  try {
    const capsule::Capsule read({reinterpret_cast<const char*>(data), size}, "x.capsule", kLimit);
    for (const capsule::CapsuleLaunch& l : read.launches()) {
      int64_t budget = kLimit;
      try {
        read.module_text(l);
        for (const auto* arrays : {&l.arguments, &l.results})
          for (const capsule::CapsuleArray& a : *arrays)
            if (!a.file.empty()) read.array(a, &budget);
      } catch (const ir::DiagnosticError&) {}
    }
  } catch (const ir::DiagnosticError&) {}
  return 0;
}
