// Semaphores, copies, and the threads that wait for each other: one runs at a time, until it waits or ends.
#include "machine.h"

namespace pallasim::oracle {

Ref Machine::keyed_view(Thread& t, const Op& op, const char* key) {
  const ir::Viewed& v = *op.viewed(key);
  return view(t, op, ref(t, op, v.operand), v.transforms);
}

int64_t& Machine::semaphore(const Ref& r) {
  if (!ir::is_sync(r.dtype) || r.memory->counts.empty() || r.at.size() != 1) throw Lack{"a semaphore of this kind"};
  if (r.at[0] < 0) throw Stop{"out of bounds: semaphore of " + r.memory->name};
  return r.memory->counts[r.at[0]];
}

// The elements of both sides but for those that an ignored index names, as one line.
static void leave_out_ignored(Ref& src, Ref& dst) {
  const auto ignored = [](const Ref& r, int64_t n) { return r.at[n * r.parts] == kIgnored; };
  Ref from = src, to = dst;
  from.at.clear(), to.at.clear();
  const int64_t total = count(src.dims);
  int64_t kept = 0;
  for (int64_t n = 0; n < total; ++n) {
    if (ignored(src, n) || ignored(dst, n)) continue;
    ++kept;
    for (int p = 0; p < src.parts; ++p) from.at.push_back(src.at[n * src.parts + p]);
    for (int p = 0; p < dst.parts; ++p) to.at.push_back(dst.at[n * dst.parts + p]);
  }
  if (kept == total) return;
  from.dims = to.dims = {kept};
  src = std::move(from), dst = std::move(to);
}

// One by one: a place that comes twice is added to twice.
static void add_elements(const Ref& to, const Array& from) {
  interp::StripParams p;
  p.dtype = to.dtype;
  Ref one = to;
  one.dims = {};
  Array x = empty_array(to.dtype, {});
  for (int64_t n = 0, total = count(to.dims); n < total; ++n) {
    one.at.assign(to.at.begin() + n * to.parts, to.at.begin() + (n + 1) * to.parts);
    put(x, 0, from, n);
    const Array now = read(one);
    write(one, elementwise(OpCode::add, to.dtype, to.dtype, {}, {&now, &x}, p));
  }
}

void Machine::op_copy(Thread& t, const Op& op) {
  Ref src = keyed_view(t, op, "src"), dst = keyed_view(t, op, "dst");
  Ref received = keyed_view(t, op, "dst_sem");
  if (src.dims != dst.dims) throw Stop{"a copy between views of different shapes"};
  if (src.dtype != dst.dtype || ir::is_sync(src.dtype)) throw Lack{"a copy that changes the type"};
  for (const Ref* r : {&src, &dst})
    if (std::count(r->at.begin(), r->at.end(), kPadding)) throw Lack{"padding of tiles"};
  const int64_t moved = (count(src.dims) * ir::bit_width(src.dtype) + 7) / 8;
  leave_out_ignored(src, dst);
  const int target = peer(t, op, "copy");
  if (target != t.index) dst = at_thread(dst, target), received = at_thread(received, target);
  // A load outside may go on; the engine that moves copies does not.
  for (const int64_t at : src.at)
    if (at == kOutside) throw Stop{"out of bounds: copy of " + src.memory->name};
  const Array bytes = read(src);
  if (const Attr* add = op.attr("add"); add && add->is_true()) add_elements(dst, bytes);
  else write(dst, bytes);
  if (op.attr("src_sem")) {
    const Ref sent = keyed_view(t, op, "src_sem");
    semaphore(sent) += sent.memory->dtype == DType::DmaSem ? moved : 1;
  }
  semaphore(received) += received.memory->dtype == DType::DmaSem ? moved : 1;
}

bool Machine::sync_op(Thread& t, const Op& op) {
  auto amount = [&](const char* key) {
    const Attr* a = op.attr(key);
    return !a ? 1 : a->is(Attr::Kind::Operand) ? integer(in(t, op, a->i)) : a->i;
  };
  auto here = [&] { return view(t, op, ref(t, op, 0), op.view()); };
  switch (op.code) {
    case OpCode::dma_start: return op_copy(t, op), true;
    case OpCode::sc_barrier: return op_barrier(t), true;
    case OpCode::sc_fetch_and_add: return op_fetch_and_add(t, op), true;
    case OpCode::dma_wait: {
      const Ref dst = keyed_view(t, op, "dst"), sem = keyed_view(t, op, "dst_sem");
      wait(t, semaphore(sem), (count(dst.dims) * ir::bit_width(dst.dtype) + 7) / 8, true);
      return true;
    }
    case OpCode::get_global:
      if (!ir::is_sync(type(t, op)->dtype)) throw Lack{"get_global of what is no semaphore"};
      t.env[op.results[0]] = allocated(t, type(t, op), &op, "a global semaphore");
      return true;
    case OpCode::gpu_sem_signal:
    case OpCode::sem_signal: {
      const int target = peer(t, op, "signal");
      semaphore(target == t.index ? here() : at_thread(here(), target)) += amount("inc");
      return true;
    }
    case OpCode::gpu_sem_wait:
    case OpCode::sem_wait: {
      const Attr* take = op.attr("decrement");
      return wait(t, semaphore(here()), amount("value"), !take || take->is_true()), true;
    }
    case OpCode::sem_read:
      // Who looks again and again waits for somebody else.
      if (t.while_depth > 0 && threads_.size() > 1)
        hand_over(
            t, [] { return true; }, true);
      return out(t, op, integer_scalar(type(t, op)->dtype, semaphore(here()))), true;
    case OpCode::get_barrier_semaphore:
      t.env[op.results[0]] = allocated(t, type(t, op), &m_.bodies, "the barrier semaphore");
      return true;
    default: return false;
  }
}

void Machine::wait(Thread& t, int64_t& now, int64_t value, bool take) {
  if (now < value)
    hand_over(
        t, [&now, value] { return now >= value; }, false);
  if (take) now -= value;
}

// The first thread of the order that can go on; behind `after` where somebody polls. -1: nobody.
int Machine::next_thread(int after) {
  std::vector<int> order = setting_.order;
  for (int i = 0; i < static_cast<int>(std::max(threads_.size(), ready_.size())); ++i)
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  const auto from = after < 0 ? order.begin() : std::find(order.begin(), order.end(), after) + 1;
  std::rotate(order.begin(), from, order.end());
  for (int i : order)
    if (i >= 0 && i < static_cast<int>(ready_.size()) && ready_[i] && ready_[i]()) return i;
  return -1;
}

void Machine::hand_over(Thread& t, std::function<bool()> ready, bool polls) {
  ready_[t.fiber] = std::move(ready);
  running_ = next_thread(polls ? t.fiber : -1);
  if (running_ < 0) throw Stop{"deadlock: every thread waits"};
  if (running_ != t.fiber) {
    const Trips::Away away;
    fibers_->leave();
  }
  if (over_) throw Abandon{};
  ready_[t.fiber] = [] { return true; };
}

// Runs a body to its end, and hands over then.
void Machine::guarded(size_t i, const std::function<void()>& body) {
  const auto end = [this](End how, std::string what) {
    if (!over_) outcome_.end = how, outcome_.what = std::move(what);
    over_ = true;
  };
  try {
    body();
    ready_[i] = nullptr;
    running_ = next_thread(-1);
    const bool all = std::none_of(ready_.begin(), ready_.end(), [](const auto& r) { return static_cast<bool>(r); });
    if (running_ < 0 && !all) throw Stop{"deadlock: every thread waits"};
  } catch (const Stop& s) { end(End::Stopped, s.what); } catch (const Lack& l) {
    end(End::Missing, l.what);
  } catch (const Abandon&) {
  } catch (const std::exception& e) { end(End::Missing, e.what()); }
}

void Machine::schedule(const std::vector<std::function<void()>>& bodies) {
  ready_.assign(bodies.size(), [] { return true; });
  running_ = next_thread(-1);
  if (bodies.size() == 1 && m_.meshes.empty()) return guarded(0, bodies[0]);
  std::vector<std::function<void()>> runs;
  for (size_t i = 0; i < bodies.size(); ++i) runs.push_back([this, &bodies, i] { guarded(i, bodies[i]); });
  Fibers fibers(std::move(runs));
  fibers_ = &fibers;
  while (!over_ && running_ >= 0) fibers.switch_to(static_cast<size_t>(running_));
  // Who still waits leaves its frames.
  for (size_t i = 0; i < fibers.size(); ++i)
    if (fibers.began(i) && !fibers.ended(i)) fibers.switch_to(i);
  fibers_ = nullptr;
}

}  // namespace pallasim::oracle
