// Reads and writes of refs that several families share.
#pragma once
#include <map>
#include <set>
#include <string>

#include "../../plan/payload/movement.h"
#include "../values/affine_arrays.h"
#include "../views/views.h"
#include "lowering.h"

namespace pallasim::interp {

// Inputs without blocks that a kernel writes to: the caller's buffers on the chip, copies of the launch's own here.
struct CallersBuffers {
  std::set<int> not_noted;  // origins; the first write to each is noted
};
// Prefetched scalars that index maps read, by origin: the operand. The first write to each is found.
struct ScalarsOfIndexMaps {
  std::map<int, size_t> not_found;
};
// Whether an index map reads the prefetched operand of that number.
bool reads_operand(const ir::Module&, const ir::Graph& index_map, size_t prefetched);
// Refuses to write to an input.
void check_writable(Emitter&, const Op&, const Val& ref);
// What loads outside of the ref do.
ReadsOutside reads_outside(const Emitter&, const Val& ref);
// Whether an access may leave its ref and goes on where it does (Options::padding, out_of_bounds): it then looks at
// every element.
bool may_leave(Emitter&, const Op&, const Val& ref, bool read);
void store_value(Emitter&, const Op&, const Val& ref, const Val& v);

// get, store and swap of the attribute `view`; other families fall back to them.
void lower_get(Emitter&, const Op&);
void lower_store(Emitter&, const Op&);
void lower_swap(Emitter&, const Op&);

// -- accesses element by element (gather.cc) --
struct ElementAccess {
  GatherPayload::Mode mode;
  const Val *value = nullptr, *mask = nullptr, *other = nullptr, *compare = nullptr;
  const std::vector<Predicate>* conditions = nullptr;  // the mask, without memory
  AtomicFn atomic = nullptr;
  bool spins = false;
};
// The view in indexed form: how every dimension of the ref is addressed. Bounds are checked per element.
ViewResult element_view(Emitter&, const Op&, const Val& ref, std::span<const ir::View>, Recast = Recast::Refuse);
// `result`: where the read or former value goes; null where nobody wants it.
void gather_access(Emitter&, const Op&, const ViewResult&, const ElementAccess&, Val* result);
// The machine's function of a kind of atomic; refused by name where it has none.
AtomicFn atomic_function(Emitter&, const Op&, const std::string& kind, ir::DType);

}  // namespace pallasim::interp
