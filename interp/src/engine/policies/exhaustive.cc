#include "exhaustive.h"

#include <algorithm>

#include "choose.h"

namespace pallasim::interp {
namespace {

bool has(const std::vector<uint64_t>& bits, size_t i) {
  return i / 64 < bits.size() && (bits[i / 64] >> i % 64 & 1) != 0;
}
void set(std::vector<uint64_t>* bits, size_t i) {
  if (i / 64 >= bits->size()) bits->resize(i / 64 + 1);
  (*bits)[i / 64] |= uint64_t{1} << i % 64;
}
void unite(std::vector<uint64_t>* bits, const std::vector<uint64_t>& with) {
  if (bits->size() < with.size()) bits->resize(with.size());
  for (size_t i = 0; i < with.size(); ++i) (*bits)[i] |= with[i];
}
bool contains(const std::vector<Choice>& all, const Choice& c) {
  return std::find(all.begin(), all.end(), c) != all.end();
}

}  // namespace

bool Exhaustive::sleeps(const Moment& m, const Choice& c) {
  return contains(m.tried, c) ||
         std::any_of(m.asleep.begin(), m.asleep.end(), [&](const Sleeper& s) { return s.who == c; });
}

bool Exhaustive::new_execution(std::vector<uint64_t>&) {
  planned_.clear();
  common_ = 0;
  if (!begun_) return begun_ = true;
  again_ = true;
  // The deepest moment with something left to try.
  for (; !moments_.empty(); moments_.pop_back()) {
    Moment& m = moments_.back();
    m.asleep.push_back({events_.back().who, events_.back().touches});
    events_.pop_back();
    std::erase_if(m.todo, [&](const Choice& c) { return sleeps(m, c); });
    if (!m.todo.empty()) break;
  }
  if (moments_.empty()) return false;
  common_ = events_.size();
  for (const Event& e : events_) planned_.push_back(e.who);
  return true;
}

// Who looked for something in vain looks again once it may have changed.
bool Exhaustive::waits_for_change(const Choice& c) const {
  const auto last = std::find_if(events_.rbegin(), events_.rend(), [&](const Event& e) { return e.who == c; });
  if (last == events_.rend()) return false;
  return std::none_of(events_.rbegin(), last, [&](const Event& e) { return depend(*e.touches, *last->touches); });
}

size_t Exhaustive::choose(const Choices& c, Moment& m) const {
  std::vector<size_t> polling;
  std::vector<size_t> enabled;
  for (size_t i = 0; i < c.size(); ++i)
    if (c.can_go_on(i)) (c.polls(i) && waits_for_change(c[i]) ? polling : enabled).push_back(i);
  if (enabled.empty()) enabled = polling;
  for (const size_t i : enabled) m.enabled.push_back(c[i]);
  // Operations first: whoever looks for their bytes in a loop finds them. Threads are ready in turn.
  const auto awake = [&](size_t i) { return !sleeps(m, c[i]); };
  const auto operation = std::find_if(enabled.begin(), enabled.end(),
                                      [&](size_t i) { return awake(i) && c[i].what == Choice::What::Operation; });
  if (operation != enabled.end()) return *operation;
  const auto any = std::find_if(enabled.begin(), enabled.end(), awake);
  return any == enabled.end() ? Choices::kNone : *any;
}

size_t Exhaustive::take(const Choices& c, const Choice& who) {
  const size_t at = policies::find(c, who);
  if (at != Choices::kNone) events_.push_back({who});
  return at;
}

size_t Exhaustive::next(const Choices& c) {
  const auto turn = static_cast<size_t>(c.turns);
  if (turn < common_) return policies::find(c, planned_[turn]);
  if (events_.size() > turn) {  // who was chosen could not go on
    moments_.back().tried.push_back(events_.back().who);
    events_.pop_back();
  } else if (!events_.empty() && !events_.back().noted) {
    note(c.touched);
  }
  if (moments_.size() > turn && turn == common_ && again_) {
    Moment& m = moments_.back();
    while (!m.todo.empty()) {
      const Choice who = m.todo.back();
      m.todo.pop_back();
      if (sleeps(m, who)) continue;
      if (const size_t at = take(c, who); at != Choices::kNone) return at;
    }
    return Choices::kNone;
  }
  if (moments_.size() == turn) {
    Moment m;
    if (turn > 0) m.asleep = asleep_after(moments_[turn - 1], events_[turn - 1]);
    moments_.push_back(std::move(m));
  }
  if (turn > 0) try_what_was_prevented(c, moments_[turn - 1]);
  Moment& m = moments_.back();
  m.enabled.clear();
  const size_t at = choose(c, m);
  if (at != Choices::kNone) events_.push_back({c[at]});
  return at;
}

// Who could go on and cannot any more, as the last turn took what it waits for, could have gone first. Later turns may
// bring it again, which is why the turn that took it and the one that takes that need no race.
void Exhaustive::try_what_was_prevented(const Choices& now, Moment& before) {
  for (const Choice& c : before.enabled) {
    if (c.what != Choice::What::Thread || c == events_.back().who || contains(before.todo, c) || sleeps(before, c))
      continue;
    const size_t at = policies::find(now, c);
    if (at != Choices::kNone && !now.can_go_on(at)) before.todo.push_back(c);
  }
}

std::vector<Exhaustive::Sleeper> Exhaustive::asleep_after(const Moment& m, const Event& e) const {
  std::vector<Sleeper> r;
  for (const Sleeper& s : m.asleep)
    if (s.who != e.who && !depend(*s.touches, *e.touches)) r.push_back(s);
  return r;
}

void Exhaustive::note(std::span<const Touch> touched) {
  Event& e = events_.back();
  e.touches = std::make_shared<std::vector<Touch>>(touched.begin(), touched.end());
  // Operations that had no choice: they could have moved earlier by themselves.
  std::vector<Choice> forced;
  for (const Touch& t : *e.touches)
    if (t.forced && !contains(forced, *t.forced)) forced.push_back(*t.forced);
  const Event now = e;
  events_.pop_back();
  for (const Choice& op : forced) {
    std::vector<Touch> own;
    for (const Touch& t : *now.touches)
      if (t.forced == op) own.push_back(t);
    Bits before;
    look_for_races(op, own, &before);
  }
  Bits before;
  look_for_races(now.who, *now.touches, &before);
  events_.push_back(now);
  events_.back().before = std::move(before);
  events_.back().noted = true;
}

// `who` comes behind all events so far, and touches this: which of them come before it, and races with the rest.
void Exhaustive::look_for_races(const Choice& who, std::span<const Touch> touches, Bits* before) {
  std::vector<size_t> races;
  for (size_t i = events_.size(); i-- > 0;) {
    if (has(*before, i)) continue;
    const Event& e = events_[i];
    const bool own = e.who == who;
    if (!own && !depend(*e.touches, touches)) continue;
    set(before, i);
    unite(before, e.before);
    if (!own) races.push_back(i);
  }
  for (const size_t i : races) reverse(i, who, *before);
}

// Of what followed the earlier turn and does not depend on it, and then `later`: somebody who can begin that.
void Exhaustive::reverse(size_t earlier, const Choice& later, const Bits& before_later) {
  Moment& m = moments_[earlier];
  std::vector<size_t> rest;
  std::vector<Choice> first;
  for (size_t i = earlier + 1; i < events_.size(); ++i) {
    if (has(events_[i].before, earlier)) continue;
    const bool begins = std::none_of(rest.begin(), rest.end(), [&](size_t k) { return has(events_[i].before, k); });
    rest.push_back(i);
    if (begins && !contains(first, events_[i].who)) first.push_back(events_[i].who);
  }
  if (std::none_of(rest.begin(), rest.end(), [&](size_t k) { return has(before_later, k); }) && !contains(first, later))
    first.push_back(later);
  const auto known = [&](const Choice& c) {
    return events_[earlier].who == c || contains(m.todo, c) || contains(m.tried, c) ||
           std::any_of(m.asleep.begin(), m.asleep.end(), [&](const Sleeper& s) { return s.who == c; });
  };
  if (std::any_of(first.begin(), first.end(), known)) return;
  for (const Choice& c : first)
    if (contains(m.enabled, c)) return m.todo.push_back(c);
}

void Exhaustive::ended(int64_t turns, std::span<const Touch> last, const std::vector<Pending>& pending, bool stopped) {
  events_.resize(std::min(events_.size(), static_cast<size_t>(turns)));
  if (!events_.empty() && !events_.back().noted) note(last);
  moments_.resize(events_.size());
  if (stopped && !events_.empty()) {
    // Whatever others do before it may matter.
    auto all = std::make_shared<std::vector<Touch>>(*events_.back().touches);
    all->push_back({});
    events_.back().touches = std::move(all);
    Moment& m = moments_.back();
    for (const Choice& c : m.enabled)
      if (c != events_.back().who && !sleeps(m, c) && !contains(m.todo, c)) m.todo.push_back(c);
    return;
  }
  for (const Pending& p : pending) {
    Bits before;
    look_for_races(p.who, p.touches, &before);
  }
}

namespace policies {

extern const PolicyRow exhaustive{
    "exhaustive", "all schedules that differ",
    [](const PolicyArguments&) -> std::unique_ptr<Policy> { return std::make_unique<Exhaustive>(); }, true, true};

}  // namespace policies
}  // namespace pallasim::interp
