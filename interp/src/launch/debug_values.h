// Values of a kernel as a debugger sees them: names, where their elements lie, and their bytes.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "../ops/execution.h"
#include "../report/checks.h"
#include "debug_symbols.h"
#include "debug_watch.h"

namespace pallasim::interp {

// Where names are looked up: a thread at a step, in one of its frames.
struct DebugScope {
  const Execution& ex;
  const DebugSymbols& symbols;
  const Thread& thread;
  const Step& step;
  size_t level = 0;  // of the frame, 0 the kernel's
  Checks* checks = nullptr;
};

// Elements of a value that nobody copied yet.
struct DebugView {
  struct Dim {
    int64_t size = 1, stride = 0;  // stride: bytes
    // Element k is inside where 0 <= first + k * step < limit.
    int64_t first = 0, step = 1, limit = std::numeric_limits<int64_t>::max();
  };
  std::string name, note;
  ir::DType dtype = ir::DType::F32;
  std::vector<Dim> dims;
  bool is_ref = false, elsewhere = false, outside = false;
  uint32_t buffer = 0;
  int32_t thread = 0;
  int64_t offset = 0;              // bytes from the buffer's base
  std::vector<std::byte> element;  // of a value in a slot: all elements are this one
  uint32_t slot = 0;
  int operand = -1;  // whose array it shows a part of

  std::vector<int64_t> shape() const;
  int64_t elements() const;
};

DebugView view_of(const DebugScope&, const std::string& name, const ValuePlace&);
// The whole array that a ref shows a block of. Throws DebugError.
DebugView array_of(const DebugScope&, const DebugView& ref);
// And the index there of its first element. Throws DebugError, also where the block is a copy.
std::vector<int64_t> block_of(const DebugScope&, const DebugView& ref);
DebugValue read(const DebugScope&, const DebugView&);
WatchedElements elements_of(const DebugScope&, const DebugView&);  // throws DebugError: those of a slot

// "f32[8,128]"
std::string type_text(ir::DType, const std::vector<int64_t>& dims);
// Numbers of elements, in their own type.
double debug_number(const std::byte* element, ir::DType);
int64_t debug_integer(const std::byte* element, ir::DType);
bool debug_is_integer(ir::DType);  // or a truth value

}  // namespace pallasim::interp
