#include "host.h"

namespace pallasim::interp {

Host::Host(int max_strips) : max_strips_(max_strips) { make_strips(1); }

void Host::make_strips(int parts) {
  while (strips_.size() < static_cast<size_t>(parts))
    strips_.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(max_strips_) * kStripBytes + 64));
}

std::byte* Host::strips_of(int part) const {
  std::byte* const at = strips_[static_cast<size_t>(part)].get();
  return at + (64 - reinterpret_cast<uintptr_t>(at) % 64) % 64;
}

int64_t Host::strip_bytes() const { return static_cast<int64_t>(strips_.size()) * max_strips_ * kStripBytes; }

}  // namespace pallasim::interp
