// Which bytes of an allocation were written: what is read before that, and what stays as it was.
#pragma once
#include <cstdint>
#include <unordered_set>

#include "pallasim/memory/interval_set.h"
#include "pallasim/memory/shadow/box.h"

namespace pallasim::memory::shadow {

class Written {
 public:
  static constexpr Range kEverything{INT64_MIN, INT64_MAX};
  void write(const Box&);
  // Bytes [begin, end) are given out again, or get what nobody wrote.
  void clear(int64_t begin, int64_t end);
  void clear(const Box&);
  // Was any byte of it written, as far as it lies in `within`?
  bool any(const Box&, Range within = kEverything) const;
  // Elements whose first byte nobody wrote. `first`: the offset of the lowest one in bytes; -1: there is none.
  struct Missing {
    int64_t elements = 0, first = -1;
    bool operator==(const Missing&) const = default;
  };
  // The box's elements are `element_bytes` long and do not overlap each other. Those beyond `within` do not count.
  Missing missing(const Box&, int64_t element_bytes, Range within = kEverything);
  // What is written around the byte; empty: nobody wrote it.
  Range around(int64_t byte) const {
    const auto [begin, end] = bytes_.run_at(byte);
    return {begin, end};
  }
  size_t runs() const { return bytes_.runs(); }
  bool operator==(const Written& o) const { return bytes_ == o.bytes_; }

 private:
  void remember(const Box&);
  // A few runs are looked up as fast.
  static bool worth_remembering(const Box& b) { return b.rank > 1 || (b.rank == 1 && b.dims[0].count > 4); }
  bool known_full(const Box& b) const { return worth_remembering(b) && full_.count(b) != 0; }
  IntervalSet bytes_;
  std::unordered_set<Box, BoxHash> full_;  // boxes that are known to be written as a whole
};

}  // namespace pallasim::memory::shadow
