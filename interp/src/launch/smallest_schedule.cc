#include "smallest_schedule.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "../report/causes.h"

namespace pallasim::interp {

std::vector<Deviation> SmallestSchedule::deviations_of(std::vector<Choice> recorded) {
  std::vector<Deviation> r;
  runner_.run(*follow_choices(std::move(recorded), &r));
  return r;
}

bool SmallestSchedule::keeps(Policy& policy, std::vector<Choice>* choices) {
  const ScheduleEnd end = runner_.run(policy, false, choices);
  return !end.abandoned && end.key() == key_;
}

bool SmallestSchedule::improve(Policy& policy, std::vector<Choice>* choices) {
  std::vector<Choice> now;
  --left_;
  if (!keeps(policy, &now)) return false;
  std::vector<Deviation> list = deviations_of(now);
  if (list.size() >= list_.size()) return false;
  list_ = std::move(list);
  *choices = std::move(now);
  return true;
}

namespace {

// Turns of one thread in a row.
struct Stretch {
  size_t begin, end;
};
std::vector<Stretch> stretches(const std::vector<Choice>& choices) {
  std::vector<Stretch> r;
  for (size_t i = 0; i < choices.size(); ++i)
    if (r.empty() || choices[i] != choices[i - 1]) r.push_back({i, i + 1});
    else r.back().end = i + 1;
  return r;
}

// With the stretch `from` in front of what now is at `to`, or behind it where that comes later.
std::vector<Choice> moved(const std::vector<Choice>& all, const Stretch& from, size_t to) {
  std::vector<Choice> r = all;
  const auto at = [&](size_t i) { return r.begin() + static_cast<std::ptrdiff_t>(i); };
  if (to < from.begin) std::rotate(at(to), at(from.begin), at(from.end));
  else std::rotate(at(from.begin), at(from.end), at(to));
  return r;
}

}  // namespace

// A thread's next stretch comes right behind the one before, or the one before right in front of it (Jalbert and Sen, A
// trace simplification technique for effective debugging of concurrent programs, FSE 2010).
void SmallestSchedule::join_turns(std::vector<Choice>* choices) {
  for (bool again = true; again && left_ > 0;) {
    again = false;
    const std::vector<Stretch> all = stretches(*choices);
    for (size_t i = 0; i < all.size() && !again; ++i)
      for (size_t j = i + 1; j < all.size() && left_ > 0; ++j) {
        if ((*choices)[all[j].begin] != (*choices)[all[i].begin]) continue;
        again = improve(*go_through(moved(*choices, all[j], all[i].end)), choices) ||
                improve(*go_through(moved(*choices, all[i], all[j].begin)), choices);
        break;
      }
  }
}

// Half of the switches is left out while that changes nothing, then a quarter, and so on to each.
void SmallestSchedule::leave_out(std::vector<Choice>* choices) {
  for (size_t part = (list_.size() + 1) / 2; part > 0; part /= 2)
    for (size_t begin = 0; begin < list_.size() && left_ > 0;) {
      std::vector<Deviation> fewer = list_;
      const auto at = fewer.begin() + static_cast<std::ptrdiff_t>(begin);
      fewer.erase(at, at + static_cast<std::ptrdiff_t>(std::min(part, fewer.size() - begin)));
      if (!improve(*replay_choices(std::move(fewer), true), choices)) begin += part;
    }
}

void SmallestSchedule::find(std::vector<Choice> choices, int64_t runs) {
  left_ = runs;
  list_ = deviations_of(choices);
  for (size_t before = list_.size() + 1; list_.size() < before && left_ > 0;) {
    before = list_.size();
    leave_out(&choices);
    join_turns(&choices);
  }
}

namespace {

// Keeps what each turn touched.
class Watched : public Policy {
 public:
  Watched(std::unique_ptr<Policy> of, const std::function<void()>& behind) : of_(std::move(of)), behind_(behind) {}
  bool new_execution(std::vector<uint64_t>& state) override { return of_->new_execution(state); }
  size_t next(const Choices& c) override {
    if (c.turns > told_) behind_();
    told_ = c.turns;
    return of_->next(c);
  }
  uint64_t next_random() override { return of_->next_random(); }

 private:
  std::unique_ptr<Policy> of_;
  const std::function<void()>& behind_;
  int64_t told_ = 0;
};

}  // namespace

std::vector<SmallestSchedule::Turn> SmallestSchedule::turns_of(const std::vector<Deviation>& list) {
  std::vector<Turn> r;
  std::vector<Choice> record;
  const std::function<void()> note = [&] {
    const auto all = runner_.touches().all();
    r.push_back({{}, 0, runner_.touches().step(), {all.begin(), all.end()}});
  };
  Watched policy(replay_choices(list, true), note);
  runner_.run(policy, true, &record);
  if (r.size() < record.size()) note();
  r.resize(std::min(r.size(), record.size()));
  for (size_t i = 0; i < r.size(); ++i) {
    r[i].who = record[i];
    r[i].number = std::count(record.begin(), record.begin() + static_cast<std::ptrdiff_t>(i), record[i]);
  }
  return r;
}

// Without its last switch the schedule ends another way: the first two turns that depend on each other and that come
// the other way round then.
std::optional<std::pair<ir::Site, ir::Site>> SmallestSchedule::deciding() {
  if (list_.empty()) return std::nullopt;
  std::vector<Deviation> without = list_;
  without.pop_back();
  if (keeps(*replay_choices(without, true), nullptr)) return std::nullopt;
  const std::vector<Turn> here = turns_of(list_), there = turns_of(without);
  const auto place = [&](const Turn& t) {
    return std::find_if(there.begin(), there.end(),
                        [&](const Turn& x) { return x.who == t.who && x.number == t.number; });
  };
  const auto site = [&](const Turn& t) {
    return ir::site_of(locs_, t.step < 0 ? -1 : plan_.loc_of(plan_.steps[static_cast<size_t>(t.step)]));
  };
  for (auto i = static_cast<size_t>(list_.back().turn); i < here.size(); ++i)
    for (size_t j = i + 1; j < here.size(); ++j) {
      if (here[i].who == here[j].who) continue;
      const auto a = place(here[i]), b = place(here[j]);
      if (b == there.end() || (a != there.end() && a < b) || !depend(here[i].touches, here[j].touches)) continue;
      return std::pair(site(here[i]), site(here[j]));
    }
  return std::nullopt;
}

ExploredOutcome SmallestSchedule::outcome() {
  ExploredOutcome o;
  o.switches = list_.size();
  o.token = choices_token(plan_, list_);
  o.order = deciding();
  ScheduleEnd end = runner_.run(*replay_choices(list_, false), false, nullptr, o.token);
  if (!end.stop) o.outputs = runner_.outputs();
  Outcome all{std::move(end.report), std::move(end.stop)};
  conclude(plan_.module, locs_, &all);
  if (plan_.options.chip->family != hw::Family::Generic) {
    for (ir::Diagnostic& d : all.report.findings) d.chip = plan_.options.chip->name;
    if (all.stop) all.stop->chip = plan_.options.chip->name;
  }
  o.report = std::move(all.report);
  o.report.token = o.token;
  o.stop = std::move(all.stop);
  if (o.stop) o.deadlock = o.stop->code.text().starts_with("PS-DEAD") || o.stop->code.text().starts_with("PS-LIVE");
  return o;
}

}  // namespace pallasim::interp
