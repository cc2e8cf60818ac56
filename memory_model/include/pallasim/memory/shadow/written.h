// Which bytes of an allocation were written: what is read before that, and what stays as it was.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_set>
#include <utility>

#include "pallasim/memory/interval_set.h"
#include "pallasim/memory/shadow/box.h"
#include "pallasim/memory/shadow/byte_pages.h"

namespace pallasim::memory::shadow {

class Written {
 public:
  static constexpr Range kEverything{INT64_MIN, INT64_MAX};
  void write(const Box&);
  void write(int64_t begin, int64_t end) { bytes_.add(begin, end); }
  // The same for such a box at each of the places. Few bytes are kept by byte until their page is full.
  void write(const Box& form, std::span<const int64_t> places);
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
    std::pair<int64_t, int64_t> run = bytes_.run_at(byte);
    if (run.second <= byte)
      single_.for_runs(byte, byte + BytePages::kBytes, [&](int64_t begin, int64_t end) {
        if (begin == byte) run = {begin, end};
        return false;
      });
    return {run.first, run.second};
  }
  size_t runs() const { return bytes_.runs(); }
  bool operator==(const Written& o) const { return bytes_ == o.bytes_ && single_ == o.single_; }

 private:
  void remember(const Box&);
  // A few runs are looked up as fast.
  static bool worth_remembering(const Box& b) { return b.rank > 1 || (b.rank == 1 && b.dims[0].count > 4); }
  bool known_full(const Box& b) const { return worth_remembering(b) && full_.count(b) != 0; }
  IntervalSet bytes_;
  BytePages single_;                       // further ones
  std::unordered_set<Box, BoxHash> full_;  // boxes that are known to be written as a whole
};

}  // namespace pallasim::memory::shadow
