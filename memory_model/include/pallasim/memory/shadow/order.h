// Who has to come before whom: happens-before among threads and asynchronous operations, as signals, barriers, groups
// and fences make it. Plain data: a copy is a snapshot.
//
// Program order orders what one thread does. Beyond that:
// * Semaphore. Units stand in the order in which they were signalled, and are taken from the front. Who takes n units
//   is ordered after the signallers of just these n; a look for `value` (a wait that takes nothing) after those of the
//   first `value` units that are there. A unit that no wait needed orders nobody.
//   - Units that asynchronous operations add (`whole`) say that a part of the bytes came; that the operation is
//   complete
//     is known to who takes, or looks at, the last of them.
//   - A signal of n < 0 takes -n units as a wait would (the signaller is ordered after them); units it finds no more of
//     are owed, and who takes anything later is also ordered after the units that paid.
//   - Why no false race: put the steps of a run in any other order that keeps program order and this one. A take still
//     finds its own units, since they come before it and everybody else takes other ones. So this order can happen, and
//     in one such order two accesses that are not ordered stand side by side. (A look can find that another took what
//     it looked for: then that program can hang.)
//   - Why none is missed that the rule can know of: units are alike, so which of two signallers woke a waiter is the
//     schedule's choice. The rule orders the waiter after the one of this run, and after no other; what follows from
//     another choice is for another schedule to find. A sum over all that was ever signalled would order the waiter
//     after signallers it did not wait for.
// * Barrier. Who sees the end of phase p is ordered after all arrivals at p, and after operations whose bytes it got.
// * Stream. An operation of an ordered stream comes after its predecessor; what arrives at a barrier when all of them
//   are complete is one more operation, which reads and writes nothing. Who waits for a group is ordered after the
//   operations of this group and of those before, as far as their reads or their writes go.
// * Tensor pipe. Operations complete in any order, whoever issued them. Products alone come behind something: behind
//   copies into tensor memory, and products into the same sums, if their issuer knows that these were issued: it did so
//   itself, or was told at a barrier that orders the tensor pipe's work.
// * Asynchronous operation. It comes after its issue and before nothing; what its completion releases carries what it
//   read or wrote. Reads may be complete before writes: two actors. An actor serves again for an operation that is
//   ordered after its last one, so that clocks grow with operations in flight, not with operations.
// * Trips. Of a loop whose trips have no order among each other, what one trip does comes after what was before the
// loop,
//   and neither before nor after what another trip does, unless synchronisation says so. (A copy that a trip starts,
//   and what somebody awaits of a trip, count as behind the trips before it: races of these are not found.)
// * Asynchronous proxy. A write of the generic proxy is visible to an operation of the asynchronous proxy if a fence
//   lies between: after the write, before the issue, by whichever thread. Otherwise being ordered is not enough.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "pallasim/memory/async.h"
#include "pallasim/memory/shadow/clocks.h"

namespace pallasim::memory::shadow {

// The sides of an asynchronous operation.
struct Issued {
  Actor reads = 0, writes = 0;  // equal where reads do not complete by themselves
  bool operator==(const Issued&) const = default;
};

// A thread id stands for one program: who reuses the arena of an ended one is another thread. Threads need no
// announcement.
class Order {
 public:
  explicit Order(bool proxies = false) : proxies_(proxies) {}
  bool proxies() const { return proxies_; }

  // The moment of an access that the actor makes now.
  Epoch now(Actor);
  // Is what happened at `e` before what `who` does now? `fenced`: and visible to the asynchronous proxy.
  bool ordered(Epoch e, Actor who, bool fenced = false) const;
  int32_t thread_of(Actor) const;  // itself, or the issuer

  // A loop without an order of its trips begins, or its next trip (the first one, too), or it is over; they nest.
  void begin_trips(int32_t thread);
  void next_trip(int32_t thread);
  void end_trips(int32_t thread);

  void spawn(int32_t parent, int32_t child);
  void join(int32_t waiter, int32_t child);  // the child ended

  // Semaphores, by the caller's ids. `who` is a thread, or a side of an operation that is complete.
  void signal(Actor who, int64_t semaphore, int64_t units, bool whole = false);
  void take(int32_t thread, int64_t semaphore, int64_t units);
  void look(int32_t thread, int64_t semaphore, int64_t value);
  void preset(int64_t semaphore, int64_t units);  // that are there from the start: they order nobody
  void clear(int64_t semaphore);                  // its units are gone

