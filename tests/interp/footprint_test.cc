// Footprints of steps, held both ways.
#include <filesystem>

#include "run.h"

namespace pallasim::interp::test {
namespace {

// Every kernel of tests/pass that has no run-time sizes: the same bytes, and no PS-BUG-004.
TEST(Footprints, OfTheKernelsOfTestsPassAreTrue) {
  int runs = 0;
  for (const auto& [file, text] : kernels_that_pass()) {
    const ir::Module m = ir::parse(text);
    std::vector<Array> args;
    for (const ir::Operand& operand : m.operands)
      if (operand.kind != ir::Operand::Kind::Output) {
        Array a{operand.array->dtype, {}, std::vector<std::byte>(static_cast<size_t>(operand.array->num_bytes()))};
        for (const ir::Dim& d : operand.array->dims) a.dims.push_back(d.size);
        if (a.bytes.size() > (1 << 20)) a.bytes.clear();
        args.push_back(std::move(a));
      }
    if (std::any_of(args.begin(), args.end(), [](const Array& a) { return a.bytes.empty(); })) continue;
    for (const bool fuse : {true, false}) {
      Options o;
      o.fuse = fuse;
      try {
        const auto plain = run(text, args, o);
        o.verify_footprints = true;
        const auto judged = run(text, args, o);
        ASSERT_EQ(plain.results.size(), judged.results.size());
        for (size_t i = 0; i < plain.results.size(); ++i) EXPECT_EQ(plain.results[i].bytes, judged.results[i].bytes);
        ++runs;
      } catch (const ir::DiagnosticError& e) { EXPECT_NE(e.diagnostic().code, "PS-BUG-004") << file << e.what(); }
    }
  }
  EXPECT_GE(runs, 20);
}

}  // namespace
}  // namespace pallasim::interp::test
