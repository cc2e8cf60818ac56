// What is known of the bytes of one allocation, per region: disjoint boxes with a state each. Who comes again to a box
// finds its region at once. Where another box overlaps, regions become runs of bytes; what a visit leaves in one state
// is one box again.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pallasim/memory/shadow/box.h"

namespace pallasim::memory::shadow {

// State: copies, compares, State{} is that of bytes nobody came to; heap_bytes(): memory that it holds besides itself.
// A box that is a region already: one look-up, no allocation but the state's own. Another one: as many steps as it
// overlaps regions, and rows where it overlaps them in part and is no block of them. Single elements are kept as runs,
// which grow together where they are in one state.
template <class State>
class Regions {
 public:
  // f(State&, Range hull) once for each state that bytes of the box are in; it may change the state, by a rule that
  // sees the state alone. `hull`: from the first to behind the last of these bytes.
  template <class F>
  void visit(const Box& box, F&& f) {
    if (box.empty()) return;
    const bool small = box.rank == 0 && box.run <= kSmall;
    if (small ? visit_in_run(box.hull(), f) : visit_region(box, f)) return;
    if (small && near_.empty() && !near_runs(box.hull())) return begin_run(box.hull(), f);
    Visit v;
    find_parts(box, &v);
    if (!small && v.inside.empty() && !near_runs(box.hull())) {
      const int32_t s = new_state(State{});
      change_in_place(s, box.hull(), f);
      insert_region(box, s);
      return;
    }
    if (!v.exact || !box.nested() || v.bytes < box.bytes()) v.rows = rows_but(box, v.inside);
    for (int32_t r : v.inside) collect(regions_[at(r)].state, regions_[at(r)].box.hull(), &v);
    for (const Range& row : v.rows) split_row(row, &v);
    for (Part& p : v.parts) renew(&p, &v, f);
    for (int32_t r : v.inside) move_to(&regions_[at(r)].state, v.renewed(regions_[at(r)].state));
    for (const Range& row : v.rows) renew_runs(row, v);
    release_parts(&v);
    if (v.uniform && !small) unite(box, v);
    if (v.uniform && small) drop(std::exchange(keep_, -1));
    if (small) merge_borders(box.hull());
  }
  // As visit, but looks only; bytes nobody came to are not told of.
  template <class F>
  void look(const Box& box, F&& f) const {
    if (box.empty()) return;
    if (const int32_t r = find_exact(box); r >= 0) return f(states_[at(regions_[at(r)].state)], box.hull());
    for_near(box.hull(), [&](int32_t r) {
      if (overlap(regions_[at(r)].box, box))
        f(states_[at(regions_[at(r)].state)], common(regions_[at(r)].box.hull(), box.hull()));
    });
    if (near_runs(box.hull()))
      for (const Range& row : box.rows())
        for (auto it = first_run(row.begin); it != runs_.end() && it->first < row.end; ++it)
          f(states_[at(it->second.state)], common({it->first, it->second.end}, row));
  }
  // Bytes [begin, end) are as at the start.
  void forget(int64_t begin, int64_t end) {
    std::vector<int32_t> hit;
    for_near({begin, end}, [&](int32_t r) { hit.push_back(r); });
    for (int32_t r : hit) {
      const Range h = regions_[at(r)].box.hull();
      if (h.begin >= begin && h.end <= end) remove_region(r);
      else if (overlap(regions_[at(r)].box, Box(begin, end))) to_runs(r);
    }
    cut(begin);
    cut(end);
    for (auto it = runs_.lower_bound(begin); it != runs_.end() && it->first < end;) {
      drop(it->second.state);
      it = runs_.erase(it);
    }
  }
  // Memory held, about.
  int64_t memory() const {
    constexpr int64_t kNode = 48;  // of a tree
    return static_cast<int64_t>(states_.size() * (sizeof(State) + 8) + regions() * sizeof(Region) +
                                places_.size() * sizeof(int32_t)) +
           static_cast<int64_t>(regions()) * kNode + static_cast<int64_t>(runs_.size()) * (kNode + 24) + heap_;
  }
  size_t regions() const { return regions_.size() - free_regions_.size(); }
  size_t runs() const { return runs_.size(); }
  bool operator==(const Regions&) const = default;

 private:
  struct Region {
    Box box;
    int32_t state = -1;  // -1: none
    bool operator==(const Region&) const = default;
  };
  struct Run {
    int64_t end;
    int32_t state;
    bool operator==(const Run&) const = default;
  };
  struct Part {
    int32_t before;
    Range hull;
    int32_t after;
  };
  struct Visit {
    std::vector<int32_t> inside;  // regions that lie in the box as a whole
    int64_t bytes = 0;            // and their bytes,
    bool exact = true;            // if no byte counted twice
    std::vector<Range> rows;      // of the box outside of them
    std::vector<Part> parts;      // by state
    std::unordered_map<int32_t, size_t> part;
    bool uniform = false;
    int32_t renewed(int32_t state) const { return parts[part.at(state)].after; }
  };

