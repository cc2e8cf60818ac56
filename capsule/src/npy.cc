#include "pallasim/capsule/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "pallasim/ir/diagnostic.h"
#include "pallasim/memory/odometer.h"

namespace pallasim::capsule {
namespace {

using ir::DType;

[[noreturn]] void fail(ir::Code code, std::string message, std::string_view file, std::vector<std::string> numbers = {},
                       std::string hint = {}) {
  ir::Diagnostic(code, fmt::format("{}: {}", file, message)).with(std::move(numbers)).hinted(std::move(hint)).raise();
}

// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (8, 128), }
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view file, int max_rank)
      : text_(text), file_(file), max_rank_(max_rank) {}

  NpyHeader parse() {
    NpyHeader h;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) {
        descr = true;
        if (peek() == '[' || peek() == '(' || peek() == '{')
          fail("PS-NPY-004", "a structured array has no counterpart in a kernel", file_);
        h.descr = string();
      } else if (key == "fortran_order" && !order) {
        order = true;
        h.fortran_order = boolean();
      } else if (key == "shape" && !shape) {
        shape = true;
        h.dims = tuple();
      } else {
        bad(fmt::format("unexpected key {}", key));
      }
      if (!accept(',') && peek() != '}') bad("no comma between the keys");
    }
    skip_space();
    if (at_ != text_.size()) bad("text after the closing brace");
    if (!descr || !order || !shape) bad("one of descr, fortran_order and shape is missing");
    return h;
  }

 private:
  [[noreturn]] void bad(const std::string& why) {
    fail("PS-NPY-001", "the header cannot be read", file_, {fmt::format("at character {}: {}", at_, why)});
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(fmt::format("expected '{}'", c));
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') bad("expected a string");
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos || end - at_ > 64) bad("a string without an end");
    std::string s(text_.substr(at_, end - at_));
    at_ = end + 1;
    return s;
  }
  bool boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    bad("expected True or False");
  }
  int64_t integer() {
    int64_t v = 0;
    skip_space();
    const size_t start = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, text_[at_] - '0', &v))
        fail("PS-NPY-003", "a dimension does not fit into 64 bits", file_);
    }
    if (at_ == start) bad("expected a number that is not negative");
    accept_word("L");  // Python 2 wrote long integers so
    return v;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> dims;
    expect('(');
    while (!accept(')')) {
      if (static_cast<int>(dims.size()) == max_rank_)
        fail("PS-NPY-003", fmt::format("more than {} dimensions", max_rank_), file_);
      dims.push_back(integer());
      if (!accept(',') && peek() != ')') bad("no comma between the dimensions");
    }
    return dims;
  }

  std::string_view text_, file_;
  size_t at_ = 0;
  int max_rank_;
};

struct Name {
  DType dtype;
  std::string_view numpy;
};
constexpr std::array<Name, 28> kNames = {{
    {DType::Bool, "bool"},
    {DType::I2, "int2"},
    {DType::I4, "int4"},
    {DType::I8, "int8"},
    {DType::I16, "int16"},
    {DType::I32, "int32"},
    {DType::I64, "int64"},
    {DType::U2, "uint2"},
    {DType::U4, "uint4"},
    {DType::U8, "uint8"},
    {DType::U16, "uint16"},
    {DType::U32, "uint32"},
    {DType::U64, "uint64"},
    {DType::BF16, "bfloat16"},
    {DType::F16, "float16"},
    {DType::F32, "float32"},
    {DType::F64, "float64"},
    {DType::F8E3M4, "float8_e3m4"},
    {DType::F8E4M3, "float8_e4m3"},
    {DType::F8E4M3B11FNUZ, "float8_e4m3b11fnuz"},
    {DType::F8E4M3FN, "float8_e4m3fn"},
    {DType::F8E4M3FNUZ, "float8_e4m3fnuz"},
    {DType::F8E5M2, "float8_e5m2"},
    {DType::F8E5M2FNUZ, "float8_e5m2fnuz"},
    {DType::F8E8M0FNU, "float8_e8m0fnu"},
    {DType::F4E2M1FN, "float4_e2m1fn"},
    {DType::C64, "complex64"},
    {DType::C128, "complex128"},
}};

// "<f4" -> its kind and size; false for anything else.
bool split_descr(std::string_view descr, char* order, char* kind, int64_t* size) {
  if (descr.size() < 2) return false;
  *order = '|';
  if (std::string_view("<>|=").find(descr[0]) != std::string_view::npos) {
    *order = descr[0];
    descr.remove_prefix(1);
  }
  *kind = descr[0];
  descr.remove_prefix(1);
  if (descr.empty() || descr.size() > 4) return false;
  *size = 0;
  for (char c : descr) {
    if (c < '0' || c > '9') return false;
    *size = *size * 10 + (c - '0');
  }
  return *size > 0;
}

