#include "left_undefined.h"

#include <algorithm>

namespace pallasim::interp {
namespace {

constexpr size_t kMostArrays = 64, kMostRuns = 1 << 16, kMostHeld = 4096;
// What is less says too little: another array may hold the same there.
constexpr size_t kLeastHeld = 4;

std::vector<std::byte> bytes_of(const std::byte* array, const std::vector<LeftUndefined::Run>& runs) {
  std::vector<std::byte> r;
  for (const auto& [begin, end] : runs) {
    const auto n = std::min<int64_t>(end - begin, static_cast<int64_t>(kMostHeld - r.size()));
    r.insert(r.end(), array + begin, array + begin + n);
    if (r.size() == kMostHeld) break;
  }
  return r;
}

bool says_something(const std::vector<std::byte>& held) {
  return held.size() >= kLeastHeld &&
         std::any_of(held.begin(), held.end(), [](std::byte b) { return b != std::byte{0}; });
}

}  // namespace

LeftUndefined& LeftUndefined::of_process() {
  static LeftUndefined* const all = new LeftUndefined;  // launches may end while the process does
  return *all;
}

void LeftUndefined::keep(const std::byte* array, int64_t bytes, std::vector<Run> undefined, std::string whose) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(arrays_, [&](const Array& a) { return a.begin < array + bytes && array < a.begin + a.bytes; });
  if (undefined.empty() || undefined.size() > kMostRuns) return;
  std::vector<std::byte> held = bytes_of(array, undefined);
  if (!says_something(held)) return;
  if (arrays_.size() == kMostArrays) arrays_.erase(arrays_.begin());
  arrays_.push_back({array, bytes, {std::move(undefined), std::move(whose)}, std::move(held)});
}

std::optional<LeftUndefined::Found> LeftUndefined::find(const std::byte* array, int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto a = std::find_if(arrays_.begin(), arrays_.end(),
                              [&](const Array& x) { return x.begin == array && x.bytes == bytes; });
  if (a == arrays_.end()) return {};
  if (bytes_of(array, a->found.undefined) == a->held) return a->found;
  arrays_.erase(a);
  return {};
}

}  // namespace pallasim::interp
