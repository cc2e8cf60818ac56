// Vector clocks for any number of threads: what somebody knows of what others have done.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

namespace pallasim::memory::shadow {

// A thread (>= 0), or a line of asynchronous operations that follow each other (< 0).
using Actor = int32_t;

// A moment of an actor. Time 0: never.
struct Epoch {
  Actor actor = 0;
  int64_t time = 0;
  bool operator==(const Epoch&) const = default;
};

// Per actor the last moment known. Sparse: who is not named is known of nothing. Clocks that came out of one another,
// such as those of all who left a barrier, share what they have in common, so that n threads do not hold n times n
// entries.
class Clock {
 public:
  int64_t at(Actor) const;
  bool knows(Epoch e) const { return at(e.actor) >= e.time; }
  // Knows the epoch from now on.
  void raise(Epoch);
  void join(const Clock&);
  // Before many take copies: they share what this one knows.
  void share();
  // The same, where that is much.
  void share_many() {
    constexpr size_t kMany = 8;
    if (own_.size() > kMany) share();
  }
  size_t size() const;
  // Bytes of its own; what it shares with others is not in it.
  int64_t own_bytes() const { return static_cast<int64_t>(own_.capacity() * sizeof(Epoch)); }
  bool operator==(const Clock&) const;
  // Memory in bytes, about; what clocks share counts once per `seen`.
  int64_t memory(std::unordered_set<const void*>* seen) const;

 private:
  using Entries = std::vector<Epoch>;  // by actor
  Entries all() const;
  void set_own(Epoch, int64_t before);  // later than what is known; `before`: at()
  bool covers(const Clock&) const;
  bool covers(const Entries&) const;
  bool covers_base_of(const Clock&) const;
  void settle();
  std::shared_ptr<const Entries> base_;
  std::weak_ptr<const Entries> covered_;  // one of before, which is known as a whole
  Entries own_;                           // where it differs from the base
  uint64_t mixed_ = 0;                    // of all entries; equal clocks have the same
};

}  // namespace pallasim::memory::shadow
