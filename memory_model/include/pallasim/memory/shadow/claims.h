// Units of a grid that share elements: of those that claim to run at once no two may use an element that one of them
// writes.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "pallasim/memory/shadow/races.h"

namespace pallasim::memory::shadow {

// Two units at one element.
struct Shared {
  struct Use {
    int64_t unit = -1;
    int32_t site = 0;
    bool operator==(const Use&) const = default;
  };
  Use earlier, later;  // in this run
  bool earlier_wrote = false, later_wrote = false;
  bool carries = false;  // the later one reads what another unit was the last to write
  int32_t instance = 0;
  Range bytes;  // from the first to behind the last at which they meet
  bool operator==(const Shared&) const = default;
};

class Claims {
 public:
  // `apart`: two plain writes of units are in writes(), not in found(): they may leave the same bytes.
  explicit Claims(int64_t max_bytes = INT64_MAX, bool apart = false) : max_bytes_(max_bytes), apart_(apart) {}
  // `unit`: coordinates on the axes of the claim, as one number from 0 on. `kept`: memory of which every worker has its
  // own, so that only a value which one unit finds and another one left there matters. Access::who and ::proxy are not
  // looked at. False: the limit is reached (see limit()); nothing is looked at from now on, and the caller says so.
  bool access(int64_t unit, const Access&, bool kept = false);
  void fresh(int32_t instance, int64_t begin, int64_t end);
  // Once per instance and pair of sites, and once more where a value is carried.
  const std::vector<Shared>& found() const { return found_; }
  const std::vector<Shared>& writes() const { return writes_; }  // of the last access
  const std::optional<Races::Limit>& limit() const { return limit_; }
  int64_t memory() const { return regions_.memory(); }
  bool operator==(const Claims&) const = default;

 private:
  // The last user, and the last one of another unit: whoever comes, there is one of another unit if there ever was.
  struct Users {
    Shared::Use last, other;
    void add(Shared::Use);
    const Shared::Use* not_of(int64_t unit) const;
    bool operator==(const Users&) const = default;
  };
  struct State {
    Users writers, readers, atomic_writers, atomic_readers;
    int64_t heap_bytes() const { return 0; }
    bool operator==(const State&) const = default;
  };
  void step(int64_t unit, const Access&, bool kept, State&, Range);
  int64_t max_bytes_;
  bool apart_;
  InstanceRegions<State> regions_;
  std::vector<Shared> found_, writes_;
  std::set<std::tuple<int32_t, int32_t, int32_t, bool>> told_;
  std::optional<Races::Limit> limit_;
};

}  // namespace pallasim::memory::shadow
