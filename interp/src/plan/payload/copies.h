// Semaphores, and copies that they tell of.
#pragma once
#include <string>
#include <vector>

#include "../step.h"
#include "pallasim/memory/async.h"
#include "units.h"

namespace pallasim::interp {

struct SemPayload {
  int block = -1;  // -1: none
  Addr index;      // offset and dyn count semaphores, not bytes
  UnitSet peer;    // whose it is
  uint32_t value_slot = Addr::kNoSlot;
  bool value_wide = false;
  int64_t value = 1;
  bool decrement = true;
  bool polls = false;  // a look in a loop that may wait for a change
};
// The extents of a transfer: bounds, and i64 slots where they are known at run time only.
struct Extents {
  std::vector<int64_t> dims;
  std::vector<uint32_t> slots;  // kNoSlot: dims has it; empty where all are static
};
struct CopySide {
  Addr addr;
  Extents extents;
  std::vector<uint32_t> valid;   // i64 slots of the elements that exist, kNoSlot or empty: all
  std::vector<uint32_t> gates;   // i64 slots: nothing exists where one is 0
  std::vector<int64_t> strides;  // elements
  std::string name;
  std::vector<uint32_t> before;  // i64 slots of the elements of a box that lie before its array; empty, kNoSlot: none
  int32_t elidable = -1;         // PlanMemory::elidable; -1: none
  bool constant = false;         // of an array that nobody writes while the launch runs
};
// Loads of memory whose bytes may lie elsewhere.
struct ElisionPayload {
  int32_t elidable;
  Addr addr;
  int64_t begin, end;  // what is loaded: bytes from `addr`
  uint32_t alias = 0;  // the buffer that it is found in: i64 slot `dst` has where (PlanMemory::aliases)
};
// What an asynchronous movement goes between. Of an operation in flight its step knows this.
struct Transfer {
  CopySide src, dst;
  ir::DType dtype = ir::DType::F32;
  memory::AsyncKind kind = memory::AsyncKind::dma;
  bool forwarded = false;  // the bytes are there already
};
struct DmaPayload : Transfer {
  SemPayload src_sem, dst_sem;
  UnitSet peer;  // who receives
  bool add = false;
};
struct ForwardPayload {
  CopySide dst;  // of a forwarded copy
  UnitSet peer;  // whose memory it is
  // Where it is another device's: the buffer that stands for it, and an i64 slot with the bytes from the address to
  // there.
  uint32_t alias = 0, way = 0;
  ir::DType dtype = ir::DType::F32;
};
struct DmaWaitPayload {
  SemPayload sem;
  Extents extents;
  std::vector<int64_t> most;  // the largest size of each dim that is known at run time only
  std::string name;           // of the ref
  int bits = 32;              // of an element on the machine
};
struct ScopePayload {  // what a run_scoped allocated
  struct Range {
    int64_t offset, bytes;
  };
  std::vector<Range> memory;    // of the thread's temporaries
  std::vector<int> semaphores;  // blocks
};

}  // namespace pallasim::interp
