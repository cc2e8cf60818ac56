// Each kernel of tests/pass/ops in every configuration of the engine against the eager evaluator, on operands made from
// its name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "judge.h"
#include "pallasim/ir/literal.h"

namespace pallasim::judge {
namespace {
namespace fs = std::filesystem;

// Integers in [-40, 40] (unsigned: [0, 80]) or, one in four, any; other numbers in [-4, 4]: large enough to leave the
// domain of acosh, small enough for sums of bf16. Few of a mask are false.
oracle::Array operand(const ir::Type& t, std::mt19937_64& rng) {
  oracle::Array a;
  a.dtype = t.dtype;
  int64_t n = 1;
  for (const ir::Dim& d : t.dims) a.dims.push_back(d.size), n *= d.size;
  const auto size = static_cast<size_t>(ir::byte_size(t.dtype));
  a.bytes.resize(static_cast<size_t>(n) * size);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t whole = static_cast<int64_t>(rng() % 81);
    const int64_t integer = rng() % 4 == 0 ? static_cast<int64_t>(rng()) : whole - 40 * ir::is_signed_int(t.dtype);
    const uint64_t bits = ir::is_float(t.dtype) ? ir::double_to_bits(t.dtype, static_cast<double>(whole - 40) / 10)
                          : t.dtype == ir::DType::Bool ? static_cast<uint64_t>(whole % 16 != 0)
                                                       : ir::int_to_bits(t.dtype, integer);
    std::memcpy(a.bytes.data() + static_cast<size_t>(i) * size, &bits, size);
  }
  return a;
}

class Pass : public testing::Test {
 public:
  explicit Pass(fs::path file) : file_(std::move(file)) {}
  void TestBody() override {
    std::ifstream in(file_);
    std::stringstream text;
    text << in.rdbuf();
    Case c;
    c.text = text.str();
    const ir::Module m = ir::parse(c.text);
    ir::verify(m);
    std::seed_seq seed(m.name.begin(), m.name.end());
    std::mt19937_64 rng(seed);
    for (const ir::Operand& o : m.operands)
      if (o.kind != ir::Operand::Kind::Output) c.args.push_back(operand(*o.array, rng));
    const oracle::Outcome want = oracle::evaluate(m, c.args);
    ASSERT_EQ(want.end, oracle::End::Done) << want.what;
    // What would also hold of outputs that nobody wrote proves nothing.
    EXPECT_TRUE(std::any_of(want.results.begin(), want.results.end(), [](const oracle::Array& r) {
      return std::any_of(r.bytes.begin(), r.bytes.end(), [](std::byte b) { return b != std::byte{0}; });
    })) << "all outputs are zeros";
    const Verdict v = judge(c);
    EXPECT_EQ(v.kind, Verdict::Kind::Same) << name_of(v.kind) << ": " << v.text;
    EXPECT_GT(v.runs, 2);
  }

 private:
  fs::path file_;
};

}  // namespace
}  // namespace pallasim::judge

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(PALLASIM_SOURCE_DIR) / "tests/pass/ops")) {
    if (entry.path().extension() != ".psir") continue;
    const fs::path file = entry.path();
    testing::RegisterTest("Pass", file.stem().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [file]() -> testing::Test* { return new pallasim::judge::Pass(file); });
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
