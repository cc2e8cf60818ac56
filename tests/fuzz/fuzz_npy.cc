// Any bytes are an array or a diagnostic.
#include "pallasim/capsule/npy.h"
#include "pallasim/ir/diagnostic.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pallasim;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const capsule::NpyHeader h = capsule::parse_npy_header(file, "x.npy");
    for (int t = 0; t < ir::kNumDTypes; ++t)
      if (capsule::npy_descr_matches(h.descr, static_cast<ir::DType>(t)))
        capsule::npy_elements(file, h, static_cast<ir::DType>(t));
  } catch (const ir::DiagnosticError&) {}
  return 0;
}
