// Which pages of memory may have changed since somebody last asked, by what steps and asynchronous operations say that
// they write. Of slots nobody says it.
#pragma once
#include <map>

#include "../ops/execution.h"
#include "pallasim/memory/pages.h"

namespace pallasim::interp {

class WrittenPages : public Observer {
 public:
  explicit WrittenPages(const Execution& ex) : ex_(ex) {}
  uint32_t wants() const override { return kAccess | kInternal | kOperation | kMemory; }
  void on_access(const Access&) override;
  void on_operation(const OperationEvent&) override;  // whose bytes have moved
  void on_memory(const MemoryEvent&) override;        // given to a program, or fresh: what lies there is new

  // From now on the memory is looked after.
  void watch(const std::byte* at, int64_t bytes);
  // Of what was written since the last clear(); null: nobody looked after the memory.
  const memory::PageMarks* marks(const std::byte* at, int64_t bytes) const;
  void clear();

 private:
  struct Region {
    int64_t bytes;
    memory::PageMarks marks;
  };
  void mark(const std::byte* at, int64_t begin, int64_t end);
  const Execution& ex_;
  std::map<const std::byte*, Region> regions_;  // by where they begin
};

}  // namespace pallasim::interp
