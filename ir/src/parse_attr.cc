#include <algorithm>

#include <fmt/format.h>

#include "parser.h"

namespace pallasim::ir {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// An array without elements is written with no digits.
bool starts_hex(const char* p, const char* end) { return end - p >= 2 && p[0] == '0' && p[1] == 'x'; }

// The key that occurs twice, or null. Sorted: a quadratic scan would let a long dictionary stall the parser.
template <typename Keys, typename Get>
const std::string* duplicate(const Keys& keys, Get get) {
  std::vector<const std::string*> sorted;
  sorted.reserve(keys.size());
  for (const auto& k : keys) sorted.push_back(&get(k));
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return *a < *b; });
  auto it = std::adjacent_find(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return *a == *b; });
  return it == sorted.end() ? nullptr : *it;
}

}  // namespace

AttrDict Parser::optional_attrs() {
  skip_line_space();
  return peek() == '{' ? attr_dict() : AttrDict();
}

AttrDict Parser::attr_dict() {
  Nested nested(*this, "an attribute");
  const char* b = p_;
  expect('{', "before attributes");
  AttrDict d;
  do {
    skip_space();
    const std::string_view key = expect_name("the name of an attribute");
    skip_space();
    expect('=', "after the name of an attribute");
    d.emplace_back(std::string(key), attr());
  } while (accept_nl_ok(','));
  expect('}', "after attributes");
  if (d.size() > 1)
    if (const std::string* k = duplicate(d, [](const auto& e) -> const std::string& { return e.first; }))
      fail(b, "PS-IR-008", fmt::format("attribute '{}' is given twice", *k));
  return d;
}

Attr Parser::attr() {
  skip_space();
  count(&num_attrs_, limits_.max_attrs, "attributes");
  const char c = peek();
  if (c == '-' || (c >= '0' && c <= '9')) return Attr::integer(integer("an integer"));
  if (c == '"') return Attr::string(string_literal("a string"));
  if (c == '$') {
    ++p_;
    const char* b = p_;
    const int64_t n = integer("the number of an operand after '$'");
    if (n < 0 || n > INT32_MAX) fail(b, "PS-IR-008", fmt::format("operand number ${} is out of range", n));
    return Attr::operand(static_cast<int>(n));
  }
  if (c == '[') {
    Nested nested(*this, "an attribute");
    ++p_;
    return Attr::list(items(']', "after the items of a list"));
  }
  if (c == '{') {
    Attr a;
    a.kind = Attr::Kind::Dict;
    for (auto& [k, v] : attr_dict()) {
      a.keys.push_back(k);
      a.items.push_back(std::move(v));
    }
    return a;
  }
  return named_attr();
}

// A name starts a symbol, a call, a type or a literal; what follows decides.
Attr Parser::named_attr() {
  const char* b = p_;
  const std::string_view n = name_token();
  if (n.empty()) syntax("an attribute's value");
  if (peek() == '(') return call(n);
  if (n == "ref" && peek() == '<') {
    p_ = b;
    return Attr::of_type(ref_type());
  }
  DType d;
  if (parse_dtype(n, &d)) {
    if (peek() == '[') {
      const Type* t = tensor_type_after(d, b);
      skip_line_space();
      return starts_hex(p_, end_) ? dense(t) : Attr::of_type(t);
    }
    skip_line_space();
    if (starts_hex(p_, end_)) return bits(d);
  }
  return Attr::symbol(std::string(n));
}

Attr Parser::bits(DType dtype) {
  const char* b = p_;
  const int width = bit_width(dtype);
  uint64_t v = 0;
  int digits = 0;
  for (p_ += 2; hex_digit(peek()) >= 0; ++p_) {
    if (v >> 60)
      fail(b, "PS-IR-008", "literal does not fit in 64 bits",
           fmt::format("wider elements are written {}[] 0x…", name(dtype)));
    v = v << 4 | static_cast<uint64_t>(hex_digit(*p_));
    ++digits;
  }
  if (digits == 0) syntax("hexadecimal digits after 0x");
  const uint64_t max = dtype == DType::Bool ? 1 : width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  if (v > max) fail(b, "PS-IR-008", fmt::format("literal 0x{:x} does not fit in {}", v, name(dtype)));
  return Attr::bits(dtype, v);
}

Attr Parser::dense(const Type* type) {
  const char* b = p_;
  p_ += 2;
  const char* digits = p_;
  while (hex_digit(peek()) >= 0) ++p_;
  const int64_t have = p_ - digits;
  if (!type->is_static())
    fail(b, "PS-IR-008", fmt::format("literal of type {}, whose shape is not static", to_string(type)));
  const int64_t need = type->num_bytes();  // the parser bounded the product of the dims
  if (have != 2 * need)
    fail(b, "PS-IR-008",
         fmt::format("literal of type {} has {} hexadecimal digits instead of {}", to_string(type), have, 2 * need));
  Attr a;
  a.kind = Attr::Kind::Dense;
  a.dtype = DType::I32;
  a.type = type;
  a.s.resize(static_cast<size_t>(need));
  for (char& out : a.s) {
    out = static_cast<char>(hex_digit(digits[0]) << 4 | hex_digit(digits[1]));
    digits += 2;
  }
  return a;
}

Attr Parser::call(std::string_view name) {
  Nested nested(*this, "an attribute");
  ++p_;
  Attr a = Attr::call(std::string(name), items(')', "after the arguments of a call"));
  // blob(f32[4], "hash") is an array of the capsule.
  if (name == "blob" && a.items.size() == 2 && a.items[0].is(Attr::Kind::TypeOf) && !a.items[0].type->is_ref &&
      a.items[1].is(Attr::Kind::String)) {
    Attr blob;
    blob.kind = Attr::Kind::Blob;
    blob.type = a.items[0].type;
    blob.s = std::move(a.items[1].s);
    return blob;
  }
  return a;
}

std::vector<Attr> Parser::items(char close, const char* what) {
  std::vector<Attr> r;
  if (accept_nl_ok(close)) return r;
  do { r.push_back(attr()); } while (accept_nl_ok(','));
  expect(close, what);
  return r;
}

}  // namespace pallasim::ir
