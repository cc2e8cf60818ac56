// Tensor memory of Blackwell, and its tensor pipe.
#pragma once
#include "arithmetic.h"
#include "barriers.h"
#include "copies.h"

namespace pallasim::interp {

// One scale per row and block of `block` elements along k; rows of a right operand are its columns.
struct BlockScales {
  CopySide side;
  ir::DType dtype = ir::DType::F8E8M0FNU;
  int64_t block = 0;
  int64_t half = 0;  // rows from those of the leader's columns to those of the other CTA
};

// Of a pair of CTAs each has rows of the sum and of the left operand, and columns of the right one; the leader starts
// the product for both.
struct TensorProductPayload {
  Contraction contraction;  // of the rows and columns of one CTA
  MatrixUnit unit;
  bool reference = false;
  uint32_t accumulate = Addr::kNoSlot;  // a bool slot; kNoSlot: contraction.accumulate says it
  CopySide sum, left, right;
  bool scaled = false, sparse = false;
  BlockScales left_scales, right_scales;
  CopySide metadata;       // of a sparse left operand: two of four elements along k are there, which
  BarrierPayload barrier;  // that gets an arrival; block -1: none does
  UnitSet ctas;            // names nobody: the own one alone
};
// From shared memory; of a pair of CTAs each copies its own.
struct TensorCopyPayload : Transfer {
  UnitSet ctas;
};
// Between tensor memory and registers, which are dense.
struct TensorAccessPayload {
  CopySide memory;
  Addr registers;
  ir::DType dtype = ir::DType::F32;
};
// An arrival when all is complete that the thread's tensor pipe took before.
struct TensorCommitPayload {
  BarrierPayload barrier;
  UnitSet ctas;
};

}  // namespace pallasim::interp
