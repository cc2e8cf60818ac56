// The bytes of an execution's memory as a value. What two images have alike they share, so that many can be kept.
#pragma once
#include <optional>
#include <vector>

#include "written_pages.h"

namespace pallasim::interp {

struct MemoryImage {
  std::vector<memory::Pages> arrays;  // operands, device by device
  std::vector<memory::Pages> shared;  // Execution::shared_memory: of each allocation, owner by owner
  std::vector<memory::Pages> slots;   // of each arena
  std::vector<memory::Pages> temporaries;
  bool operator==(const MemoryImage&) const = default;
  int64_t apart(const MemoryImage&) const;  // bytes that the other one does not share
};

// Saves and loads the memory of one execution, and remembers what it held then. `written` tells what has changed since;
// without it, and of slots, everything is compared.
class MemoryKeeper {
 public:
  explicit MemoryKeeper(Execution&, WrittenPages* written = nullptr);
  MemoryImage save();
  // Shared memory may lie elsewhere then (Execution::rebind).
  void load(const MemoryImage&);
  // Whether memory is what the image says, by looking at each byte.
  bool holds(const MemoryImage&) const;

 private:
  // A piece of the execution's memory; `told`: by what `written` is told of, all that changes it is known.
  struct Place {
    std::byte* at;
    int64_t bytes;
    bool told;
    std::span<std::byte> span() const { return {at, static_cast<size_t>(bytes)}; }
  };
  struct Places {
    std::vector<Place> arrays, shared, slots, temporaries;
  };
  // `like` (may be null) is an image that says which parts of arenas are slots.
  Places places(const MemoryImage* like = nullptr) const;
  int64_t slot_bytes(size_t arena) const;
  // Of a place that has been where it is since `last_`: the pages that may differ from it; none: any may.
  struct Known {
    const memory::Pages* last = nullptr;  // null: nothing is known of the place
    const memory::PageMarks* marks = nullptr;
  };
  Known known(const std::vector<memory::Pages>& last, const std::vector<Place>& then, size_t i, const Place& now) const;
  void remember(const MemoryImage&, Places);
  Execution& ex_;
  WrittenPages* written_;
  std::vector<bool> array_told_;  // by operand
  bool temporaries_told_;
  MemoryImage last_;
  Places then_;  // when `last_` was what memory held
};

}  // namespace pallasim::interp
