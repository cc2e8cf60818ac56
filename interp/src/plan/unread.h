// Blocks that may lie outside of their array, of inputs that the kernel reads under conditions only: steps.
#pragma once
#include "body.h"

namespace pallasim::interp {

struct UnreadWindow {
  const Window* window = nullptr;
  uint32_t outside = 0;  // i64 slot: the block of this grid point lies outside
};

namespace ops {
// Payload UnreadWindow. Where the block lies outside: notes PS-OOB-002 once, and leaves out the next step, which moves
// the window.
const Step* window_unread(Thread&, const Step*);
const Step* window_read(Thread&, const Step*);  // stops with PS-OOB-002 where the block lies outside
}  // namespace ops

}  // namespace pallasim::interp
