// The bounds that docs/numerics.md states, on random and special arguments.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ulp.h"

namespace pallasim::interp {
namespace {

// f32, f64 bounds in ulp.
const std::map<std::string, std::pair<double, double>> kBounds = {
    {"exp", {1.0, 1.0}},      {"exp2", {1.1, 1.2}},  {"expm1", {1.5, 1.3}}, {"log", {0.9, 0.9}},    {"log1p", {0.51, 1.0}},
    {"logistic", {2.3, 2.3}}, {"tanh", {1.5, 2.5}},  {"sin", {0.52, 0.9}},  {"cos", {0.52, 1.3}},   {"tan", {0.51, 2.3}},
    {"sinh", {0.51, 2.3}},    {"cosh", {0.51, 1.6}}, {"asin", {0.51, 2.3}}, {"acos", {0.51, 1.2}},  {"atan", {0.51, 1.9}},
    {"asinh", {0.51, 2.0}},   {"acosh", {0.51, 2.2}}, {"atanh", {0.51, 2.2}}, {"cbrt", {0.51, 0.6}}, {"rsqrt", {1.51, 1.51}},
    {"erf", {0.51, 2.0}},     {"erfc", {0.51, 5.0}}, {"pow", {0.51, 1.0}},  {"atan2", {0.51, 1.7}}, {"lgamma", {0.6, 30.0}}};

TEST(Accuracy, WithinTheStatedBounds) {
  for (const auto& f : ulp::functions()) {
    const auto bound = kBounds.find(f.name);
    ASSERT_NE(bound, kBounds.end());
    const auto a = ulp::measure<float>(kernels(), f, 240, 3);
    ASSERT_GE(a.ulp, 0) << f.name;
    EXPECT_LE(a.ulp, bound->second.first) << f.name << " f32 at " << a.x << ", " << a.y;
    EXPECT_GT(a.ulp, 0.2) << f.name;  // a body that returns the oracle's own bits, or nothing, would stand out
    const auto b = ulp::measure<double>(kernels(), f, 240, 4);
    EXPECT_LE(b.ulp, bound->second.second) << f.name << " f64 at " << b.x << ", " << b.y;
  }
}

}  // namespace
}  // namespace pallasim::interp
