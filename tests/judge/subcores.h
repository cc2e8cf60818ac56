// Programs of SparseCores: one to three bodies on meshes of their own, and who may use which memory between two
// meetings.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "body.h"
#include "case.h"

namespace pallasim::judge {

// Memory that threads share changes hands where they meet, and is used by its holders alone: right under every
// schedule by construction.
class Subcores {
 public:
  Subcores(Rng& rng, Case& c) : rng_(rng), c_(c) {}
  void make();

 private:
  enum class Kind : uint8_t { Scalar, Vector, Tensor };
  // A copy under way, into or out of memory that `lock` names, or one that brings `arrives` from another thread.
  struct Pending {
    std::string wait;
    Body::Lock lock{-1, -1};
    bool uses_held = false;
    Ref arrives;
  };
  // The threads of a body. All of them run the same text.
  struct Team {
    Team(Kind k, std::string mesh, int64_t cores, int64_t per, Rng& rng, std::map<std::string, int>& terms)
        : kind(k), mesh(std::move(mesh)), cores(cores), per(per), body(rng, w, ir::Machine::Tpu, terms) {}
    int64_t threads() const { return cores * per; }
    Kind kind;
    std::string mesh;
    int64_t cores, per;  // `per`: threads of a core
    Writer w;
    Body body;
    int core = -1, subcore = -1;          // values: the thread's coordinates
    int signals = -1, came = -1;          // semaphores that others signal, and that copies of others do
    int signals_used = 0, came_used = 0;  // how many of them
    std::vector<Ref> incoming;            // what others may still copy into, once each
    std::deque<Pending> pending;
    Ref bins, held, small, line;  // own memory: counts; the list of a copy; scalars; elements
    bool held_busy = false;
    size_t ends = 0;  // declarations: the first output that takes an own buffer at the end
    std::vector<Ref> own;
  };
  enum class State : uint8_t {
    Owned,  // each holder has a part for itself: a subcore a slot, any other thread those of its core
    Read,   // every holder reads
    Add,    // every subcore adds, and nobody looks
  };
  // An array with a slot per subcore: in HBM for each SparseCore, or one of each SparseCore.
  struct Shared {
    std::string name;
    int id = -1, input = -1;  // declarations: what it is known by; the input that it shares an output's array with
    Type slot;
    bool hbm = true;
    State state = State::Owned;
    std::set<size_t> holders;                   // of teams_
    int64_t by = 1, from = 0;                   // subcore s owns slot (by * s + from) mod subcores
    int64_t shift = 0;                          // core k has the part of core (k + shift) mod cores
    std::vector<std::pair<size_t, int>> roots;  // by team: what they use it by
    Ref whole;                                  // Add: all rows
  };
  struct Declared {
    std::string kind, name, type, ref;
    Type array;
    int64_t below = 0;  // inputs of numbers of rows
  };

  // subcores.cc
  void choose();
  void declare();
  int add(Declared);
  void declare_outputs();
  void declare_own();
  void begin();
  void first_writes();
  void event(int depth);
  void results();
  void arguments();
  std::string text();

  // subcores_meet.cc
  void barrier(Team&);
  void cross();
  void hand_over(Team& from, Team& to);
  void signal(Team& from, Team& to, int number);
  // What one thread does for each thread of `to` that belongs to it; `operand`: its number, as a further operand.
  void to_each(Team& from, Team& to, const std::function<void(int target)>& act);
  int64_t senders(const Team& from, const Team& to) const;
  void grant(Shared&, size_t team);
  void grant_all(Shared&);
  int rotated(Team&, int coordinate, int64_t by, int64_t from, int64_t count);
  void choose_state(Shared&);
  void use(Shared&);
  void meet(const std::vector<size_t>& which, const std::function<void(Shared&)>& change);
  void change_hands();
  void words();

  // subcores_steps.cc
  void steps(Team&);
  void start_copy(Team&);
  void start_add(Shared&);
  std::string dense(Team&, const Ref& src, const Ref& dst, std::vector<int>* operands);
  std::string chosen(Team&, const Ref& src, const Ref& dst, bool scatters, bool twice, std::vector<int>* operands,
                     bool* held);
  Value list(Team&, int64_t n, int64_t extent, bool twice, int64_t ignored);
  void await(Team&, size_t which);
  void await_all(Team&);
  void await_users(const Shared&);
  void deliver();
  void vector_step(Team&);

  // subcores_loop.cc
  struct Round {  // of a team
    bool is_while = false;
    Body::Mark around;  // what it sees
    std::vector<Root> roots;
    Type carried;
    int out = -1, index = -1;
    Value carry;
    bool has_scope = false;
    Body::Mark scope;
  };
  Round open_round(Team&, bool is_while, int64_t trips);
  void close_round(Team&, const Round&);
  void loop(int depth);

  // subcores_more.cc
  void branch_of_group();
  void branch(Team&);
  void rows_apart(Team&);
  void scoped_group();
  bool small_copy(Team&);
  std::string place(Team&, int number, std::vector<int>* operands);
  void wait(Team&, int number, int64_t n);

  Team& vector() { return *teams_[static_cast<size_t>(vector_)]; }
  bool spans(const Team& t) const { return t.cores < cores_; }  // one thread for all SparseCores
  static int op(Team& t, const std::string& rest, const std::string& type = "i32[]") { return t.w.op(rest, type); }
  static int two(Team& t, const char* o, int a, int b) {
    return op(t, std::string(o) + " " + name(a) + ", " + name(b));
  }
  void term(const std::string& what) { ++c_.terms["subcores: " + what]; }

  Rng& rng_;
  Case& c_;
  int64_t cores_ = 1, subcores_ = 1;              // SparseCores; subcores of each (1 where no mesh has them)
  int64_t rows_ = 4, columns_ = 8;                // of a slot
  int vector_ = -1;                               // of teams_
  const std::vector<Shared>* outside_ = nullptr;  // in a loop: what it has to leave as it was
  std::vector<std::unique_ptr<Team>> teams_;
  std::vector<Shared> shared_;
  std::vector<Declared> declared_;
  std::string aliases_;
  int tables_ = 0;              // leading inputs
  int order_ = -1, perm_ = -1;  // inputs: rows of a slot, of each subcore; all of them in some order
  int copies_ = 0;              // semaphores of own copies
  int moved_ = -1, words_ = -1;
  std::vector<size_t> dumps_;  // of shared_ that is no output: where it goes
};

}  // namespace pallasim::judge
