// What to change, from the numbers of a prediction and from no other source.
#pragma once
#include <functional>
#include <optional>

#include "pallasim/hw/occupancy.h"
#include "pallasim/interp/predict.h"

namespace pallasim::interp {

struct AdviceGround {
  const Plan* plan = nullptr;
  const hw::Profile* chip = nullptr;
  const Timeline* timeline = nullptr;  // of one core
  std::optional<hw::Residency> residency;
  // The launch's seconds with another module; none: the chip refuses it. Null: nothing is predicted again.
  std::function<std::optional<double>(const std::function<void(ir::Module&)>& change)> again;
};

std::vector<Prediction::Advice> advise(const Prediction&, const AdviceGround&);

}  // namespace pallasim::interp
