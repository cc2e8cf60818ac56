#include "pallasim/memory/shadow/in_flight.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pallasim::memory::shadow {
namespace {

int64_t left(const std::vector<Owed>& owed) {
  int64_t n = 0;
  for (const Owed& o : owed) n += o.units;
  return n;
}

// What must be awaited before its sources are free.
int64_t read_owed(const Flight& f) {
  return f.after_read.empty() ? std::max<int64_t>(1, left(f.after_write)) : left(f.after_read);
}

Completion::Kind awaited(const Flight& f, bool write) {
  const std::vector<Owed>& owed = write || f.after_read.empty() ? f.after_write : f.after_read;
  return owed.empty() ? Completion::Kind::Nothing : owed.front().kind;
}

}  // namespace

Range FlightSide::hull() const {
  Range r = box.hull();
  if (!places.empty()) r = {places.front(), places.back() + (r.end - r.begin)};
  return r;
}

bool FlightSide::meets(const Box& other) const {
  if (places.empty()) return overlap(box, other);
  const Range own = box.hull(), h = other.hull();
  Box b = box;
  for (auto it = std::upper_bound(places.begin(), places.end(), h.begin - (own.end - own.begin));
       it != places.end() && *it < h.end; ++it) {
    b.offset = *it;
    if (overlap(b, other)) return true;
  }
  return false;
}

InFlight::User InFlight::user(int64_t id, const Flight& f, int32_t instance) {
  User r{id, {INT64_MAX, INT64_MIN}, false};
  for (const FlightSide& side : f.sides) {
    if (side.instance != instance) continue;
    const Range hull = side.hull();
    r.hull = {std::min(r.hull.begin, hull.begin), std::max(r.hull.end, hull.end)};
    r.writes = r.writes || side.write;
  }
  return r;
}

namespace {
int64_t owed_to(const std::vector<Owed>& side, int64_t semaphore) {
  int64_t n = 0;
  for (const Owed& o : side)
    if (o.kind == Completion::Kind::Semaphore && o.object == semaphore) n += o.units;
  return n;
}
}  // namespace

void InFlight::start(int64_t id, Flight flight) {
  for (const FlightSide& side : flight.sides) {
    std::vector<User>& users = users_[side.instance];
    if (users.empty() || users.back().id != id) users.push_back(user(id, flight, side.instance));
  }
  for (const std::vector<Owed>* side : {&flight.after_read, &flight.after_write})
    for (const Owed& o : *side) {
      if (o.kind != Completion::Kind::Semaphore || o.units <= 0) continue;
      Debts& d = debts_[o.object];
      d.any.insert(id);
      if (side == &flight.after_write) d.after_write.insert(id), d.units += o.units;
    }
  if (!flight.after_write.empty() && left(flight.after_write) <= 0) owe_nothing_.push_back(id);
  of_rows_ += flight.of_rows;
  flights_.insert_or_assign(id, std::move(flight));
}

void InFlight::remove(int64_t id) {
  const auto it = flights_.find(id);
  const Flight& f = it->second;
  for (const FlightSide& side : f.sides) {
    const auto users = users_.find(side.instance);
    if (users == users_.end()) continue;
    std::erase_if(users->second, [&](const User& u) { return u.id == id; });
    if (users->second.empty()) users_.erase(users);
  }
  for (const std::vector<Owed>* side : {&f.after_read, &f.after_write})
    for (const Owed& o : *side) {
      const auto debts = debts_.find(o.object);
      if (o.kind != Completion::Kind::Semaphore || debts == debts_.end()) continue;
      Debts& d = debts->second;
      d.any.erase(id);
      d.after_write.erase(id);
      if (side == &f.after_write) d.units -= o.units;
      end_doubts(d);
      if (d.any.empty()) debts_.erase(debts);
    }
  of_rows_ -= f.of_rows;
  flights_.erase(it);
}

// An operation without anything to await stays until it is over().
void InFlight::free_what_is_awaited() {
  std::vector<int64_t> done;
  for (const auto& [id, f] : flights_)
    if (!f.after_write.empty() && left(f.after_write) <= 0) done.push_back(id);
  for (int64_t id : done) remove(id);
  owe_nothing_.clear();
}

