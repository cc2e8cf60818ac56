// Accesses as shadow state knows them: instances (an allocation of one owner) instead of buffers and threads.
#pragma once
#include <string>
#include <unordered_map>

#include "../ops/execution.h"
#include "pallasim/memory/shadow/races.h"

namespace pallasim::interp {

// Arrays that share memory (aliases) are one instance. A thread's temporaries are one, in which offsets tell
// allocations apart.
class Instances {
 public:
  int32_t of(const Execution&, int32_t thread, uint32_t buffer);
  // `who`: a thread or a side of an asynchronous operation.
  memory::shadow::Access access(const Execution&, const Access&, memory::shadow::Actor who);
  // One side of a copy, by whoever moves it.
  memory::shadow::Access side(const Execution&, const memory::AsyncCopy&, bool dst, memory::shadow::Actor who);

 private:
  std::unordered_map<const std::byte*, int32_t> bases_;
};

// What the kernel calls the memory that an access is to: an operand, an allocation, or "" where it has no name.
std::string allocation_name(const Plan&, uint32_t buffer, int64_t offset);

}  // namespace pallasim::interp
