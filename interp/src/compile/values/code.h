// The steps of a body, its slots and its frame: what a plan is written with. None of them knows operations or values.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../plan/steps.h"
#include "context.h"
#include "value.h"

namespace pallasim::interp {

// Steps, in order, behind those that the plan has.
class StepWriter {
 public:
  explicit StepWriter(Context& c) : c_(c) {}

  // A step of the kind, at the context's location, with a payload that the plan owns from now on or that lives as long.
  template <Kind k>
  Step& emit(PayloadOf<k> p) {
    return append(k, function_of<k>(), nullptr, own(std::move(p)));
  }
  template <Kind k>
  Step& emit(const PayloadOf<k>* p) {
    return append(k, function_of<k>(), nullptr, p);
  }
  template <Kind k>
  Step& emit() {
    static_assert(std::is_void_v<PayloadOf<k>>);
    return append(k, function_of<k>(), nullptr, nullptr);
  }
  // One of the bodies of a kind that has several.
  template <Kind k>
  Step& emit(const StepForm& form, PayloadOf<k> p) {
    return append(checked<k>(form), form.fn, &form, own(std::move(p)));
  }
  template <Kind k>
  Step& emit(const StepForm& form, const PayloadOf<k>* p) {
    return append(checked<k>(form), form.fn, &form, p);
  }
  Step& emit(const StepForm& form) { return append(form.kind, form.fn, &form, nullptr); }
  template <typename T>
  T* own(T payload) {
    return c_.plan().payloads.own(std::move(payload));
  }
  // Steps add to memory inside.
  class Adding {
   public:
    explicit Adding(StepWriter& w) : w_(w) { w_.adding_ = true; }
    ~Adding() { w_.adding_ = false; }
    Adding(const Adding&) = delete;
    Adding& operator=(const Adding&) = delete;

   private:
    StepWriter& w_;
  };
  int here() const { return static_cast<int>(c_.plan().steps.size()); }
  void jump_to(int step, int target) { targets_[static_cast<size_t>(step)] = target; }

 protected:
  // Per step of the plan, -1 for none; steps before the own ones, too.
  const std::vector<int>& targets() const { return targets_; }
  void begin_steps() { targets_.assign(c_.plan().steps.size(), -1); }

 private:
  Context& c_;
  template <Kind k>
  StepFn function_of() const {
    static_assert(!kHasForms<k>, "a kind with several functions is emitted by a form");
    return c_.functions().of_kind[static_cast<size_t>(k)];
  }
  template <Kind k>
  static Kind checked(const StepForm& form) {
    if (form.kind != k) throw std::logic_error("a form of another kind of step");
    return k;
  }
  Step& append(Kind, StepFn, const StepForm*, const void* payload);
  bool adding_ = false;
  std::vector<int> targets_;
};

// Slots of a body's threads, 16 bytes each: the widest scalar is a c128.
class Slots {
 public:
  explicit Slots(Context& c) : c_(c) {}

  uint32_t new_slot(int n = 1);  // the first of n
  // Equal constants are one slot.
  uint32_t const_slot(CType type, const void* bytes);
  Val const_scalar(ir::DType dtype, uint64_t memory_bits);
  Val const_int(ir::DType dtype, int64_t value) { return const_scalar(dtype, static_cast<uint64_t>(value)); }

 private:
  Context& c_;
  std::map<std::pair<int, uint64_t>, uint32_t> constants_;  // of a compute type, with these bytes
};

// Memory of a body's threads: their temporaries, and those of the threads that they spawn.
class Frame {
 public:
  explicit Frame(Context& c) : c_(c), buffer_(c.body().temps) {}
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  Val temp(ir::DType dtype, std::vector<int64_t> dims);
  void allocate(Val*);                                                   // a place among the thread's temporaries
  void keep(const Val& v) { permanent_.push_back(v.memory().storage); }  // to the end of the kernel
  int64_t temp_bytes() const { return temps_.high_water() + kSlack; }

  struct InnerAxis {  // of the mesh inside; slot: i64, the thread's place
    std::string name;
    int64_t size;
    uint32_t slot;
  };
  // While it lives, what is emitted is run by spawned threads: temporaries lie in their buffer, and `bytes` receives at
  // last how many they are.
  class Spawned {
   public:
    Spawned(Frame&, uint32_t buffer, std::vector<InnerAxis>, int64_t* bytes);
    ~Spawned();
    Spawned(const Spawned&) = delete;
    Spawned& operator=(const Spawned&) = delete;

   private:
    Frame& f_;
    int64_t* bytes_;
  };
  bool in_spawn() const { return place_ != &temps_; }
  const std::vector<InnerAxis>& inner_axes() const { return inner_axes_; }

 private:
  static constexpr int64_t kSlack = 64;  // bytes: a frame is never empty, and vectors of its last elements end in it

  Context& c_;
  uint32_t buffer_;  // of the temporaries of what is emitted now
  TempAllocator temps_;
  std::deque<TempAllocator> child_temps_;  // of spawned threads, by spawn
  TempAllocator* place_ = &temps_;         // of what is emitted now
  std::vector<InnerAxis> inner_axes_;
  std::vector<std::shared_ptr<Storage>> permanent_;
};

}  // namespace pallasim::interp
