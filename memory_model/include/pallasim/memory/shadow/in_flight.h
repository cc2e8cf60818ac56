// Accesses to memory that an asynchronous operation in flight uses: what it writes nobody may touch, and what it reads
// nobody may change, before its completion was awaited. This also judges one thread by itself, where `races` needs an
// order.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "pallasim/memory/async.h"
#include "pallasim/memory/shadow/races.h"

namespace pallasim::memory::shadow {

// A side of an operation: bytes of an instance.
struct FlightSide {
  int32_t instance = 0;
  Box box;
  bool write = false;
  std::vector<int64_t> places;  // ascending, of many such boxes; none: the one
  Range hull() const;
  bool meets(const Box&) const;
  bool operator==(const FlightSide&) const = default;
};

// What must be awaited before a side is free.
struct Owed {
  Completion::Kind kind = Completion::Kind::Semaphore;
  int64_t object = -1;         // semaphore, barrier or stream
  int64_t units = 1;           // of a semaphore that waits must take; otherwise 1
  int64_t number = INT64_MAX;  // of the phase or group whose end frees it; not known yet: INT64_MAX
  bool operator==(const Owed&) const = default;
};

struct Flight {
  int32_t site = 0;  // where it was issued
  std::vector<FlightSide> sides;
  std::vector<Owed> after_read, after_write;  // nothing after read: what it reads is free with what it writes
  bool of_rows = false;                       // it may fall apart: its rows arrive one by one
  bool operator==(const Flight&) const = default;
};

struct InFlightUse {
  int64_t operation = 0;
  int32_t issued = 0;  // site
  Party access;
  bool writes = false;  // the side that is met: the operation writes it
  int64_t owed = 0;     // units that are not awaited: bytes where the semaphore counts bytes
  int32_t instance = 0;
  Range bytes;         // of the access, from the first to behind the last
  bool freed = false;  // no access (`access` is the operation itself): the bytes are given back
  Completion::Kind awaits = Completion::Kind::Semaphore;  // what the side's user has to wait for
  // Another operation, still in flight, that may have ended the wait for this one: the semaphore of both counted as
  // many units of it. -1: this one is not awaited at all.
  int64_t instead = -1;
  bool operator==(const InFlightUse&) const = default;
};

class InFlight {
 public:
  // Operations are issued in the order of their ids.
  void start(int64_t id, Flight flight);
  // A wait took units of a semaphore: they are those of the oldest operations that owe it. While another one owes it as
  // many, nobody knows whose they were.
  void taken(int64_t semaphore, int64_t units);
  // Those of several rows of which this wait takes some rows' units, or all while others still owe some: which rows'
  // they were matters. They are to fall_apart() first.
  std::vector<int64_t> taken_apart(int64_t semaphore, int64_t units) const;
  // It is these from now on, by the ids behind its own.
  void fall_apart(int64_t id, std::vector<Flight>);
  // The bytes or arrivals that the operation owes a barrier counted in this phase.
  void counted(int64_t id, int64_t barrier, int64_t phase);
  // Somebody saw the end of a barrier's phase: it and those before are awaited. Of a stream: groups up to this one, as
  // far as their reads or (by that, too) their writes go.
  void saw_phase(int64_t barrier, int64_t phase);
  void saw_groups(int64_t stream, int64_t last, bool reads);
  // The operation is over for a reason of its own, such as the end of a scope.
  void over(int64_t id);
  // The thread gives bytes [begin, end) of the instance back: an operation that still uses them is found, and what
  // comes to lie there is not its business.
  void freed(int32_t instance, int64_t begin, int64_t end, int32_t thread);
  // The thread, which issued it, ends: nobody else can await its groups, and what they read goes with the thread.
  void abandoned(int64_t id, int32_t thread);
  // `thread`: who accesses, or issued the operation that does.
  void access(const Access&, int32_t thread);
  bool empty() const { return flights_.empty(); }
  size_t size() const { return flights_.size(); }
  const std::vector<InFlightUse>& found() const { return found_; }
  bool operator==(const InFlight&) const = default;

 private:
  // An operation that uses an instance, and what tells that an access cannot meet it.
  struct User {
    int64_t id = 0;
    Range hull;  // of its sides there
    bool writes = false;
    bool operator==(const User&) const = default;
  };
  static User user(int64_t id, const Flight&, int32_t instance);
  void free_what_is_awaited();
  void doubt(int64_t semaphore, int64_t id, int64_t units);
  void look_at_doubts(const Access&, const Box&, int32_t thread);
  void access(const Access&, const Box&, int32_t thread);
  void remove(int64_t id);
  // Awaited, unless the units were those of one of the others: who still owes them the semaphore, up to this id.
  struct Doubt {
    Flight flight;
    int64_t semaphore = 0, last = 0;
    bool operator==(const Doubt&) const = default;
  };
  // Who owes units of a semaphore, the oldest first.
  struct Debts {
    std::set<int64_t> any, after_write;
    int64_t units = 0;           // after_write
    std::deque<int64_t> doubts;  // of waits for it, in their order
    bool operator==(const Debts&) const = default;
  };
  void end_doubts(Debts&);
  std::map<int64_t, Flight> flights_;
  std::map<int64_t, Doubt> doubts_;
  std::unordered_map<int32_t, int64_t> doubted_sides_;    // by instance: how many
  std::unordered_map<int64_t, Debts> debts_;              // by semaphore
  std::unordered_map<int32_t, std::vector<User>> users_;  // by instance
  std::vector<int64_t> owe_nothing_;                      // from the start
  int64_t of_rows_ = 0;                                   // so many flights
  std::vector<InFlightUse> found_;
  std::set<std::pair<int32_t, int32_t>> told_, doubted_;  // sites
};

}  // namespace pallasim::memory::shadow
