// What the issue of every kind of copy shares.
#pragma once
#include "../plan/payload/copies.h"
#include "bodies.h"
#include "pallasim/memory/async.h"

namespace pallasim::interp::ops {

// Elements of dimension `d`, which a slot may hold.
int64_t extent(const Thread&, const Extents&, size_t d);
// What the slot of dimension d holds (i64); `otherwise` where there is none.
int64_t given(const Thread&, const std::vector<uint32_t>& slots, size_t d, int64_t otherwise);
bool is_closed(const Thread&, const CopySide&);  // a gate says that nothing of it exists
// Bytes of so many elements of `bits` on the machine; where the last one is a part, it counts.
int64_t machine_bytes(int64_t elements, int bits);
// The copy of a step between two sides of the thread's own, whose extents are those of the source: without a number,
// completions and a stream.
memory::AsyncCopy copy_between(const Thread&, const Step*, const CopySide& src, const CopySide& dst, ir::DType,
                               memory::Combine);
// Padding of tiles is no memory of ours: what would be written there is dropped, and what would be read from there is
// what nobody wrote.
void clip(const Thread&, const DmaPayload&, memory::AsyncCopy*);
// Numbers the copy and starts it. `now`: its bytes move now, whenever others' would; `source_told`: another part of the
// step's read the same source.
void issue(Thread&, const Step*, memory::AsyncCopy&, bool now = false, bool source_told = false);

// Moves the bytes of a product in flight.
void multiply_in_flight(Execution&, const memory::AsyncCopy&);
// Completes the operations of a stream that a wait for all but `most` groups is about; the last such group, or -1.
int64_t complete_groups(Execution&, int64_t stream, int64_t most);

// Bytes of a strided shape that lies side by side in row-major order; else 0.
int64_t dense_bytes(const int64_t* dims, const int64_t* strides, int rank, int64_t size);
// Whether the bytes of a copy stay where they are, and its destination knows.
bool elides(Execution&, const memory::AsyncCopy&);

}  // namespace pallasim::interp::ops
