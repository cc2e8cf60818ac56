// What is no case of engine behaviour is refused.
#include <stdexcept>

#include "case.h"

namespace pallasim::interp::test {
namespace {

const char* const kDoubled = R"(module "doubled" {machine = generic}
input "x" : f32[4] {space = any}
output "o" : f32[4] {space = any}
body (%0 "x": ref<f32[4], any>, %1 "o": ref<f32[4], any>) {
  %2 = get %0 : f32[4]
  %3 = add %2, %2 : f32[4]
  store %1, %3
  yield
}
)";

std::string refused(const std::string& directives) {
  try {
    parse_case("pallasim-ir 1\n" + directives + kDoubled);
  } catch (const std::runtime_error& e) { return e.what(); }
  return "";
}

TEST(Directives, OfACase) {
  const EngineCase c = parse_case(
      std::string(
          "pallasim-ir 1\n// Twice: any text.\n// ARG x = 1..4\n// EXPECT output o = 2 4\n//   6 8\n// RUN workers=1/2 "
          "fuse=true/false\n// RUN\n// EXPECT plan contains copy\n") +
      kDoubled);
  ASSERT_EQ(c.sections.size(), 2u);
  EXPECT_EQ(c.sections[0].runs.size(), 4u);
  EXPECT_EQ(c.sections[0].runs[3].name, "workers=2 fuse=false");
  EXPECT_EQ(c.sections[0].expectations.size(), 1u);
  EXPECT_EQ(c.sections[1].expectations.size(), 2u);
  EXPECT_EQ(c.sections[1].expectations[0].want->as<float>(), (std::vector<float>{2, 4, 6, 8}));
}

TEST(Directives, WhatIsNoneIsRefused) {
  const std::string arg = "// ARG x = 1..4\n", run = "// RUN\n", out = "// EXPECT output o = 2..8/2\n";
  ASSERT_EQ(refused(arg + run + out), "");
  const std::pair<std::string, const char*> cases[] = {
      {arg + run + out + "// EXPECTS units 1\n", "no directive is called EXPECTS"},
      {arg + "// RUN:\n" + out, "no directive is called RUN:"},
      {run + out, "there is no ARG x"},
      {arg + arg + run + out, "a second ARG x"},
      {arg + out, "there is no RUN"},
      {arg + run, "there is no EXPECT"},
      {arg + run + "// EXPECT units 1\n", "output \"o\" is compared 0 times"},
      {arg + run + out + out, "output \"o\" is compared 2 times"},
      {arg + run + "// EXPECT output o = 0*4\n", "a run that did nothing"},
      {arg + run + "// EXPECT output o = nan*4\n", "a run that did nothing"},
      {arg + run + "// EXPECT output o = 1 2 3\n", "3 elements instead of 4"},
      {arg + run + "// EXPECT output o = 1 2 3 x\n", "\"x\" is no number"},
      {arg + run + "// EXPECT output o = 1..8/2\n", "does not end at its last number"},
      {arg + run + "// EXPECT output x = 1..4\n", "no output \"x\""},
      {arg + run + out + "// EXPECT plan lacks no_such_step\n", "no step is called no_such_step"},
      {arg + run + out + "// EXPECT rewrites NoSuch 1\n", "no rewrite is called NoSuch"},
      {arg + run + out + "// EXPECT pass no_such 1\n", "no pass is called no_such"},
      {arg + run + out + "// EXPECT print \"\"\n", "a text in double quotes"},
      {arg + run + out + "// EXPECT sequential\n", "a text in double quotes"},
      {arg + run + out + "// EXPECT units 1 2\n", "\"2\" behind the directive"},
      {arg + run + out + "// EXPECT error PS-OOB-001 -\n", "a run that stops leaves no outputs"},
      {arg + run + "// EXPECT error PS-BUG-001 -\n", "nobody expects a bug"},
      {arg + run + "// EXPECT error PS-OOB-001 x\n", "\"x\" is no number"},
      {arg + run + out + "// EXPECT steps equal\n", "equal to nothing"},
      {arg + "// RUN no_such=1\n" + out, "no_such"},
      {arg + "// RUN without=no_such\n" + out, "no pass is called no_such"}};
  for (const auto& [text, why] : cases) EXPECT_NE(refused(text).find(why), std::string::npos) << text << refused(text);
}

TEST(Values, AreReadAsTheyAreWritten) {
  const Array a = values_of(ir::DType::F32, {12}, "1..4 nan*3 8..2/-2 0.5");
  EXPECT_EQ(list_of(a), "1..4 nan*3 8..2/-2 0.5");
  EXPECT_EQ(difference(a, a), "");
  Array b = a;
  b.bytes[0] = std::byte{1};
  EXPECT_NE(difference(a, b), "");
  for (const char* list : {"-1 0 1 5", "1*4", "9 9 -8 7"})
    EXPECT_EQ(list_of(values_of(ir::DType::I8, {4}, list)), list);
  EXPECT_EQ(list_of(values_of(ir::DType::I64, {3}, "-9223372036854775808*3")), "-9223372036854775808*3");
  EXPECT_EQ(list_of(values_of(ir::DType::BF16, {2}, "1.5 -inf")), "1.5 -inf");
}

}  // namespace
}  // namespace pallasim::interp::test