  static constexpr int64_t kSmall = 32;  // bytes

  template <class F>
  bool visit_region(const Box& box, F&& f) {
    const int32_t r = find_exact(box);
    if (r >= 0) change(&regions_[at(r)].state, box.hull(), f);
    return r >= 0;
  }
  // A few bytes in one run: only if their state changes the run is cut.
  template <class F>
  bool visit_in_run(Range bytes, F&& f) {
    auto it = runs_.upper_bound(bytes.begin);
    if (it == runs_.begin() || (--it)->second.end < bytes.end) return false;
    if (it->first == bytes.begin && it->second.end == bytes.end) {
      change(&it->second.state, bytes, f);
      merge_borders(bytes);
      return true;
    }
    scratch_ = states_[at(it->second.state)];
    f(scratch_, bytes);
    if (scratch_ == states_[at(it->second.state)]) return true;
    cut(bytes.begin);
    cut(bytes.end);
    move_to(&runs_.find(bytes.begin)->second.state, new_state(scratch_));
    merge_borders(bytes);
    return true;
  }
  // A few bytes nobody came to, and no region is near.
  template <class F>
  void begin_run(Range bytes, F&& f) {
    const int32_t s = new_state(State{});
    change_in_place(s, bytes, f);
    ++shares_[at(s)];
    runs_.emplace(bytes.begin, Run{bytes.end, s});
    merge_borders(bytes);
  }
  // The runs at both ends of the row and those beside them are one where they are in one state.
  void merge_borders(Range row) {
    for (const int64_t border : {row.end, row.begin}) {
      const auto right = runs_.find(border);
      if (right == runs_.end() || right == runs_.begin()) continue;
      const auto left = std::prev(right);
      const int32_t a = left->second.state, b = right->second.state;
      if (left->second.end != border || (a != b && !(states_[at(a)] == states_[at(b)]))) continue;
      left->second.end = right->second.end;
      drop(b);
      runs_.erase(right);
    }
  }
  // A block of the region becomes one by itself, with what is left around it.
  bool cut_out(int32_t r, const Box& box, Visit* v) {
    const Region whole = regions_[at(r)];
    std::vector<Box> rest;
    if (!surely_inside(whole.box, box) || !whole.box.nested() || !box.nested() || !subtract(whole.box, box, &rest))
      return false;
    ++shares_[at(whole.state)];
    remove_region(r);
    for (const Box& b : rest) insert_region(b, whole.state);
    v->inside.push_back(insert_region(box, whole.state));
    v->bytes += box.bytes();
    drop(whole.state);
    return true;
  }

