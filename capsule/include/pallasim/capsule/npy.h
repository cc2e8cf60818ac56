// Reading and writing .npy files: format versions 1 to 3, C and Fortran order, no pickles.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pallasim/ir/dtype.h"

namespace pallasim::capsule {

struct NpyHeader {
  std::string descr;  // "<f4", "|V2", "bfloat16"
  bool fortran_order = false;
  std::vector<int64_t> dims;
  size_t data_offset = 0;
  int64_t elements = 0;
  int64_t item_bytes = 0;  // of one element in the file
};

struct NpyLimits {
  int max_rank = 32;
  int64_t max_bytes = 8LL << 30;  // of the array's data
};

// Checks everything that the file claims against the bytes that are there. Throws DiagnosticError PS-NPY-0xx;
// `file_name` is for its text.
NpyHeader parse_npy_header(std::string_view file, std::string_view file_name, const NpyLimits& = {});

// Whether elements written as `descr` are elements of `dtype`, for the types that NumPy has and for the ways in which
// ml_dtypes writes its own ("<V2", "<V1", "<f1", or a name).
bool npy_descr_matches(std::string_view descr, ir::DType dtype);
// What `dtype` is called in a file: a spelling that np.load reads.
std::string npy_descr(ir::DType dtype);
// NumPy's or ml_dtypes' name, for messages and for .view(...) after np.load: "float32", "bfloat16".
std::string_view numpy_name(ir::DType dtype);

// The elements in row-major order and in the layout of interp::Buffer (native bytes, sub-byte types sign-extended, bool
// 0 or 1). PRNG keys are u4 words in a trailing dimension, as JAX's key_data has them. Needs npy_descr_matches.
std::vector<std::byte> npy_elements(std::string_view file, const NpyHeader&, ir::DType dtype);

// A complete version 1 file (version 2 where the header needs it).
std::string npy_file(const void* data, ir::DType dtype, const std::vector<int64_t>& dims);

// Words of a PRNG key that stand in a trailing dimension of its file; 0 for every other type.
int npy_key_words(ir::DType dtype);

}  // namespace pallasim::capsule
