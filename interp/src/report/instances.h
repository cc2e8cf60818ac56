// Accesses as shadow state knows them: instances (an allocation of one owner) instead of buffers and threads.
#pragma once
#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "../ops/execution.h"
#include "pallasim/memory/shadow/races.h"

namespace pallasim::interp {

// One table per run. Arrays that share memory (aliases) are one instance. A thread's temporaries are one, in which
// offsets tell allocations apart; what threads share is one for each owner, whatever memory that has.
class Instances {
 public:
  int32_t of(const Execution&, int32_t thread, uint32_t buffer);
  // What shadow state knows an access by (shadow::Access::site): a step, and which line asked for the bytes. A step may
  // use what loads of several lines gave.
  struct Line {
    const Step* step;
    ir::LocId loc;
  };
  int32_t site(const Plan&, const Step&, ir::LocId);
  Line line(const Plan&, int32_t site) const;
  // `who`: a thread or a side of an asynchronous operation.
  memory::shadow::Access access(const Execution&, const Access&, int32_t instance, memory::shadow::Actor who);
  // One side of an operation, by whoever moves it.
  struct OfSide {
    OfSide(const memory::AsyncOperation&, const memory::Side&);
    OfSide(const OfSide&) = delete;
    OfSide& operator=(const OfSide&) = delete;
    bool empty() const { return form.empty() || (rows.dim >= 0 && rows.places.empty()); }
    memory::Side form;  // of one of the rows that move one by one; else the whole
    memory::AsyncOperation::Rows rows;
    memory::shadow::Access access;
  };
  const memory::shadow::Access& side(const Execution&, const memory::AsyncOperation&, OfSide&, bool write,
                                     memory::shadow::Actor who);

 private:
  struct Memory {
    uint32_t buffer = 0;  // of operands that share memory the first one
    int64_t owner = 0;    // the unit or thread whose it is; of an operand ~device
    auto operator<=>(const Memory&) const = default;
  };
  Memory memory_of(const Execution&, int32_t thread, uint32_t buffer) const;
  std::vector<std::vector<int32_t>> known_;  // by buffer and thread; -1: not asked for yet
  std::map<Memory, int32_t> all_;
  // Of lines that are not their step's own; their sites are the negative numbers.
  std::vector<std::pair<int32_t, ir::LocId>> lines_;
  std::unordered_map<int64_t, int32_t> sites_;  // by step and line
};

// Something of each instance that somebody asked for. References to it stay.
template <typename T>
class ByInstance {
 public:
  T& operator[](int32_t instance) {
    const auto i = static_cast<size_t>(instance);
    if (i >= at_.size()) at_.resize(i + 1, -1);
    if (at_[i] < 0) {
      at_[i] = static_cast<int32_t>(all_.size());
      all_.emplace_back();
    }
    return all_[static_cast<size_t>(at_[i])];
  }
  T* find(int32_t instance) {  // null: nobody asked for it
    const auto i = static_cast<size_t>(instance);
    return i < at_.size() && at_[i] >= 0 ? &all_[static_cast<size_t>(at_[i])] : nullptr;
  }
  const T* find(int32_t instance) const { return const_cast<ByInstance*>(this)->find(instance); }
  bool empty() const { return all_.empty(); }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }

 private:
  std::vector<int32_t> at_;  // by instance: its place in `all_`
  std::deque<T> all_;
};

// An access that a run's watchers look at. What they need of it is worked out once, when the first of them asks.
class Seen {
 public:
  Seen(const Execution& ex, const Access& access, Instances& instances)
      : access(access), ex_(ex), instances_(instances) {}
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
  const Access& access;
  // By the thread itself, with its box, that of the first of several.
  const memory::shadow::Access& shadow();
  const memory::shadow::Box& box() {
    if (boxed_) return box_;
    boxed_ = true;
    if (access.rank == 0) box_ = {access.offset, access.offset + access.element_bytes};
    else box_ = {access.offset, access.dims, access.strides, access.rank, access.element_bytes};
    return box_;
  }
  int32_t instance() {
    if (instance_ < 0) instance_ = instances_.of(ex_, access.owner < 0 ? access.thread : access.owner, access.buffer);
    return instance_;
  }

 private:
  const Execution& ex_;
  Instances& instances_;
  int32_t instance_ = -1;
  bool boxed_ = false;
  memory::shadow::Box box_;
  std::optional<memory::shadow::Access> shadow_;
};

// An observer of checked runs that looks at accesses, whose instances and boxes are worked out once for all of them
// (Checks): it is told of them by see(). Events name threads and steps; it knows the execution that they are of.
class Detector : public Observer {
 public:
  void attach(Execution& ex) { ex_ = &ex; }
  virtual void see(Seen&) = 0;
  // An access to several places, for who looks at them together; else each is one.
  virtual bool sees_places() const { return false; }
  virtual void finish(std::vector<ir::Diagnostic>&) {}
  // For those who want to know at once, as far as it is known then: how many it has found, and the n-th.
  virtual size_t found() const { return 0; }
  virtual ir::Diagnostic found(size_t) const { return {"PS-BUG-001", ""}; }

 protected:
  Execution& ex() const { return *ex_; }
  const Thread& thread(int32_t i) const { return ex_->threads[static_cast<size_t>(i)]; }
  const Step& step(int32_t i) const { return ex_->plan->steps[static_cast<size_t>(i)]; }

 private:
  Execution* ex_ = nullptr;
};

}  // namespace pallasim::interp
