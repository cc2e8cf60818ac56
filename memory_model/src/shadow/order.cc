#include "pallasim/memory/shadow/order.h"

#include <algorithm>

namespace pallasim::memory::shadow {
namespace {
constexpr size_t kGroups = 256;

// Of the barrier's phases that a waiter may still ask for. A waiter so far behind is a finding of the barrier itself.
constexpr size_t kPhases = 64;
}  // namespace

void Order::Told::join(const Told& o) {
  copies.join(o.copies);
  for (const auto& [sums, done] : o.products) products[sums].join(done);
}

void Order::Knowledge::join(const Knowledge& o) {
  all.join(o.all), fenced.join(o.fenced);
  if (!o.told || told == o.told) return;
  if (!told || *told == *o.told) {
    told = o.told;
    return;
  }
  auto both = std::make_shared<Told>(*told);
  both->join(*o.told);
  told = std::move(both);
}

bool Order::Knowledge::operator==(const Knowledge& o) const {
  const bool same = told == o.told || (told && o.told && *told == *o.told);
  return same && all == o.all && fenced == o.fenced;
}

Order::Thread& Order::thread(int32_t t) {
  if (static_cast<size_t>(t) >= threads_.size()) threads_.resize(static_cast<size_t>(t) + 1);
  return threads_[static_cast<size_t>(t)];
}

Epoch Order::now(Actor who) {
  if (who < 0) return {who, lines_[static_cast<size_t>(-1 - who)].time};
  Thread& t = thread(who);
  if (t.released) ++t.time, t.released = false;
  return {who, t.time};
}

bool Order::ordered(Epoch e, Actor who, bool fenced) const {
  if (who >= 0) {
    if (static_cast<size_t>(who) >= threads_.size()) return e.actor == who && !fenced;
    const Thread& t = threads_[static_cast<size_t>(who)];
    if (e.actor == who && !fenced && !in_another_trip(t, e.time)) return true;
    const Knowledge& k = t.knows;
    return (fenced ? k.fenced : k.all).knows(e);
  }
  const Knowledge& k = lines_[static_cast<size_t>(-1 - who)].knows;
  return (fenced ? k.fenced : k.all).knows(e);
}

bool Order::in_another_trip(const Thread& t, int64_t time) {
  return std::any_of(t.trips.begin(), t.trips.end(), [&](const Trips& l) { return l.since <= time && time < l.trip; });
}

void Order::begin_trips(int32_t who) {
  Thread& t = thread(who);
  ++t.time, t.released = false;
  t.trips.push_back({t.time, t.time});
}

void Order::next_trip(int32_t who) {
  Thread& t = thread(who);
  ++t.time, t.released = false;
  if (!t.trips.empty()) t.trips.back().trip = t.time;
}

void Order::end_trips(int32_t who) {
  Thread& t = thread(who);
  if (!t.trips.empty()) t.trips.pop_back();
}

int32_t Order::thread_of(Actor who) const { return who >= 0 ? who : lines_[static_cast<size_t>(-1 - who)].issuer; }

// All that the actor knows, what it did itself included. What a thread does next is not part of it.
Order::Knowledge Order::release(Actor who) {
  if (who < 0) return lines_[static_cast<size_t>(-1 - who)].knows;
  released(who);
  return known(who);
}

Order::Knowledge Order::known(int32_t who) {
  const Thread& t = thread(who);
  Knowledge k = t.knows;
  k.raise({who, t.time});
  return k;
}

void Order::spawn(int32_t parent, int32_t child) {
  const Knowledge k = release(parent);
  thread(child).knows.join(k);
}

void Order::join(int32_t waiter, int32_t child) {
  const Knowledge k = release(child);
  thread(waiter).knows.join(k);
}

void Order::signal(Actor who, int64_t semaphore, int64_t units, bool whole) {
  if (units == 0) return;
  Semaphore& s = semaphores_[semaphore];
  if (units < 0) {
    const int32_t t = thread_of(who);
    Knowledge k;
    take_units(&s, units == INT64_MIN ? INT64_MAX : -units, &k);
    thread(t).knows.join(k);
    return;
  }
  Knowledge k = release(who);
  if (s.owed > 0) {
    const int64_t paid = std::min(s.owed, units);
    s.owed -= paid;
    units -= paid;
    s.paid.join(k);
    if (units == 0) return;
  }
  // The same once more, as from a loop that signals.
  if (!whole && !s.units.empty() && !s.units.back().whole && s.units.back().by == k) {
    s.units.back().left += std::min(units, INT64_MAX - s.units.back().left);
    return;
  }
  s.units.push_back({std::move(k), units, whole});
}

void Order::take_units(Semaphore* s, int64_t units, Knowledge* known) {
  known->join(s->paid);
  while (units > 0 && !s->units.empty()) {
    Units& front = s->units.front();
    const int64_t n = std::min(units, front.left);
    front.left -= n;
    units -= n;
    if (!front.whole || front.left == 0) known->join(front.by);
    if (front.left == 0) s->units.pop_front();
  }
  s->owed += units;
}

void Order::take(int32_t t, int64_t semaphore, int64_t units) {
  if (units < 0) return signal(t, semaphore, units == INT64_MIN ? INT64_MAX : -units);
  if (units > 0) take_units(&semaphores_[semaphore], units, &thread(t).knows);
}

void Order::look(int32_t t, int64_t semaphore, int64_t value) {
  if (value <= 0) return;
  const auto it = semaphores_.find(semaphore);
  if (it == semaphores_.end()) return;
  Knowledge& known = thread(t).knows;
  known.join(it->second.paid);
  for (const Units& u : it->second.units) {
    if (value <= 0) break;
    if (!u.whole || value >= u.left) known.join(u.by);
    value -= u.left;
  }
}

void Order::preset(int64_t semaphore, int64_t units) {
  if (units > 0) semaphores_[semaphore].units.push_back({{}, units, false});
}

void Order::clear(int64_t semaphore) { semaphores_.erase(semaphore); }

void Order::arrive(Actor who, int64_t barrier, bool tensor) {
  Knowledge k = release(who);
  if (!tensor) k.told.reset();
  barriers_[barrier].arriving.join(k);
}

void Order::end_phase(int64_t barrier) {
  Barrier& b = barriers_[barrier];
  b.arriving.all.share_many();
  b.arriving.fenced.share_many();
  b.ended.push_back(std::move(b.arriving));
  b.arriving = {};
  if (b.ended.size() <= kPhases) return;
  b.ended[1].join(b.ended.front());
  b.ended.pop_front();
  ++b.first;
}

void Order::renew(int64_t barrier) { barriers_.erase(barrier); }

void Order::passed(int32_t t, int64_t barrier, int64_t phase) {
  const auto it = barriers_.find(barrier);
  if (it == barriers_.end()) return;
  Barrier& b = it->second;
  const int64_t i = std::max<int64_t>(0, phase - b.first);
  if (i < static_cast<int64_t>(b.ended.size())) thread(t).knows.join(b.ended[static_cast<size_t>(i)]);
  const auto own = std::find_if(b.looked.begin(), b.looked.end(), [&](const Looked& l) { return l.thread == t; });
  const Looked now_seen{t, phase, now(t)};
  if (own == b.looked.end()) b.looked.push_back(now_seen);
  else *own = now_seen;
}

std::vector<int32_t> Order::may_miss(int64_t barrier) const {
  std::vector<int32_t> r;
  const auto it = barriers_.find(barrier);
  if (it == barriers_.end()) return r;
  const Barrier& b = it->second;
  const int64_t ends = b.first + static_cast<int64_t>(b.ended.size());
  for (const Looked& l : b.looked)
    if (l.phase == ends - 1 && !b.arriving.all.knows(l.at)) r.push_back(l.thread);
  return r;
}

// A line whose last operation comes before this one, or a new one.
Actor Order::line(int32_t t, const Knowledge& at_issue) {
  std::deque<Actor>& own = thread(t).lines;
  constexpr size_t kLooks = 4;
  for (size_t i = 0; i < std::min(kLooks, own.size()); ++i) {
    const Actor a = own.front();
    own.pop_front();
    own.push_back(a);
    if (at_issue.all.knows({a, lines_[static_cast<size_t>(-1 - a)].time})) return a;
  }
  lines_.push_back({{}, 0, t});
  own.push_back(-static_cast<Actor>(lines_.size()));
  return own.back();
}

// The operation is among what the tensor pipe was told.
void Order::tell(Knowledge* who, StreamOrder order, const Sums& sums, const Knowledge& done) {
  auto told = who->told ? std::make_shared<Told>(*who->told) : std::make_shared<Told>();
  (order == StreamOrder::fed ? told->copies : told->products[sums]).join({done.all, done.fenced});
  who->told = std::move(told);
}

Issued Order::issue(int32_t t, int64_t stream, StreamOrder order, bool two_sided, const Sums& sums) {
  thread(t).knows.all.share_many();
  thread(t).knows.fenced.share_many();
  Knowledge k = release(t);
  // Lines that this operation follows because somebody saw what they released, not because a stream puts it behind
  // them.
  Issued r;
  r.reads = r.writes = line(t, k);
  ++lines_[static_cast<size_t>(-1 - r.reads)].time;
  if (two_sided) {
    r.writes = line(t, k);
    ++lines_[static_cast<size_t>(-1 - r.writes)].time;
  }
  Stream* s = stream < 0 ? nullptr : &streams_[stream];
  if (s && order == StreamOrder::ordered) k.join(s->so_far.writes);
  if (order == StreamOrder::piped && k.told) {
    const Told& told = *k.told;
    Told::Done before = told.copies;
    if (const auto same = told.products.find(sums); same != told.products.end()) before.join(same->second);
    k.join({std::move(before.all), std::move(before.fenced), nullptr});
  }
  for (const Actor a : {r.reads, r.writes}) {
    Line& l = lines_[static_cast<size_t>(-1 - a)];
    k.raise({a, l.time});
    l.knows = k;
  }
  if (order == StreamOrder::fed || order == StreamOrder::piped) tell(&thread(t).knows, order, sums, k);
  if (!s) return r;
  s->so_far.reads.join(lines_[static_cast<size_t>(-1 - r.reads)].knows);
  s->so_far.writes.join(k);
  return r;
}

void Order::commit(int64_t stream) {
  Stream& s = streams_[stream];
  s.closed.push_back(s.so_far);
  if (s.closed.size() <= kGroups) return;
  s.retired = std::move(s.closed.front());
  s.closed.pop_front();
}

void Order::wait_group(int32_t t, int64_t stream, int64_t outstanding, bool reads) {
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  const Stream& s = it->second;
  const auto n = static_cast<int64_t>(s.closed.size());
  const int64_t left = std::max<int64_t>(0, outstanding);
  const Group& g = left < n ? s.closed[static_cast<size_t>(n - 1 - left)] : s.retired;
  thread(t).knows.join(reads ? g.reads : g.writes);
}

void Order::fence(int32_t t) {
  const Knowledge k = release(t);
  thread(t).knows.fenced.join(k.all);
}

int64_t Order::memory() const {
  std::unordered_set<const void*> seen;
  int64_t n = 0;
  const auto add = [&](const Knowledge& k) {
    n += static_cast<int64_t>(sizeof k) + k.all.memory(&seen) + k.fenced.memory(&seen);
    if (!k.told || !seen.insert(k.told.get()).second) return;
    n += k.told->copies.all.memory(&seen) + k.told->copies.fenced.memory(&seen);
    for (const auto& [sums, done] : k.told->products)
      n += static_cast<int64_t>(sizeof(Told::Done) + sums.size() * sizeof(int64_t)) + done.all.memory(&seen) +
           done.fenced.memory(&seen);
  };
  for (const Thread& t : threads_) add(t.knows), n += static_cast<int64_t>(sizeof t + t.lines.size() * sizeof(Actor));
  for (const Line& l : lines_) add(l.knows);
  for (const auto& [id, s] : semaphores_) {
    add(s.paid);
    for (const Units& u : s.units) add(u.by);
  }
  for (const auto& [id, b] : barriers_) {
    add(b.arriving);
    for (const Knowledge& k : b.ended) add(k);
  }
  for (const auto& [id, s] : streams_) {
    add(s.so_far.reads), add(s.so_far.writes);
    for (const Group& g : s.closed) add(g.reads), add(g.writes);
  }
  return n;
}

}  // namespace pallasim::memory::shadow
