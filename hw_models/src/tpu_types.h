// Operations on types that the compiler of a TPU does not take: hw_models/tpu_types.csv.
#pragma once
#include <cstdint>
#include <string_view>

namespace pallasim::hw {

// Whether a TPU of this generation lacks an operation. form: "vector" or "scalar". types: as in the file, "i8",
// "i8>f32" of a conversion. jax: the minor version that the kernel was captured under.
bool tpu_lacks(std::string_view operation, std::string_view form, std::string_view types, int64_t generation,
               int64_t jax);

}  // namespace pallasim::hw
