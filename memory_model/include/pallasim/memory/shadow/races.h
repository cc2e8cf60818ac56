// Data races: two accesses to a byte, one of them a write, that nothing orders. Epochs per region as in FastTrack: of
// what was ordered only the last is remembered, so that an access to a box that was seen before costs the same however
// long the run is, and allocates nothing (single elements, of up to 32 bytes, may allocate a node of a tree). Every
// byte that has a race is found, and every pair that is reported is one; of the further pairs on such a byte some are
// not told of. Two plain writes need not be one, if they leave the same bytes: whoever can look at those may ask for
// such pairs apart (Options::apart), and both writers are remembered, for who comes later.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pallasim/memory/shadow/instance_regions.h"
#include "pallasim/memory/shadow/order.h"

namespace pallasim::memory::shadow {

// A part of an allocation of one owner, as a step or a side of an asynchronous operation touches it.
struct Access {
  Actor who = 0;                     // a thread, or Issued::reads or ::writes
  int32_t instance = 0;              // the allocation of one owner
  int64_t offset = 0;                // bytes
  const int64_t* dims = nullptr;     // elements
  const int64_t* strides = nullptr;  // elements
  int rank = 0;                      // at most kMaxRank
  int element_bytes = 1;
  bool write = false;
  bool atomic = false;         // two atomic accesses do not race
  bool proxy = false;          // by the asynchronous proxy
  int32_t site = 0;            // the caller's: step, line
  const Box* known = nullptr;  // the box of the five above, where the caller has it already
  // Such boxes at each of these offsets, as if one by one; none: one box, at `offset`.
  std::span<const int64_t> places;
  // Of one thread, two accesses that add do not race: their order is the same to the sum.
  bool adds = false;

  Box box() const { return known ? *known : Box(offset, dims, strides, rank, element_bytes); }
};

struct Party {
  int32_t thread = 0;  // issuer of the operation, if it is one
  bool asynchronous = false;
  int32_t site = 0;
  bool write = false, atomic = false;
  bool operator==(const Party&) const = default;
};

struct Race {
  // Unfenced: ordered, but the asynchronous proxy need not see the earlier write.
  enum class Kind : uint8_t { Unordered, Unfenced };
  Kind kind = Kind::Unordered;
  Party earlier, later;  // in this run
  int32_t instance = 0;
  Range bytes;  // from the first to behind the last one at which they meet
  bool operator==(const Race&) const = default;
};

class Races {
 public:
  struct Options {
    int64_t max_bytes = INT64_MAX;  // of what is remembered of accesses
    bool every = false;             // also races of a pair of sites that was told of already
    bool apart = false;             // unordered pairs of plain writes are in writes(), not in found()
    bool operator==(const Options&) const = default;
  };
  // What did not fit.
  struct Limit {
    int32_t instance = 0;  // at which
    int64_t bytes = 0, max_bytes = 0;
    bool operator==(const Limit&) const = default;
  };
  Races() = default;
  explicit Races(Options options) : options_(options) {}

  // False: the limit is reached (see limit()); nothing is looked at from now on, and the caller says so.
  bool access(Order&, const Access&);
  // Pairs of plain writes without an order that the last access met, each with the actor of the earlier one.
  const std::vector<std::pair<Race, Actor>>& writes() const { return writes_; }
  // Such a pair leaves different bytes: it is found, and false where that was told of its two sites before.
  bool differ(const Race&);
  bool told(const Race& r) const { return told_.count(key(r.kind, r.earlier.site, r.later.site)) != 0; }
  // Bytes [begin, end) of the instance are given out again: who touched them before touched something else.
  void fresh(int32_t instance, int64_t begin, int64_t end);
  void gone(int32_t instance) { regions_.gone(instance); }

  const std::vector<Race>& found() const { return found_; }
  const std::optional<Limit>& limit() const { return limit_; }
  int64_t memory() const { return regions_.memory(); }
  bool operator==(const Races&) const = default;

 private:
  struct Mark {
    Epoch at;
    int32_t site = 0;
    bool write = false, atomic = false, proxy = false, adds = false;
    int64_t since = 0;  // of reads and atomic accesses: stands for some of the actor's trips from this time on, too
    bool operator==(const Mark&) const = default;
  };
  // The last plain write, and those before it that it does not follow; reads and atomic accesses since then that are
  // not ordered among each other. By actor.
  struct State {
    Mark write;
    std::vector<Mark> writes, reads, atomics;
    int64_t heap_bytes() const {
      return static_cast<int64_t>((writes.size() + reads.size() + atomics.size()) * sizeof(Mark));
    }
    bool operator==(const State&) const = default;
  };
  struct Now;
  bool known(const State&, const Mark&) const;
  void step(const Now&, State&, Range);
  void meet(const Now&, const Mark& earlier, Range);
  void insert(const Now&, std::vector<Mark>*);
  void overwrite(const Now&, State&);
  using Key = std::tuple<Race::Kind, int32_t, int32_t>;
  static Key key(Race::Kind kind, int32_t a, int32_t b) { return {kind, std::min(a, b), std::max(a, b)}; }

  Options options_;
  InstanceRegions<State> regions_;
  std::vector<Race> found_;
  std::vector<std::pair<Race, Actor>> writes_;
  std::set<Key> told_;
  std::optional<Limit> limit_;
};

}  // namespace pallasim::memory::shadow
