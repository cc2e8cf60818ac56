// Values that are stored for a copy alone (analysis/forwarded_stores.h): where the copy moves at issue, they are
// computed where it takes them.
#pragma once
#include <functional>
#include <optional>

#include "../../plan/payload/copies.h"
#include "../values/emitter.h"

namespace pallasim::interp {

// Where the ref, which `region` knows by its origin, is memory of that kind: its stores wait for their copies.
void forward_stores(Emitter&, const ir::Region&, const Val& ref);

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
    Peer peer;
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
