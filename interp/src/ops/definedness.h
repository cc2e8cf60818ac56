// What of memory and slots is undefined, and how it travels through steps: by the class of their kind (Definedness,
// plan/kinds.h), over what their footprints say.
#pragma once
#include <vector>

#include "../plan/kinds.h"
#include "execution.h"
#include "pallasim/memory/shadow/definedness.h"

namespace pallasim::interp::ops {

using memory::shadow::Birth, memory::shadow::Births;

// Shadow of an execution's memory and slots, by whoever keeps it.
class Shadow {
 public:
  virtual ~Shadow() = default;
  // Of a buffer as the thread sees it.
  virtual memory::shadow::Definedness& memory(int32_t thread, uint32_t buffer) = 0;
  virtual memory::shadow::Definedness& slots(int32_t thread) = 0;

  // Undefined elements that a step makes itself.
  enum class Making : uint8_t { MaskedLane, Outside, Padding };
  virtual Birth made(const Thread&, const Step&, Making) = 0;
  // Whether the window of an output begins undefined at each visit, whatever its array holds; and by what.
  virtual bool begins_undefined(const Window&, Birth*) = 0;
  virtual Birth padding(const memory::AsyncOperation&) = 0;
  // A step reads these births, by what the line asks for (-1: the step's own): what they are called from then on, which
  // tells who read them first.
  virtual void read(const Thread&, const Step&, ir::LocId, Births*) = 0;
  // Elements that an operation has taken to another place, before they are stored there.
  virtual void taken(const Thread&, const Step&, Births*) = 0;
  virtual void stored(const Thread&, const Step&, const Addr&, const Births&) = 0;
  // What arithmetic makes of undefined elements is theirs, but no longer them.
  virtual Birth computed(Birth) = 0;
  // An undefined value is asked for what happens next.
  enum class Decides : uint8_t { Branch, Trips, Address, Size, Mask, Count, Unit, Check };
  virtual void decides(const Thread&, const Step&, Birth, Decides) = 0;
};

// A step is about to run: shadow becomes what it is behind it.
void carry(Thread&, const Step&, Shadow&);
// Whether a step that is about to run may make undefined elements of defined ones.
bool may_make_undefined(Thread&, const Step&);
// The bytes of an operation have moved. `held`: births of what it held since it was issued.
void carry(Execution&, const memory::AsyncOperation&, const Births& held, Shadow&);

Births births_held(Execution&, const memory::AsyncOperation&, Shadow&);

// Of an elementwise program: the birth of each element of its result.
Births births_of(Thread&, const Step&, const EltProgram&, Shadow&);
// Beside the window's bodies.
void carry_window(Thread&, const Step&, Shadow&);

}  // namespace pallasim::interp::ops
