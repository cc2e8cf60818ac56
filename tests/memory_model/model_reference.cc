#include <algorithm>

#include "model.h"

namespace pallasim::memory::model {
namespace {
using Kind = Instruction::Kind;

std::set<int64_t> bytes_of(const Part& p) {
  std::set<int64_t> r;
  for (int64_t y = p.row; y < p.row + p.rows; ++y)
    for (int64_t x = p.column; x < p.column + p.columns; ++x)
      for (int64_t b = 0; b < 4; ++b) r.insert((y * 8 + x) * 4 + b);
  return r;
}
}  // namespace

// A new event: after others, and, unless it is an operation's, the thread's next.
int Reference::event(std::vector<int> after, int thread) {
  const int e = static_cast<int>(past_.size());
  if (thread >= 0) {
    after.push_back(threads_[static_cast<size_t>(thread)].last);
    threads_[static_cast<size_t>(thread)].last = e;
  }
  Past past;
  for (int a : after)
    if (a >= 0) {
      past |= past_[static_cast<size_t>(a)];
      past.set(static_cast<size_t>(a));
    }
  past_.push_back(past);
  return e;
}

void Reference::touch(int e, const Part& part, const Instruction& i, bool write) {
  Done now{e, sites_++, write, i.atomic, i.proxy, part.array, bytes_of(part)};
  const Past& past = past_[static_cast<size_t>(e)];
  for (const Done& d : accesses_) {
    if (d.array != now.array || d.event == e || !(d.write || write) || (d.atomic && now.atomic)) continue;
    const bool ordered = past.test(static_cast<size_t>(d.event));
    const bool needs_fence = program_.proxies && now.proxy && !d.proxy && d.write;
    const bool fenced = std::any_of(fences_.begin(), fences_.end(), [&](int f) {
      return past.test(static_cast<size_t>(f)) && past_[static_cast<size_t>(f)].test(static_cast<size_t>(d.event));
    });
    if (ordered && (!needs_fence || fenced)) continue;
    for (int64_t b : now.bytes) {
      if (!d.bytes.count(b)) continue;
      pairs[{d.site, now.site, ordered}].insert({now.array, b});
      if (!racy_.count({now.array, b})) first_at[now.site].insert({now.array, b});
    }
  }
  for (const auto& byte : first_at[now.site]) racy_.insert(byte);
  accesses_.push_back(std::move(now));
}

Reference::Phases Reference::replay(size_t barrier) const {
  Phases p;
  int64_t observed = 0;
  p.events.emplace_back();
  for (const BarrierEvent& e : barriers_[barrier]) {
    const int64_t expected = program_.barriers[barrier].expected;
    if (e.kind == BarrierEvent::Kind::Pass) {
      observed = std::max(observed, e.amount + 1);
      p.passed += p.phase > e.amount + 1;
      continue;
    }
    if (e.kind == BarrierEvent::Kind::Arrive) {
      p.due += e.expecting;  // at the same moment: no phase ends in between
      p.arrived += e.amount;
      if (p.arrived > expected) p.over += p.arrived - expected, p.arrived = expected;
    } else {
      p.due += e.kind == BarrierEvent::Kind::Expect ? e.amount : -e.amount;
    }
    if (e.event >= 0) p.events.back().push_back(e.event);
    if (p.arrived < expected || p.due != 0) continue;
    p.unwaited += observed < p.phase;
    ++p.phase;
    p.arrived = 0;
    p.events.emplace_back();
  }
  return p;
}

// Groups from the first one on that has an incomplete operation.
int64_t Reference::outstanding(size_t stream, bool reads) const {
  int64_t first = streams_[stream].group;
  for (int64_t id : streams_[stream].operations)
    if (const Operation& op = operations_[static_cast<size_t>(id)]; !op.done) first = std::min(first, op.group);
  return streams_[stream].group - first;
}

std::vector<int> Reference::front(const Semaphore& s, int64_t units) const {
  std::vector<int> r;
  if (units > 0) r = s.paid;
  for (int64_t n = 0; n < units && n < static_cast<int64_t>(s.units.size()); ++n)
    r.push_back(s.units[static_cast<size_t>(n)].event);
  return r;
}

void Reference::signal(int64_t semaphore, int64_t units, int e, bool whole, size_t thread) {
  Semaphore& s = semaphores_[static_cast<size_t>(semaphore)];
  if (units < 0) {
    const std::vector<int> taken = front(s, -units);
    const auto n = std::min<int64_t>(-units, static_cast<int64_t>(s.units.size()));
    s.units.erase(s.units.begin(), s.units.begin() + n);
    s.owed += -units - n;
    event(taken, static_cast<int>(thread));
    return;
  }
  for (int64_t n = 0; n < units; ++n) {
    if (s.owed > 0) {
      --s.owed;
      s.paid.push_back(e);
    } else {
      s.units.push_back({!whole || n + 1 == units ? e : -1});
    }
  }
}

bool Reference::would_block(size_t t) const {
  const Thread& thread = threads_[t];
  const Instruction& i = program_.threads[t][thread.pc];
  const auto object = static_cast<size_t>(i.object);
  if (i.kind == Kind::Wait)
    return static_cast<int64_t>(semaphores_[object].units.size()) - semaphores_[object].owed < i.amount;
  if (i.kind == Kind::GroupWait) return outstanding(object, i.flag) > i.amount;
  if (i.kind != Kind::BarrierWait) return false;
  const auto passed = thread.passed.find(i.object);
  const int64_t behind = replay(object).phase - (passed == thread.passed.end() ? 0 : passed->second);
  return behind <= 0 || (program_.barriers[object].parity && behind % 2 == 0);
}

bool Reference::behind_another(const Operation& op) const {
  if (!op.what->in_order) return false;
  return std::any_of(operations_.begin(), operations_.end(),
                     [&](const Operation& o) { return !o.done && o.what->stream == op.what->stream && o.id < op.id; });
}

// Which operation a waiter makes move: of those that it waits for the oldest, or what that one stands behind.
int64_t Reference::next_on_the_way(const Instruction& i) const {
  for (const Operation& op : operations_) {
    if (op.done) continue;
    const auto is = [&](const Completion& c) {
      if (i.kind == Kind::Wait) return c.kind == Completion::Kind::Semaphore && c.object == i.object;
      if (i.kind == Kind::BarrierWait) return c.kind == Completion::Kind::Barrier && c.object == i.object;
      return c.kind == Completion::Kind::Group && op.what->stream == i.object &&
             op.group < streams_[static_cast<size_t>(i.object)].group - i.amount;
    };
    if (!is(op.what->after_read) && !is(op.what->after_write)) continue;
    for (const Operation& o : operations_)
      if (!o.done && (o.id == op.id || (op.what->in_order && o.what->stream == op.what->stream))) return o.id;
  }
  return -1;
}

void Reference::satisfy(const Instruction& i, size_t t) {
  if (program_.policy != CopyCompletion::AtWait) return;
  const auto enough = [&] {
    if (i.kind != Kind::BarrierWait) return !would_block(t);
    const auto passed = threads_[t].passed.find(i.object);
    return replay(static_cast<size_t>(i.object)).phase > (passed == threads_[t].passed.end() ? 0 : passed->second);
  };
  for (int64_t id; !enough() && (id = next_on_the_way(i)) >= 0;) complete(id);
}

void Reference::done(const Completion& c, const Operation& op, int e) {
  if (c.kind == Completion::Kind::Semaphore) signal(c.object, c.count, e, true, 0);
  if (c.kind != Completion::Kind::Barrier) return;
  auto& log = barriers_[static_cast<size_t>(c.object)];
  if (c.count > 0) log.push_back({BarrierEvent::Kind::Arrive, c.count, e});
  if (c.bytes > 0) log.push_back({BarrierEvent::Kind::Deliver, c.bytes, e});
}

void Reference::complete(int64_t id) {
  Operation& op = operations_[static_cast<size_t>(id)];
  op.done = true;
  completed_.push_back(id);
  done(op.what->after_read, op, op.reads);
  done(op.what->after_write, op, op.writes);
}

void Reference::issue(size_t t, const Instruction& i) {
  const int issued = event({}, static_cast<int>(t));
  Operation op;
  op.id = static_cast<int64_t>(operations_.size());
  op.what = &i;
  std::vector<int> after{issued};
  if (i.stream >= 0) {
    Stream& s = streams_[static_cast<size_t>(i.stream)];
    if (i.in_order && !s.operations.empty())
      after.push_back(operations_[static_cast<size_t>(s.operations.back())].writes);
    s.operations.push_back(op.id);
    op.group = s.group;
  }
  op.reads = event(after, -1);
  op.writes = i.after_read.kind == Completion::Kind::Nothing ? op.reads : event({op.reads}, -1);
  operations_.push_back(op);
  if (!i.empty) {
    touch(op.reads, i.part, i, false);
    touch(op.writes, i.to, i, true);
  }
  if (program_.policy == CopyCompletion::AtIssue) complete(op.id);
}

// The step can be done: would_block() is false, or becomes so where waiting makes operations move.
void Reference::step(size_t t) {
  Thread& thread = threads_[t];
  const Instruction& i = program_.threads[t][thread.pc];
  const auto me = static_cast<int>(t);
  const auto object = static_cast<size_t>(i.object);
  if (i.kind == Kind::Wait || i.kind == Kind::BarrierWait || i.kind == Kind::GroupWait) {
    satisfy(i, t);
    if (would_block(t)) return;
  }
  ++thread.pc;
  switch (i.kind) {
    case Kind::Access: touch(event({}, me), i.part, i, i.write); break;
    case Kind::Fresh:
      for (int64_t b = i.part.row * 32; b < (i.part.row + i.part.rows) * 32; ++b) {
        for (Done& d : accesses_)
          if (d.array == i.part.array) d.bytes.erase(b);
        racy_.erase({i.part.array, b});
      }
      break;
    case Kind::Signal: signal(i.object, i.amount, event({}, me), false, t); break;
    case Kind::Wait: {
      Semaphore& s = semaphores_[object];
      event(front(s, i.amount), me);
      if (i.flag) s.units.erase(s.units.begin(), s.units.begin() + i.amount);
      break;
    }
    case Kind::Arrive: barriers_[object].push_back({BarrierEvent::Kind::Arrive, i.amount, event({}, me)}); break;
    case Kind::Expect: barriers_[object].push_back({BarrierEvent::Kind::Expect, i.amount, -1}); break;
    case Kind::ArriveExpecting:
      barriers_[object].push_back({BarrierEvent::Kind::Arrive, 1, event({}, me), i.amount});
      break;
    case Kind::BarrierWait: {
      int64_t& passed = thread.passed[i.object];
      const Phases p = replay(object);
      event(p.events[static_cast<size_t>(passed)], me);
      barriers_[object].push_back({BarrierEvent::Kind::Pass, passed, -1});
      ++passed;
      break;
    }
    case Kind::Copy: issue(t, i); break;
    case Kind::Commit: ++streams_[object].group; break;
    case Kind::GroupWait: {
      std::vector<int> after;
      for (int64_t id : streams_[object].operations) {
        const Operation& op = operations_[static_cast<size_t>(id)];
        if (op.group < streams_[object].group - i.amount) after.push_back(i.flag ? op.reads : op.writes);
      }
      event(after, me);
      break;
    }
    case Kind::Fence: fences_.push_back(event({}, me)); break;
  }
}

Status Reference::status() const {
  Status s;
  for (const Thread& t : threads_) s.pc.push_back(t.pc);
  for (const Semaphore& x : semaphores_) s.counts.push_back(static_cast<int64_t>(x.units.size()) - x.owed);
  for (size_t i = 0; i < barriers_.size(); ++i) {
    const Phases p = replay(i);
    s.phases.push_back(p.phase);
    s.over_arrivals += p.over;
    s.unwaited += p.unwaited;
    s.passed += program_.barriers[i].parity ? 0 : p.passed;
  }
  for (size_t i = 0; i < streams_.size(); ++i)
    for (const bool reads : {true, false}) s.groups.push_back(outstanding(i, reads));
  s.completed = completed_;
  for (const Operation& op : operations_)
    if (!op.done && !behind_another(op)) s.movable.push_back(op.id);
  return s;
}

}  // namespace pallasim::memory::model
