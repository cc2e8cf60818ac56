// Which bytes of an allocation are undefined, and what made them so.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace pallasim::memory::shadow {

// What made bytes undefined: a number of whoever keeps the list. 0: they are defined.
using Birth = uint8_t;

// The elements of a view: `offset` in bytes, `dims` and `strides` in elements of `bytes`.
struct View {
  int64_t offset = 0;
  std::span<const int64_t> dims, strides;
  int64_t bytes = 1;
  int64_t elements() const;
};

// A birth per byte, kept from the first undefined byte on. Pages without an undefined byte are passed over.
class Definedness {
 public:
  bool all_defined() const { return undefined_ == 0; }
  int64_t undefined() const { return undefined_; }  // bytes
  Birth at(int64_t byte) const { return byte < std::ssize(births_) ? births_[static_cast<size_t>(byte)] : Birth{0}; }
  // The birth of the first undefined byte of [begin, end), whose place becomes `*where`; 0: there is none.
  Birth find(int64_t begin, int64_t end, int64_t* where = nullptr) const;
  Birth find(const View&) const;
  void set(int64_t begin, int64_t end, Birth);
  void set(const View&, Birth);
  // The births of the bytes of all elements, in row-major order; and back.
  void load(const View&, std::vector<Birth>* into) const;
  void store(const View&, const std::vector<Birth>& from);

 private:
  static constexpr int64_t kPage = 4096;
  void grow(int64_t end);
  void put(int64_t begin, const Birth* from, int64_t bytes);  // null: zeros
  std::vector<Birth> births_;
  std::vector<uint16_t> pages_;  // undefined bytes of each
  int64_t undefined_ = 0;
};

}  // namespace pallasim::memory::shadow
