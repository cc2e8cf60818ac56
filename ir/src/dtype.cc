#include "pallasim/ir/dtype.h"

#include <array>

namespace pallasim::ir {
namespace {
constexpr std::array<DTypeInfo, kNumDTypes> kInfos = {{
#define X(e, t, c, b) DTypeInfo{t, DTypeClass::c, b, (b + 7) / 8},
    PALLASIM_DTYPES(X)
#undef X
}};
}  // namespace

const DTypeInfo& info(DType t) { return kInfos[static_cast<size_t>(t)]; }

bool parse_dtype(std::string_view text, DType* out) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kInfos[static_cast<size_t>(i)].name != text) continue;
    *out = static_cast<DType>(i);
    return true;
  }
  return false;
}

}  // namespace pallasim::ir
