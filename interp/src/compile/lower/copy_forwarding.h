// Copies that need not move what they copy (passes/forward_copies.cc): bytes that stay where copies bring them from
// (ElidedCopies), and values that are stored for a copy alone: where it moves at issue, they are computed where the
// copy takes them.
#pragma once
#include <functional>
#include <optional>

#include "../../plan/payload/copies.h"
#include "../values/emitter.h"

namespace pallasim::interp {

// -- bytes that stay --
// The allocation that was noted last is memory of that kind, where the ref is: what is emitted for its begin is then
// `begin_elision`.
void elide_copies(Emitter&, const Val& ref);
void begin_elision(Emitter&, const Val& ref);

int32_t elidable_of(Emitter&, const Val& ref);  // PlanMemory::elidable; -1: none
// Of a copy between the two: what its sides say of that.
void tell_elision(Emitter&, const Val& src, const Val& dst, CopySide* from, CopySide* to);
// Before something uses the memory in another way than plain copies and loads do.
void materialise_elided(Emitter&, const Val& ref);
// The part of the memory that a load shows, at the place where its bytes lie.
Val where_elided(Emitter&, Val shown);

// -- values that are computed where they are taken --
// Whether the store of `value` to `dst`, a part of a ref, is emitted with the copy behind it.
bool waits_for_copy(Emitter&, const Op& store, const Val& dst, const Val& value);

// The store that waits for a copy, while that is lowered.
class StoreForwarding {
 public:
  // Takes the store; of other values those that show memory become memory, as the copy may write to it.
  StoreForwarding(Emitter&, const Op& copy);
  // The value goes to the memory that it was stored to.
  void store();
  struct CopyTo {
    const Val& ref;
    const CopySide& side;
    UnitSet peer;
  };
  // Emits the copy: `copy(forwarded)`, where `forwarded` says that the bytes are there already. Not `plain`: bytes have
  // to be where they were stored.
  void emit(const CopyTo&, bool plain, const std::function<void(bool forwarded)>& copy);

 private:
  Emitter& e_;
  const Op& copy_;
  struct Stored {
    const Op* op;
    Val dst, value;
  };
  std::optional<Stored> stored_;
};

}  // namespace pallasim::interp
