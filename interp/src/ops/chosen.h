// Rows that a list names.
#pragma once
#include <vector>

#include "../plan/payload/rows.h"
#include "bodies.h"

namespace pallasim::interp::ops {

// The first `n` indices of the list. Where a prediction computes no values and the list is no array that the kernel was
// given, nobody knows them: then rows that exist and are no neighbours, others for each thread.
std::vector<int64_t> chosen_rows(const Thread&, const ChosenRows&, int64_t n);

}  // namespace pallasim::interp::ops
