// What becomes of values in plans for debuggers: where each lies, and from which step to which.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "../../plan/value_places.h"
#include "context.h"
#include "value.h"

namespace pallasim::interp {

class KeptValues {
 public:
  explicit KeptValues(Context& c) : c_(c) {}
  // From here on the value lies there.
  void begin(ir::ValueId, const Val&);
  // What needs its memory may have it now; the value stays where there is room to keep it.
  void unused(ir::ValueId);
  void end(const Region&);  // of its values
  void end();               // of all
  bool active = false;      // what is compiled is the kernel's body, and no index map

 private:
  // Memory of values that nobody uses any more, of all threads: beyond it the next value may lie there.
  static constexpr int64_t kKept = 256LL << 20;
  void end(ir::ValueId);
  int32_t here() const { return static_cast<int32_t>(c_.plan().steps.size()); }
  struct Open {
    size_t place;                      // among Plan::values
    std::shared_ptr<Storage> storage;  // none: it is not kept
  };
  Context& c_;
  std::unordered_map<ir::ValueId, Open> open_;
  int64_t bytes_ = 0;
};

}  // namespace pallasim::interp
