#include "text.h"

#include <algorithm>

#include <fmt/format.h>

namespace pallasim::ir {

void append_json_string(std::string& out, std::string_view s) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (char ch : s) {
    const auto c = static_cast<unsigned char>(ch);
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (c >= 0x20) {
          out += ch;
        } else {
          out += "\\u00";
          out += kHex[c >> 4];
          out += kHex[c & 15];
        }
    }
  }
  out += '"';
}

std::string quoted(std::string_view s) {
  std::string r;
  append_json_string(r, s);
  return r;
}

void append_utf8(std::string& out, uint32_t c) {
  auto put = [&](uint32_t b) { out += static_cast<char>(b); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xc0 | (c >> 6)), put(0x80 | (c & 63));
  if (c < 0x10000) return put(0xe0 | (c >> 12)), put(0x80 | ((c >> 6) & 63)), put(0x80 | (c & 63));
  put(0xf0 | (c >> 18)), put(0x80 | ((c >> 12) & 63)), put(0x80 | ((c >> 6) & 63)), put(0x80 | (c & 63));
}

int utf8_length(std::string_view s) {
  if (s.empty()) return 0;
  const auto b = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned c = b(0);
  if (c < 0x80) return 1;
  const int n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
  if (c < 0xc2 || c > 0xf4 || s.size() < static_cast<size_t>(n)) return 0;
  for (int i = 1; i < n; ++i)
    if ((b(static_cast<size_t>(i)) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates and code points past U+10FFFF.
  if ((c == 0xe0 && b(1) < 0xa0) || (c == 0xed && b(1) > 0x9f) || (c == 0xf0 && b(1) < 0x90) ||
      (c == 0xf4 && b(1) > 0x8f))
    return 0;
  return n;
}

bool is_name(std::string_view s) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (s.empty() || !letter(s[0])) return false;
  return std::all_of(s.begin(), s.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::string plural(int64_t n, std::string_view noun) {
  if (n == 1) return fmt::format("1 {}", noun);
  return noun.back() == 'y' ? fmt::format("{} {}ies", n, noun.substr(0, noun.size() - 1))
                            : fmt::format("{} {}s", n, noun);
}

}  // namespace pallasim::ir
