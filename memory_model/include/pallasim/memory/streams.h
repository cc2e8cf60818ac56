// Streams: units that take operations in order and complete them in groups. Closing a group does not wait for it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace pallasim::memory {

// Operations of a group whose reads, or writes, are not complete yet.
struct StreamGroup {
  int64_t reads = 0, writes = 0;
  bool operator==(const StreamGroup&) const = default;
};

struct Stream {
  bool in_order = false;           // operations come one behind the other (wgmma, tcgen05), not only groups
  StreamGroup open;                // that takes operations now
  std::deque<StreamGroup> closed;  // oldest first; those whose writes are complete, with all before, are gone
  int64_t committed = 0;           // groups that were closed
  int64_t waited = 0;              // groups whose reads or writes somebody waited for
  bool operator==(const Stream&) const = default;

  int64_t gone() const { return committed - static_cast<int64_t>(closed.size()); }
  // Closed groups that are not complete. Groups complete in order: one behind an incomplete one is not.
  int64_t outstanding(bool reads) const;
};

// What is left of a stream when its life ends.
struct StreamLeftOver {
  int64_t open_operations = 0;  // of a group that nobody closed: reads or writes that are not complete
  int64_t unfinished = 0;       // closed groups whose writes are not complete
  int64_t unwaited = 0;         // closed groups that nobody waited for
  bool operator==(const StreamLeftOver&) const = default;
};

// The streams of a launch, with who waits for them. Which unit has which is the caller's.
class Streams {
 public:
  explicit Streams(std::vector<Stream> streams = {}) : streams_(std::move(streams)), waiters_(streams_.size()) {}
  // All as at their start, `count` of them, in the memory of those before; from `first_in_order` on they are in order.
  void reset(size_t count, size_t first_in_order);
  size_t size() const { return streams_.size(); }
  const Stream& operator[](int64_t id) const { return streams_[static_cast<size_t>(id)]; }

  // An operation joins the open group; returns the group's number.
  int64_t issue(int64_t id);
  // Its reads are complete, or its writes, and by that its reads. Who waits is moved to `woken` if a group completed by
  // it.
  void reads_done(int64_t id, int64_t group, std::vector<int32_t>* woken);
  void writes_done(int64_t id, int64_t group, bool reads_were_done, std::vector<int32_t>* woken);
  // Closes the open group; returns its number.
  int64_t commit(int64_t id);
  // True: at most `most` closed groups are not complete, as far as reads or writes go. False: `thread` waits now.
  bool wait(int64_t id, int64_t most, bool reads, int32_t thread);
  bool has_waiters(int64_t id) const { return !waiters_[static_cast<size_t>(id)].empty(); }
  // The last group that a wait for at most `most` is about; -1: none.
  int64_t last_awaited(int64_t id, int64_t most) const;
  StreamLeftOver left_over(int64_t id) const;
  bool operator==(const Streams&) const = default;

 private:
  StreamGroup& group(int64_t id, int64_t number);
  void settle(int64_t id, std::vector<int32_t>* woken);
  std::vector<Stream> streams_;
  std::vector<std::vector<int32_t>> waiters_;
};

}  // namespace pallasim::memory
