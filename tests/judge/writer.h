// Random choices, types and the text of a module under construction.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "pallasim/ir/dtype.h"

namespace pallasim::judge {

using ir::DType;
using Dims = std::vector<int64_t>;

// splitmix64: the same sequence on every machine, unlike the distributions of <random>.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 0x1234567) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return n <= 1 ? 0 : static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  int64_t in(int64_t lo, int64_t hi) { return lo + below(hi - lo + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <typename T>
  T of(std::initializer_list<T> l) {
    return *(l.begin() + below(static_cast<int64_t>(l.size())));
  }
  template <typename C>
  auto& of(C& c) {
    return c[static_cast<size_t>(below(static_cast<int64_t>(c.size())))];
  }
  std::vector<int64_t> permutation(int64_t n);

 private:
  uint64_t state_;
};

struct Type {
  DType dtype = DType::F32;
  Dims dims;
  bool operator==(const Type&) const = default;
  bool scalar() const { return dims.empty(); }
  int64_t size() const;
};
std::string str(const Type&);
std::string str(const Dims&);  // 3, 4
std::string ref_type(const Type&, const std::string& space);
std::string name(int id);  // %7
std::string names(const std::vector<int>& ids);
// The bits of a number in a type, as the text has them: f32 0x3f800000.
std::string literal(DType, double value);
std::string dense(const Type&, const std::vector<double>& values);
std::vector<std::byte> encode(DType, const std::vector<double>& values);

// Operations of one graph, indented by region. Numbers need not ascend: the parser takes any.
class Writer {
 public:
  int fresh() { return next_++; }
  void line(const std::string& s) { text_ += std::string(static_cast<size_t>(depth_) * 2, ' ') + s + "\n"; }
  // `rest` is the operation with operands and attributes; returns the number of its result.
  int op(const std::string& rest, const std::string& type);
  void open(const std::string& s) { line(s), ++depth_; }
  void between(const std::string& s) { --depth_, line(s), ++depth_; }
  void close(const std::string& s) { --depth_, line(s); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int next_ = 0, depth_ = 1;
};

}  // namespace pallasim::judge