int64_t item_bytes(std::string_view descr, std::string_view file) {
  for (const Name& n : kNames)
    if (n.numpy == descr) return ir::byte_size(n.dtype);
  char order, kind;
  int64_t size;
  const bool split = split_descr(descr, &order, &kind, &size);
  if (descr == "O" || descr == "|O" || (split && kind == 'O')) {
    fail("PS-NPY-004", "holds Python objects, which are stored as a pickle", file, {},
         "a pickle runs code when it is read; save an array of numbers");
  }
  if (!split || std::string_view("biufcV").find(kind) == std::string_view::npos || size > 16)
    fail("PS-NPY-004", fmt::format("elements of type '{}' have no counterpart in a kernel", descr), file);
  return size;
}

char kind_of(DType t) {
  switch (ir::info(t).cls) {
    case ir::DTypeClass::Bool: return 'b';
    case ir::DTypeClass::Int: return ir::bit_width(t) < 8 ? 'V' : 'i';
    case ir::DTypeClass::UInt: return ir::bit_width(t) < 8 ? 'V' : 'u';
    case ir::DTypeClass::Float: return t == DType::F16 || t == DType::F32 || t == DType::F64 ? 'f' : 'V';
    case ir::DTypeClass::Complex: return 'c';
    case ir::DTypeClass::Key: return 'u';
    case ir::DTypeClass::Sync: break;
  }
  return '\0';
}

int64_t file_item_bytes(DType t) { return npy_key_words(t) ? 4 : ir::byte_size(t); }

// Element by element, the last index of the result fastest.
void copy_fortran(const char* from, char* to, const std::vector<int64_t>& dims, int64_t bytes, int64_t elements) {
  std::vector<int64_t> index(dims.size(), 0), stride(dims.size(), 1);
  for (size_t d = 1; d < dims.size(); ++d) stride[d] = stride[d - 1] * dims[d - 1];
  int64_t at = 0;
  for (int64_t e = 0; e < elements; ++e) {
    std::memcpy(to + e * bytes, from + at * bytes, static_cast<size_t>(bytes));
    memory::next_index(
        index.data(), dims.size(), [&](size_t d) { return dims[d]; },
        [&](size_t d, int64_t by) { at += by * stride[d]; });
  }
}

}  // namespace

int npy_key_words(DType t) { return ir::is_key(t) ? ir::byte_size(t) / 4 : 0; }

std::string_view numpy_name(DType dtype) {
  for (const Name& n : kNames)
    if (n.dtype == dtype) return n.numpy;
  return ir::is_key(dtype) ? "uint32" : ir::name(dtype);
}

std::string npy_descr(DType t) {
  const int64_t bytes = file_item_bytes(t);
  const char kind = kind_of(t);
  return fmt::format("{}{}{}", bytes == 1 && kind != 'V' ? '|' : '<', kind, bytes);
}

bool npy_descr_matches(std::string_view descr, DType t) {
  if (ir::is_sync(t)) return false;
  if (descr == numpy_name(t)) return true;
  char order, kind;
  int64_t size;
  if (!split_descr(descr, &order, &kind, &size) || size != file_item_bytes(t)) return false;
  if (kind == kind_of(t)) return true;
  if (kind == 'V') return kind_of(t) == 'V' || size == 1;
  // np.save writes '<f1' for this one, which np.load refuses; we write '<V1'.
  if (t == DType::F8E5M2 && kind == 'f') return true;
  // Sub-byte integers also come as plain bytes.
  return ir::bit_width(t) < 8 && ((kind == 'i' && ir::is_signed_int(t)) || (kind == 'u' && ir::is_unsigned_int(t)));
}

