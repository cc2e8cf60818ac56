#include "pallasim/memory/barriers.h"

#include <fmt/format.h>

#include <algorithm>

namespace pallasim::memory {

void Barriers::init(int64_t id, int64_t expected) {
  Barrier& b = barriers_[static_cast<size_t>(id)];
  const Barrier before = b;
  b = {};
  b.expected = expected;
  b.parity = before.parity;
  b.named = before.named;
  b.tensor = before.tensor;
  b.of_cluster = before.of_cluster;
}

// A loop that errs errs each time alike; the first ones tell it.
void Barriers::note(const BarrierFinding& f) {
  constexpr size_t kMost = 1000;
  if (findings_.size() < kMost) findings_.push_back(f);
}

void Barriers::take(int64_t id, int64_t expected, int32_t thread) {
  Barrier& b = barriers_[static_cast<size_t>(id)];
  if (b.arrived == 0) b.expected = expected;
  else if (b.expected != expected) note({BarrierFinding::Kind::OtherCount, id, b.phase, expected, thread});
}

bool Barriers::expect(int64_t id, int64_t bytes, std::vector<int32_t>* woken) {
  barriers_[static_cast<size_t>(id)].bytes_due += bytes;
  return settle(id, woken);
}

bool Barriers::deliver(int64_t id, int64_t bytes, std::vector<int32_t>* woken) {
  Barrier& b = barriers_[static_cast<size_t>(id)];
  b.bytes_due -= bytes;
  b.carried = b.phase + 1;
  return settle(id, woken);
}

bool Barriers::arrive_expecting(int64_t id, int64_t bytes, int32_t thread, std::vector<int32_t>* woken) {
  barriers_[static_cast<size_t>(id)].bytes_due += bytes;
  return arrive(id, 1, thread, woken);
}

bool Barriers::wait(int64_t id, int64_t* seen, int32_t thread) {
  if (test(id, seen, thread)) return true;
  waiters_[static_cast<size_t>(id)].push_back(thread);
  return false;
}

std::vector<BarrierFinding> Barriers::left_over(int64_t id) const {
  const Barrier& b = barriers_[static_cast<size_t>(id)];
  std::vector<BarrierFinding> r;
  using Kind = BarrierFinding::Kind;
  if (b.of_cluster && b.observed == 0 && b.phase > 1) r.push_back({Kind::Unwaited, id, 1, b.phase, -1});
  else if (b.observed < b.phase && !b.named)
    r.push_back({b.carried > b.observed ? Kind::Unobserved : Kind::Released, id, b.observed, b.phase - b.observed, -1});
  if (b.bytes_due != 0) r.push_back({Kind::BytesLeft, id, b.phase, b.bytes_due, -1});
  if (b.arrived != 0) r.push_back({Kind::ArrivalsLeft, id, b.phase, b.arrived, -1});
  return r;
}

int64_t BarrierLayout::owners(const BarrierBlock& b) const {
  return b.owner == Level::Device ? 1 : b.mesh < 0 ? units_.per_device(b.owner) : units_.per_mesh(b.owner, b.mesh);
}

int BarrierLayout::add(BarrierBlock b) {
  b.first = per_device_;
  per_device_ += b.count * owners(b);
  const int64_t threads = units_.per_device(Level::Thread);
  const bool quotient = units_.devices() == 1 && units_.meshes().size() == 1 && b.owner != Level::Warp;
  threads_per_owner_.push_back(quotient ? std::max<int64_t>(1, threads / owners(b)) : 0);
  blocks_.push_back(std::move(b));
  return static_cast<int>(blocks_.size()) - 1;
}

int64_t BarrierLayout::id(int block, int64_t index, int64_t unit) const {
  const BarrierBlock& b = blocks_[static_cast<size_t>(block)];
  const int64_t device = units_.device_of(b.owner, unit);
  return device * per_device_ + b.first + (unit - units_.first(b.owner, std::max(0, b.mesh), device)) * b.count + index;
}

std::string BarrierLayout::name(int64_t id, int* block) const {
  *block = -1;
  const int64_t each = std::max<int64_t>(1, per_device_), device = id / each, inside = id % each;
  for (size_t i = 0; i < blocks_.size() && id >= 0 && device < units_.devices(); ++i) {
    const BarrierBlock& b = blocks_[i];
    if (inside < b.first || inside >= b.first + b.count * owners(b)) continue;
    *block = static_cast<int>(i);
    const int64_t unit = units_.first(b.owner, std::max(0, b.mesh), device) + (inside - b.first) / b.count;
    const std::string index = b.count > 1 ? fmt::format("[{}]", (inside - b.first) % b.count) : "";
    return (b.name.empty() ? "barrier" : b.name) + index + units_.of(b.owner, unit);
  }
  return fmt::format("barrier {}", id);
}

Barriers BarrierLayout::make() const {
  std::vector<Barrier> r;
  for (int64_t d = 0; d < units_.devices(); ++d)
    for (const BarrierBlock& b : blocks_) {
      Barrier one;
      one.expected = b.expected;
      one.parity = b.parity;
      one.named = b.named;
      one.tensor = b.tensor;
      one.of_cluster = b.of_cluster;
      r.insert(r.end(), static_cast<size_t>(b.count * owners(b)), one);
    }
  return Barriers(std::move(r));
}

}  // namespace pallasim::memory
