#include "sampled.h"

#include <algorithm>
#include <cmath>

#include "../plan/kinds.h"
#include "../timing/step_costs.h"

namespace pallasim::interp {
namespace {

constexpr int64_t kSms = 11;      // at least, so that they meet where all do
constexpr double kUnlike = 0.03;  // as a part of the chip, what runs may be away from every n-th program

// Programs that reach each other, or take each other's work.
bool meet(const Plan& p) {
  for (const memory::SemaphoreBlock& b : p.memory.semaphores.blocks())
    if (b.owner == memory::Level::Device) return true;
  return std::any_of(p.steps.begin(), p.steps.end(), [](const Step& s) { return s.kind == Kind::cluster_request; });
}

}  // namespace

Sample sample_of(const Plan& p, const Population& who, int64_t cluster, int64_t sms) {
  Sample r{1, sms, 1};
  const int64_t busy = std::min(sms, who.programs * cluster);  // an SM has a second program when each has one
  if (busy < 2 * kSms || meet(p) || programs_branch(p)) return r;
  for (int64_t stride = busy / kSms; stride > 1; --stride) {
    const double exact = static_cast<double>(sms) / static_cast<double>(stride);
    const int64_t some = std::llround(exact / static_cast<double>(cluster)) * cluster;
    const int64_t programs = (who.programs + stride - 1) / stride;
    const double part = static_cast<double>(programs) / static_cast<double>(who.programs) * static_cast<double>(stride);
    // As many on the SM that has most, too.
    if ((programs * cluster + some - 1) / some != (who.programs * cluster + sms - 1) / sms) continue;
    if (some < kSms || std::abs(static_cast<double>(some) / exact - 1) > kUnlike || part - 1 > kUnlike) continue;
    r = {stride, some, static_cast<double>(some) / static_cast<double>(sms)};
    break;
  }
  return r;
}

}  // namespace pallasim::interp
