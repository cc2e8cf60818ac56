// Allocations of a launch: what lies where, whose it is, and what the kernel calls it. Reports, checkers, capacities
// and snapshots ask this one table.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "pallasim/ir/type.h"
#include "pallasim/memory/units.h"

namespace pallasim::memory {

struct Allocation {
  enum class Lifetime : uint8_t {
    Launch,  // from the start of its owner to the end
    Scope,   // of a run_scoped: its bytes are given out again
  };
  std::string name;  // of the ref in the kernel; may be empty
  ir::Space space = ir::Space::Default;
  Level owner = Level::Thread;  // every unit of this level has one
  Lifetime lifetime = Lifetime::Launch;
  uint32_t buffer = 0;  // of Thread level: the thread's temporaries; else a buffer of its own
  int64_t offset = 0, bytes = 0;
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> dims;  // elements

  int64_t elements() const;
  // Has every thread this one for itself?
  bool private_to_thread() const { return owner == Level::Thread || owner == Level::Warp; }
  bool holds(uint32_t b, int64_t at) const { return b == buffer && at >= offset && at < offset + bytes; }
  bool operator==(const Allocation&) const = default;
};

// The level whose units own memory of a scope; of a space that belongs to a level by its nature, that one.
Level owner_level(ir::Scope, ir::Space);

class Allocations {
 public:
  // Returns its index.
  int add(Allocation a);
  size_t size() const { return all_.size(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  const Allocation& operator[](size_t i) const { return all_[i]; }
  // Decodes an address: the allocation that holds the byte, null where none does. Of scopes that share bytes the one
  // that was declared first, if it has a name.
  const Allocation* at(uint32_t buffer, int64_t offset) const;
  bool operator==(const Allocations&) const = default;

 private:
  std::vector<Allocation> all_;
};

}  // namespace pallasim::memory
