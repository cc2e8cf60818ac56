// Elements of arrays as people write them.
#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "case.h"
#include "pallasim/ir/literal.h"

namespace pallasim::interp::test {
namespace {

size_t size_of(ir::DType t) { return static_cast<size_t>(ir::byte_size(t)); }

uint64_t bits_at(const Array& a, size_t i) {
  uint64_t bits = 0;
  std::memcpy(&bits, a.bytes.data() + i * size_of(a.dtype), size_of(a.dtype));
  return bits;
}
size_t elements(const Array& a) { return a.bytes.size() / size_of(a.dtype); }

void append(Array* a, uint64_t bits) {
  const auto* p = reinterpret_cast<const std::byte*>(&bits);
  a->bytes.insert(a->bytes.end(), p, p + size_of(a->dtype));
}

template <typename T, typename... More>
T number(const std::string& text, T (*parse)(const char*, char**, More...), More... more) {
  char* end = nullptr;
  errno = 0;
  const T value = parse(text.c_str(), &end, more...);
  if (text.empty() || *end || errno == ERANGE) throw std::runtime_error("\"" + text + "\" is no number");
  return value;
}
int64_t integer(const std::string& text) { return number(text, &std::strtoll, 0); }

uint64_t bits_of(ir::DType t, const std::string& text) {
  if (ir::is_float(t)) return ir::double_to_bits(t, number(text, &std::strtod));
  return ir::int_to_bits(t, integer(text));
}

// "7", "7*3", "1..4", "8..2/-2": the part of a list between blanks.
void append_term(Array* a, std::string term) {
  int64_t times = 1;
  if (const size_t star = term.find('*'); star != std::string::npos) {
    times = integer(term.substr(star + 1));
    term.resize(star);
    if (times < 1) throw std::runtime_error("nothing is repeated");
  }
  const size_t dots = term.find("..");
  if (dots == std::string::npos) {
    for (const uint64_t bits = bits_of(a->dtype, term); times-- > 0;) append(a, bits);
    return;
  }
  int64_t step = 1;
  std::string last = term.substr(dots + 2);
  if (const size_t slash = last.find('/'); slash != std::string::npos)
    step = integer(last.substr(slash + 1)), last.resize(slash);
  const int64_t from = integer(term.substr(0, dots)), to = integer(last);
  if (step == 0 || (to - from) % step != 0 || (to - from) / step < 1)
    throw std::runtime_error("\"" + term + "\" does not end at its last number");
  for (; times > 0; --times)
    for (int64_t v = from; v != to + step; v += step) append(a, bits_of(a->dtype, std::to_string(v)));
}

std::string text_at(const Array& a, size_t i) {
  if (ir::is_float(a.dtype)) {
    const double v = ir::bits_to_double(a.dtype, bits_at(a, i));
    if (std::isnan(v)) return "nan";
    return a.dtype == ir::DType::F64 ? fmt::format("{}", v) : fmt::format("{}", static_cast<float>(v));
  }
  uint64_t bits = bits_at(a, i);
  if (ir::is_signed_int(a.dtype) && size_of(a.dtype) < 8) {
    const auto unused = static_cast<int>(64 - 8 * size_of(a.dtype));
    return fmt::format("{}", static_cast<int64_t>(bits << unused) >> unused);
  }
  return ir::is_signed_int(a.dtype) ? fmt::format("{}", static_cast<int64_t>(bits)) : fmt::format("{}", bits);
}

// Where the element is a whole number that a range can count to.
std::optional<int64_t> whole_at(const Array& a, size_t i) {
  const std::string text = text_at(a, i);
  if (text == "-0" || text.find_first_not_of("-0123456789") != std::string::npos || text.size() > 9) return {};
  return integer(text);
}

// How many elements from `i` on are equal, and how many count up or down by one step.
size_t equal_from(const Array& a, size_t i) {
  const std::string first = text_at(a, i);
  size_t n = 1;
  while (i + n < elements(a) && text_at(a, i + n) == first) ++n;
  return n;
}
size_t counted_from(const Array& a, size_t i) {
  if (i + 1 >= elements(a) || !whole_at(a, i) || !whole_at(a, i + 1)) return 1;
  const int64_t first = *whole_at(a, i), step = *whole_at(a, i + 1) - first;
  size_t n = 2;
  while (i + n < elements(a) && whole_at(a, i + n) == first + step * static_cast<int64_t>(n)) ++n;
  return step == 0 ? 1 : n;
}

}  // namespace

Array values_of(ir::DType dtype, std::vector<int64_t> dims, std::string_view list) {
  Array a{dtype, std::move(dims), {}};
  size_t n = 1;
  for (const int64_t d : a.dims) n *= static_cast<size_t>(d);
  std::istringstream terms{std::string(list)};
  for (std::string term; terms >> term;) append_term(&a, term);
  if (elements(a) != n) throw std::runtime_error(fmt::format("{} elements instead of {}", elements(a), n));
  return a;
}

std::string list_of(const Array& a) {
  std::string r;
  for (size_t i = 0, n = 0; i < elements(a); i += n) {
    const size_t equal = equal_from(a, i), counted = counted_from(a, i);
    n = std::max(equal >= 3 ? equal : 1, counted >= 4 ? counted : 1);
    if (i > 0) r += ' ';
    r += text_at(a, i);
    if (n == 1) continue;
    if (n == equal) {
      r += fmt::format("*{}", n);
      continue;
    }
    const int64_t step = *whole_at(a, i + 1) - *whole_at(a, i);
    r += ".." + text_at(a, i + n - 1) + (step == 1 ? "" : fmt::format("/{}", step));
  }
  return r;
}

bool untouched(const Array& a) {
  bool zeros = true, poison = true;
  for (size_t i = 0; i < elements(a); ++i) {
    const uint64_t bits = bits_at(a, i);
    zeros &= bits == 0;
    if (ir::is_float(a.dtype)) poison &= std::isnan(ir::bits_to_double(a.dtype, bits));
    else poison &= ir::is_signed_int(a.dtype) && bits == uint64_t{1} << (8 * size_of(a.dtype) - 1);
  }
  return zeros || poison;
}

std::string difference(const Array& want, const Array& got) {
  if (want.dtype != got.dtype || want.dims != got.dims) return "another type";
  for (size_t i = 0; i < elements(want); ++i) {
    const uint64_t x = bits_at(want, i), y = bits_at(got, i);
    if (x == y) continue;
    if (ir::is_float(want.dtype) && std::isnan(ir::bits_to_double(want.dtype, x)) &&
        std::isnan(ir::bits_to_double(want.dtype, y)))
      continue;
    return fmt::format("element {} is {} (0x{:x}), not {} (0x{:x})", i, text_at(got, i), y, text_at(want, i), x);
  }
  return "";
}

}  // namespace pallasim::interp::test
