// What the kinds of asynchronous operations share.
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
// The movement that a step starts between two sides of the thread's own, whose extents are those of the source: without
// a number, completions and a stream.
memory::AsyncOperation movement(const Thread&, const Step*, memory::AsyncKind, const CopySide& src, const CopySide& dst,
                                ir::DType);
// Padding of tiles is no memory of ours: what would be written there is dropped, and what would be read from there is
// what nobody wrote.
void clip(const Thread&, const DmaPayload&, memory::AsyncOperation*);
// Numbers the operation and starts it: its bytes move now where somebody waits for them already, or others' do, or
// `when` says so; else it is in flight. Late: where others' would move now it does when all wait.
enum class Moves : uint8_t { AsOthers, Now, Late };
void issue(Thread&, const Step*, memory::AsyncOperation&, Moves when = Moves::AsOthers);
// Whether somebody can tell a product in flight from one that is made at once.
inline bool in_flight(const Execution& ex) { return ex.copies_move != Options::Copies::AtIssue || ex.observed; }
// Moves the operations of a stream that a wait for all but `most` groups is about.
void complete_groups(Execution&, int64_t stream, int64_t most);

// How the bytes of each kind move: column `moves` of memory/async.def.
#define ASYNC(kind, word, moves, ...) void move_##moves(Execution&, const memory::AsyncOperation&);
#include "pallasim/memory/async.def"

// Bytes of a strided shape that lies side by side in row-major order; else 0.
int64_t dense_bytes(const int64_t* dims, const int64_t* strides, int rank, int64_t size);
// What the plan knows of the movement that a step starts; null: nothing.
const Transfer* transfer_of(const Step&);
// Whether the bytes stay where they are, and their destination, `elidable` of PlanMemory, knows. `from_constant`:
// nobody writes the source while the launch runs.
bool elides(Execution&, const memory::AsyncOperation&, const memory::Side& to, int32_t elidable, bool from_constant);
// Before bytes are written to a destination in another way: what stayed away from it comes. The memory is that of who
// receives them, which is not always who sends. -1: it is none that copies are elided to.
void arrives_there(Execution&, const memory::Side& to, int32_t elidable);

}  // namespace pallasim::interp::ops