  static size_t at(int32_t i) { return static_cast<size_t>(i); }
  static Range common(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

  // States are shared by runs and regions; who changes one that others have takes a copy.
  int32_t new_state(State s) {
    heap_ += s.heap_bytes();
    if (free_states_.empty()) {
      states_.push_back(std::move(s));
      shares_.push_back(0);
      return static_cast<int32_t>(states_.size()) - 1;
    }
    const int32_t i = free_states_.back();
    free_states_.pop_back();
    states_[at(i)] = std::move(s);
    return i;
  }
  void drop(int32_t i) {
    if (--shares_[at(i)] > 0) return;
    heap_ -= states_[at(i)].heap_bytes();
    states_[at(i)] = State{};
    free_states_.push_back(i);
  }
  void move_to(int32_t* place, int32_t state) {
    if (*place == state) return;
    ++shares_[at(state)];
    drop(*place);
    *place = state;
  }
  template <class F>
  void change_in_place(int32_t i, Range hull, F&& f) {
    const int64_t held = states_[at(i)].heap_bytes();
    f(states_[at(i)], hull);
    heap_ += states_[at(i)].heap_bytes() - held;
  }
  template <class F>
  void change(int32_t* place, Range hull, F&& f) {
    if (shares_[at(*place)] > 1) move_to(place, new_state(State(states_[at(*place)])));
    change_in_place(*place, hull, f);
  }

  // The index of regions by their box.
  static constexpr int32_t kFree = -1, kGone = -2;
  size_t first_place(const Box& box) const { return box.hash() & (places_.size() - 1); }
  size_t next_place(size_t i) const { return (i + 1) & (places_.size() - 1); }
  int32_t find_exact(const Box& box) const {
    if (places_.empty()) return -1;
    for (size_t i = first_place(box); places_[i] != kFree; i = next_place(i))
      if (places_[i] >= 0 && regions_[at(places_[i])].box == box) return places_[i];
    return -1;
  }
  int32_t* place_of(int32_t r) {
    size_t i = first_place(regions_[at(r)].box);
    while (places_[i] != r) i = next_place(i);
    return &places_[i];
  }
  void index_exact(int32_t r) {
    if (2 * (taken_places_ + 1) > places_.size()) {
      size_t n = 16;
      while (n < 4 * regions()) n *= 2;
      places_.assign(n, kFree);
      taken_places_ = 0;
      for (size_t k = 0; k < regions_.size(); ++k)
        if (regions_[k].state >= 0 && static_cast<int32_t>(k) != r) put_place(static_cast<int32_t>(k));
    }
    put_place(r);
  }
  void put_place(int32_t r) {
    size_t i = first_place(regions_[at(r)].box);
    while (places_[i] >= 0) i = next_place(i);
    taken_places_ += places_[i] == kFree;
    places_[i] = r;
  }

  // The index of regions by where they begin, in classes of like spans, so that few come into question.
  static int span_class(const Range& h) { return 63 - __builtin_clzll(static_cast<uint64_t>(h.end - h.begin)); }
  int32_t insert_region(const Box& box, int32_t state) {
    int32_t r;
    if (free_regions_.empty()) {
      r = static_cast<int32_t>(regions_.size());
      regions_.push_back({});
    } else {
      r = free_regions_.back();
      free_regions_.pop_back();
    }
    regions_[at(r)] = {box, state};
    ++shares_[at(state)];
    index_exact(r);
    near_[span_class(box.hull())].insert({box.offset, r});
    return r;
  }
  void remove_region(int32_t r) {
    Region& region = regions_[at(r)];
    const auto it = near_.find(span_class(region.box.hull()));
    it->second.erase({region.box.offset, r});
    if (it->second.empty()) near_.erase(it);
    *place_of(r) = kGone;
    drop(region.state);
    region = {};
    free_regions_.push_back(r);
  }
  // f(region) of those whose hull meets `h`.
  template <class F>
  void for_near(Range h, F&& f) const {
    for (const auto& [k, list] : near_) {
      const int64_t longest = k >= 62 ? INT64_MAX / 2 : int64_t{2} << k;
      for (auto it = list.lower_bound({h.begin - longest, 0}); it != list.end() && it->first < h.end; ++it)
        if (regions_[at(it->second)].box.hull().end > h.begin) f(it->second);
    }
  }
  void find_parts(const Box& box, Visit* v) {
    std::vector<int32_t> hit;
    for_near(box.hull(), [&](int32_t r) {
      if (overlap(regions_[at(r)].box, box)) hit.push_back(r);
    });
    for (int32_t r : hit) {
      if (surely_inside(box, regions_[at(r)].box)) {
        v->inside.push_back(r);
        v->bytes += regions_[at(r)].box.bytes();
        v->exact = v->exact && regions_[at(r)].box.nested();
      } else if (!cut_out(r, box, v)) {
        to_runs(r);
      }
    }
  }
  void to_runs(int32_t r) {
    const Region region = regions_[at(r)];
    for (const Range& row : region.box.rows()) {
      ++shares_[at(region.state)];
      runs_.emplace(row.begin, Run{row.end, region.state});
    }
    remove_region(r);
  }

  auto first_run(int64_t begin) const {
    auto it = runs_.upper_bound(begin);
    if (it != runs_.begin() && std::prev(it)->second.end > begin) --it;
    return it;
  }
  bool near_runs(Range h) const {
    if (runs_.empty()) return false;
    const auto it = first_run(h.begin);
    return it != runs_.end() && it->first < h.end;
  }
  // A run that holds the byte before `at` and the one at it ends there.
  void cut(int64_t at_byte) {
    auto it = runs_.lower_bound(at_byte);
    if (it == runs_.begin() || (--it)->second.end <= at_byte) return;
    ++shares_[at(it->second.state)];
    runs_.emplace_hint(std::next(it), at_byte, Run{it->second.end, it->second.state});
    it->second.end = at_byte;
  }
  std::vector<Range> rows_but(const Box& box, const std::vector<int32_t>& inside) const {
    std::vector<Range> holes, left;
    for (int32_t r : inside)
      for (const Range& row : regions_[at(r)].box.rows()) holes.push_back(row);
    std::sort(holes.begin(), holes.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    size_t h = 0;
    for (Range row : box.rows()) {
      while (h < holes.size() && holes[h].end <= row.begin) ++h;
      for (; h < holes.size() && holes[h].begin < row.end; ++h) {
        if (holes[h].begin > row.begin) left.push_back({row.begin, holes[h].begin});
        row.begin = holes[h].end;
        if (row.begin >= row.end) break;
      }
      if (row.begin < row.end) left.push_back(row);
    }
    return left;
  }
  void collect(int32_t state, Range hull, Visit* v) {
    const auto [it, fresh] = v->part.try_emplace(state, v->parts.size());
    if (fresh) {
      v->parts.push_back({state, hull, -1});
      ++shares_[at(state)];  // kept as long as the visit
      return;
    }
    Range& h = v->parts[it->second].hull;
    h = {std::min(h.begin, hull.begin), std::max(h.end, hull.end)};
  }
  // Runs end at the ends of the row, and fill it.
  void split_row(Range row, Visit* v) {
    cut(row.begin);
    cut(row.end);
    auto it = runs_.lower_bound(row.begin);
    for (int64_t begin = row.begin; begin < row.end;) {
      if (it == runs_.end() || it->first > begin) {
        const int64_t end = it == runs_.end() ? row.end : std::min(it->first, row.end);
        ensure_untouched();
        ++shares_[at(untouched_)];
        it = runs_.emplace_hint(it, begin, Run{end, untouched_});
      }
      collect(it->second.state, {it->first, it->second.end}, v);
      begin = it->second.end;
      ++it;
    }
  }
  // Runs of the row that continue each other in one state are one.
  void renew_runs(Range row, const Visit& v) {
    auto last = runs_.end();
    for (auto it = runs_.lower_bound(row.begin); it != runs_.end() && it->first < row.end;) {
      move_to(&it->second.state, v.renewed(it->second.state));
      if (last == runs_.end() || last->second.end != it->first || last->second.state != it->second.state) {
        last = it++;
        continue;
      }
      last->second.end = it->second.end;
      drop(it->second.state);
      it = runs_.erase(it);
    }
  }
  // The state that all bytes nobody came to share for the time of a visit.
  void ensure_untouched() {
    if (untouched_ >= 0) return;
    untouched_ = new_state(State{});
    ++shares_[at(untouched_)];
  }
  template <class F>
  void renew(Part* p, Visit* v, F&& f) {
    State s = states_[at(p->before)];
    f(s, p->hull);
    if (p == &v->parts.front()) v->uniform = true;
    else if (s == states_[at(v->parts.front().after)]) {
      p->after = v->parts.front().after;
      ++shares_[at(p->after)];
      return;
    } else {
      v->uniform = false;
    }
    p->after = s == states_[at(p->before)] ? p->before : new_state(std::move(s));
    ++shares_[at(p->after)];
  }
  void release_parts(Visit* v) {
    for (const Part& p : v->parts) drop(p.before);
    if (untouched_ >= 0) drop(std::exchange(untouched_, -1));
    // `after` is kept until unite() took it.
    keep_ = v->parts.front().after;
    for (const Part& p : v->parts)
      if (&p != &v->parts.front()) drop(p.after);
    if (!v->uniform) drop(std::exchange(keep_, -1));
  }
  // All bytes of the box are in one state now: it is a region.
  void unite(const Box& box, const Visit& v) {
    for (int32_t r : v.inside) remove_region(r);
    for (const Range& row : v.rows)
      for (auto it = runs_.lower_bound(row.begin); it != runs_.end() && it->first < row.end;) {
        drop(it->second.state);
        it = runs_.erase(it);
      }
    insert_region(box, keep_);
    drop(std::exchange(keep_, -1));
  }

  std::vector<State> states_;
  std::vector<int32_t> shares_, free_states_;
  std::vector<Region> regions_;
  std::vector<int32_t> free_regions_;
  std::vector<int32_t> places_;  // regions by the hash of their box, open addressing
  size_t taken_places_ = 0;      // with those that are gone
  std::map<int, std::set<std::pair<int64_t, int32_t>>> near_;
  std::map<int64_t, Run> runs_;  // by begin
  int32_t untouched_ = -1, keep_ = -1;
  State scratch_;
  int64_t heap_ = 0;
};

// The regions of many instances, and the memory that all of them hold.
template <class State>
class InstanceRegions {
 public:
  template <class F>
  void visit(int32_t instance, const Box& box, F&& f) {
    change(instances_[instance], [&](Regions<State>& r) { r.visit(box, f); });
  }
  // Bytes [begin, end) of the instance are as at the start.
  void forget(int32_t instance, int64_t begin, int64_t end) {
    if (const auto it = instances_.find(instance); it != instances_.end())
      change(it->second, [&](Regions<State>& r) { r.forget(begin, end); });
  }
  void gone(int32_t instance) {
    const auto it = instances_.find(instance);
    if (it == instances_.end()) return;
    memory_ -= it->second.memory();
    instances_.erase(it);
  }
  int64_t memory() const { return memory_; }
  bool operator==(const InstanceRegions&) const = default;

 private:
  template <class F>
  void change(Regions<State>& r, F&& f) {
    const int64_t held = r.memory();
    f(r);
    memory_ += r.memory() - held;
  }
  std::unordered_map<int32_t, Regions<State>> instances_;
  int64_t memory_ = 0;
};

}  // namespace pallasim::memory::shadow
