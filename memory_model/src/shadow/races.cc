#include "pallasim/memory/shadow/races.h"

#include <algorithm>

namespace pallasim::memory::shadow {

struct Races::Now {
  const Order& order;
  Mark mark;
  int32_t instance;

  bool follows(const Mark& m) const {
    return order.ordered(m.at, mark.at.actor) &&
           (m.since == m.at.time || order.ordered({m.at.actor, m.since}, mark.at.actor));
  }
  // Follows it, and sees what it wrote.
  bool sees(const Mark& m) const {
    const bool fence = order.proxies() && mark.proxy && !m.proxy && m.write;
    return follows(m) && (!fence || order.ordered(m.at, mark.at.actor, true));
  }
};

namespace {

template <class Mark>
auto place_of(std::vector<Mark>& marks, const Mark& m) {
  return std::lower_bound(marks.begin(), marks.end(), m, [](const Mark& a, const Mark& b) {
    return a.at.actor != b.at.actor ? a.at.actor < b.at.actor : a.write < b.write;
  });
}

template <class Mark>
bool same_place(const Mark& a, const Mark& b) {
  return a.at.actor == b.at.actor && a.write == b.write;
}

template <class Mark>
bool has(const std::vector<Mark>& marks, const Mark& m) {
  if (marks.empty() || marks.back().at.actor < m.at.actor) return false;
  const auto it = place_of(const_cast<std::vector<Mark>&>(marks), m);
  return it != marks.end() && it->at == m.at && same_place(*it, m) && it->adds <= m.adds;
}

}  // namespace

// Has the actor been here since it last synchronised, with nothing left that this access would add? Who came in between
// has looked at that mark.
bool Races::known(const State& s, const Mark& m) const {
  const bool wrote = s.write.at == m.at && s.write.adds <= m.adds;
  if (m.write && !m.atomic) return wrote && s.writes.empty() && s.reads.empty() && s.atomics.empty();
  return wrote || has(m.atomic ? s.atomics : s.reads, m);
}

void Races::meet(const Now& now, const Mark& earlier, Range bytes) {
  if (earlier.at.time == 0) return;  // nobody
  if (now.sees(earlier)) return;
  if (earlier.adds && now.mark.adds && earlier.at.actor == now.mark.at.actor) return;
  const auto kind = now.follows(earlier) ? Race::Kind::Unfenced : Race::Kind::Unordered;
  const Key sites = key(kind, earlier.site, now.mark.site);
  if (!options_.every && told_.count(sites) != 0) return;
  const auto party = [&](const Mark& m) {
    return Party{now.order.thread_of(m.at.actor), m.at.actor < 0, m.site, m.write, m.atomic};
  };
  Race race{kind, party(earlier), party(now.mark), now.instance, bytes};
  const auto plain = [](const Mark& m) { return m.write && !m.atomic; };
  if (options_.apart && kind == Race::Kind::Unordered && plain(earlier) && plain(now.mark)) {
    writes_.emplace_back(std::move(race), earlier.at.actor);
    return;
  }
  told_.insert(sites);
  found_.push_back(std::move(race));
}

bool Races::differ(const Race& r) {
  const bool fresh = told_.insert(key(r.kind, r.earlier.site, r.later.site)).second;
  if (fresh || options_.every) found_.push_back(r);
  return fresh;
}

// Takes the place of the actor's last mark of the kind. Whenever the list doubled, marks that this one follows go: who
// is not ordered after them and meets them meets this one too, if it is a plain read, or atomic and reads or writes at
// least as much.
void Races::insert(const Now& now, std::vector<Mark>* marks) {
  auto it = place_of(*marks, now.mark);
  if (it != marks->end() && same_place(*it, now.mark)) {
    Mark both = now.mark;
    if (!now.follows(*it)) both.since = it->since;
    if (both.since < both.at.time || it->at == both.at) both.adds = both.adds && it->adds;
    *it = both;
    return;
  }
  if (const size_t n = marks->size(); n > 0 && (n & (n - 1)) == 0) {
    std::erase_if(*marks, [&](const Mark& m) { return (now.mark.write || !m.write) && now.sees(m); });
    it = place_of(*marks, now.mark);
  }
  marks->insert(it, now.mark);
}

// Earlier writes that this one does not follow are remembered beside it, if they may have left the same bytes.
void Races::overwrite(const Now& now, State& s) {
  const Mark& m = now.mark;
  std::erase_if(s.writes, [&](const Mark& w) { return now.follows(w); });
  if (options_.apart && s.write.at.time != 0 && !now.follows(s.write) &&
      told_.count(key(Race::Kind::Unordered, s.write.site, m.site)) == 0) {
    const auto it = place_of(s.writes, s.write);
    if (it == s.writes.end() || !same_place(*it, s.write)) s.writes.insert(it, s.write);
    else s.write.since = std::min(s.write.since, it->since), *it = s.write;
  }
  const bool added = m.adds && (s.write.at != m.at || s.write.adds);
  s.write = m;
  s.write.adds = added;
  s.reads.clear();
  s.atomics.clear();
}

void Races::step(const Now& now, State& s, Range bytes) {
  const Mark& m = now.mark;
  if (known(s, m)) return;
  meet(now, s.write, bytes);
  for (const Mark& w : s.writes) meet(now, w, bytes);
  if (m.write)
    for (const Mark& r : s.reads) meet(now, r, bytes);
  if (!m.atomic)
    for (const Mark& a : s.atomics)
      if (m.write || a.write) meet(now, a, bytes);
  if (m.write && !m.atomic) overwrite(now, s);
  else insert(now, m.atomic ? &s.atomics : &s.reads);
}

bool Races::access(Order& order, const Access& a) {
  if (limit_) return false;
  writes_.clear();
  if (a.box().empty()) return true;
  const Epoch at = order.now(a.who);
  const Now now{order, {at, a.site, a.write, a.atomic, a.proxy, a.adds, at.time}, a.instance};
  regions_.visit(a.instance, a.box(), a.places, [&](State& s, Range bytes) { step(now, s, bytes); });
  if (memory() <= options_.max_bytes) return true;
  limit_ = Limit{a.instance, memory(), options_.max_bytes};
  return false;
}

void Races::fresh(int32_t instance, int64_t begin, int64_t end) { regions_.forget(instance, begin, end); }

}  // namespace pallasim::memory::shadow
