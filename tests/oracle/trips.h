// Trips of a parallel_loop that meet at a byte: kept by the thread that runs the loop, told of by whoever touches an
// element.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace pallasim::oracle {

class Trips {
 public:
  enum Kind : uint8_t { Read, Write, Add, Atomic };
  // A loop while it runs.
  class Loop {
   public:
    explicit Loop(Trips& t) : t_(t), outer_(here) { here = &t_, t_.open_.emplace_back(); }
    ~Loop() { t_.open_.pop_back(), here = outer_; }
    void next() { ++t_.open_.back().trip; }

   private:
    Trips& t_;
    Trips* outer_;
  };
  bool meet = false, write = false;  // two trips met; both wrote

  // What the calling thread does to `count` bytes from `at` on of memory `memory`.
  static void touch(uint64_t memory, int64_t at, int64_t count, bool writes) {
    if (here == nullptr) return;
    const Kind kind = doing != Read ? doing : writes ? Write : Read;
    for (Open& l : here->open_)
      for (int64_t b = at; b < at + count; ++b) here->see(l, l.bytes[{memory, b}], kind);
  }
  static thread_local Trips* here;
  static thread_local Kind doing;  // Add and Atomic: by what the accesses are made; else Read

  // Accesses inside are those of one operation that reads and writes.
  struct As {
    explicit As(Kind k) { doing = k; }
    ~As() { doing = Read; }
  };

  // While it lives another thread has its turn: what that one touches is no trip's of this one.
  struct Away {
    Away() { here = nullptr, doing = Read; }
    ~Away() { here = was_, doing = did_; }
    Away(const Away&) = delete;
    Away& operator=(const Away&) = delete;

   private:
    Trips* was_ = here;
    Kind did_ = doing;
  };

 private:
  struct Seen {
    int first = 0;  // trip, counted from 1
    bool several = false;
  };
  struct Open {
    int trip = 0;
    std::map<std::pair<uint64_t, int64_t>, std::array<Seen, 4>> bytes;
  };
  void see(const Open& l, std::array<Seen, 4>& seen, Kind kind) {
    for (int k = 0; k < 4; ++k) {
      const Seen& s = seen[static_cast<size_t>(k)];
      const bool other = s.first != 0 && (s.several || s.first != l.trip);
      if (!other || (k == kind && k != Write)) continue;
      meet = true;
      write = write || (k == Write && kind == Write);
    }
    Seen& own = seen[kind];
    if (own.first == 0) own.first = l.trip;
    else if (own.first != l.trip) own.several = true;
  }
  std::vector<Open> open_;
};

}  // namespace pallasim::oracle
