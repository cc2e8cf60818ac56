// Which bytes of an allocation are undefined, and what made them so.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
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

// Births of the bytes, or of the elements, of something, in row-major order; empty: all of them are defined.
using Births = std::vector<Birth>;

// A birth per byte. Pages whose bytes have one birth, or are defined, keep no bytes.
class Definedness {
 public:
  bool all_defined() const { return undefined_ == 0; }
  int64_t undefined() const { return undefined_; }  // bytes
  Birth at(int64_t byte) const;
  // The birth of the first undefined byte of [begin, end), whose place becomes `*where`; 0: there is none.
  Birth find(int64_t begin, int64_t end, int64_t* where = nullptr) const;
  Birth find(const View&) const;
  void set(int64_t begin, int64_t end, Birth);
  void set(const View&, Birth);
  // The births of the bytes of all elements; and back.
  void load(const View&, Births* into) const;
  void store(const View&, const Births& from);
  // The same of bytes that follow each other.
  void load(int64_t begin, int64_t bytes, Birth* into) const;
  void store(int64_t begin, int64_t bytes, const Birth* from) { put(begin, from, 0, bytes); }

 private:
  static constexpr int64_t kPage = 1024;
  using Bytes = std::array<Birth, kPage>;
  struct Page {
    int32_t bytes = -1;      // which of `bytes_`; -1: all are `all`
    uint16_t undefined = 0;  // how many
    Birth all = 0;
  };
  void put(int64_t begin, const Birth* from, Birth same, int64_t bytes);  // `from` null: `same` each
  Bytes& bytes_of(Page&);
  void unify(Page&, Birth);
  std::vector<Page> pages_;
  std::deque<Bytes> bytes_;
  std::vector<int32_t> free_;  // of `bytes_`
  int64_t undefined_ = 0;
};

}  // namespace pallasim::memory::shadow
