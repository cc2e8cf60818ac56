// Copies of rows that indices choose or of refs seen through other element widths, and words of other subcores.
#pragma once
#include "copies.h"
#include "movement.h"

namespace pallasim::interp {

// Rows of one side of a copy: the i-th row that moves is the one that the i-th index names.
struct ChosenRows {
  Addr list;  // of the indices
  ir::DType dtype = ir::DType::I32;
  int64_t stride = 1;                   // of the list, elements
  int64_t count = 0;                    // of indices
  uint32_t count_slot = Addr::kNoSlot;  // i64 slot where that is known at run time only
  size_t dim = 0;                       // of the view that they choose from
  int64_t extent = 0;                   // of that dimension, the most where a slot has it
  uint32_t extent_slot = Addr::kNoSlot;
  bool ignores = false;  // rows whose index is `ignored` do not move
  int64_t ignored = 0;
};
// A copy that is made of parts: its rows are chosen, or a side is seen through other element widths.
struct RowCopyPayload : DmaPayload {
  RowCopyPayload() { kind = memory::AsyncKind::indirect; }
  bool chooses = false;
  ChosenRows rows;
  bool of_dst = false;  // rows of the destination are chosen; else of the source
  // Where the elements of a side lie; one level: as the side says.
  std::vector<ReinterpretPayload::Level> src_levels, dst_levels;
};

struct FetchAddPayload {
  Addr addr;                // in the thread's own memory; the other subcore's word lies at the same place of its memory
  uint32_t value_slot = 0;  // i32
  UnitSet subcore;
  std::string name;
};

}  // namespace pallasim::interp
