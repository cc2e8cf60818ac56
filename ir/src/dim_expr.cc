#include "dim_expr.h"

#include <algorithm>
#include <charconv>

namespace pallasim::ir {
namespace {

constexpr std::string_view kOperations[] = {"add", "sub", "mul", "floordiv", "mod", "max", "min"};
constexpr int kMaxDepth = 256;

bool apply(std::string_view op, int64_t a, int64_t b, int64_t* out) {
  if (op == "add") return !__builtin_add_overflow(a, b, out);
  if (op == "sub") return !__builtin_sub_overflow(a, b, out);
  if (op == "mul") return !__builtin_mul_overflow(a, b, out);
  if (op == "max") return *out = std::max(a, b), true;
  if (op == "min") return *out = std::min(a, b), true;
  if (b == 0 || (a == INT64_MIN && b == -1)) return false;
  const int64_t q = a / b - ((a % b != 0) && ((a < 0) != (b < 0)));  // Python's division
  *out = op == "floordiv" ? q : a - q * b;
  return true;
}

struct Reader {
  std::string_view s;
  const std::function<bool(std::string_view, int64_t*)>& value;
  int depth = 0;

  bool eat(char c) {
    if (s.empty() || s[0] != c) return false;
    s.remove_prefix(1);
    return true;
  }

  bool read(int64_t* out) {
    if (s.empty() || ++depth > kMaxDepth) return false;
    if (s[0] == '-' || (s[0] >= '0' && s[0] <= '9')) {
      const auto r = std::from_chars(s.data(), s.data() + s.size(), *out);
      s.remove_prefix(static_cast<size_t>(r.ptr - s.data()));
      --depth;
      return r.ec == std::errc();
    }
    const size_t n = std::min(s.find_first_of("(),"), s.size());
    const std::string_view word = s.substr(0, n);
    s.remove_prefix(n);
    if (eat('(')) {
      int64_t a, b;
      if (!is_dim_operation(word) || !read(&a) || !eat(',') || !read(&b) || !eat(')') || !apply(word, a, b, out))
        return false;
    } else if (word.empty() || !value(word, out)) {
      return false;
    }
    --depth;
    return true;
  }
};

}  // namespace

bool is_dim_operation(std::string_view name) {
  return std::find(std::begin(kOperations), std::end(kOperations), name) != std::end(kOperations);
}

bool evaluate_dim(std::string_view text, const std::function<bool(std::string_view, int64_t*)>& value, int64_t* out) {
  Reader r{text, value};
  return r.read(out) && r.s.empty();
}

bool for_each_param(std::string_view text, const std::function<void(std::string_view)>& f) {
  // Structure only: no evaluation, which could overflow or divide by zero for a made-up value.
  int depth = 0;
  while (!text.empty()) {
    const size_t n = std::min(text.find_first_of("(),"), text.size());
    const std::string_view word = text.substr(0, n);
    const char next = n < text.size() ? text[n] : '\0';
    if (next == '(' && !is_dim_operation(word)) return false;
    if (next != '(' && !word.empty() && word[0] != '-' && (word[0] < '0' || word[0] > '9')) f(word);
    depth += next == '(' ? 1 : next == ')' ? -1 : 0;
    if (depth < 0) return false;
    text.remove_prefix(std::min(n + 1, text.size()));
  }
  return depth == 0;
}

}  // namespace pallasim::ir
