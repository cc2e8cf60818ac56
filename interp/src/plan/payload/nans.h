// What is looked at behind an operation that may make NaN or infinity.
#pragma once
#include <cstdint>
#include <vector>

#include "../step.h"

namespace pallasim::interp {

struct NanPayload {
  // Which elements of an operand one element of the result is made of, per dimension of the operand.
  struct Lane {
    enum class Take : uint8_t {
      Same,  // the one at the result's index in dimension `dim`
      All,
      UpTo,  // those up to the result's index in dimension `dim`
      From,  // that one and those behind it
    };
    Take take = Take::All;
    int dim = 0;  // of the result; of a product's All: which of the contracted ones it is
  };
  struct Array {
    ir::DType dtype{};
    bool scalar = false;  // in a slot; all elements are this one
    uint32_t slot = 0;
    Addr addr;
    std::vector<int64_t> dims, strides;  // elements
    std::vector<Lane> lanes;             // of an operand in memory
  };
  ir::OpCode op{};
  Array result;
  std::vector<Array> operands;
};

}  // namespace pallasim::interp
