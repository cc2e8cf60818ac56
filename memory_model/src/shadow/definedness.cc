#include "pallasim/memory/shadow/definedness.h"

#include <algorithm>
#include <cstring>

#include "pallasim/memory/odometer.h"

namespace pallasim::memory::shadow {
namespace {

int64_t count_undefined(const Birth* at, int64_t n) { return n - std::count(at, at + n, Birth{0}); }

// f(offset of a run of bytes, how many), in row-major order, until it returns false.
template <typename F>
void for_runs(const View& v, const F& f) {
  memory::for_runs(v.dims.data(), v.strides.data(), static_cast<int>(v.dims.size()), static_cast<int>(v.bytes),
                   [&](int64_t at, int64_t n) { return f(v.offset + at, n); });
}

}  // namespace

int64_t View::elements() const {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

Birth Definedness::find(int64_t begin, int64_t end, int64_t* where) const {
  if (undefined_ == 0) return 0;
  end = std::min(end, std::ssize(births_));
  for (int64_t at = begin; at < end;) {
    const int64_t stop = std::min(end, (at / kPage + 1) * kPage);
    if (pages_[static_cast<size_t>(at / kPage)] != 0) {
      const Birth* const last = births_.data() + stop;
      const Birth* const b = std::find_if(births_.data() + at, last, [](Birth x) { return x != 0; });
      if (b != last) {
        if (where) *where = b - births_.data();
        return *b;
      }
    }
    at = stop;
  }
  return 0;
}

Birth Definedness::find(const View& v) const {
  Birth r = 0;
  if (undefined_ == 0) return r;
  for_runs(v, [&](int64_t at, int64_t n) {
    r = find(at, at + n);
    return r == 0;
  });
  return r;
}

void Definedness::grow(int64_t end) {
  if (end <= std::ssize(births_)) return;
  births_.resize(static_cast<size_t>((end + kPage - 1) / kPage * kPage));
  pages_.resize(births_.size() / kPage);
}

void Definedness::put(int64_t begin, const Birth* from, int64_t bytes) {
  if (!from) bytes = std::min(bytes, std::ssize(births_) - begin);
  else grow(begin + bytes);
  for (int64_t at = begin, end = begin + bytes; at < end;) {
    const int64_t n = std::min(end, (at / kPage + 1) * kPage) - at;
    uint16_t& page = pages_[static_cast<size_t>(at / kPage)];
    Birth* const to = births_.data() + at;
    const int64_t before = page == 0 ? 0 : n == kPage ? page : count_undefined(to, n);
    if (from) std::memcpy(to, from + (at - begin), static_cast<size_t>(n));
    else if (before != 0) std::memset(to, 0, static_cast<size_t>(n));
    const int64_t now = from ? count_undefined(to, n) : 0;
    page = static_cast<uint16_t>(page + now - before);
    undefined_ += now - before;
    at += n;
  }
}

void Definedness::set(int64_t begin, int64_t end, Birth birth) {
  if (begin >= end) return;
  if (birth == 0) {
    if (undefined_ != 0) put(begin, nullptr, end - begin);
    return;
  }
  const std::vector<Birth> same(static_cast<size_t>(std::min(end - begin, kPage)), birth);
  for (int64_t at = begin; at < end; at += kPage) put(at, same.data(), std::min(kPage, end - at));
}

void Definedness::set(const View& v, Birth birth) {
  if (birth == 0 && undefined_ == 0) return;
  for_runs(v, [&](int64_t at, int64_t n) {
    set(at, at + n, birth);
    return true;
  });
}

void Definedness::load(const View& v, std::vector<Birth>* into) const {
  into->assign(static_cast<size_t>(v.elements() * v.bytes), 0);
  Birth* to = into->data();
  for_runs(v, [&](int64_t at, int64_t n) {
    const int64_t kept = std::min(n, std::ssize(births_) - at);
    if (kept > 0) std::memcpy(to, births_.data() + at, static_cast<size_t>(kept));
    to += n;
    return true;
  });
}

void Definedness::store(const View& v, const std::vector<Birth>& from) {
  const Birth* next = from.data();
  for_runs(v, [&](int64_t at, int64_t n) {
    put(at, next, n);
    next += n;
    return true;
  });
}

}  // namespace pallasim::memory::shadow
