#include "explored_arrays.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "pallasim/ir/literal.h"

namespace pallasim::interp {
namespace {

std::vector<int64_t> index_of(int64_t element, const std::vector<int64_t>& dims) {
  std::vector<int64_t> r(dims.size());
  for (size_t d = dims.size(); d-- > 0; element /= dims[d]) r[d] = element % dims[d];
  return r;
}

// |a - b|, where that is within the tolerance.
std::optional<double> difference_within(double a, double b, double tolerance) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::abs(a - b);
  if (!(d <= tolerance * std::max({1.0, std::abs(a), std::abs(b)})) || std::isinf(d)) return std::nullopt;
  return d;
}

std::optional<double> largest_difference(const ExploredArray& a, const ExploredArray& b, double tolerance) {
  if (a.bytes == b.bytes) return 0;
  const ir::DType part = a.dtype == ir::DType::C64    ? ir::DType::F32
                         : a.dtype == ir::DType::C128 ? ir::DType::F64
                                                      : a.dtype;
  if (!ir::is_float(part)) return std::nullopt;
  const auto size = static_cast<size_t>(ir::byte_size(part));
  double r = 0;
  for (size_t at = 0; at < a.bytes.size(); at += size) {
    uint64_t x = 0, y = 0;
    std::memcpy(&x, a.bytes.data() + at, size);
    std::memcpy(&y, b.bytes.data() + at, size);
    const auto d = difference_within(ir::bits_to_double(part, x), ir::bits_to_double(part, y), tolerance);
    if (!d) return std::nullopt;
    r = std::max(r, *d);
  }
  return r;
}

}  // namespace

std::optional<double> largest_difference(const std::vector<ExploredArray>& a, const std::vector<ExploredArray>& b,
                                         double tolerance) {
  double r = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto d = largest_difference(a[i], b[i], tolerance);
    if (!d) return std::nullopt;
    r = std::max(r, *d);
  }
  return r;
}

void compare_outputs(std::vector<ExploredOutcome>* all) {
  const auto first = std::find_if(all->begin(), all->end(), [](const ExploredOutcome& o) { return !o.stop; });
  if (first == all->end()) return;
  for (ExploredOutcome& o : *all) {
    for (size_t i = 0; i < o.outputs.size(); ++i) {
      const ExploredArray &a = o.outputs[i], &b = first->outputs[i];
      const auto size = static_cast<size_t>(ir::byte_size(a.dtype));
      OutputDifference d{a.name, a.device};
      for (size_t at = 0; at < a.bytes.size(); at += size) {
        if (std::memcmp(a.bytes.data() + at, b.bytes.data() + at, size) == 0) continue;
        d.last = index_of(static_cast<int64_t>(at / size), a.dims);
        if (d.elements++ == 0) d.first = d.last;
      }
      if (d.elements > 0) o.differs.push_back(std::move(d));
    }
  }
}

}  // namespace pallasim::interp
