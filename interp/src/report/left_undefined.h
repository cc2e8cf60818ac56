// Arrays that a checked launch left with undefined elements: a later launch that is given one reads what nobody wrote,
// as a kernel does that carries on what jnp.empty or a partly written result gave it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace pallasim::interp {

// Known by address, as long as the undefined elements hold what they held: memory that is used for something else does
// not. Of the process; any thread may ask.
class LeftUndefined {
 public:
  static LeftUndefined& of_process();
  struct Run {
    int64_t begin, end;  // bytes
  };
  // `whose`: "kernel a left in its output o_ref". Forgets what it knew of arrays that meet this one.
  void keep(const std::byte* array, int64_t bytes, std::vector<Run> undefined, std::string whose);
  struct Found {
    std::vector<Run> undefined;
    std::string whose;
  };
  std::optional<Found> find(const std::byte* array, int64_t bytes);

 private:
  struct Array {
    const std::byte* begin;
    int64_t bytes;
    Found found;
    std::vector<std::byte> held;  // by the first undefined bytes
  };
  std::mutex mutex_;
  std::vector<Array> arrays_;  // the latest last
};

}  // namespace pallasim::interp
