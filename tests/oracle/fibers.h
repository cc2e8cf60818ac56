// Programs that take turns on one thread of the operating system: a turn wakes nobody, and a program costs a stack.
#pragma once
#include <functional>
#include <memory>
#include <vector>

namespace pallasim::oracle {

class Fibers {
 public:
  // Each body runs from its first switch_to on, on a stack of its own; it must not throw.
  explicit Fibers(std::vector<std::function<void()>> bodies);
  ~Fibers();  // every body that began has ended
  // A further body, perhaps in the place of one that ended, from `from` on; it is given its number.
  size_t add(const std::function<void(size_t)>& body, size_t from);
  // From outside: runs a body until it ends or leaves.
  void switch_to(size_t i);
  // From a body: goes on behind switch_to. Returns at the next switch to this body.
  void leave();
  bool began(size_t i) const;
  bool ended(size_t i) const;
  size_t size() const { return all_.size(); }

 private:
  struct Fiber;
  static void enter(unsigned high, unsigned low);
  std::vector<std::unique_ptr<Fiber>> all_;
  std::unique_ptr<Fiber> outside_;
  size_t running_ = 0;
};

}  // namespace pallasim::oracle
