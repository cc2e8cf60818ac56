// The choice of the table by PALLASIM_ISA, each in a process of its own.
#include <cstdlib>

#include "data.h"

namespace pallasim::interp {
namespace {

[[noreturn]] void report(const char* want) {
  setenv("PALLASIM_ISA", want, 1);
  const KernelTable& t = kernels();
  std::fprintf(stderr, "[%s]", t.isa);
  std::exit(&t == &kernels() ? 0 : 1);
}

TEST(LoaderDeathTest, EnvironmentChooses) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(report("baseline"), ::testing::ExitedWithCode(0), "\\[baseline\\]");
  if (kernels_for("avx2")) { EXPECT_EXIT(report("avx2"), ::testing::ExitedWithCode(0), "\\[avx2\\]"); }
  EXPECT_EXIT(report("mmx"), ::testing::ExitedWithCode(0), "PALLASIM_ISA=mmx is unknown.*\n.*\\[");
}

TEST(Loader, ComputeTypes) {
  EXPECT_EQ(compute_type(DType::BF16), CType::F32);
  EXPECT_EQ(compute_type(DType::I4), CType::I32);
  EXPECT_EQ(compute_type(DType::U8), CType::U32);
  EXPECT_EQ(compute_type(DType::Bool), CType::Bool);
  EXPECT_EQ(compute_type(DType::F64), CType::F64);
  EXPECT_EQ(byte_size(CType::C128), 16);
  EXPECT_EQ(kernels().strip(OpCode::sin, DType::I32), nullptr);
  EXPECT_EQ(kernels().strip(OpCode::and_, DType::F32), nullptr);
}

}  // namespace
}  // namespace pallasim::interp
