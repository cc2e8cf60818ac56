// What happens before what, counted on the program's own list of items; and programs in which all conflicts are
// ordered.
#include "races.h"

#include <algorithm>
#include <array>
#include <deque>

#include "case.h"

namespace pallasim::judge {

bool Block::meets(const Block& o) const {
  return row < o.row + o.rows && o.row < row + rows && column < o.column + o.columns && o.column < column + columns;
}

namespace {

using Kind = Item::Kind;

// Nodes of a program's history, each with the set of all that come before it.
class History {
 public:
  // `together`: threads of a core, which meet at barriers.
  explicit History(int threads, int together = 1) : last_(static_cast<size_t>(threads), -1), together_(together) {}

  struct Touch {
    int node;
    Place place;
    bool write;
    int id;      // line
    int copy;    // -1: by a thread
    int thread;  // or the issuer
  };

  void add(const Item& item) {
    if (item.kind == Kind::Barrier) return meet(item);
    const auto t = static_cast<size_t>(item.thread);
    std::vector<int> before;
    if (last_[t] >= 0) before.push_back(last_[t]);
    if (item.kind == Kind::Wait) {
      auto& queue = signals_[{item.thread, item.number}];
      for (int n = item.amount; n > 0 && !queue.empty(); --n) before.push_back(queue.front()), queue.pop_front();
    }
    if (item.kind == Kind::CopyWait) before.push_back(copies_.at(item.number)[item.reads]);
    const int node = last_[t] = make(before);
    switch (item.kind) {
      case Kind::Signal: signals_[{item.target, item.number}].push_back(node); break;
      case Kind::Access: touches.push_back({node, item.to, item.write, item.id, -1, item.thread}); break;
      case Kind::Copy: {
        // What arrived was read before.
        const int read = make({node}), write = item.remote ? make({node, read}) : read;
        copies_[item.number] = {write, read};
        touches.push_back({read, item.from, false, item.id, item.number, item.thread});
        touches.push_back({write, item.to, true, item.id, item.number, item.thread});
        break;
      }
      default: break;
    }
  }
  bool before(int a, int b) const {
    return a == b || (a < b && before_[static_cast<size_t>(b)][static_cast<size_t>(a)]);
  }
  // Does the thread know of the node?
  bool known(int node, int thread) const {
    const int last = last_[static_cast<size_t>(thread)];
    return last >= 0 && before(node, last);
  }
  static bool conflict(const Touch& a, const Touch& b) {
    return (a.write || b.write) && a.place.array == b.place.array && a.place.block.meets(b.place.block);
  }
  std::vector<Touch> touches;