NpyHeader parse_npy_header(std::string_view file, std::string_view name, const NpyLimits& limits) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (file.substr(0, kMagic.size()) != kMagic.substr(0, std::min(file.size(), kMagic.size())) || file.empty())
    fail("PS-NPY-001", "not an .npy file", name, {}, "np.save(path, array) writes one; .npz archives hold several");
  auto truncated = [&](size_t need) {
    fail("PS-NPY-002", "the file is cut off", name,
         {fmt::format("{} bytes are there, the header needs {}", file.size(), need)});
  };
  if (file.size() < 10) truncated(10);
  const int major = static_cast<unsigned char>(file[6]);
  if (major < 1 || major > 3)
    fail("PS-NPY-001", fmt::format("format version {} is unknown; 1, 2 and 3 can be read", major), name);
  const size_t prefix = major == 1 ? 10 : 12;
  if (file.size() < prefix) truncated(prefix);
  size_t length = 0;
  for (size_t i = prefix; i-- > 8;) length = length << 8 | static_cast<unsigned char>(file[i]);
  if (length > (1u << 20)) fail("PS-NPY-003", fmt::format("a header of {} bytes is refused", length), name);
  if (file.size() - prefix < length) truncated(prefix + length);

  NpyHeader h = HeaderParser(file.substr(prefix, length), name, limits.max_rank).parse();
  h.data_offset = prefix + length;
  h.item_bytes = item_bytes(h.descr, name);
  h.elements = 1;
  int64_t bytes = h.item_bytes;
  bool overflow = false, empty = false;
  for (int64_t d : h.dims) {
    empty |= d == 0;
    if (d != 0) overflow |= __builtin_mul_overflow(bytes, d, &bytes);
    overflow |= __builtin_mul_overflow(h.elements, d, &h.elements);
  }
  if (empty && !overflow) bytes = 0;
  if (overflow || bytes > limits.max_bytes) {
    fail("PS-NPY-003", "the header claims an absurd size", name,
         {fmt::format("shape ({}) of {}-byte elements", fmt::join(h.dims, ", "), h.item_bytes),
          fmt::format("at most {} bytes are read", limits.max_bytes)});
  }
  const uint64_t have = file.size() - h.data_offset;
  if (have < static_cast<uint64_t>(bytes)) {
    fail("PS-NPY-002", "the file is cut off", name,
         {fmt::format("shape ({}) of {}-byte elements needs {} bytes, {} are there", fmt::join(h.dims, ", "),
                      h.item_bytes, bytes, have)});
  }
  if (have > static_cast<uint64_t>(bytes)) {
    fail("PS-NPY-003", "the file is longer than its header says", name,
         {fmt::format("shape ({}) of {}-byte elements needs {} bytes, {} are there", fmt::join(h.dims, ", "),
                      h.item_bytes, bytes, have)});
  }
  return h;
}

std::vector<std::byte> npy_elements(std::string_view file, const NpyHeader& h, DType t) {
  static_assert(std::endian::native == std::endian::little);
  std::vector<std::byte> out(static_cast<size_t>(h.elements * h.item_bytes));
  const char* from = file.data() + h.data_offset;
  char* to = reinterpret_cast<char*>(out.data());
  if (h.fortran_order && h.dims.size() > 1) copy_fortran(from, to, h.dims, h.item_bytes, h.elements);
  else if (!out.empty()) std::memcpy(to, from, out.size());

  if (h.descr[0] == '>') {
    const size_t word = static_cast<size_t>(ir::is_complex(t) ? h.item_bytes / 2 : h.item_bytes);
    for (size_t i = 0; i + word <= out.size(); i += word) std::reverse(to + i, to + i + word);
  }
  if (t == DType::Bool) {
    for (auto& b : out) b = static_cast<std::byte>(b != std::byte{0});
  } else if (const int bits = ir::bit_width(t); bits < 8) {
    const int shift = 8 - bits;
    for (auto& b : out) {
      const auto high = static_cast<uint8_t>(static_cast<uint8_t>(b) << shift);
      b = static_cast<std::byte>(ir::is_signed_int(t) ? static_cast<int8_t>(high) >> shift : high >> shift);
    }
  }
  return out;
}

std::string npy_file(const void* data, DType t, const std::vector<int64_t>& dims) {
  std::vector<int64_t> shape = dims;
  if (int words = npy_key_words(t)) shape.push_back(words);
  int64_t elements = 1;
  for (int64_t d : shape) elements *= d;
  const size_t bytes = static_cast<size_t>(elements * file_item_bytes(t));

  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", npy_descr(t),
                                   fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const size_t prefix = header.size() > 65000 ? 12 : 10;
  header.append((64 - (prefix + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string file("\x93NUMPY");
  file += static_cast<char>(prefix == 10 ? 1 : 2);
  file += '\0';
  for (size_t i = 8; i < prefix; ++i) file += static_cast<char>(header.size() >> (8 * (i - 8)) & 0xff);
  file += header;
  const size_t at = file.size();
  file.resize(at + bytes);
  if (bytes) std::memcpy(file.data() + at, data, bytes);
  // ml_dtypes keeps the bits above a sub-byte element clear.
  if (const int bits = ir::bit_width(t); bits < 8)
    for (size_t i = at; i < file.size(); ++i) file[i] = static_cast<char>(file[i] & ((1 << bits) - 1));
  return file;
}

}  // namespace pallasim::capsule
