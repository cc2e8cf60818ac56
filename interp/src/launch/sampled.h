// SMs that stand for the others: where programs are alike and share nothing but the bandwidth of a cache, every so many
// of them run, on as much of the chip.
#pragma once
#include "../ops/binding.h"
#include "pallasim/hw/timing.h"

namespace pallasim::interp {

class Plan;

struct Sample {
  int64_t stride = 1;  // of programs; 1: all run
  int64_t sms = 0;     // of a device, that run them
  double share = 1;    // of the chip
};

// `who`: programs of a launch on one device with so many SMs, each of them a cluster of `cluster` thread blocks.
Sample sample_of(const Plan&, const Population& who, int64_t cluster, int64_t sms);

}  // namespace pallasim::interp
