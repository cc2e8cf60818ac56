// How many thread blocks of a GPU are there at the same time, and what keeps the others out.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "pallasim/hw/chips.h"
#include "pallasim/ir/module.h"

namespace pallasim::hw {

// What one block takes of its SM. kUnknown: its compiler decides, and it counts for nothing here.
struct BlockNeeds {
  int64_t warps = 4;
  int64_t smem_bytes = kUnknown;
  int64_t regs_per_thread = kUnknown;  // of 32 bits
  int64_t tmem_columns = kUnknown;     // of 128 lanes of 32 bits; powers of two from 32 on are allocated
  int64_t cluster = 1;                 // blocks of a cluster, which begin together
};
// Of a launch: warps from num_warps (4 where nothing is said) or a mesh's threads (a warpgroup each), its cluster, and
// shared and tensor memory as far as the kernel says what lies there (rules.h, space_use).
BlockNeeds block_needs(const ir::Module&);

struct Residency {
  struct Limit {
    std::string resource;  // "warps", "shared memory", …
    int64_t blocks = 0;    // per SM, as far as this resource goes
    std::string why;       // "32 of 64 warps"
  };
  int64_t per_sm = kUnknown;  // the smallest of `limits`
  int64_t blocks = kUnknown;  // of the device, in whole clusters, one at least. Which SMs a cluster may lie on nobody
                              // publishes: an upper bound
  std::vector<Limit> limits;  // the tightest first
};
// All kUnknown where the chip is no GPU. Shared memory: what an SM has over a block's own and what the system takes per
// block; registers: what an SM has over those of a block's threads (CUDA C++ Programming Guide; 1, 2 and 3 blocks per
// SM were measured on an H200).
Residency residency(const BlockNeeds&, const Profile&);

}  // namespace pallasim::hw
