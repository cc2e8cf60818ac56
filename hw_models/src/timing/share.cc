#include <algorithm>

#include "pallasim/hw/timing.h"

namespace pallasim::hw {

void FairShare::advance(double now) {
  if (now <= now_) return;
  if (!heap_.empty()) {
    shares_ += (now - now_) * rate_ / static_cast<double>(heap_.size());
    busy_ += now - now_;
  }
  now_ = now;
}

void FairShare::add(double now, double work, int64_t id) {
  advance(now);
  heap_.push({shares_ + work, work, id});
}

double FairShare::next() const {
  if (heap_.empty()) return kNever;
  const double left = heap_.top().end - shares_;
  return now_ + (left > 0 ? left * static_cast<double>(heap_.size()) / rate_ : 0);
}

int64_t FairShare::take() {
  advance(next());
  const Entry e = heap_.top();
  shares_ = e.end > shares_ ? e.end : shares_;
  heap_.pop();
  served_ += e.work;
  if (heap_.empty()) shares_ = 0;
  return e.id;
}

double Work::total() const {
  double sum = 0;
  for (const double b : busy) sum += b;
  return sum;
}

Work& Work::operator+=(const Work& o) {
  for (size_t i = 0; i < busy.size(); ++i) busy[i] += o.busy[i];
  latency += o.latency;
  flops += o.flops;
  bytes += o.bytes;
  reads = reads || o.reads;
  writes = writes || o.writes;
  before = std::max(before, o.before);
  ahead = std::max(ahead, o.ahead);
  at_once = at_once || o.at_once;
  by_rows = by_rows || o.by_rows;
  first = std::max(first, o.first);
  first_row = std::max(first_row, o.first_row);
  for (size_t i = 0; i < mxus.size(); ++i) mxus[i] += o.mxus[i];
  return *this;
}

std::string_view name(Unit u, Family f) {
  constexpr std::string_view kTpu[] = {"scalar core", "VPU", "EUP", "XLU", "MXU", "VMEM loads", "VMEM stores"},
                             kGpu[] = {"uniform", "SIMT", "SFU", "shuffles", "tensor core", "SMEM ports", "stores"};
  return (f == Family::Gpu ? kGpu : kTpu)[static_cast<size_t>(u)];
}

}  // namespace pallasim::hw