  // Barriers. `phase`: that ended, counted from 0; who waits for phase p calls passed(…, p). `tensor`: the barrier
  // orders what the tensor pipe is told.
  void arrive(Actor who, int64_t barrier, bool tensor = false);
  void end_phase(int64_t barrier);
  void passed(int32_t thread, int64_t barrier, int64_t phase);
  void renew(int64_t barrier);  // its phases are gone: the next one is 0
  // Who saw the end of the phase before the one that ends now (ask before end_phase), while none of the arrivals that
  // end this one has to come after that: another schedule ends both before the thread looks.
  std::vector<int32_t> may_miss(int64_t barrier) const;

  // Asynchronous operations. `stream` -1: none. `two_sided`: reads complete by themselves. `sums`: of a piped one, what
  // is the same where they are. A side releases all that its completion releases before anybody waits for any of it:
  // then its actor may serve again.
  using Sums = std::vector<int64_t>;
  Issued issue(int32_t thread, int64_t stream = -1, StreamOrder = StreamOrder::unordered, bool two_sided = false,
               const Sums& sums = {});
  void commit(int64_t stream);
  // At most `outstanding` groups are left: the thread knows of the others' reads, or writes. Of groups before the last
  // 256 only their sum is kept.
  void wait_group(int32_t thread, int64_t stream, int64_t outstanding, bool reads);
  void fence(int32_t thread);

  // What the tensor pipe was told, as products come behind it: what is known when it is complete.
  struct Told {
    struct Done {
      Clock all, fenced;
      void join(const Done& o) { all.join(o.all), fenced.join(o.fenced); }
      bool operator==(const Done&) const = default;
    };
    Done copies;
    std::map<Sums, Done> products;
    void join(const Told&);
    bool operator==(const Told&) const = default;
  };
  // What somebody knows of what others have done, and of that what the asynchronous proxy sees; and of what the tensor
  // pipe was told, complete or not (null: nothing).
  struct Knowledge {
    Clock all, fenced;
    std::shared_ptr<const Told> told;
    void join(const Knowledge&);
    void raise(Epoch e) { all.raise(e); }
    bool operator==(const Knowledge&) const;
  };
  // For places in memory that order who meets there by atomic operations; who asks keeps what each place knows.
  // All that the thread knows, what it did itself included: what it is about to release; and then it is released.
  Knowledge known(int32_t thread);
  void released(int32_t thread) { this->thread(thread).released = true; }
  void acquired(int32_t thread, const Knowledge& k) { this->thread(thread).knows.join(k); }

  int64_t memory() const;  // bytes, about; walks over everything
  bool operator==(const Order&) const = default;

 private:
  struct Trips {
    int64_t since = 0, trip = 0;  // when the loop began, and the trip
    bool operator==(const Trips&) const = default;
  };
  struct Thread {
    Knowledge knows;  // of others
    int64_t time = 1;
    bool released = false;     // at `time`: what comes next is later
    std::deque<Actor> lines;   // of its operations, the oldest first
    std::vector<Trips> trips;  // of the loops that it is in, the innermost last
    bool operator==(const Thread&) const = default;
  };
  struct Line {
    Knowledge knows;  // of its last operation, itself included
    int64_t time = 0;
    int32_t issuer = 0;
    bool operator==(const Line&) const = default;
  };
  struct Units {
    Knowledge by;
    int64_t left;
    bool whole;
    bool operator==(const Units&) const = default;
  };
  struct Semaphore {
    std::deque<Units> units;
    Knowledge paid;  // units that an earlier negative signal took
    int64_t owed = 0;
    bool operator==(const Semaphore&) const = default;
  };
  struct Looked {
    int32_t thread = 0;
    int64_t phase = 0;
    Epoch at;  // when it saw its end
    bool operator==(const Looked&) const = default;
  };
  struct Barrier {
    Knowledge arriving;
    std::vector<Looked> looked;   // the last phase of each thread
    std::deque<Knowledge> ended;  // phases first, first + 1, …
    int64_t first = 0;
    bool operator==(const Barrier&) const = default;
  };
  struct Group {
    Knowledge reads, writes;
    bool operator==(const Group&) const = default;
  };
  struct Stream {
    Group so_far;              // all operations
    std::deque<Group> closed;  // each with those before
    Group retired;             // of groups that nobody asks for any more
    bool operator==(const Stream&) const = default;
  };
  Thread& thread(int32_t);
  Knowledge release(Actor);
  Actor line(int32_t thread, const Knowledge& at_issue);
  void take_units(Semaphore*, int64_t units, Knowledge*);
  static void tell(Knowledge*, StreamOrder, const Sums&, const Knowledge& done);
  static bool in_another_trip(const Thread&, int64_t time);

  bool proxies_;
  std::vector<Thread> threads_;
  std::vector<Line> lines_;  // actor -1 - index
  std::unordered_map<int64_t, Semaphore> semaphores_;
  std::unordered_map<int64_t, Barrier> barriers_;
  std::unordered_map<int64_t, Stream> streams_;
};

}  // namespace pallasim::memory::shadow
