// What is said: prints, host calls, checks.
#pragma once
#include <string>
#include <vector>

#include "../step.h"

namespace pallasim::interp {

struct PrintPayload {
  std::string format;
  bool placeholders = true;
  bool literals = false;  // as a TPU's log has values: "f32[] 2", arrays as XLA writes literals
  // A Python format specification: [[fill]align][sign][#][0][width][grouping][.precision][type].
  struct Style {
    std::string fill = " ";
    char align = 0, sign = 0, grouping = 0, type = 0;  // 0: none
    bool alternate = false;
    int width = 0, precision = -1;
  };
  struct Arg {
    bool scalar;
    uint32_t slot;
    Addr addr;
    ir::DType dtype;
    std::vector<int64_t> dims;
    Style style;
  };
  std::vector<Arg> args;
};
struct PromisePayload {  // that an integer is a multiple of another
  int64_t by;
  bool wide;  // i64, else i32
};
struct CheckPayload {
  PrintPayload message;
};

}  // namespace pallasim::interp