// It is awaited now, where others may have counted in its place.
void InFlight::doubt(int64_t semaphore, int64_t id, int64_t units) {
  Debts& d = debts_.at(semaphore);
  if (d.after_write.empty() || d.units < units) return;
  const Doubt& now =
      doubts_.insert_or_assign(id, Doubt{flights_.at(id), semaphore, *d.after_write.rbegin()}).first->second;
  for (const FlightSide& side : now.flight.sides) ++doubted_sides_[side.instance];
  d.doubts.push_back(id);
}

void InFlight::end_doubts(Debts& d) {
  for (; !d.doubts.empty(); d.doubts.pop_front()) {
    const auto doubt = doubts_.find(d.doubts.front());
    if (!d.after_write.empty() && *d.after_write.begin() <= doubt->second.last) return;
    for (const FlightSide& side : doubt->second.flight.sides) --doubted_sides_[side.instance];
    doubts_.erase(doubt);
  }
}

std::vector<int64_t> InFlight::taken_apart(int64_t semaphore, int64_t units) const {
  const auto debts = debts_.find(semaphore);
  if (of_rows_ == 0 || debts == debts_.end()) return {};
  std::vector<int64_t> in_part, taken;
  int64_t left_over = 0;  // of others
  for (const int64_t id : debts->second.any) {
    const Flight& f = flights_.at(id);
    const int64_t owed = owed_to(f.after_read, semaphore) + owed_to(f.after_write, semaphore),
                  n = std::min(units, owed);
    units -= n, left_over += owed - n;
    if (f.of_rows && n > 0) (n < owed ? in_part : taken).push_back(id);
  }
  if (left_over > 0) in_part.insert(in_part.end(), taken.begin(), taken.end());
  return in_part;
}

void InFlight::fall_apart(int64_t id, std::vector<Flight> parts) {
  const auto n = static_cast<int64_t>(parts.size());
  for (auto& [other, d] : doubts_)
    if (d.last == id) d.last += n;
  for (int64_t i = 0; i < n; ++i) start(id + 1 + i, std::move(parts[static_cast<size_t>(i)]));
  remove(id);
}

void InFlight::taken(int64_t semaphore, int64_t units) {
  std::vector<int64_t> done = std::exchange(owe_nothing_, {});
  std::vector<std::pair<int64_t, int64_t>> awaited;  // with what they owed
  if (const auto debts = debts_.find(semaphore); debts != debts_.end()) {
    Debts& d = debts->second;
    for (auto it = d.any.begin(); it != d.any.end() && units > 0;) {
      const int64_t id = *it;
      Flight& f = flights_.at(id);
      const int64_t before = owed_to(f.after_write, semaphore);
      for (std::vector<Owed>* side : {&f.after_read, &f.after_write})
        for (Owed& o : *side) {
          if (o.kind != Completion::Kind::Semaphore || o.object != semaphore) continue;
          const int64_t n = std::min(units, o.units);
          units -= n;
          o.units -= n;
        }
      const int64_t now = owed_to(f.after_write, semaphore);
      d.units -= before - now;
      if (before > 0 && now == 0) awaited.push_back({id, before}), d.after_write.erase(id);
      if (!f.after_write.empty() && left(f.after_write) <= 0) done.push_back(id);
      it = now > 0 || owed_to(f.after_read, semaphore) > 0 ? std::next(it) : d.any.erase(it);
    }
    for (const auto& [id, before] : awaited) doubt(semaphore, id, before);
    end_doubts(d);
    if (d.any.empty()) debts_.erase(debts);
  }
  for (const int64_t id : done)
    if (flights_.count(id)) remove(id);
}

void InFlight::counted(int64_t id, int64_t barrier, int64_t phase) {
  const auto it = flights_.find(id);
  if (it == flights_.end()) return;
  for (std::vector<Owed>* side : {&it->second.after_read, &it->second.after_write})
    for (Owed& o : *side)
      if (o.kind == Completion::Kind::Barrier && o.object == barrier) o.number = phase;
}

void InFlight::saw_phase(int64_t barrier, int64_t phase) {
  for (auto& [id, f] : flights_)
    for (std::vector<Owed>* side : {&f.after_read, &f.after_write})
      for (Owed& o : *side)
        if (o.kind == Completion::Kind::Barrier && o.object == barrier && o.number <= phase) o.units = 0;
  free_what_is_awaited();
}

void InFlight::saw_groups(int64_t stream, int64_t last, bool reads) {
  for (auto& [id, f] : flights_)
    for (std::vector<Owed>* side : {&f.after_read, &f.after_write})
      for (Owed& o : *side)
        if ((!reads || side == &f.after_read) && o.kind == Completion::Kind::Group && o.object == stream &&
            o.number <= last)
          o.units = 0;
  free_what_is_awaited();
}

