// The latest launches, as they ended.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "pallasim/interp/launch.h"
#include "pallasim/ir/diagnostic.h"

namespace pallasim::python {

// One launch that ended, well or not.
struct Run {
  int64_t number = 0;  // launches are counted from 1
  std::string kernel, chip, token;
  double seconds = 0;
  bool planned = false;     // its plan was made for it; else an earlier launch had left it in the cache
  double plan_seconds = 0;  // what that took; 0 where it was not
  int64_t steps = 0, grid_points = 0;
  int threads = 0, units = 0;
  bool races = false;  // a data race or a false `parallel` claim was found
  bool checked = false;
  std::vector<ir::Diagnostic> findings;  // by cause; of a launch that failed its error alone
  bool failed = false;
  std::vector<interp::Traffic> traffic;  // checked runs only
  std::string time;                      // predicted, as JSON; empty: nobody asked
};

// Keeps launches in memory of its own. Their results come from the general allocator, one behind the other with what
// else is asked for meanwhile: 31 bytes of a launch that stay between two results of some megabytes, and the place that
// the first one leaves is a little too small for the next.
class RunLog {
 public:
  void keep(Run);                // drops the oldest beyond kMax
  std::vector<Run> all() const;  // oldest first
  Run last() const;              // of number 0 where there is none

 private:
  static constexpr size_t kMax = 256;

  // A launch whose texts and traffic lie in the room, and in the general allocator where they need more. Findings stay
  // where they are.
  class Place {
   public:
    void set(Run);
    Run get() const;

   private:
    struct Moved {
      std::pmr::vector<std::pmr::string> texts;  // kernel, chip, token, time, name and space of each item of `traffic`
      std::pmr::vector<interp::Traffic> traffic;
    };
    alignas(std::max_align_t) std::array<std::byte, 2048> room_;
    std::pmr::monotonic_buffer_resource memory_{room_.data(), room_.size()};
    std::optional<Moved> moved_;
    Run rest_;
  };
  const Place& at(size_t i) const { return places_[i % kMax]; }

  std::array<Place, kMax> places_;
  size_t kept_ = 0;  // since the beginning
};

}  // namespace pallasim::python
