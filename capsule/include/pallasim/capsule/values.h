// Elements of an array as numbers: for filling inputs and for describing outputs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "pallasim/ir/dtype.h"

namespace pallasim::capsule {

// The element's value (real part of a complex number); integers of 64 bits may round. Keys give 0.
double to_double(const std::byte* element, ir::DType);
// Writes `value` as an element: floats to nearest (narrow ones toward zero beyond their last value), integers clamped.
void from_double(double value, ir::DType, std::byte* element);
// As a person writes it: 1.5, -3, true, (1+2j), 0x0123456789abcdef for keys.
std::string element_text(const std::byte* element, ir::DType);

struct Array {
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> dims;
  std::vector<std::byte> data;

  int64_t elements() const { return data.empty() ? 0 : static_cast<int64_t>(data.size()) / ir::byte_size(dtype); }
};

enum class Fill : uint8_t { Random, Zeros, Iota };
// Random depends on (seed, stream, element) alone: floats in [-1, 1), integers in [0, 8), booleans of both kinds.
void fill(Array*, Fill, uint64_t seed, uint64_t stream);
void fill_value(Array*, double value);

struct Summary {
  double min = 0, max = 0, mean = 0;  // of the numbers that are finite
  int64_t finite = 0, nan = 0, infinite = 0;
  uint64_t hash = 0;  // FNV-1a of the bytes: equal outputs, equal hash
};
Summary summarize(const Array&);
// The first elements, row-major: [0, 1, 2, …]
std::string first_elements(const Array&, int count);

}  // namespace pallasim::capsule
