#include <cstring>

#include <fmt/format.h>

#include "parser.h"
#include "text.h"

namespace pallasim::ir {
namespace {
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr size_t kQuotedWidth = 160;

// The line around `at`, cut where it is very long; a cut never splits a UTF-8 sequence.
std::string quoted_line(const char* line, const char* at, const char* end) {
  const auto* stop = static_cast<const char*>(std::memchr(line, '\n', static_cast<size_t>(end - line)));
  if (!stop) stop = end;
  if (stop > line && stop[-1] == '\r') --stop;
  while (line < at && (*line == ' ' || *line == '\t')) ++line;
  const char* from = line;
  if (at - line > static_cast<ptrdiff_t>(kQuotedWidth / 2)) from = at - kQuotedWidth / 2;
  while (from < stop && from > line && (static_cast<unsigned char>(*from) & 0xc0) == 0x80) ++from;
  const char* to = stop - from > static_cast<ptrdiff_t>(kQuotedWidth) ? from + kQuotedWidth : stop;
  while (to < stop && to > from && (static_cast<unsigned char>(*to) & 0xc0) == 0x80) --to;
  std::string r = from > line ? "…" : "";
  r.append(from, to);
  if (to < stop) r += "…";
  return r;
}
}  // namespace

Parser::Parser(std::string_view text, std::string_view file_name, const Limits& limits, Unplaced unplaced)
    : begin_(text.data()),
      p_(begin_),
      end_(begin_ + text.size()),
      file_name_(file_name),
      limits_(limits),
      unplaced_(unplaced) {}

// `line` is the number of the line that begins at `from`; both move to the line of `at`.
SourceLine Parser::line_of(const char* at, const char** from, int* line) const {
  while (const char* nl = at > *from
                              ? static_cast<const char*>(std::memchr(*from, '\n', static_cast<size_t>(at - *from)))
                              : nullptr) {
    ++*line;
    *from = nl + 1;
  }
  SourceLine s;
  s.file = file_name_;
  s.line = *line;
  s.column = static_cast<int>(at - *from) + 1;
  s.text = quoted_line(*from, at, end_);
  return s;
}

void Parser::fail(const char* at, Code code, std::string message, std::string hint) const {
  const char* from = begin_;
  int line = 1;
  Diagnostic(code, std::move(message))
      .at({.what = {}, .source = line_of(at, &from, &line)})
      .hinted(std::move(hint))
      .raise();
}

std::string Parser::found() const {
  if (at_end()) return "the end of the text";
  if (*p_ == '\n' || *p_ == '\r') return "the end of the line";
  if (is_letter(*p_) || is_digit(*p_)) {
    const char* e = p_;
    while (e < end_ && e - p_ < 40 && (is_letter(*e) || is_digit(*e))) ++e;
    return fmt::format("'{}'", std::string_view(p_, static_cast<size_t>(e - p_)));
  }
  const int n = utf8_length(std::string_view(p_, static_cast<size_t>(end_ - p_)));
  if (n == 0 || static_cast<unsigned char>(*p_) < 0x20)
    return fmt::format("byte 0x{:02x}", static_cast<unsigned char>(*p_));
  return fmt::format("'{}'", std::string_view(p_, static_cast<size_t>(n)));
}

void Parser::syntax(const std::string& expected) const {
  fail(p_, "PS-IR-001", fmt::format("expected {}, found {}", expected, found()));
}

void Parser::count(int64_t* counter, int64_t limit, const char* what) {
  if (++*counter > limit) fail(p_, "PS-IR-004", fmt::format("more than {} {} in one module", limit, what));
}

Parser::Nested::Nested(Parser& p, const char* what) : p_(p) {
  if (++p_.depth_ > p_.limits_.max_nesting) {
    --p_.depth_;
    p_.fail(p_.p_, "PS-IR-004", fmt::format("{} is nested more than {} levels deep", what, p_.limits_.max_nesting));
  }
}

void Parser::skip_line_space() {
  while (p_ < end_ && (*p_ == ' ' || *p_ == '\t' || *p_ == '\r')) ++p_;
  if (end_ - p_ >= 2 && p_[0] == '/' && p_[1] == '/') {
    const auto* nl = static_cast<const char*>(std::memchr(p_, '\n', static_cast<size_t>(end_ - p_)));
    p_ = nl ? nl : end_;
  }
}

void Parser::skip_space() {
  skip_line_space();
  while (p_ < end_ && *p_ == '\n') {
    ++p_;
    skip_line_space();
  }
}

bool Parser::accept(char c) {
  skip_line_space();
  if (peek() != c || at_end()) return false;
  ++p_;
  return true;
}

bool Parser::accept_nl_ok(char c) {
  skip_space();
  return accept(c);
}

void Parser::expect(char c, const char* where) {
  if (!accept(c)) syntax(fmt::format("'{}' {}", c, where));
}

void Parser::expect_end_of_line(const char* after) {
  skip_line_space();
  if (at_end()) return;
  if (*p_ != '\n') syntax(fmt::format("the end of the line after {}", after));
  ++p_;
}

std::string_view Parser::name_token() {
  const char* b = p_;
  if (p_ == end_ || !is_letter(*p_)) return {};
  while (p_ < end_ && (is_letter(*p_) || is_digit(*p_))) ++p_;
  return {b, static_cast<size_t>(p_ - b)};
}

std::string_view Parser::expect_name(const char* what) {
  skip_line_space();
  std::string_view n = name_token();
  if (n.empty()) syntax(what);
  return n;
}

int64_t Parser::integer(const char* what) {
  const char* b = p_;
  const bool negative = peek() == '-';
  if (negative) ++p_;
  if (!is_digit(peek())) {
    p_ = b;
    syntax(what);
  }
  uint64_t v = 0;
  const uint64_t max = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  for (; is_digit(peek()); ++p_) {
    const auto digit = static_cast<uint64_t>(*p_ - '0');
    if (v > (max - digit) / 10) fail(b, "PS-IR-008", "integer does not fit in 64 bits");
    v = v * 10 + digit;
  }
  return negative ? static_cast<int64_t>(~v + 1) : static_cast<int64_t>(v);
}

int64_t Parser::value_number() {
  if (peek() != '%') syntax("a value such as %0");
  ++p_;
  if (!is_digit(peek())) syntax("the number of a value after '%'");
  return integer("the number of a value");
}

std::string Parser::string_literal(const char* what) {
  skip_line_space();
  const char* open = p_;
  if (peek() != '"') syntax(what);
  ++p_;
  std::string out;
  for (;;) {
    const char* run = p_;
    while (p_ < end_ && *p_ != '"' && *p_ != '\\' && static_cast<unsigned char>(*p_) - 0x20U < 0x60U) ++p_;
    out.append(run, p_);
    if (at_end() || *p_ == '\n') fail(open, "PS-IR-008", "string without a closing quote");
    if (*p_ == '"') break;
    if (*p_ == '\\') {
      string_escape(out);
    } else {
      const int n = utf8_length(std::string_view(p_, static_cast<size_t>(end_ - p_)));
      if (n == 0 || static_cast<unsigned char>(*p_) < 0x20)
        fail(p_, "PS-IR-008", fmt::format("byte 0x{:02x} in a string", static_cast<unsigned char>(*p_)),
             n ? "control characters are written as \\u001f" : "text is UTF-8");
      out.append(p_, static_cast<size_t>(n));
      p_ += n;
    }
  }
  ++p_;
  return out;
}

uint32_t Parser::hex4() {
  uint32_t v = 0;
  for (int i = 0; i < 4; ++i, ++p_) {
    const char c = peek();
    const int d = is_digit(c)            ? c - '0'
                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                         : -1;
    if (d < 0) fail(p_, "PS-IR-008", "expected four hexadecimal digits after \\u");
    v = v * 16 + static_cast<uint32_t>(d);
  }
  return v;
}

void Parser::string_escape(std::string& out) {
  const char* at = p_++;
  const char c = peek();
  constexpr char kFrom[] = "\"\\/bfnrt", kTo[] = "\"\\/\b\f\n\r\t";
  if (const char* k = c ? std::strchr(kFrom, c) : nullptr) {
    out += kTo[k - kFrom];
    ++p_;
    return;
  }
  if (c != 'u') fail(at, "PS-IR-008", "unknown escape in a string", "strings are JSON strings");
  ++p_;
  uint32_t v = hex4();
  if (v >= 0xd800 && v < 0xdc00) {
    if (end_ - p_ < 2 || p_[0] != '\\' || p_[1] != 'u') fail(at, "PS-IR-008", "half of a surrogate pair in a string");
    p_ += 2;
    const uint32_t low = hex4();
    if (low < 0xdc00 || low > 0xdfff) fail(at, "PS-IR-008", "half of a surrogate pair in a string");
    v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
  } else if (v >= 0xdc00 && v < 0xe000) {
    fail(at, "PS-IR-008", "half of a surrogate pair in a string");
  }
  append_utf8(out, v);
}

}  // namespace pallasim::ir