 private:
  // The first of them to come brings all: nothing of theirs lies between.
  void meet(const Item& item) {
    if (!met_.insert({item.thread / together_, item.number}).second) return;
    const int first = item.thread / together_ * together_;
    std::vector<int> before;
    for (int u = first; u < first + together_; ++u) {
      const auto at = static_cast<size_t>(u);
      before.push_back(make(last_[at] < 0 ? std::vector<int>() : std::vector<int>{last_[at]}));
    }
    for (int u = first; u < first + together_; ++u) last_[static_cast<size_t>(u)] = make(before);
  }
  int make(const std::vector<int>& direct) {
    std::vector<bool> all(before_.size(), false);
    for (int d : direct) {
      for (size_t i = 0; i < before_[static_cast<size_t>(d)].size(); ++i)
        if (before_[static_cast<size_t>(d)][i]) all[i] = true;
      all[static_cast<size_t>(d)] = true;
    }
    before_.push_back(std::move(all));
    return static_cast<int>(before_.size()) - 1;
  }
  std::vector<int> last_;  // of each thread its last node
  int together_;
  std::set<std::pair<int, int>> met_;
  std::vector<std::vector<bool>> before_;
  std::map<std::pair<int, int>, std::deque<int>> signals_;
  std::map<int, std::array<int, 2>> copies_;  // nodes of what is written, and read
};

}  // namespace

std::set<std::pair<int, int>> RaceProgram::races() const {
  History h(threads(), std::max(1, subcores));
  for (const Item& i : items) h.add(i);
  std::set<std::pair<int, int>> r;
  for (size_t a = 0; a < h.touches.size(); ++a)
    for (size_t b = a + 1; b < h.touches.size(); ++b) {
      const History::Touch &x = h.touches[a], &y = h.touches[b];
      if (x.copy >= 0 && x.copy == y.copy) continue;
      if (History::conflict(x, y) && !h.before(x.node, y.node) && !h.before(y.node, x.node))
        r.insert(std::minmax(x.id, y.id));
    }
  return r;
}

bool RaceProgram::drop(size_t at) {
  const Item gone = items[at];
  // Waits go with what they wait for; all memory is written before it is read.
  if (gone.kind == Kind::CopyWait || gone.kind == Kind::Wait || gone.first) return false;
  // How many signals of this semaphore came before it from that thread: the wait that takes this one takes one less.
  int before = 0;
  for (size_t i = 0; i < at; ++i)
    before += items[i].kind == Kind::Signal && items[i].target == gone.target && items[i].number == gone.number;
  if (gone.kind == Kind::Barrier) {  // nobody comes, or all do
    std::erase_if(items, [&](const Item& i) { return i.kind == Kind::Barrier && i.number == gone.number; });
    return !items.empty();
  }
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  if (gone.kind == Kind::Copy)
    std::erase_if(items, [&](const Item& i) { return i.kind == Kind::CopyWait && i.number == gone.number; });
  if (gone.kind == Kind::Signal)
    for (size_t i = 0, taken = 0; i < items.size(); ++i) {
      Item& w = items[i];
      if (w.kind != Kind::Wait || w.thread != gone.target || w.number != gone.number) continue;
      taken += static_cast<size_t>(w.amount);
      if (static_cast<int>(taken) <= before) continue;
      if (--w.amount == 0) items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  return !items.empty();
}

namespace {

class Maker {
 public:
  Maker(uint64_t seed, std::map<std::string, int>* terms) : rng_(seed), terms_(*terms), history_(0) {
    program_.seed = seed;
    const auto kind = rng_.below(13);
    if (kind >= 10) {
      program_.subcores = static_cast<int>(rng_.in(2, 3));
      program_.cores = program_.subcores * static_cast<int>(rng_.in(1, 2));
    } else if (kind < 5) program_.cores = static_cast<int>(rng_.in(2, 4));
    else if (kind < 8) program_.devices = static_cast<int>(rng_.in(2, 4));
    else program_.devices = 2, program_.cores = 2;
    program_.semaphores = program_.threads();  // by who signals; then one per meeting of all
    history_ = History(program_.threads(), std::max(1, program_.subcores));
    count(program_.subcores > 0 ? "subcores"
          : program_.cores > 1  ? program_.devices > 1 ? "cores of devices" : "cores"
                                : "devices");
  }

  RaceProgram make() {
    first_writes();
    if (program_.devices > 1) meet();  // else they are launches of their own
    for (int64_t n = rng_.in(4, 14); n > 0; --n) switch (rng_.below(8)) {
        case 0: program_.subcores > 0 && rng_.chance(70) ? barrier() : meet(); break;
        case 1:
        case 2: copy(false); break;
        case 3:
        case 4: copy(true); break;
        default: access(thread());
      }
    while (!pending_.empty()) wait(pending_.front());
    return std::move(program_);
  }

 private:
  struct Pending {
    int copy, thread;  // who waits
    bool reads;
    int touch;  // of the history
  };

  void count(const std::string& term) { ++terms_["races: " + term]; }
  int thread() { return static_cast<int>(rng_.below(program_.threads())); }
  Block block() {
    const auto part = [&](int64_t n, int64_t* at, int64_t* size) {
      *size = rng_.chance(35) ? n : rng_.in(1, n);
      *at = rng_.in(0, n - *size);
    };
    Block b;
    part(Block::kRows, &b.row, &b.rows);
    part(Block::kColumns, &b.column, &b.columns);
    return b;
  }
  void add(Item i) {
    i.id = next_id_++;
    i.variant = static_cast<int>(rng_.below(1000));
    history_.add(i);
    program_.items.push_back(i);
  }

  // Brings to the thread's knowledge all that it may not overtake. On the way others may do something more, at first.
  void order(int t, const Place& p, bool write) {
    const bool quiet = quiet_;
    for (int round = 0;; ++round) {
      quiet_ = quiet || round > 2;
      const auto x = std::find_if(history_.touches.begin(), history_.touches.end(), [&](const History::Touch& h) {
        return History::conflict(h, {0, p, write, 0, -1, t}) && !history_.known(h.node, t);
      });
      if (x == history_.touches.end()) break;
      const History::Touch h = *x;
      const auto late = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& w) {
        return history_.touches[static_cast<size_t>(w.touch)].node == h.node;
      });
      if (late != pending_.end()) wait(*late);
      int from = h.thread;
      if (h.copy >= 0)
        for (const Item& i : program_.items)
          if (i.kind == Kind::CopyWait && i.number == h.copy && history_.known(h.node, i.thread)) from = i.thread;
      if (!history_.known(h.node, t)) signal(from, t);
    }
    quiet_ = quiet;
  }
  void wait(Pending w) {
    std::erase_if(pending_, [&](const Pending& p) { return p.copy == w.copy && p.reads == w.reads; });
    Item i;
    i.kind = Kind::CopyWait, i.thread = w.thread, i.number = w.copy, i.reads = w.reads;
    add(i);
  }
  void signal(int from, int to) {
    Item s;
    s.kind = Kind::Signal, s.thread = from, s.target = to, s.number = from;
    add(s);
    if (!quiet_ && depth_ < 2 && rng_.chance(30)) {  // something of which the other does not know
      ++depth_;
      access(from);
      --depth_;
    }
    Item w;
    w.kind = Kind::Wait, w.thread = to, w.number = from;
    add(w);
    count("edge");
  }
  // All signal all, and wait for all.
  void meet() {
    const int n = program_.threads(), number = program_.semaphores++;
    for (int t = 0; t < n; ++t)
      for (int u = 0; u < n; ++u) {
        if (t == u) continue;
        Item s;
        s.kind = Kind::Signal, s.thread = t, s.target = u, s.number = number;
        add(s);
      }
    for (int t = 0; t < n; ++t) {
      Item w;
      w.kind = Kind::Wait, w.thread = t, w.number = number, w.amount = n - 1;
      add(w);
    }
    count("meeting of all");
  }
  // All subcores of a SparseCore come together, of one or of all.
  void barrier() {
    const int n = program_.subcores, number = barriers_++, only = rng_.chance(50) ? thread() / n : -1;
    for (int t = 0; t < program_.threads(); ++t) {
      if (only >= 0 && t / n != only) continue;
      Item i;
      i.kind = Kind::Barrier, i.thread = t, i.number = number;
      add(i);
    }
    count("barrier");
  }
  // An array that the thread reaches by itself.
  int own_array(int t) { return rng_.chance(60) ? t / program_.cores : program_.array_of_thread(t); }

  void access(int t) {
    Item i;
    i.thread = t;
    i.to = {own_array(t), block()};
    i.write = rng_.chance(55);
    order(t, i.to, i.write);
    add(i);
    count(i.write ? "write" : "read");
  }
  void copy(bool remote) {
    const int t = thread();
    Item i;
    i.kind = Kind::Copy, i.thread = t, i.target = t, i.remote = remote;
    i.number = program_.copies++;
    i.from = {own_array(t), block()};
    i.to.block = i.from.block;
    if (remote) {
      i.target = thread();
      // In memory that cores share nobody else writes: which core's semaphore counts is the sender's choice.
      i.to.array = own_array(i.target);
    } else {
      i.to.array = i.from.array < program_.devices ? program_.array_of_thread(t) : t / program_.cores;
    }
    if (i.to.array == i.from.array) {  // within one array: from one half to the other
      const int64_t half = Block::kRows / 2;
      i.from.block.row = 0, i.to.block.row = half, i.from.block.rows = i.to.block.rows = rng_.in(1, half);
    }
    order(t, i.from, false);
    order(t, i.to, true);
    quiet_ = true;
    order(t, i.from, false);
    quiet_ = false;
    const auto touch = static_cast<int>(history_.touches.size());
    add(i);
    pending_.push_back({i.number, i.target, false, touch + 1});
    if (remote) pending_.push_back({i.number, t, true, touch});
    count(remote ? i.target == t ? "copy to itself" : "copy to another" : "copy");
  }
  // Every array is written as a whole: the shared one of a device by its first core.
  void first_writes() {
    const Block all{0, 0, Block::kRows, Block::kColumns};
    for (int t = 0; t < program_.threads(); ++t)
      for (int array : {t / program_.cores, program_.array_of_thread(t)}) {
        if (array < program_.devices && t % program_.cores != 0) continue;
        Item i;
        i.thread = t, i.write = i.first = true, i.to = {array, all};
        add(i);
      }
  }

  Rng rng_;
  std::map<std::string, int>& terms_;
  RaceProgram program_;
  History history_;
  std::deque<Pending> pending_;
  int next_id_ = 1;
  int depth_ = 0, barriers_ = 0;
  bool quiet_ = false;  // nobody does more than asked
};

// The wait for a copy comes at the end of its thread.
bool delay(RaceProgram* p, size_t at) {
  const Item w = p->items[at];
  p->items.erase(p->items.begin() + static_cast<std::ptrdiff_t>(at));
  p->items.push_back(w);
  return true;
}

}  // namespace