void InFlight::over(int64_t id) {
  if (flights_.count(id)) remove(id);
}

// The operation goes on: it owes its units, and uses what its other sides name.
void InFlight::freed(int32_t instance, int64_t begin, int64_t end, int32_t thread) {
  for (auto& [id, d] : doubts_)
    doubted_sides_[instance] -= static_cast<int64_t>(std::erase_if(
        d.flight.sides, [&](const FlightSide& s) { return s.instance == instance && s.meets(Box(begin, end)); }));
  const auto users = users_.find(instance);
  if (users == users_.end()) return;
  const Box bytes(begin, end);
  std::erase_if(users->second, [&](User& u) {
    const int64_t id = u.id;
    Flight& f = flights_.at(id);
    std::erase_if(f.sides, [&](const FlightSide& s) {
      if (s.instance != instance || !s.meets(bytes)) return false;
      const int64_t owed = s.write ? left(f.after_write) : read_owed(f);
      const Party self{thread, true, f.site, s.write, false};
      if (owed > 0 && told_.insert({f.site, -1}).second)
        found_.push_back({id, f.site, self, s.write, owed, instance, {begin, end}, true, awaited(f, s.write)});
      return true;
    });
    u = user(id, f, instance);
    return std::none_of(f.sides.begin(), f.sides.end(), [&](const FlightSide& s) { return s.instance == instance; });
  });
  if (users->second.empty()) users_.erase(users);
}

void InFlight::abandoned(int64_t id, int32_t thread) {
  const auto it = flights_.find(id);
  if (it == flights_.end() || awaited(it->second, false) != Completion::Kind::Group) return;
  Flight& f = it->second;
  const int64_t owed = read_owed(f);
  const auto read = std::find_if(f.sides.begin(), f.sides.end(), [](const FlightSide& side) { return !side.write; });
  if (owed <= 0 || read == f.sides.end()) return;
  if (told_.insert({f.site, -1}).second)
    found_.push_back({id,
                      f.site,
                      {thread, true, f.site, false, false},
                      false,
                      owed,
                      read->instance,
                      read->hull(),
                      true,
                      Completion::Kind::Group});
  for (Owed& o : f.after_read) o.units = 0;
}

void InFlight::look_at_doubts(const Access& a, const Box& box, int32_t thread) {
  if (const auto it = doubted_sides_.find(a.instance); it == doubted_sides_.end() || it->second == 0) return;
  for (const auto& [id, d] : doubts_)
    for (const FlightSide& side : d.flight.sides) {
      if (side.instance != a.instance || !(side.write || a.write) || !side.meets(box)) continue;
      if (!doubted_.insert({d.flight.site, a.site}).second) continue;
      InFlightUse u{id, d.flight.site, {thread, a.who < 0, a.site, a.write, a.atomic}, side.write};
      u.instance = a.instance, u.bytes = box.hull(), u.instead = *debts_.at(d.semaphore).after_write.begin();
      found_.push_back(u);
    }
}

void InFlight::access(const Access& a, int32_t thread) {
  Box box = a.box();
  if (a.places.empty()) return access(a, box, thread);
  for (const int64_t place : a.places) box.offset = place, access(a, box, thread);
}

void InFlight::access(const Access& a, const Box& box, int32_t thread) {
  if (!doubts_.empty()) look_at_doubts(a, box, thread);
  const auto users = users_.find(a.instance);
  if (users == users_.end()) return;
  const Range hull = box.hull();
  for (const User& u : users->second) {
    if ((!a.write && !u.writes) || u.hull.end <= hull.begin || hull.end <= u.hull.begin) continue;
    const Flight& f = flights_.at(u.id);
    const int64_t reading = read_owed(f);
    const FlightSide* met = nullptr;
    for (const FlightSide& side : f.sides) {
      const bool matters = side.write || (a.write && reading > 0);
      if (side.instance == a.instance && matters && (!met || side.write) && side.meets(box)) met = &side;
    }
    if (!met || !told_.insert({f.site, a.site}).second) continue;
    const Party party{thread, a.who < 0, a.site, a.write, a.atomic};
    found_.push_back({u.id, f.site, party, met->write, met->write ? left(f.after_write) : reading, a.instance,
                      box.hull(), false, awaited(f, met->write)});
  }
}

}  // namespace pallasim::memory::shadow
