// States that places share.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "pallasim/memory/shadow/box.h"

namespace pallasim::memory::shadow {

// Numbered states, each with the places that share it. State: as Regions says.
template <class State>
class States {
 public:
  bool operator==(const States& o) const {
    return states_ == o.states_ && shares_ == o.shares_ && free_states_ == o.free_states_ && heap_ == o.heap_;
  }

 protected:
  static size_t at(int32_t i) { return static_cast<size_t>(i); }
  // States are shared by runs and regions; who changes one that others have takes a copy.
  int32_t new_state(State s) {
    heap_ += s.heap_bytes();
    if (free_states_.empty()) {
      states_.push_back(std::move(s));
      shares_.push_back(0);
      visited_.push_back({});
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

  // What became of states in the visit that goes on, which holds them.
  struct Moves {
    std::vector<int32_t> before, after;  // -1: none
    int32_t untouched = kUnasked;        // of what nobody came to
  };
  static constexpr int32_t kUnasked = -2;
  void end_moves(Moves* moves) {
    for (const std::vector<int32_t>* held : {&moves->before, &moves->after})
      for (const int32_t state : *held)
        if (state >= 0) drop(state);
    *moves = {};
    ++visit_;
  }
  // What the state becomes; others of the visit, or `near`, may be the same by now.
  template <class F>
  int32_t moved(int32_t before, Range bytes, Moves* moves, std::initializer_list<int32_t> near, F&& f) {
    if (before < 0 ? moves->untouched != kUnasked : visited_[at(before)].visit == visit_)
      return before < 0 ? moves->untouched : visited_[at(before)].after;
    State s = before < 0 ? State{} : states_[at(before)];
    f(s, bytes);
    int32_t after = -1;
    const auto same = [&](int32_t state) {
      if (after < 0 && state >= 0 && s == states_[at(state)]) after = state;
    };
    if (before >= 0) same(before);
    constexpr size_t kLookedAt = 4;
    const size_t n = moves->after.size();
    for (size_t i = n - std::min(n, kLookedAt); i < n; ++i) same(moves->after[i]);
    for (const int32_t state : near) same(state);
    if (after < 0) after = recent(s);
    if (after < 0 && (before >= 0 || !(s == State{}))) came_last(after = new_state(std::move(s)));
    if (before >= 0) ++shares_[at(before)];
    if (after >= 0) ++shares_[at(after)];
    moves->before.push_back(before);
    moves->after.push_back(after);
    if (before < 0) return moves->untouched = after;
    visited_[at(before)] = {visit_, after};
    return after;
  }

  // The place alone has its state; others may have come to the same one before. One with a long history of its own is
  // hardly another one's.
  template <class F>
  void change_alone(int32_t* place, Range hull, int32_t near, F&& f) {
    change_in_place(*place, hull, f);
    const State& s = states_[at(*place)];
    constexpr int64_t kLong = 512;  // bytes
    if (s.heap_bytes() > kLong) return;
    const int32_t same = near >= 0 && near != *place && s == states_[at(near)] ? near : recent(s, *place);
    if (same < 0) came_last(*place);
    else move_to(place, same);
  }

  // Memory held, about.
  int64_t memory() const {
    return static_cast<int64_t>(states_.size() * (sizeof(State) + sizeof(Visited) + 8)) + heap_;
  }

  std::vector<State> states_;
  std::vector<int32_t> shares_, free_states_;
  int64_t heap_ = 0;

 private:
  // One of the states that places came to last, if it is the same.
  int32_t recent(const State& s, int32_t but = -1) const {
    for (const int32_t i : recent_)
      if (i >= 0 && i != but && shares_[at(i)] > 0 && s == states_[at(i)]) return i;
    return -1;
  }
  void came_last(int32_t state) {
    if (std::find(recent_.begin(), recent_.end(), state) != recent_.end()) return;
    std::copy_backward(recent_.begin(), recent_.end() - 1, recent_.end());
    recent_.front() = state;
  }
  std::array<int32_t, 4> recent_{-1, -1, -1, -1};
  struct Visited {
    int64_t visit = 0;
    int32_t after = -1;
  };
  std::vector<Visited> visited_;  // by state, the last time
  int64_t visit_ = 1;
};

}  // namespace pallasim::memory::shadow
