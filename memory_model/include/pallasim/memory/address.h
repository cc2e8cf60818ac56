// Where bytes lie. Values hold addresses, never pointers: the base of every buffer is bound per launch.
#pragma once
#include <cstdint>

namespace pallasim::memory {

// A buffer's base plus a static and an optional dynamic byte offset, which is kept in a slot of the thread.
struct Addr {
  static constexpr uint32_t kNoSlot = ~0u;
  uint32_t buffer = 0;
  uint32_t dyn = kNoSlot;  // slot with an i64 byte offset
  int64_t offset = 0;
  int32_t loc = -1;  // the caller's: the line that asks for these bytes, which is no part of where they lie
  bool operator==(const Addr& a) const { return buffer == a.buffer && dyn == a.dyn && offset == a.offset; }
};

// Buffer 0: a thread's slots. 1: read-only constants. 2: temporaries, thread scratch and staged windows. Then the
// operands, then what the grid shares.
inline constexpr uint32_t kSlotBuffer = 0, kConstBuffer = 1, kTempBuffer = 2, kFirstOperandBuffer = 3;

}  // namespace pallasim::memory
