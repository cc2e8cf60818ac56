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
    } else if (what == 1 && !reads && !p.barriers.empty()) {
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
    switch (below(12)) {
      case 0: case 1: case 2:
        i.part = part(), i.write = one_in(2), i.atomic = one_in(5);
        return i;
      case 3:
        i.kind = Kind::Signal, i.object = below(p.semaphores), i.amount = one_in(12) ? -1 : 1 + below(2);
        return i;
      case 4: case 5:
        i.kind = Kind::Wait, i.object = below(p.semaphores), i.amount = 1 + below(2), i.flag = !one_in(4);
        return i;
      case 6: case 7:
        if (barriers == 0) return any();
        i.object = below(barriers);
        switch (below(6)) {
          case 0: i.kind = Kind::Expect, i.amount = 8; return i;
          case 1: i.kind = Kind::ArriveExpecting, i.amount = 8; return i;
          case 2: case 3: i.kind = Kind::Arrive, i.amount = 1 + one_in(6); return i;
          default: i.kind = Kind::BarrierWait; return i;
        }
      case 8: case 9: return copy();
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
  for (auto& t : p.threads)
    for (int64_t n = 4 + m.below(20); n > 0; --n) t.push_back(m.any());
  return p;
}

}  // namespace pallasim::memory::model
