#include <algorithm>

#include "model.h"

namespace pallasim::memory::model {
namespace {

using Kind = Instruction::Kind;

struct Maker {
  std::mt19937_64& rng;
  Program p;
  int64_t below(int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }

  // Often blocks of a grid or whole rows, so that boxes coincide; sometimes any.
  Part part() {
    Part q;
    q.array = static_cast<int32_t>(below(2));
    if (!one_in(4)) {
      q.rows = one_in(2) ? 2 : 1, q.columns = one_in(2) ? 4 : 8;
      q.row = below(6 / q.rows) * q.rows, q.column = below(8 / q.columns) * q.columns;
    } else {
      q.row = below(6), q.column = below(8);
      q.rows = 1 + below(6 - q.row), q.columns = 1 + below(8 - q.column);
    }
    return q;
  }
  Completion completion(bool reads, int64_t stream) {
    Completion c;
    const int64_t what = below(4);
    if (what == 0) {
      c.kind = Completion::Kind::Semaphore;
      c.object = below(p.semaphores);
      c.count = 1 + below(2);
    } else if (what <= 2 && !reads && !p.barriers.empty()) {
      c.kind = Completion::Kind::Barrier;
      c.object = below(static_cast<int64_t>(p.barriers.size()));
      c.bytes = one_in(3) ? 0 : 8;
      c.count = c.bytes == 0 || one_in(4);
    } else if (stream >= 0) {
      c.kind = Completion::Kind::Group;
    }
    return c;
  }
  Instruction copy() {
    Instruction i{Kind::Copy};
    i.part = part(), i.to = part();
    if (!p.streams.empty() && one_in(2)) {
      i.stream = below(static_cast<int64_t>(p.streams.size()));
      i.in_order = p.streams[static_cast<size_t>(i.stream)];
    }
    if (one_in(2)) i.after_read = completion(true, i.stream);
    i.after_write = completion(false, i.stream);
    i.proxy = p.proxies && one_in(2);
    i.empty = i.stream >= 0 && one_in(6);
    return i;
  }
  Instruction any() {
    Instruction i{Kind::Access};
    const auto barriers = static_cast<int64_t>(p.barriers.size()), streams = static_cast<int64_t>(p.streams.size());
    switch (below(13)) {
      case 0:
      case 1:
      case 2:
      case 12: i.part = part(), i.write = one_in(2), i.atomic = one_in(5); return i;
      case 3:
      case 5:
        i.kind = Kind::Signal, i.object = below(p.semaphores), i.amount = one_in(12) ? -1 : 1 + below(2);
        return i;
      case 4:
        i.kind = Kind::Wait, i.object = below(p.semaphores), i.amount = 1 + below(2), i.flag = !one_in(4);
        return i;
      case 6:
      case 7:
        if (barriers == 0) return any();
        i.object = below(barriers);
        switch (below(12)) {
          case 0: i.kind = Kind::Expect, i.amount = 8; return i;
          case 1:
          case 2: i.kind = Kind::ArriveExpecting, i.amount = 8; return i;
          case 3:
          case 4:
          case 5:
          case 6:
          case 7: i.kind = Kind::Arrive, i.amount = 1 + one_in(6); return i;
          default: i.kind = Kind::BarrierWait; return i;
        }
      case 8:
      case 9: return copy();
      case 10:
        if (streams == 0) return any();
        i.object = below(streams);
        i.kind = one_in(2) ? Kind::Commit : Kind::GroupWait;
        i.amount = i.kind == Kind::GroupWait ? below(3) : 0, i.flag = one_in(2);
        return i;
      default:
        if (p.proxies) i.kind = Kind::Fence;
        else if (one_in(3)) {
          i.kind = Kind::Fresh, i.part = part();
        } else {
          i.part = part(), i.write = true;
        }
        return i;
    }
  }
  // A block that the thread has to itself in this round: one of 6 rows of one of 2 arrays, now and then somebody
  // else's.
  Part own(size_t thread, int64_t round) {
    const auto place = one_in(40) ? below(12) : (static_cast<int64_t>(thread) + round) % 12;
    Part q{static_cast<int32_t>(place / 6), place % 6, 0, 1, 8};
    if (one_in(4)) q.columns = 4, q.column = one_in(2) ? 4 : 0;
    return q;
  }
  // Threads that work on blocks of their own, meet, and go on to the next: barrier 0, or a round of signals, orders
  // them.
  void rounds() {
    const auto n = static_cast<int64_t>(p.threads.size());
    if (p.barriers.empty()) p.barriers.emplace_back();
    p.barriers[0].expected = n;
    p.semaphores = 2 * n;  // of each thread: one for signals, one for its copies
    for (int64_t round = 0, end = 2 + below(4); round < end; ++round) {
      const bool signals = one_in(3), fences = p.proxies && !one_in(8);
      for (size_t t = 0; t < p.threads.size(); ++t) {
        auto& out = p.threads[t];
        const auto me = static_cast<int64_t>(t);
        for (int64_t k = 1 + below(3); k > 0; --k) {
          Instruction i{one_in(3) ? Kind::Copy : Kind::Access};
          i.part = own(t, round), i.to = own(t, round);
          i.write = one_in(2);
          if (i.kind == Kind::Copy) {
            i.proxy = p.proxies && one_in(2);
            if (i.proxy && fences) out.push_back({Kind::Fence});
            i.after_write = {Completion::Kind::Semaphore, n + me, 2, 0};
          }
          out.push_back(i);
          if (i.kind != Kind::Copy) continue;
          Instruction wait{Kind::Wait, n + me, 2, true};
          out.push_back(wait);
        }
        if (fences) out.push_back({Kind::Fence});
        if (signals) {
          for (int64_t u = 0; u < n; ++u)
            if (u != me) out.push_back({Kind::Signal, u, 1});
          out.push_back({Kind::Wait, me, n - 1, true});
        } else {
          out.push_back({Kind::Arrive, 0, 1});
          out.push_back({Kind::BarrierWait, 0});
        }
      }
    }
  }
};

}  // namespace

Program random_program(std::mt19937_64& rng) {
  Maker m{rng, {}};
  Program& p = m.p;
  p.semaphores = 1 + m.below(3);
  for (int64_t n = m.below(3); n > 0; --n) {
    Barrier b;
    b.expected = 1 + m.below(3);
    b.parity = m.one_in(3);
    p.barriers.push_back(b);
  }
  for (int64_t n = m.below(3); n > 0; --n) p.streams.push_back(m.one_in(2));
  p.policy = static_cast<CopyCompletion>(m.below(3));
  p.proxies = m.one_in(3);
  p.threads.resize(static_cast<size_t>(2 + m.below(4)));
  if (m.one_in(3)) {
    m.rounds();
    return p;
  }
  for (auto& t : p.threads)
    for (int64_t n = 4 + m.below(20); n > 0; --n) t.push_back(m.any());
  return p;
}

}  // namespace pallasim::memory::model
