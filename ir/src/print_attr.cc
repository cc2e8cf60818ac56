#include "print_attr.h"

#include <cstring>

#include <fmt/format.h>

#include "pallasim/ir/literal.h"
#include "text.h"

namespace pallasim::ir {
namespace {

void append_hex_bytes(std::string& out, const std::string& bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  out += "0x";
  for (char ch : bytes) {
    const auto c = static_cast<unsigned char>(ch);
    out += kHex[c >> 4];
    out += kHex[c & 15];
  }
}

void append_items(std::string& out, const std::vector<Attr>& items, char open, char close) {
  out += open;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) out += ", ";
    append_attr(out, items[i]);
  }
  out += close;
}

void append_literal(std::string& out, const Attr& a) {
  if (a.is(Attr::Kind::Bits)) {
    fmt::format_to(std::back_inserter(out), "{} 0x{:x}", name(a.dtype), static_cast<uint64_t>(a.i));
  } else if (a.is(Attr::Kind::Dense)) {
    out += to_string(a.type);
    out += ' ';
    append_hex_bytes(out, a.s);
  } else {
    out += "blob(";
    out += to_string(a.type);
    out += ", ";
    append_json_string(out, a.s);
    out += ')';
  }
}

}  // namespace

void append_attr(std::string& out, const Attr& a) {
  switch (a.kind) {
    case Attr::Kind::Int: fmt::format_to(std::back_inserter(out), "{}", a.i); return;
    case Attr::Kind::String: append_json_string(out, a.s); return;
    case Attr::Kind::Symbol: out += a.s; return;
    case Attr::Kind::Bits:
    case Attr::Kind::Dense:
    case Attr::Kind::Blob: append_literal(out, a); return;
    case Attr::Kind::List: append_items(out, a.items, '[', ']'); return;
    case Attr::Kind::Call:
      out += a.s;
      append_items(out, a.items, '(', ')');
      return;
    case Attr::Kind::Dict:
      out += '{';
      for (size_t i = 0; i < a.items.size(); ++i) {
        if (i) out += ", ";
        out += a.keys[i];
        out += " = ";
        append_attr(out, a.items[i]);
      }
      out += '}';
      return;
    case Attr::Kind::Operand: fmt::format_to(std::back_inserter(out), "${}", a.i); return;
    case Attr::Kind::TypeOf: out += to_string(a.type); return;
    case Attr::Kind::View: return append_viewed(out, *a.view);
  }
}

void append_attrs(std::string& out, const AttrDict& d) {
  out += '{';
  bool first = true;
  for (const auto& [k, v] : d) {
    if (!first) out += ", ";
    first = false;
    out += k;
    out += " = ";
    append_attr(out, v);
  }
  out += '}';
}

std::string to_string(const Attr& a) {
  std::string r;
  append_attr(r, a);
  return r;
}

std::string op_text(const Graph& g, const Op& op) {
  std::string s;
  for (size_t i = 0; i < op.results.size(); ++i) s += fmt::format("{}%{}", i ? ", " : "", op.results[i]);
  if (!op.results.empty()) s += " = ";
  s += name(op.code);
  for (size_t i = 0; i < op.operands.size(); ++i) s += fmt::format("{}%{}", i ? ", " : " ", op.operands[i]);
  if (!op.attrs.empty()) append_attrs(s += ' ', op.attrs);
  for (size_t i = 0; i < op.regions.size(); ++i) s += " (…) {…}";
  for (size_t i = 0; i < op.results.size(); ++i) {
    const auto r = static_cast<size_t>(op.results[i]);
    s += i ? ", " : " : ";
    s += r < g.types.size() && g.types[r] ? to_string(g.types[r]) : "?";
  }
  constexpr size_t kWidth = 200;
  if (s.size() <= kWidth) return s;
  size_t cut = kWidth;
  while (cut > 0 && (static_cast<unsigned char>(s[cut]) & 0xc0) == 0x80) --cut;
  return s.substr(0, cut) + "…";
}

std::string literal_comment(const Attr& a) {
  if (a.is(Attr::Kind::Bits) && is_float(a.dtype))
    return fmt::format("{}", bits_to_double(a.dtype, static_cast<uint64_t>(a.i)));
  if (!a.is(Attr::Kind::Dense) || !(is_float(a.type->dtype) || is_complex(a.type->dtype))) return {};
  constexpr size_t kShown = 4;
  const bool complex = is_complex(a.type->dtype);
  const DType part = a.type->dtype == DType::C64    ? DType::F32
                     : a.type->dtype == DType::C128 ? DType::F64
                                                    : a.type->dtype;
  const auto size = static_cast<size_t>(byte_size(part));
  const size_t n = a.s.size() / size;
  std::string r;
  for (size_t i = 0; i < n && i < kShown; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, a.s.data() + i * size, size);
    r += fmt::format("{}{}", i ? (complex && i % 2 ? "+i*" : ", ") : "", bits_to_double(part, bits));
  }
  return n > kShown ? r + ", …" : r;
}

}  // namespace pallasim::ir
