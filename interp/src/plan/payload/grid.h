// Blocks that may lie outside of their array, of inputs that the kernel reads under conditions only; the pipeline of a
// grid.
#pragma once
#include "../body.h"

namespace pallasim::interp {

struct UnreadWindow {
  const Window* window = nullptr;
  uint32_t outside = 0;  // i64 slot: the block of this grid point lies outside
};

// Where a block lies outside, window_unread notes PS-OOB-002 once and leaves out the next step, which moves the window;
// window_read stops with it.

inline constexpr int kPipelineFields = 4;  // of Window::state, besides block starts and bytes per slot
struct PipelinePayload {
  std::vector<const Window*> windows;
  uint32_t started = 0, more = 0;  // i64 slots: a step has begun; there is a step after it
  uint32_t saved = 0;  // i64 slots per grid axis: the step's position while the program ids are those of the next
};

}  // namespace pallasim::interp
