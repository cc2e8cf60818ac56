// Options::nans: a look behind every operation that may make NaN or infinity from finite numbers.
#pragma once
#include <vector>

#include "../../plan/payload/nans.h"
#include "../values/emitter.h"

namespace pallasim::interp {

bool looks_for_nans(const Emitter&);

using Lanes = std::vector<NanPayload::Lane>;
Lanes same_element(size_t rank);

// What one element of the result is made of.
struct MadeOf {
  Val value;
  Lanes lanes;  // per dimension of the value; of a scalar none
};
// Behind the steps of the operation under compilation: their result and operands lie there still.
void look_for_nans(Emitter&, const Val& result, const std::vector<MadeOf>& operands);

// The elements of mutable memory as they are now, for a later look.
Val as_it_is(Emitter&, const Val&);

// Around the lowering of an operation: keeps its operands until its result was looked at.
class NanLook {
 public:
  NanLook(Emitter&, const Op&);
  void after_lowering();

 private:
  Emitter& e_;
  const Op& op_;
  std::vector<Val> operands_;  // none where the operation cannot make any
};

}  // namespace pallasim::interp
