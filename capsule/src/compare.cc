#include "pallasim/capsule/compare.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace pallasim::capsule {
namespace {

bool same_bytes(const std::byte* a, const std::byte* b, ir::DType t) {
  // The bits above an element that is narrower than a byte mean nothing.
  if (const int bits = ir::bit_width(t); bits < 8 && !ir::is_sync(t) && t != ir::DType::Bool)
    return ((a[0] ^ b[0]) & static_cast<std::byte>((1 << bits) - 1)) == std::byte{0};
  return std::memcmp(a, b, static_cast<size_t>(ir::byte_size(t))) == 0;
}

// With all digits: values that differ in the last bit read differently.
std::string exact_text(const std::byte* element, ir::DType t) {
  if (t == ir::DType::F32) return fmt::format("{}", static_cast<float>(to_double(element, t)));
  if (t == ir::DType::F64) return fmt::format("{}", to_double(element, t));
  return element_text(element, t);
}

bool within(double got, double want, const Tolerance& by) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (std::isinf(got) || std::isinf(want)) return got == want;
  return std::fabs(got - want) <= by.atol + by.rtol * std::fabs(want);
}

std::string index_text(int64_t element, const std::vector<int64_t>& dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t i = dims.size(); i-- > 0; element /= dims[i]) index[i] = element % dims[i];
  return fmt::format("[{}]", fmt::join(index, ", "));
}

}  // namespace

Difference compare(const Array& got, const Array& want, const Tolerance& by) {
  Difference d;
  const int size = ir::byte_size(got.dtype);
  const bool number = ir::is_float(got.dtype) || ir::is_signed_int(got.dtype) || ir::is_unsigned_int(got.dtype);
  const bool tolerant = ir::is_float(got.dtype) && !by.exact();
  for (int64_t i = 0; i < got.elements(); ++i) {
    const std::byte *a = &got.data[static_cast<size_t>(i * size)], *b = &want.data[static_cast<size_t>(i * size)];
    if (same_bytes(a, b, got.dtype)) continue;
    const double x = number ? to_double(a, got.dtype) : 0, y = number ? to_double(b, got.dtype) : 0;
    if (tolerant && within(x, y, by)) continue;
    if (d.count++ == 0) d.first = d.worst = i;
    const double apart = std::fabs(x - y);
    if (apart > d.greatest) d.greatest = apart, d.worst = i;
  }
  return d;
}

void describe(const Difference& d, const Array& got, const Array& want, const Tolerance& by, ir::Diagnostic* f) {
  const auto size = static_cast<size_t>(ir::byte_size(want.dtype));
  auto values = [&](int64_t i) {
    const size_t at = static_cast<size_t>(i) * size;
    return fmt::format("{} here, {} recorded", exact_text(&got.data[at], want.dtype),
                       exact_text(&want.data[at], want.dtype));
  };
  f->numbers.push_back(fmt::format("{} of {} elements of {}[{}]", d.count, want.elements(), ir::name(want.dtype),
                                   fmt::join(want.dims, ",")));
  f->numbers.push_back(fmt::format("first at {}: {}", index_text(d.first, want.dims), values(d.first)));
  if (d.worst != d.first)
    f->numbers.push_back(
        fmt::format("most at {}: {}, by {:.6g}", index_text(d.worst, want.dims), values(d.worst), d.greatest));
  if (f->hint.empty() && by.exact() && ir::is_float(want.dtype))
    f->hint = "contractions may round differently on another CPU; --rtol 1e-5 compares with a tolerance";
}

}  // namespace pallasim::capsule
