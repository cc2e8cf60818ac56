#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model.h"

namespace pallasim::memory::model {
namespace {
using Kind = Instruction::Kind;
constexpr int64_t kRow = 8, kStrides[] = {kRow, 1};
}  // namespace

std::string text(const Status& s) {
  return fmt::format("pc {} counts {} phases {} groups {} completed {} movable {} over {} unwaited {} passed {}", s.pc,
                     s.counts, s.phases, s.groups, s.completed, s.movable, s.over_arrivals, s.unwaited, s.passed);
}

Machine::Machine(const Program& p)
    : program_(&p),
      pc_(p.threads.size()),
      waiting_(p.threads.size()),
      seen_(p.threads.size()),
      semaphores_(p.semaphores),
      barriers_(p.barriers),
      order_(p.proxies),
      races_({.every = true}) {
  std::vector<Stream> streams;
  for (const bool in_order : p.streams) {
    streams.emplace_back();
    streams.back().in_order = in_order;
  }
  streams_ = Streams(std::move(streams));
}

bool Machine::runnable(size_t t) const { return !ended(t) && !waiting_[t]; }

void Machine::step(size_t t) {
  const Instruction& i = program_->threads[t][pc_[t]];
  if (run(t, i)) ++pc_[t];
  else waiting_[t] = true;
  for (int32_t w : woken_) waiting_[static_cast<size_t>(w)] = false;
  woken_.clear();
}

void Machine::complete(int64_t id) {
  for (size_t i = 0; i < queue_.size(); ++i)
    if (queue_[i].id == id) {
      finish(queue_.take(i));
      break;
    }
  for (int32_t w : woken_) waiting_[static_cast<size_t>(w)] = false;
  woken_.clear();
}

void Machine::finish(AsyncOperation op) {
  completed_.push_back(op.id);
  const shadow::Issued actors = issued_.at(op.id);
  for (const Completion& c : op.after_read) done(c, op, actors.reads, true);
  for (const Completion& c : op.after_write) done(c, op, actors.writes, false);
  if (op.stream >= 0) streams_.writes_done(op.stream, op.group, false, &woken_);
}

void Machine::done(const Completion& c, const AsyncOperation& op, shadow::Actor who, bool reads) {
  if (c.kind == Completion::Kind::Semaphore) {
    semaphores_.signal(c.object, c.count, &woken_);
    order_.signal(who, c.object, c.count, true);
  } else if (c.kind == Completion::Kind::Barrier) {
    in_flight_.counted(op.id, c.object, barriers_[c.object].phase);
    if (c.count > 0) {
      order_.arrive(who, c.object);
      phase_ended(barriers_.arrive(c.object, c.count, -1, &woken_), c.object);
    }
    if (c.bytes > 0) {
      order_.arrive(who, c.object);
      phase_ended(barriers_.deliver(c.object, c.bytes, &woken_), c.object);
    }
  }
}

void Machine::phase_ended(bool ended, int64_t barrier) {
  if (ended) order_.end_phase(barrier);
}

void Machine::satisfy(const Awaited& a) {
  if (program_->policy != CopyCompletion::AtWait) return;
  if (const size_t next = queue_.next(a); next < queue_.size()) finish(queue_.take(next));
}

bool Machine::semaphore_wait(size_t t, const Instruction& i) {
  const Awaited a{Completion::Kind::Semaphore, i.object};
  for (size_t left = queue_.size() + 1; semaphores_.count(i.object) < i.amount && left > 0; --left) satisfy(a);
  const auto thread = static_cast<int32_t>(t);
  if (!semaphores_.wait(i.object, i.amount, i.flag, thread)) return false;
  if (i.flag) {
    order_.take(thread, i.object, i.amount);
    in_flight_.taken(i.object, i.amount);
  } else {
    order_.look(thread, i.object, i.amount);
  }
  return true;
}

bool Machine::barrier_wait(size_t t, const Instruction& i) {
  const Awaited a{Completion::Kind::Barrier, i.object};
  int64_t& seen = seen_[t][i.object];
  for (size_t left = queue_.size() + 1; barriers_[i.object].phase <= seen && left > 0; --left) satisfy(a);
  if (!barriers_.wait(i.object, &seen, static_cast<int32_t>(t))) return false;
  order_.passed(static_cast<int32_t>(t), i.object, seen - 1);
  in_flight_.saw_phase(i.object, seen - 1);
  return true;
}

bool Machine::group_wait(size_t t, const Instruction& i) {
  const Awaited a{Completion::Kind::Group, i.object, streams_.last_awaited(i.object, i.amount)};
  for (size_t left = queue_.size() + 1; streams_[i.object].outstanding(i.flag) > i.amount && left > 0; --left)
    satisfy(a);
  if (!streams_.wait(i.object, i.amount, i.flag, static_cast<int32_t>(t))) return false;
  order_.wait_group(static_cast<int32_t>(t), i.object, i.amount, i.flag);
  in_flight_.saw_groups(i.object, a.last_group, i.flag);
  return true;
}

void Machine::access(shadow::Actor who, const Part& p, const Instruction& i, bool write, int32_t thread) {
  const int64_t dims[] = {p.rows, p.columns};
  shadow::Access a{who,     p.array, (p.row * kRow + p.column) * 4, dims, kStrides, 2, 4, write, i.atomic,
                   i.proxy, sites_++};
  in_flight_.access(a, thread);
  races_.access(order_, a);
  if (write) written_[p.array].write(a.box());
}

void Machine::copy(size_t t, const Instruction& i) {
  AsyncOperation op;
  op.id = operations_++;
  op.thread = static_cast<int32_t>(t);
  op.stream = i.stream;
  op.kind = i.in_order ? AsyncKind::wgmma : AsyncKind::tma_store;
  const auto told = [&](Completion c, Few<Completion>* by) {
    if (c.kind == Completion::Kind::Group) c.object = i.stream;
    if (c.kind != Completion::Kind::Nothing) by->add(c);
  };
  told(i.after_read, &op.after_read);
  told(i.after_write, &op.after_write);
  if (op.stream >= 0) op.group = streams_.issue(op.stream);
  const bool two_sided = !op.after_read.empty();
  const shadow::Issued actors = order_.issue(op.thread, op.stream, memory::row(op.kind).order, two_sided);
  issued_[op.id] = actors;
  if (!i.empty) {
    access(actors.reads, i.part, i, false, op.thread);
    access(actors.writes, i.to, i, true, op.thread);
    shadow::Flight f;
    f.site = sites_;
    const auto side = [](const Part& p, bool write) {
      const int64_t dims[] = {p.rows, p.columns};
      return shadow::FlightSide{p.array, shadow::Box((p.row * kRow + p.column) * 4, dims, kStrides, 2, 4), write};
    };
    f.sides = {side(i.part, false), side(i.to, true)};
    const auto owed = [&](const Completion& c) {
      return shadow::Owed{c.kind, c.object, c.kind == Completion::Kind::Semaphore ? c.count : 1,
                          c.kind == Completion::Kind::Group ? op.group : INT64_MAX};
    };
    for (const Completion& c : op.after_read) f.after_read.push_back(owed(c));
    for (const Completion& c : op.after_write) f.after_write.push_back(owed(c));
    in_flight_.start(op.id, f);
    const auto lies_at = [](const Part& p, Side& side) {
      side.place = {0, static_cast<uint32_t>(p.array), (p.row * kRow + p.column) * 4};
      side.rank = 2;
      side.dims[0] = p.rows, side.dims[1] = p.columns;
      side.strides[0] = kRow, side.strides[1] = 1;
    };
    lies_at(i.part, op.reads.add());
    lies_at(i.to, op.writes.add());
  }
  queue_.push(op);
  if (program_->policy == CopyCompletion::AtIssue) finish(queue_.take(0));
}

bool Machine::run(size_t t, const Instruction& i) {
  const auto thread = static_cast<int32_t>(t);
  switch (i.kind) {
    case Kind::Access: access(thread, i.part, i, i.write, thread); return true;
    case Kind::Fresh: {
      const int64_t begin = i.part.row * kRow * 4, end = begin + i.part.rows * kRow * 4;
      races_.fresh(i.part.array, begin, end);
      written_[i.part.array].clear(begin, end);
      return true;
    }
    case Kind::Signal:
      order_.signal(thread, i.object, i.amount);
      semaphores_.signal(i.object, i.amount, &woken_);
      return true;
    case Kind::Wait: return semaphore_wait(t, i);
    case Kind::Arrive:
      order_.arrive(thread, i.object);
      phase_ended(barriers_.arrive(i.object, i.amount, thread, &woken_), i.object);
      return true;
    case Kind::Expect: phase_ended(barriers_.expect(i.object, i.amount, &woken_), i.object); return true;
    case Kind::ArriveExpecting:
      order_.arrive(thread, i.object);
      phase_ended(barriers_.arrive_expecting(i.object, i.amount, thread, &woken_), i.object);
      return true;
    case Kind::BarrierWait: return barrier_wait(t, i);
    case Kind::Copy: copy(t, i); return true;
    case Kind::Commit:
      streams_.commit(i.object);
      order_.commit(i.object);
      return true;
    case Kind::GroupWait: return group_wait(t, i);
    case Kind::Fence: order_.fence(thread); return true;
  }
  return true;
}

Status Machine::status() const {
  Status s;
  s.pc = pc_;
  for (int64_t i = 0; i < program_->semaphores; ++i) s.counts.push_back(semaphores_.count(i));
  for (size_t i = 0; i < barriers_.size(); ++i) s.phases.push_back(barriers_[static_cast<int64_t>(i)].phase);
  for (size_t i = 0; i < streams_.size(); ++i)
    for (const bool reads : {true, false}) s.groups.push_back(streams_[static_cast<int64_t>(i)].outstanding(reads));
  s.completed = completed_;
  for (size_t n = 0; n < queue_.choices(); ++n) s.movable.push_back(queue_[queue_.choice(n)].id);
  for (const BarrierFinding& f : barriers_.findings()) {
    s.over_arrivals += f.kind == BarrierFinding::Kind::OverArrival ? f.amount : 0;
    s.unwaited += f.kind == BarrierFinding::Kind::Unwaited;
    s.passed += f.kind == BarrierFinding::Kind::PassedPhase && !barriers_[f.barrier].parity;
  }
  return s;
}

}  // namespace pallasim::memory::model
