// Where indices lead: bounds, extents, single elements.
#pragma once
#include <string>
#include <vector>

#include "../step.h"

namespace pallasim::interp {

struct IndexTerm {
  uint32_t slot;                         // index value
  bool wide;                             // i64, else i32
  int64_t stride;                        // bytes per unit
  int64_t last;                          // largest legal value
  int dim;                               // dimension of the ref, for reports
  int64_t extent;                        // of that dimension
  int64_t size;                          // elements taken
  uint32_t size_slot = Addr::kNoSlot;    // i64 slot where that is known at run time only
  int64_t padding = 0;                   // elements behind `extent` that a copy may name
  int64_t first = 0;                     // smallest legal value
  uint32_t extent_slot = Addr::kNoSlot;  // i64 slot of a smaller extent, known at run time only
  int64_t reach = 1;                     // elements from the first that is taken to the last, with both
  bool operator==(const IndexTerm&) const = default;
};
struct IndexPayload {
  std::vector<IndexTerm> terms;
  std::string ref;
  std::vector<int64_t> shape;
  bool write = false;
  bool empty = false;           // the view has no element
  std::vector<uint32_t> sizes;  // i64 slots: where one is 0 it has none either, and begins where it likes
};
struct ValidPayload {    // how much of a slice exists
  int64_t extent;        // of the dim it is taken from, or
  uint32_t extent_slot;  // its i64 slot
  int64_t start;
  uint32_t start_slot;
  bool wide;
  int64_t size;
  uint32_t size_slot;
  // Copies that lie outside of their array, noted when it happens: that dimension; extent 0: nothing is noted.
  enum class Notes : uint8_t {
    ReadsOn,  // a copy goes on behind the end of its source
    Box,      // no element of a box exists, or it begins before its array
  } notes = Notes::ReadsOn;
  IndexTerm noted = {};
  std::vector<uint32_t> sizes = {};  // i64 slots: where one is 0 nothing is copied
  std::string ref = {};
  std::vector<int64_t> shape = {};
};
// What a load outside of its ref does (Options::out_of_bounds): it stops, or gives what nobody wrote.
struct ReadsOutside {
  bool go_on = false;
  int64_t end = -1;  // bytes from the buffer's begin on that may be read; -1: any
};
struct ScalarAccess {  // load or store of one element with at most one dynamic index
  Addr addr;
  IndexTerm term;
  bool has_term = false;
  std::string ref;
  std::vector<int64_t> shape;
  LoadFn load = nullptr;
  StoreFn store = nullptr;  // one of the two
  int bytes = 4;            // of the element
  ir::DType dtype = ir::DType::F32;
  ReadsOutside outside = {};
};

}  // namespace pallasim::interp
