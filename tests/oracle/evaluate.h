// An eager evaluator of modules: a plain walk over the IR, one operation at a time on dense arrays. No plan, no lazy
// values, no views of memory, no fusion. It judges the engine and shares nothing with it but the reference table of
// arithmetic.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pallasim/ir/module.h"

namespace pallasim::oracle {

// Row-major; sub-byte types one element per byte, as XLA's buffers have them.
struct Array {
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;
};

struct Setting {
  std::vector<int> order;            // of the threads of a mesh: who runs first among those that can; empty: ascending
  uint64_t noise = 1;                // which noise
  bool reads_outside = false;        // of a TPU's memory go on, and give what nobody wrote
  bool fuzzy_uninitialized = false;  // fill fresh memory with noise instead of NaN / the type's most negative integer
};

enum class End : uint8_t {
  Done,
  Missing,  // an operation the evaluator lacks: `what` names it
  Stopped,  // the kernel is wrong: out of bounds, deadlock, write to an input, failed check, no such device: `what`
            // says it
};
struct Outcome {
  End end = End::Done;
  std::string what;
  std::vector<Array> results;       // outputs in declaration order (of each device, device by device)
  std::vector<std::string> prints;  // debug_print lines in grid order
  // Two trips of a parallel_loop met at a byte, one of them writing; both wrote it.
  bool trips_meet = false, trips_write = false;
};

// `args`: dynamic grid bounds, prefetch, inputs, in declaration order, of each device one after another.
Outcome evaluate(const ir::Module&, std::span<const Array> args, const Setting& = {});

}  // namespace pallasim::oracle