Case case_of(const RaceProgram& p) {
  Case c;
  c.seed = p.seed;
  c.text = p.text();
  c.devices = p.devices;
  c.races = p.races();
  c.program = std::make_shared<const RaceProgram>(p);
  return c;
}

Case generate_with_races(uint64_t seed) {
  std::map<std::string, int> terms;
  Case c = case_of(generate_races(seed, seed % 2 == 1, &terms));
  c.terms = std::move(terms);
  return c;
}

RaceProgram generate_races(uint64_t seed, bool racy, std::map<std::string, int>* terms) {
  RaceProgram p = Maker(seed, terms).make();
  if (!racy) return p;
  Rng rng(seed ^ 0x5EED);
  std::vector<size_t> candidates;
  for (size_t i = 0; i < p.items.size(); ++i)
    if (const Kind kind = p.items[i].kind; kind == Kind::Signal || kind == Kind::CopyWait || kind == Kind::Barrier)
      candidates.push_back(i);
  while (!candidates.empty()) {
    const auto k = static_cast<size_t>(rng.below(static_cast<int64_t>(candidates.size())));
    RaceProgram q = p;
    const bool edge = p.items[candidates[k]].kind != Kind::CopyWait;
    if (edge ? q.drop(candidates[k]) : delay(&q, candidates[k]))
      if (!q.races().empty()) {
        q.twin = edge ? "an edge is missing" : "a wait comes late";
        ++(*terms)["races: " + q.twin];
        return q;
      }
    candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(k));
  }
  return p;
}

}  // namespace pallasim::judge
