#include "pallasim/memory/shadow/definedness.h"

#include <algorithm>
#include <cstring>

#include "pallasim/memory/odometer.h"

namespace pallasim::memory::shadow {
namespace {

// Eight bytes at a time.
uint64_t word(const Birth* at) {
  uint64_t w = 0;
  std::memcpy(&w, at, sizeof w);
  return w;
}

int64_t count_undefined(const Birth* at, int64_t n) {
  constexpr uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  int64_t r = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    const uint64_t w = word(at + i);
    const uint64_t highest = (((w & kLow) + kLow) | w) & ~kLow;  // bit of each byte that is not 0
    r += static_cast<int64_t>((highest >> 7) * 0x0101010101010101 >> 56);
  }
  for (; i < n; ++i) r += at[i] != 0;
  return r;
}

const Birth* find_undefined(const Birth* at, const Birth* end) {
  while (end - at >= 8 && word(at) == 0) at += 8;
  return std::find_if(at, end, [](Birth x) { return x != 0; });
}

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

Birth Definedness::at(int64_t byte) const {
  const auto page = static_cast<size_t>(byte / kPage);
  if (page >= pages_.size()) return 0;
  const Page& p = pages_[page];
  return p.bytes < 0 ? p.all : bytes_[static_cast<size_t>(p.bytes)][static_cast<size_t>(byte % kPage)];
}

Birth Definedness::find(int64_t begin, int64_t end, int64_t* where) const {
  if (undefined_ == 0) return 0;
  end = std::min(end, std::ssize(pages_) * kPage);
  for (int64_t at = begin; at < end;) {
    const int64_t stop = std::min(end, (at / kPage + 1) * kPage);
    const Page& p = pages_[static_cast<size_t>(at / kPage)];
    if (p.undefined != 0) {
      if (p.bytes < 0) {
        if (where) *where = at;
        return p.all;
      }
      const Birth *const from = bytes_[static_cast<size_t>(p.bytes)].data() + at % kPage, *const to =
                                                                                              from + (stop - at);
      const Birth* const b = find_undefined(from, to);
      if (b != to) {
        if (where) *where = at + (b - from);
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

Definedness::Bytes& Definedness::bytes_of(Page& p) {
  if (p.bytes >= 0) return bytes_[static_cast<size_t>(p.bytes)];
  if (free_.empty()) {
    p.bytes = static_cast<int32_t>(bytes_.size());
    bytes_.emplace_back();
  } else {
    p.bytes = free_.back();
    free_.pop_back();
  }
  Bytes& r = bytes_[static_cast<size_t>(p.bytes)];
  r.fill(p.all);
  return r;
}

void Definedness::unify(Page& p, Birth all) {
  if (p.bytes >= 0) free_.push_back(p.bytes);
  p = {-1, static_cast<uint16_t>(all == 0 ? 0 : kPage), all};
}

void Definedness::put(int64_t begin, const Birth* from, Birth same, int64_t bytes) {
  const bool defines = !from && same == 0;
  if (const int64_t end = begin + bytes; !defines && end > std::ssize(pages_) * kPage)
    pages_.resize(static_cast<size_t>((end + kPage - 1) / kPage));
  const int64_t end = std::min(begin + bytes, std::ssize(pages_) * kPage);
  for (int64_t at = begin; at < end;) {
    const int64_t n = std::min(end, (at / kPage + 1) * kPage) - at;
    Page& p = pages_[static_cast<size_t>(at / kPage)];
    const Birth* const these = from ? from + (at - begin) : nullptr;
    undefined_ -= p.undefined;
    if (n == kPage && !from) {
      unify(p, same);
    } else if (from || p.bytes >= 0 || p.all != same) {
      Bytes& all = bytes_of(p);
      Birth* const to = all.data() + at % kPage;
      const int64_t before = p.undefined == 0 ? 0 : count_undefined(to, n);
      if (these) std::memcpy(to, these, static_cast<size_t>(n));
      else std::memset(to, same, static_cast<size_t>(n));
      const int64_t now = these ? count_undefined(to, n) : same != 0 ? n : 0;
      p.undefined = static_cast<uint16_t>(p.undefined + now - before);
      if (p.undefined == 0) unify(p, 0);
    }
    undefined_ += p.undefined;
    at += n;
  }
}

void Definedness::set(int64_t begin, int64_t end, Birth birth) {
  if (begin < end && (birth != 0 || undefined_ != 0)) put(begin, nullptr, birth, end - begin);
}

void Definedness::set(const View& v, Birth birth) {
  if (birth == 0 && undefined_ == 0) return;
  for_runs(v, [&](int64_t at, int64_t n) {
    put(at, nullptr, birth, n);
    return birth != 0 || undefined_ != 0;
  });
}

void Definedness::load(int64_t begin, int64_t bytes, Birth* to) const {
  const int64_t end = std::min(begin + bytes, std::ssize(pages_) * kPage);
  for (int64_t at = begin; at < end;) {
    const auto n = static_cast<size_t>(std::min(end, (at / kPage + 1) * kPage) - at);
    const Page& p = pages_[static_cast<size_t>(at / kPage)];
    if (p.bytes >= 0) std::memcpy(to, bytes_[static_cast<size_t>(p.bytes)].data() + at % kPage, n);
    else std::memset(to, p.all, n);
    to += n;
    at += static_cast<int64_t>(n);
  }
  if (bytes > 0 && end < begin + bytes) std::memset(to, 0, static_cast<size_t>(begin + bytes - std::max(begin, end)));
}

void Definedness::load(const View& v, Births* into) const {
  into->clear();
  if (find(v) == 0) return;
  into->resize(static_cast<size_t>(v.elements() * v.bytes));
  Birth* to = into->data();
  for_runs(v, [&](int64_t at, int64_t n) {
    load(at, n, to);
    to += n;
    return true;
  });
}

void Definedness::store(const View& v, const Births& from) {
  if (from.empty()) return set(v, 0);
  const Birth* next = from.data();
  for_runs(v, [&](int64_t at, int64_t n) {
    put(at, next, 0, n);
    next += n;
    return true;
  });
}

}  // namespace pallasim::memory::shadow
