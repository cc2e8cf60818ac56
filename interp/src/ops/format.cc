// Python's format specifications for one element.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../plan/payload/print.h"
#include "bodies.h"

namespace pallasim::interp::ops {
namespace {

using Style = PrintPayload::Style;

constexpr int kMaxWidth = 1000, kMaxPrecision = 100;

bool digits(std::string_view& s, int limit, int* out) {
  if (s.empty() || s[0] < '0' || s[0] > '9') return false;
  int n = 0;
  while (!s.empty() && s[0] >= '0' && s[0] <= '9') {
    n = std::min(n * 10 + (s[0] - '0'), limit + 1);
    s.remove_prefix(1);
  }
  *out = n;
  return n <= limit;
}

bool one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

// Thousands separators in the digits before the point.
std::string grouped(std::string body, char separator, int every) {
  const size_t end = std::min(body.find_first_of(".e%"), body.size());
  for (size_t at = end; at > static_cast<size_t>(every);) body.insert(at -= static_cast<size_t>(every), 1, separator);
  return body;
}

std::string float_body(double v, const Style& s) {
  if (std::isnan(v)) return one_of(s.type, "FEG") ? "NAN" : "nan";
  if (std::isinf(v)) return one_of(s.type, "FEG") ? "INF" : "inf";
  const int p = s.precision;
  switch (s.type) {
    case 'f':
    case 'F': return fmt::format("{:.{}f}", v, p < 0 ? 6 : p);
    case 'e': return fmt::format("{:.{}e}", v, p < 0 ? 6 : p);
    case 'E': return fmt::format("{:.{}E}", v, p < 0 ? 6 : p);
    case 'g':
    case 'n': return s.alternate ? fmt::format("{:#.{}g}", v, p < 0 ? 6 : p) : fmt::format("{:.{}g}", v, p < 0 ? 6 : p);
    case 'G': return fmt::format("{:.{}G}", v, p < 0 ? 6 : p);
    case '%': return fmt::format("{:.{}f}%", v * 100, p < 0 ? 6 : p);
    default: break;
  }
  // No type: as str() does, or with that many significant digits.
  std::string r = p >= 0 ? fmt::format("{:.{}g}", v, std::max(p, 1)) : fmt::format("{}", v);
  if (r.find_first_of(".e") == std::string::npos) r += ".0";
  return r;
}

std::string integer_body(uint64_t magnitude, const Style& s, std::string* prefix) {
  switch (s.type) {
    case 'x': *prefix = "0x"; return fmt::format("{:x}", magnitude);
    case 'X': *prefix = "0X"; return fmt::format("{:X}", magnitude);
    case 'o': *prefix = "0o"; return fmt::format("{:o}", magnitude);
    case 'b': *prefix = "0b"; return fmt::format("{:b}", magnitude);
    default: return fmt::format("{}", magnitude);
  }
}

}  // namespace

bool parse_format(std::string_view s, ir::DType t, Style* out) {
  Style r;
  const bool integer = ir::is_int(t) || t == ir::DType::Bool;
  if (!integer && !ir::is_float(t)) return false;
  // The fill may be any character, of one byte or more.
  size_t first = s.empty() ? 0 : 1;
  while (first > 0 && first < s.size() && (static_cast<unsigned char>(s[first]) & 0xc0) == 0x80) ++first;
  if (first < s.size() && one_of(s[first], "<>=^")) {
    r.fill = s.substr(0, first);
    r.align = s[first];
    s.remove_prefix(first + 1);
  } else if (!s.empty() && one_of(s[0], "<>=^")) {
    r.align = s[0];
    s.remove_prefix(1);
  }
  if (!s.empty() && one_of(s[0], "+- ")) r.sign = s[0], s.remove_prefix(1);
  if (!s.empty() && s[0] == '#') r.alternate = true, s.remove_prefix(1);
  if (!s.empty() && s[0] == '0') {
    if (!r.align) r.fill = "0", r.align = '=';
    s.remove_prefix(1);
  }
  if (!s.empty() && s[0] >= '0' && s[0] <= '9' && !digits(s, kMaxWidth, &r.width)) return false;
  if (!s.empty() && one_of(s[0], ",_")) r.grouping = s[0], s.remove_prefix(1);
  if (!s.empty() && s[0] == '.') {
    s.remove_prefix(1);
    if (!digits(s, kMaxPrecision, &r.precision)) return false;
  }
  if (!s.empty()) r.type = s[0], s.remove_prefix(1);
  if (!s.empty()) return false;
  if (r.type && !one_of(r.type, integer ? "bdoxXneEfFgG%" : "eEfFgGn%")) return false;
  if (integer && r.precision >= 0 && (!r.type || one_of(r.type, "bdoxXn"))) return false;
  if (r.grouping == ',' && r.type && one_of(r.type, "boxXn")) return false;
  *out = r;
  return true;
}

std::string formatted(const std::byte* at, ir::DType t, const Style& s) {
  bool negative = false;
  std::string body, prefix;
  const CType c = compute_type(t);
  const bool integer = c != CType::F32 && c != CType::F64;
  if (integer && (!s.type || one_of(s.type, "bdoxXn"))) {
    uint64_t bits = 0;
    if (c == CType::Bool) bits = *reinterpret_cast<const uint8_t*>(at);
    else if (c == CType::I32) bits = static_cast<uint64_t>(static_cast<int64_t>(*reinterpret_cast<const int32_t*>(at)));
    else if (c == CType::U32) bits = *reinterpret_cast<const uint32_t*>(at);
    else bits = *reinterpret_cast<const uint64_t*>(at);
    negative = (c == CType::I32 || c == CType::I64) && static_cast<int64_t>(bits) < 0;
    body = integer_body(negative ? 0 - bits : bits, s, &prefix);
    if (!s.alternate) prefix.clear();
  } else {
    double v = 0;
    kernels().convert(t, ir::DType::F64)(&v, at, 1, {});
    negative = std::signbit(v) && !std::isnan(v);
    body = float_body(std::fabs(v), s);
  }
  if (s.grouping) body = grouped(std::move(body), s.grouping, s.type && one_of(s.type, "boxX") ? 4 : 3);
  const std::string head = (negative ? "-" : s.sign && s.sign != '-' ? std::string(1, s.sign) : "") + prefix;
  const size_t have = head.size() + body.size(), want = static_cast<size_t>(s.width);
  const size_t missing = want > have ? want - have : 0;
  const auto pad = [&](size_t n) {
    std::string r;
    for (size_t i = 0; i < n; ++i) r += s.fill;
    return r;
  };
  switch (s.align ? s.align : '>') {
    case '<': return head + body + pad(missing);
    case '^': return pad(missing / 2) + head + body + pad(missing - missing / 2);
    case '=': return head + pad(missing) + body;
    default: return pad(missing) + head + body;
  }
}

}  // namespace pallasim::interp::ops
