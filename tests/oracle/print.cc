// What debug_print shows: values as Python writes them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "machine.h"

namespace pallasim::oracle {
namespace {

template <typename T>
std::string float_text(T v, bool inside) {
  if (!std::isfinite(v) || v != std::floor(v) || std::fabs(v) >= static_cast<T>(1e16)) return fmt::format("{}", v);
  return inside ? fmt::format("{:.0f}.", v) : fmt::format("{:.1f}", v);
}

std::string element_text(const Array& a, int64_t n) {
  const bool inside = !a.dims.empty();
  if (a.dtype == DType::Bool) return integer(a, n) ? "True" : "False";
  if (ir::is_signed_int(a.dtype)) return std::to_string(integer(a, n));
  if (ir::is_unsigned_int(a.dtype)) return std::to_string(static_cast<uint64_t>(integer(a, n)));
  alignas(16) std::byte reg[16];
  interp::reference_kernels().load(a.dtype)(reg, a.bytes.data() + n * ir::byte_size(a.dtype), 1, 1);
  auto value = [&]<typename T>(T v, size_t at) {
    std::memcpy(&v, reg + at, sizeof(T));
    return v;
  };
  switch (interp::compute_type(a.dtype)) {
    case interp::CType::F32: return float_text(value(0.0f, 0), inside);
    case interp::CType::F64: return float_text(value(0.0, 0), inside);
    case interp::CType::C64: return fmt::format("({}{:+}j)", value(0.0f, 0), value(0.0f, 4));
    case interp::CType::C128: return fmt::format("({}{:+}j)", value(0.0, 0), value(0.0, 8));
    default: throw Lack{"print of " + std::string(ir::name(a.dtype))};
  }
}

std::string array_text(const Array& a, size_t d, int64_t* n) {
  if (d == a.dims.size()) return element_text(a, (*n)++);
  std::string r = "[";
  const std::string gap = d + 1 == a.dims.size() ? " " : "\n" + std::string(d + 1, ' ');
  for (int64_t i = 0; i < a.dims[d]; ++i) r += (i ? gap : "") + array_text(a, d + 1, n);
  return r + "]";
}

}  // namespace

std::string Machine::text_of(Thread& t, const Op& op, const std::string& format, bool placeholders, size_t first) {
  const size_t total = op.operands.size() - first;
  auto shown = [&](size_t i) {
    int64_t n = 0;
    return i < total ? array_text(in(t, op, first + i), 0, &n) : std::string("{}");
  };
  std::string text = placeholders ? "" : format;
  for (size_t i = 0; !placeholders && i < total; ++i) text += (text.empty() || text.back() == ' ' ? "" : " ") + shown(i);
  std::vector<std::string> names;
  if (const Attr* a = op.attr("names"))
    for (const Attr& n : a->items) names.push_back(n.s);
  size_t next = 0;
  for (size_t i = 0; placeholders && i < format.size(); ++i) {
    const char c = format[i];
    const bool twice = (c == '{' || c == '}') && i + 1 < format.size() && format[i + 1] == c;
    const size_t end = c == '{' && !twice ? format.find('}', i) : std::string::npos;
    if (end == std::string::npos) {
      text += c;
      i += twice;
      continue;
    }
    const std::string key = format.substr(i + 1, end - i - 1);
    if (key.find_first_of(":!") != std::string::npos) throw Lack{"a format specification"};
    const auto named = std::find(names.begin(), names.end(), key);
    const bool number = !key.empty() && key.size() < 4 && key.find_first_not_of("0123456789") == std::string::npos;
    text += shown(key.empty() ? next++ : number ? std::stoul(key) : named == names.end() ? total : static_cast<size_t>(named - names.begin()));
    i = end;
  }
  return text;
}

void Machine::op_print(Thread& t, const Op& op) {
  const Attr* a = op.attr("placeholders");
  outcome_.prints.push_back(text_of(t, op, op.attr("format")->s, !a || a->is_true(), 0));
}

}  // namespace pallasim::oracle
