// Steps that are worth it run in parts, on other OS threads too. A part computes what it would in one piece: results do
// not depend on how many there are.
#pragma once
#include <algorithm>
#include <functional>
#include <span>

#include "../plan/host_cost.h"
#include "execution.h"

namespace pallasim::interp {

// Who runs the parts. Absent in checked runs, and where parts of the grid use the OS threads.
class Helpers {
 public:
  virtual ~Helpers() = default;
  virtual int count() const = 0;  // OS threads, the caller's included
  // Calls part(0) to part(n - 1), at the same time, and returns when all have ended. Parts do not throw.
  virtual void run(int n, const std::function<void(int)>& part) = 0;
  double ns_asked =
      0;  // about so long would the launch's steps that are worth parts have taken in one piece; no copies
};

namespace ops {

// Of a step that takes about so long in one piece. Waking helpers is worth it for a long step, and once shorter ones
// took as long together; from then on they are awake for short ones as well. Short copies alone do not wake them: what
// uses the bytes next would find half of them in another core's cache.
inline int parts_of(const Execution& ex, double ns, bool copies = false) {
  if (!ex.host.helpers || ns < host_cost::kWorthParts) return 1;
  if (!copies) ex.host.helpers->ns_asked += ns;
  return std::max(ex.host.helpers->ns_asked, ns) > host_cost::kWorthWaking ? ex.host.helpers->count() : 1;
}

struct Share {
  int64_t begin, end;
};
// The i-th of n shares of [0, all), in multiples of `unit`.
inline Share share(int64_t all, int i, int n, int64_t unit = 1) {
  const int64_t units = (all + unit - 1) / unit;
  return {std::min(all, units * i / n * unit), std::min(all, units * (i + 1) / n * unit)};
}

// Which of the dims to share among n: the first that has as many elements, else the longest.
inline size_t shared_dim(std::span<const int64_t> dims, int n) {
  const auto enough = std::find_if(dims.begin(), dims.end(), [&](int64_t d) { return d >= n; });
  return static_cast<size_t>((enough != dims.end() ? enough : std::max_element(dims.begin(), dims.end())) -
                             dims.begin());
}

// A strided copy between places that share no byte; arguments as those of copy_strided.
void copy_in_parts(Execution&, std::byte* dst, const int64_t* dst_strides, const std::byte* src,
                   const int64_t* src_strides, const int64_t* dims, int rank, int size);

}  // namespace ops
}  // namespace pallasim::interp
