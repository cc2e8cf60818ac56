// Refs as a list of transforms shows them.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../../plan/payload/movement.h"
#include "../../plan/payload/places.h"
#include "../values/emitter.h"

namespace pallasim::interp {

// What a view is for: an access to memory, one that may have array indices, the source or the destination of a copy
// (extents may be known at run time only), the same of a box, which may reach beyond the end of its array, or the
// extents alone (nothing is accessed: bounds do not matter).
enum class ViewUse : uint8_t { Access, Gather, Copy, CopyTo, Box, BoxTo, Shape };
// What becomes of a ref that is seen through a copy: refused, opened to read or to write, or left closed.
// Overwrite: all elements of the view are written, none is read. Some: which ones are written is known at run time.
enum class Recast : uint8_t { Refuse, Read, Write, Overwrite, Some, Keep };

struct OpenedRef {
  Val base, copy;                              // memory, and its dense copy as other elements
  const ReinterpretPayload* recast = nullptr;  // where not all of the base is shown
};
struct ViewResult {
  std::vector<OpenedRef> opened;
  Val ref;
  bool gather = false;
  std::vector<GatherDim> dims;
  std::vector<int64_t> result_dims;
  std::vector<std::shared_ptr<Storage>> keep;
};

// When a view has no element, and so may begin anywhere: it is known to have none, or one of these i64 slots holds 0.
struct Emptiness {
  bool known = false;
  std::vector<uint32_t> sizes;
};
// `sizes`: more slots of which one that holds 0 says that nothing is accessed.
ViewResult apply_view(Emitter&, const Op&, const Val& ref, std::span<const ir::View>, ViewUse, Recast = Recast::Refuse,
                      std::vector<uint32_t> sizes = {});
// The view of a ref, or of each of those that it may be.
Val apply_view_to_each(Emitter&, const Op&, const Val& ref, std::span<const ir::View>, ViewUse,
                       Recast = Recast::Refuse);
// Offsets of views that were found already, by what they are made of, as far as they hold where the compiler is.
class IndexedViews {
 public:
  struct Key {
    uint32_t base = Addr::kNoSlot;  // slot of the ref's own offset
    std::vector<ir::ValueId> starts;
    std::vector<IndexTerm> terms;  // without their slots, whose values may be others by now
    bool operator==(const Key&) const = default;
  };
  // A region: what is found in it may not have been where it ends.
  class Scope {
   public:
    explicit Scope(Emitter&);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Emitter& e_;
    size_t before_;
  };
  std::optional<uint32_t> find(const Key&) const;
  void learn(Key key, uint32_t slot) { known_.emplace_back(std::move(key), slot); }

 private:
  std::vector<std::pair<Key, uint32_t>> known_;
};

// An attribute view($k, [transforms]).
Val viewed_operand(Emitter&, const Op&, const char* key, ViewUse, Recast = Recast::Refuse);
// Runs `body` once per alternative of `v`, where the plan then branches.
void for_each_choice(Emitter&, const Val& v, const std::function<void(const Val&)>& body);
// Strides of memory in a shape that differs in dimensions of one element alone.
std::optional<std::vector<int64_t>> same_but_for_ones(const Val& memory, std::span<const int64_t> to);
// Whether a copy may take what lies behind its source's end.
bool copies_read_on(Emitter&);

// -- refs seen through a copy (recast.cc) --
Val see_through(Emitter&, const Op&, const Val& ref, ir::DType, std::vector<int64_t> dims);
// An index straight after a change of width selects before it in all dimensions but the packed one: the copy is
// smaller. Returns what is left to select.
ir::view::Index push_index(Emitter&, const Op&, Val* ref, const ir::view::Index&);
// Where its elements lie: in the dense array of its elements, in what that shows, at last in memory.
std::vector<ReinterpretPayload::Level> levels_of(const Val& ref);
Val open_ref(Emitter&, const Val& ref, Recast, std::vector<OpenedRef>*);
void write_back(Emitter&, const std::vector<OpenedRef>&);

}  // namespace pallasim::interp
