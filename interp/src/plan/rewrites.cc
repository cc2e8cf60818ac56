#include "pallasim/interp/rewrites.h"

#include <array>
#include <atomic>

namespace pallasim::interp {
namespace {
std::array<std::atomic<int64_t>, static_cast<size_t>(Rewrite::Count)> g_hits;
}  // namespace

std::string_view describe(Rewrite r) {
  static constexpr std::string_view kWhat[] = {
#define PALLASIM_REWRITE(name, what) what,
      PALLASIM_REWRITES(PALLASIM_REWRITE)
#undef PALLASIM_REWRITE
  };
  return kWhat[static_cast<size_t>(r)];
}

void count(Rewrite r, int64_t times) { g_hits[static_cast<size_t>(r)].fetch_add(times, std::memory_order_relaxed); }

int64_t hits(Rewrite r) { return g_hits[static_cast<size_t>(r)].load(std::memory_order_relaxed); }

}  // namespace pallasim::interp
