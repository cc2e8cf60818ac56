// What bodies of steps share, and what the engine does with copies.
#pragma once
#include <string>

#include "../plan/steps.h"
#include "execution.h"

namespace pallasim::interp::ops {

// -- grid --
// Moves the thread to the next position of its part of the grid; false behind the last one, and it is at the first one.
bool next_place(Thread&);
void place_ids(Thread&);   // the program ids of the thread's position
void note_point(Thread&);  // a grid point begins
void window_place(const Thread&, const Window&,
                  int64_t* place);  // of the block at the program ids; Window::places() numbers
memory::Clip clip_window(const Window&, const int64_t* place);  // what of that block lies in the array
void check_window(const Thread&, const Step*, const Window&);   // stops with PS-OOB-002 where the block lies outside

// -- arithmetic --
// The product as a chip's matrix unit forms it. Operands and result as in contract().
void matrix_unit(const ContractPayload&, std::byte* c, const std::byte* a, const std::byte* b);
// format(value, spec), from an element in register form.
std::string formatted(const std::byte* element, ir::DType, const PrintPayload::Style&);

// -- synchronisation --
int64_t semaphore_id(const Thread&, const SemPayload&);
// The thread that an i32 slot names, the own one without a slot. Stops with PS-SEM-001 where there is no such core.
int32_t target_thread(const Thread&, const Step*, const Peer&, const char* what);
// Takes `value` from the semaphore, or blocks the thread until it is there.
const Step* wait_for(Thread&, const Step*, int64_t semaphore, int64_t value, bool decrement);
// Starts a copy: one that somebody waits for already moves now, the others wait for their turn.
void issue_copy(Execution&, const memory::AsyncCopy&);
// Moves the bytes of a copy in flight and signals its semaphores.
void complete_copy(Execution&, size_t index);

// -- memory events for checked runs --
void note_access(Thread&, const Step*, const Addr&, const std::vector<int64_t>& dims,
                 const std::vector<int64_t>& strides, int element_bytes, bool write, int owner = -1);
// What nobody wrote is written.
void note_unwritten(Thread&, const Step*, const Addr&, const std::vector<int64_t>& dims,
                    const std::vector<int64_t>& strides, int element_bytes, int owner);
// Those that only listeners of temporaries want; before the step where it reads, behind it or before where it writes.
void note_temporary(Thread&, const Step*, const Addr&, const std::vector<int64_t>& dims,
                    const std::vector<int64_t>& strides, int element_bytes, bool write);

}  // namespace pallasim::interp::ops
