// A list that mostly has one member, which needs no memory of its own.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace pallasim::memory {

template <typename T>
class Few {
 public:
  Few() = default;
  Few(std::initializer_list<T> all) {
    for (const T& one : all) add(one);
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return i == 0 ? first_ : more_[i - 1]; }
  const T& operator[](size_t i) const { return i == 0 ? first_ : more_[i - 1]; }
  T& front() { return first_; }
  const T& front() const { return first_; }
  const T& back() const { return (*this)[size_ - 1]; }
  // Another one, as it is made.
  T& add() { return size_++ == 0 ? first_ : more_.emplace_back(); }
  void add(const T& one) { add() = one; }
  void clear() { size_ = 0, more_.clear(); }
  template <typename F>
  bool any(const F& is) const {
    for (const T& one : *this)
      if (is(one)) return true;
    return false;
  }
  bool operator==(const Few& o) const {
    return size_ == o.size_ && (size_ == 0 || first_ == o.first_) && more_ == o.more_;
  }

  template <typename List, typename Member>
  struct Iterator {
    List* of;
    size_t at;
    Member& operator*() const { return (*of)[at]; }
    Iterator& operator++() { return ++at, *this; }
    bool operator==(const Iterator&) const = default;
  };
  auto begin() { return Iterator<Few, T>{this, 0}; }
  auto end() { return Iterator<Few, T>{this, size_}; }
  auto begin() const { return Iterator<const Few, const T>{this, 0}; }
  auto end() const { return Iterator<const Few, const T>{this, size_}; }

 private:
  size_t size_ = 0;
  T first_;
  std::vector<T> more_;
};

}  // namespace pallasim::memory
