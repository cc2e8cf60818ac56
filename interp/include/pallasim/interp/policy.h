// Scheduling policies: who goes on next, at each moment at which others could tell.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pallasim::interp {

// What may go on: a thread, from its next step that others see to the one behind it, or an asynchronous operation whose
// bytes have not moved yet.
struct Choice {
  enum class What : uint8_t { Thread, Operation };
  What what = What::Thread;
  int32_t thread = 0;  // of an operation: who issued it
  int64_t number = 0;  // of an operation: how many its thread had issued before it
  bool operator==(const Choice&) const = default;
};

struct Touch;  // engine/touches.h

// What may go on at one moment: threads, then operations.
class Choices {
 public:
  virtual ~Choices() = default;
  virtual size_t size() const = 0;
  virtual Choice operator[](size_t) const = 0;
  // False: a thread that waits, and what it waits for is not there. A turn of it would change nothing.
  virtual bool can_go_on(size_t) const = 0;
  // A thread that looks for something in a loop, and would see what it saw: nothing has changed since.
  virtual bool polls(size_t) const = 0;
  int64_t turns = 0;                         // that changed something, since the run began
  std::span<const Touch> touched;            // by the last one of them, for policies that watch (PolicyRow)
  static constexpr size_t kNone = SIZE_MAX;  // as an answer: the run is not worth going on with
};

// Three questions. Answers depend on what the policy was made from and on `state` alone, so that a run that is put back
// to a snapshot goes on as it did.
class Policy {
 public:
  virtual ~Policy() = default;
  // A run begins. `state`, which is the run's, is empty. False: there is no schedule left.
  virtual bool new_execution(std::vector<uint64_t>& state) = 0;
  // The position of what goes on next. Where that is a thread that cannot go on, the question comes again.
  virtual size_t next(const Choices&) = 0;
  virtual uint64_t next_random() = 0;
};

// What a policy is made from.
struct PolicyArguments {
  uint64_t seed = 0;
  int depth = 3;        // of bugs: how many orders of two events must come together
  int64_t turns = 100;  // that a run has, about
};

// A policy by its name. Its file in engine/policies is all that makes it known: the build collects them.
struct PolicyRow {
  const char *name, *summary;
  std::unique_ptr<Policy> (*make)(const PolicyArguments&);
  bool exact = false;    // it asks who can go on (Choices::can_go_on); else it may be told of threads that cannot
  bool watches = false;  // it looks at what turns touch
  // The policy that a schedule token describes behind "name:", null where policies of this kind have no token. Throws
  // std::invalid_argument, whose text says why not.
  std::unique_ptr<Policy> (*read)(std::string_view) = nullptr;
};
std::span<const PolicyRow* const> policy_rows();
const PolicyRow* find_policy(std::string_view name);

// splitmix64: a step of a stream of random numbers.
uint64_t next_random(uint64_t* state);

}  // namespace pallasim::interp
