// What is known of the bytes of one allocation, per region: disjoint boxes with a state each. Who comes again to a box
// finds its region at once. Where another box overlaps, regions become runs of bytes; what a visit leaves in one state
// is one box again.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pallasim/memory/shadow/box.h"
#include "pallasim/memory/shadow/box_index.h"
#include "pallasim/memory/shadow/byte_pages.h"
#include "pallasim/memory/shadow/cells.h"
#include "pallasim/memory/shadow/states.h"

namespace pallasim::memory::shadow {

// State: copies, compares, State{} is that of bytes nobody came to; heap_bytes(): memory that it holds besides itself.
// A box that is a region already: one look-up, no allocation but the state's own. Another one: as many steps as it
// overlaps regions, and rows where it overlaps them in part and is no block of them. Single elements are kept as runs,
// which grow together where they are in one state.
template <class State>
class Regions : private States<State> {
  using Pool = States<State>;
  using Pool::at, Pool::change, Pool::change_in_place, Pool::drop, Pool::end_moves, Pool::move_to, Pool::new_state;
  using Pool::shares_, Pool::states_;
  using typename Pool::Moves;

 public:
  // f(State&, Range hull) once for each state that bytes of the box are in; it may change the state, by a rule that
  // sees the state alone. `hull`: from the first to behind the last of these bytes.
  template <class F>
  void visit(const Box& box, F&& f) {
    if (box.empty()) return;
    const bool small = is_small(box);
    if (!pages_.empty()) {
      if (small && in_page(box.offset, box.run)) return visit(box, {&box.offset, 1}, f);
      settle_pages(box.hull());
    }
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
  // The same for such a box at each of the places, in their order. f is asked once for bytes that are in one state.
  // Pages of single elements are kept by element as long as no other box meets them.
  template <class F>
  void visit(const Box& form, std::span<const int64_t> places, F&& f) {
    if (form.empty() || places.empty()) return;
    const bool small = is_small(form);
    if (small) regions_to_runs(places, form.run);
    Moves moves;
    FoundPages<Cells> found;
    for (const int64_t place : places) {
      if (!small || place < 0 || place % kPage + form.run > kPage) {
        visit_place(form, place, &moves, f);
        found.forget();
      } else {
        Cells*& cells = found[place / kPage];
        if (!cells) cells = &page_at(place / kPage)->second;
        visit_cells(cells, {place, place + form.run}, &moves, f);
      }
    }
    end_moves(&moves);
  }
  // As visit, but looks only; bytes nobody came to are not told of.
  template <class F>
  void look(const Box& box, F&& f) const {
    if (box.empty()) return;
    if (!pages_.empty())
      for (const Range& row : box.rows())
        for_cells(row, [&](Range bytes, int32_t state) { f(states_[at(state)], bytes); });
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
    settle_pages({begin, end});
    std::vector<int32_t> hit;
    for_near({begin, end}, [&](int32_t r) { hit.push_back(r); });
    for (int32_t r : hit) {
      const Range h = regions_[at(r)].box.hull();
      if (h.begin >= begin && h.end <= end) remove_region(r);
      else if (overlap(regions_[at(r)].box, Box(begin, end))) to_runs(r);
    }
    cut(begin);
    cut(end);
    erase_runs({begin, end});
  }
  // Memory held, about.
  int64_t memory() const {
    constexpr int64_t kNode = 48;  // of a tree
    return Pool::memory() + static_cast<int64_t>(regions() * sizeof(Region) + exact_.size() * sizeof(int32_t)) +
           static_cast<int64_t>(regions()) * kNode + static_cast<int64_t>(runs_.size()) * (kNode + 24) +
           static_cast<int64_t>(pages_.size()) * (kNode + kPage);
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
  static bool is_small(const Box& box) { return box.rank == 0 && box.run <= kSmall; }

  // -- elements that were come to at places of their own --
  // The states of the bytes of a page, element by element; -1: nobody came there. No run and no region has them.
  static constexpr int64_t kPage = Cells::kBytes;
  template <class F>
  void visit_cells(Cells* cells, Range bytes, Moves* moves, F&& f) {
    if (!cells->fits(bytes)) refine(cells);
    const int64_t first = cells->cells(bytes.begin % kPage), n = cells->cells(bytes.end - bytes.begin);
    for (int64_t c = first; c < first + n; ++c) {
      int32_t& cell = (*cells)[c];
      if (cell >= 0 && shares_[at(cell)] == 1) {
        this->change_alone(&cell, bytes, cells->at(c - 1), f);
        continue;
      }
      const int32_t after = this->moved(cell, bytes, moves, {cells->at(first - 1), cells->at(first + n)}, f);
      if (after == cell) continue;
      ++shares_[at(after)];
      if (cell >= 0) drop(cell);
      cell = after;
    }
  }
  // A larger box at one of many places.
  template <class F>
  void visit_place(const Box& form, int64_t place, Moves* moves, F&& f) {
    Box b = form;
    b.offset = place;
    const int32_t r = find_exact(b);
    if (r < 0) return visit(b, f);
    const int32_t after = this->moved(regions_[at(r)].state, b.hull(), moves, {}, f);
    move_to(&regions_[at(r)].state, after);
  }
  bool in_page(int64_t begin, int64_t bytes) const {
    return begin >= 0 && begin % kPage + bytes <= kPage && pages_.count(begin / kPage) != 0;
  }
  void refine(Cells* cells) {
    cells->refine([&](int32_t state, int32_t more) { shares_[at(state)] += more; });
  }
  // The page is one of cells from now on.
  auto page_at(int64_t page) {
    const auto [it, fresh] = pages_.try_emplace(page);
    if (!fresh) return it;
    const int64_t begin = page * kPage, end = begin + kPage;
    Cells& cells = it->second;
    cut(begin);
    cut(end);
    for (auto run = runs_.lower_bound(begin); run != runs_.end() && run->first < end; run = runs_.erase(run)) {
      const Range bytes{run->first, run->second.end};
      if (!cells.fits(bytes)) refine(&cells);
      shares_[at(run->second.state)] += cells.fill({bytes.begin - begin, bytes.end - begin}, run->second.state) - 1;
    }
    return it;
  }
  // f(bytes, state) for runs of equal cells in the row that somebody came to.
  template <class F>
  void for_cells(Range row, F&& f) const {
    for (auto it = pages_.lower_bound(row.begin < 0 ? 0 : row.begin / kPage);
         it != pages_.end() && it->first * kPage < row.end; ++it)
      it->second.for_runs([&](Range bytes, int32_t state) {
        bytes = common({it->first * kPage + bytes.begin, it->first * kPage + bytes.end}, row);
        if (bytes.begin < bytes.end) f(bytes, state);
      });
  }
  // Pages that meet the hull are runs again.
  void settle_pages(Range hull) {
    if (pages_.empty()) return;
    const int64_t first = hull.begin < 0 ? 0 : hull.begin / kPage;
    for (auto it = pages_.lower_bound(first); it != pages_.end() && it->first * kPage < hull.end;) {
      const int64_t begin = it->first * kPage, unit = it->second.unit();
      it->second.for_runs([&](Range bytes, int32_t state) {
        shares_[at(state)] -= static_cast<int32_t>((bytes.end - bytes.begin) / unit) - 1;
        runs_.emplace(begin + bytes.begin, Run{begin + bytes.end, state});
      });
      it = pages_.erase(it);
      merge_borders({begin, begin + kPage});
    }
  }
  // Regions that elements at the places are in are runs.
  void regions_to_runs(std::span<const int64_t> places, int64_t run) {
    if (near_.empty()) return;
    const auto [first, last] = std::minmax_element(places.begin(), places.end());
    std::vector<int32_t> hit;
    for_near({*first, *last + run}, [&](int32_t r) {
      const Range h = regions_[at(r)].box.hull();
      if (std::any_of(places.begin(), places.end(), [&](int64_t p) { return p < h.end && p + run > h.begin; }))
        hit.push_back(r);
    });
    for (const int32_t r : hit) to_runs(r);
  }

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

  static Range common(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

  int32_t find_exact(const Box& box) const {
    return exact_.find(box, [&](int32_t r) -> const Box& { return regions_[at(r)].box; });
  }
  void index_exact(int32_t r) {
    if (exact_.is_full()) {
      exact_.clear(4 * regions());
      for (size_t k = 0; k < regions_.size(); ++k)
        if (regions_[k].state >= 0 && static_cast<int32_t>(k) != r)
          exact_.add(regions_[k].box, static_cast<int32_t>(k));
    }
    exact_.add(regions_[at(r)].box, r);
  }

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
    near_.add(box, r);
    return r;
  }
  void remove_region(int32_t r) {
    Region& region = regions_[at(r)];
    near_.remove(region.box, r);
    exact_.remove(region.box, r);
    drop(region.state);
    region = {};
    free_regions_.push_back(r);
  }
  // f(region) of those whose hull meets `h`.
  template <class F>
  void for_near(Range h, F&& f) const {
    near_.visit(
        h, [&](int32_t r) -> const Box& { return regions_[at(r)].box; }, f);
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
    settle_pages(regions_[at(r)].box.hull());
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
  void erase_runs(Range row) {
    for (auto it = runs_.lower_bound(row.begin); it != runs_.end() && it->first < row.end; it = runs_.erase(it))
      drop(it->second.state);
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
    std::vector<Range> holes;
    for (int32_t r : inside)
      for (const Range& row : regions_[at(r)].box.rows()) holes.push_back(row);
    return shadow::rows_but(box, std::move(holes));
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
    for (const Range& row : v.rows) erase_runs(row);
    insert_region(box, keep_);
    drop(std::exchange(keep_, -1));
  }

  std::vector<Region> regions_;
  std::vector<int32_t> free_regions_;
  BoxIndex exact_;  // regions by their box
  NearBoxes near_;
  std::map<int64_t, Run> runs_;     // by begin
  std::map<int64_t, Cells> pages_;  // by number
  int32_t untouched_ = -1, keep_ = -1;
  State scratch_;
};

}  // namespace pallasim::memory::shadow
