// Sums of products as Hopper's tensor cores form them (hw::TensorSum::Aligned; measured: docs/numerics.md).
#pragma once
#include <cstdint>

namespace pallasim::interp {

// One instruction takes `block` exact products and the accumulator, aligns them to the largest of their exponents
// (those of a product's operands added), truncates each toward zero `below` bits under it, adds, and truncates the sum
// to `fraction` bits behind its first.
struct AlignedRule {
  int block;  // at most 32
  int below;
  int fraction;
};

// sum[m,n] += a[m,k] b[k,n] by the rule, one instruction after another along k; all three dense and row-major.
// `scratch`: aligned_scratch(m, rule) floats.
using AlignedSum = void (*)(const AlignedRule&, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
                            float* sum, float* scratch);
inline int64_t aligned_scratch(int64_t m, const AlignedRule& rule) { return m * (rule.block + 2); }

// By the vectors of the table in use; one product at a time. The bits are the same.
void aligned_sum(const AlignedRule&, int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* sum,
                 float* scratch);
void aligned_sum_reference(const AlignedRule&, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
                           float* sum, float* scratch);
// That of one table, nullptr where the CPU cannot run it or its file is missing (tests, benchmarks).
AlignedSum aligned_sum_for(const char* isa);

}  // namespace pallasim::interp
