// Units of the machine that an operation names: one or several.
#pragma once
#include <string>
#include <vector>

#include "../step.h"

namespace pallasim::interp {

// The thread's own unit, but for what is named: another device, a core of a mesh by its number, places along axes of
// the thread's mesh.
struct UnitSet {
  // What an operation says of an axis that it names: the place that an i32 slot holds, or all of them.
  struct Coordinate {
    uint32_t slot = Addr::kNoSlot;
    bool all = false;
    bool named() const { return all || slot != Addr::kNoSlot; }
  };
  // An axis of the units of a device, as its threads see it.
  struct Axis {
    uint32_t own_slot = 0;  // i64: the thread's own place
    int64_t size = 1;
    int64_t stride = 0;  // threads from one place to the next
    Coordinate at;
    std::string name;  // as reports say: "CTA x ="
  };

  Coordinate device;
  uint32_t core_slot = Addr::kNoSlot;
  int body = 0;  // index into Plan::bodies: whose mesh has the core
  // Of each group the units at all named places along its axes; of several groups all of them.
  std::vector<std::vector<Axis>> groups;
  bool first_only = false;  // of the places of an axis the first one

  bool elsewhere() const { return device.named() || core_slot != Addr::kNoSlot || !groups.empty(); }
  // How many there are on the thread's own device, `first_only` aside.
  int64_t count() const {
    int64_t n = 1;
    for (const auto& group : groups) {
      int64_t all = 1;
      for (const Axis& a : group) all *= a.at.all ? a.size : 1;
      n += all - 1;
    }
    return n;
  }
};

// Memory of another unit, read at once.
struct PeerReadPayload {
  UnitSet peer;
  Addr src, dst;
  std::vector<int64_t> dims, src_strides, dst_strides;  // elements
  ir::DType dtype = ir::DType::F32;
};

// An array of another device, under a buffer's number of its own (PlanMemory::aliases) from then on.
struct PeerArrayPayload {
  UnitSet peer;
  uint32_t array = 0, alias = 0;
};

// The same part of an array on all devices: what is stored there, or `dst` <- the elements of all, combined.
struct MultimemPayload {
  UnitSet devices;
  Addr part, value;                    // the value is dense
  std::vector<int64_t> dims, strides;  // of the part, elements
  ir::DType dtype = ir::DType::F32;
  ir::OpCode combine = ir::OpCode::add;
};

}  // namespace pallasim::interp
