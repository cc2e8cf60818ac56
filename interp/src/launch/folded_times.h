// What a launch would take, from runs that left out trips of its loops.
#pragma once
#include <span>

#include "pallasim/interp/predict.h"

namespace pallasim::interp {

// Each number as the weights say, of predictions that differ in numbers alone; what is no sum is the last one's.
Prediction weighted(std::span<const Prediction>, std::span<const double> weights);
// The largest first, what bounds it and what would next, from its shares and bounds.
void sort_shares(Prediction*);

}  // namespace pallasim::interp
