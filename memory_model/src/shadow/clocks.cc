#include "pallasim/memory/shadow/clocks.h"

#include <algorithm>

#include "pallasim/ir/mix.h"

namespace pallasim::memory::shadow {
namespace {

bool by_actor(const Epoch& e, Actor a) { return e.actor < a; }

int64_t find(const std::vector<Epoch>& entries, Actor a) {
  const auto it = std::lower_bound(entries.begin(), entries.end(), a, by_actor);
  return it != entries.end() && it->actor == a ? it->time : 0;
}

// Of sets of entries: the exclusive or of what each one is.
uint64_t mix(Epoch e) { return ir::mix(static_cast<uint64_t>(e.time) * ir::kGolden + static_cast<uint32_t>(e.actor)); }

std::vector<Epoch> merged(const std::vector<Epoch>& a, const std::vector<Epoch>& b) {
  std::vector<Epoch> r;
  r.reserve(a.size() + b.size());
  auto i = a.begin(), j = b.begin();
  while (i != a.end() || j != b.end()) {
    if (j == b.end() || (i != a.end() && i->actor < j->actor)) r.push_back(*i++);
    else if (i == a.end() || j->actor < i->actor) r.push_back(*j++);
    else {
      r.push_back(i->time >= j->time ? *i : *j);
      ++i, ++j;
    }
  }
  return r;
}

}  // namespace

int64_t Clock::at(Actor a) const {
  if (const int64_t own = find(own_, a)) return own;
  return base_ ? find(*base_, a) : 0;
}

void Clock::raise(Epoch e) {
  const int64_t before = at(e.actor);
  if (before >= e.time) return;
  set_own(e, before);
  settle();
}

void Clock::set_own(Epoch e, int64_t before) {
  if (before != 0) mixed_ ^= mix({e.actor, before});
  mixed_ ^= mix(e);
  const auto it = std::lower_bound(own_.begin(), own_.end(), e.actor, by_actor);
  if (it != own_.end() && it->actor == e.actor) it->time = e.time;
  else own_.insert(it, e);
}

// Many entries of its own: they become a base that others can share.
void Clock::settle() {
  if (own_.size() > 16 + (base_ ? base_->size() / 4 : 0)) share();
}

void Clock::share() {
  if (own_.empty()) return;
  auto all = std::make_shared<const Entries>(this->all());
  covered_ = base_;
  base_ = std::move(all);
  own_.clear();
}

Clock::Entries Clock::all() const { return base_ ? merged(*base_, own_) : own_; }

bool Clock::covers(const Clock& o) const { return covers(o.own_) && (covers_base_of(o) || covers(*o.base_)); }

bool Clock::covers(const Entries& entries) const {
  constexpr size_t kFew = 8;
  if (entries.size() < kFew)
    return std::all_of(entries.begin(), entries.end(), [&](const Epoch& e) { return at(e.actor) >= e.time; });
  if (entries.size() > own_.size() + (base_ ? base_->size() : 0)) return false;
  // Side by side: all are in the order of actors. Where the base is not enough, an own entry may be.
  const Entries none;
  const Entries& base = base_ ? *base_ : none;
  auto b = base.begin();
  auto own = own_.begin();
  for (const Epoch& e : entries) {
    while (b != base.end() && b->actor < e.actor) ++b;
    if (b != base.end() && b->actor == e.actor && b->time >= e.time) continue;
    while (own != own_.end() && own->actor < e.actor) ++own;
    if (own == own_.end() || own->actor != e.actor || own->time < e.time) return false;
  }
  return true;
}

// Known without a look at the entries.
bool Clock::covers_base_of(const Clock& o) const {
  return base_ == o.base_ || !o.base_ || (!covered_.owner_before(o.base_) && !o.base_.owner_before(covered_));
}

void Clock::join(const Clock& o) {
  if (covers_base_of(o)) {
    if (o.own_.empty()) return;
    // Above one base, or one that the other does not have: an entry of ours below the base's would hide it.
    for (const Epoch& e : o.own_)
      if (const int64_t before = at(e.actor); before < e.time) set_own(e, before);
    return settle();
  }
  if (mixed_ == o.mixed_ ? *this == o : covers(o)) return;
  if (o.covers(*this)) {
    *this = o;
  } else {
    base_ = std::make_shared<const Entries>(merged(all(), o.all()));
    covered_ = o.base_;
    own_.clear();
    mixed_ = 0;
    for (const Epoch& e : *base_) mixed_ ^= mix(e);
  }
}

size_t Clock::size() const { return all().size(); }

// Own entries are later than the base's: above one base they are the same, or the clocks are not.
bool Clock::operator==(const Clock& o) const {
  return mixed_ == o.mixed_ && (base_ == o.base_ ? own_ == o.own_ : all() == o.all());
}

int64_t Clock::memory(std::unordered_set<const void*>* seen) const {
  int64_t n = static_cast<int64_t>(own_.capacity() * sizeof(Epoch));
  if (base_ && seen->insert(base_.get()).second) n += static_cast<int64_t>(base_->capacity() * sizeof(Epoch));
  return n;
}

}  // namespace pallasim::memory::shadow
