// The chips that Pallasim knows: every figure with its source, and the profile that the engine runs with.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pallasim::hw {

// One line of a chip's data file (hw_models/chips/NAME.csv).
struct Figure {
  std::string field;
  std::string text;    // as in the file
  double value = 0;    // of `text`, where it is a number
  bool known = true;   // false: `text` is "unknown"
  std::string unit;    // B, B/s, op/s, Hz, s, cycles, …; empty for counts and names
  std::string scope;   // what one such figure belongs to: chip, device, TensorCore, SM, block, …
  std::string source;  // who says so; of an unknown figure: where it was looked for
  std::string note;
};

struct Chip {
  std::string name;                                  // "tpu-v5e", "gpu-h100"
  std::vector<Figure> figures;                       // in the order of the file; each field once
  const Figure* find(std::string_view field) const;  // null where the file has none
};

enum class Family : uint8_t { Generic, Tpu, Gpu };

// How a tensor core adds the products of one instruction to its accumulator.
enum class TensorSum : uint8_t {
  Unknown,      // taken as a sum in f32
  Aligned,      // exact products and the accumulator aligned to the largest of their exponents, truncated, added,
                // truncated; f8 to fewer bits than f32's (Hopper)
  AlignedWide,  // the same with all bits of f32 for f8, too, and exact sums of blocks of f4 (Blackwell)
};

inline constexpr int64_t kUnknown = -1;

// What execution and legality depend on, as numbers. kUnknown: nobody published it, or the machine is generic.
struct Profile {
  std::string name = "generic";
  Family family = Family::Generic;
  std::string device_kind = "cpu";  // what JAX reports
  std::string compute_capability;   // GPUs: "9.0"
  int64_t device_cores = 1;         // TensorCores of one JAX device, or SMs
  // Every figure in bytes by its field, in the order of the file: "vmem_bytes" of a TensorCore, "hbm_bytes", …
  std::vector<std::pair<std::string, int64_t>> bytes;

  // TPU
  int64_t chip_cores = kUnknown;  // TensorCores of the chip
  int64_t generation = kUnknown;
  int64_t lanes = kUnknown, sublanes = kUnknown;
  int64_t sparsecores = kUnknown;  // per TensorCore; 0: none that Pallas can use
  int64_t subcores = kUnknown;     // per SparseCore
  int64_t subcore_lanes = kUnknown;
  int64_t subcore_vmem_bytes = kUnknown;
  int64_t subcore_dma_granule = kUnknown;  // bytes

  // GPU
  int64_t warps_per_sm = kUnknown, blocks_per_sm = kUnknown;
  int64_t threads_per_block = kUnknown;
  int64_t regs_per_sm = kUnknown, regs_per_thread = kUnknown;            // of 32 bits
  int64_t smem_per_sm_bytes = kUnknown, smem_reserved_bytes = kUnknown;  // the latter per block
  int64_t cluster_blocks = kUnknown;
  TensorSum tensor_sum = TensorSum::Unknown;
  bool holds_both_operands = false;  // of products in shared memory, where they are of 16 bits or i8

  // Of `bytes`; kUnknown where the file has no such field, or no figure.
  int64_t capacity(std::string_view field) const;
};

// All chips, TPUs first. Throws std::runtime_error where a data file is malformed (a defect of the build; tested).
const std::vector<Chip>& chips();
// The same as profiles, with "generic" first.
const std::vector<Profile>& profiles();
const Profile& generic();
// Null where there is no such chip.
const Profile* find_profile(std::string_view name);
const Chip* find_chip(std::string_view name);
// The name of the chip that somebody meant who wrote another one: its device kind ("TPU v5 lite"), its name without a
// part or with more ("v5e", "h100-sxm"), or with a slip of the hand; empty where none was. The digits are the model's:
// a number that no chip has is no slip.
std::string_view nearest_chip(std::string_view name);

// Reads a data file: the header line `field,value,unit,scope,source,note`, then one figure per line, quoted as in RFC
// 4180. Throws std::runtime_error naming chip and line for a missing column, a field given twice, or a figure without a
// source.
Chip parse_chip(std::string name, std::string_view csv);
// Throws std::runtime_error for a chip without a field that its family needs.
Profile make_profile(const Chip&);

}  // namespace pallasim::hw
