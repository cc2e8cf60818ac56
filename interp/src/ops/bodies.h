// What bodies of steps share, and what the engine does with copies.
#pragma once
#include <string>

#include "../plan/payload/arithmetic.h"
#include "../plan/payload/barriers.h"
#include "../plan/payload/copies.h"
#include "../plan/payload/places.h"
#include "../plan/payload/print.h"
#include "execution.h"
#include "functions.h"

namespace pallasim::interp::ops {

using memory::dense_strides;

// -- grid --
// Moves the thread to the next position of its part of the grid; false behind the last one, and it is at the first one.
bool next_place(Thread&);
void place_ids(Thread&);  // the program ids of the thread's position
// A thread that is at its part's next point goes on as one that comes from `n` points further along the axis: the
// blocks that it has are those of where it is then. Index maps are affine.
void skip_points(Thread&, size_t axis, int64_t n);
void place_pipeline(Thread&);  // blocks of the pipeline of the grid that are there
void window_place(const Thread&, const Window&,
                  int64_t* place);  // of the block at the program ids; Window::places() numbers
memory::Clip clip_window(const Window&, const int64_t* place);  // what of that block lies in the array
void check_window(const Thread&, const Step*, const Window&);   // stops with PS-OOB-002 where the block lies outside

// Whether a load outside of its ref goes on, of these bytes of its buffer.
bool may_read_at(const ReadsOutside&, int64_t begin, int64_t bytes);

// -- arithmetic --
// The product as a chip's matrix unit forms it. Operands and result as in contract().
void matrix_unit(const ContractPayload&, std::byte* c, const std::byte* a, const std::byte* b);
// A contraction as the payload says, large ones by panels.
void multiply(Execution&, const ContractPayload&, std::byte* c, std::byte* a, std::byte* b);
// format(value, spec), from an element in register form.
std::string formatted(const std::byte* element, ir::DType, const PrintPayload::Style&);

// -- synchronisation --
int64_t semaphore_id(const Thread&, const SemPayload&);                // the thread's own
int64_t semaphore_id(const Thread&, const SemPayload&, int32_t unit);  // of that unit
// Where schedules ask who can go on (Host::announces): the thread says what it waits for before it looks, and blocks.
inline bool announces(Thread& t, const Step* s, const Wait& w) {
  if (!t.exec->host.announces || t.wait.kind != Wait::Kind::None) [[likely]]
    return false;
  t.wait = w;
  t.pc = s;
  t.stop = Stop::Blocked;
  return true;
}
// Takes `value` from the semaphore, or blocks the thread until it is there.
const Step* wait_for(Thread&, const Step*, int64_t semaphore, int64_t value, bool decrement);
// Moves the bytes of an operation in flight, and tells those who wait.
void complete_copy(Execution&, size_t index);
// The oldest operation that some thread waits for; false: there is none.
bool complete_awaited(Execution&);
// Where operations move when somebody waits, those on the way to what is awaited do so now, oldest first, while there
// are `more` to come.
template <typename F>
void complete_while(Execution& ex, const memory::Awaited& what, const F& more) {
  if (ex.copies_move != Options::Copies::AtWait) return;
  for (size_t i; more() && (i = ex.copies.next(what)) < ex.copies.size();) complete_copy(ex, i);
}
// Until all groups of the stream but `most` are complete, or as far as their reads go; null: the thread is blocked.
const Step* wait_for_groups(Thread&, const Step*, int64_t stream, int64_t most, bool reads);

int64_t barrier_id(const Thread&, const BarrierPayload&);
int64_t barrier_id(const Thread&, const BarrierPayload&, int32_t unit);  // of the CTA of that unit
// An arrival that brings the expectation of bytes: no phase can end before they are there.
void arrive_expecting(Thread&, int64_t barrier, int64_t bytes);
// What barriers have to say of what the step did.
void tell_of_barriers(Thread&, const Step*);

}  // namespace pallasim::interp::ops
