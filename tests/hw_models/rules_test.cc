#include "pallasim/hw/rules.h"

#include <gtest/gtest.h>

namespace pallasim::hw {
namespace {

std::string kernel(const std::string& header, const std::string& body) {
  return "pallasim-ir 1\nmodule \"k\" {machine = triton" + header +
         "body (%0 \"x\": ref<f32[16,16], gmem>, %1 \"y\": ref<u32[16,16], gmem>, %2 \"o\": ref<f32[16,16], gmem>) "
         "{\n" +
         body + "  yield\n}\n";
}
const std::string kOperands =
    "input \"x\" : f32[16,16] {space = gmem}\ninput \"y\" : u32[16,16] {space = gmem}\noutput \"o\" : f32[16,16] "
    "{space = gmem}\n";

// The report of the rule that the kernel breaks, "" where it breaks none.
std::string broken(const std::string& text, const char* chip = "gpu-h100") {
  const ir::Module m = ir::parse(text);
  ir::verify(m);
  try {
    check_rules(m, *find_profile(chip));
  } catch (const ir::DiagnosticError& e) { return e.what(); }
  return "";
}

void expect(const std::string& text, const std::string& code, const std::string& words) {
  const std::string r = broken(text);
  EXPECT_NE(r.find("[" + code + "]"), std::string::npos) << text << r;
  EXPECT_NE(r.find(words), std::string::npos) << text << r;
  EXPECT_EQ(broken(text, "generic"), "");
  EXPECT_EQ(broken(text, "tpu-v5e"), "");
}

TEST(TritonRules, KernelsThatCompile) {
  EXPECT_EQ(broken(kernel(", params = {num_warps = 8}}\n" + kOperands, R"(  %3 = get %0 : f32[16,16]
  %4 = dot_general %3, %3 {lhs_contract = [1], rhs_contract = [0], lhs_batch = [], rhs_batch = []} : f32[16,16]
  %5 = get %0 {view = [index(slice(0, 16), 3)]} : f32[16]
  store %2, %4
)")),
            "");
}

TEST(TritonRules, Sizes) {
  expect(kernel("}\n" + kOperands, "  %3 = get %0 {view = [index(slice(0, 3), slice(0, 16))]} : f32[3,16]\n"),
         "PS-TRI-001", "48 elements");
  expect(kernel("}\n" + kOperands, "  %3 = iota {axis = 0} : i32[12]\n"), "PS-TRI-001", "12 elements");
}

TEST(TritonRules, Launches) {
  expect(kernel(", params = {num_warps = 3}}\n" + kOperands, ""), "PS-TRI-002", "num_warps is 3");
  expect(kernel("}\ngrid {size = dynamic(0)}\n" + kOperands, ""), "PS-TRI-002", "dynamic grid bounds");
  expect(kernel("}\ngrid {size = 2}\ninput \"x\" : f32[16,16] {space = gmem, block = [blocked(16), blocked(16)], "
                "pipeline = buffered(2)} (%0: i32[]) {\n"
                "  %1 = constant {value = i32 0x0} : i32[]\n  yield %1, %1\n}\n" +
                    kOperands.substr(kOperands.find('\n') + 1),
                ""),
         "PS-TRI-002", "pipeline modes");
}

TEST(TritonRules, Operations) {
  const std::string get = "  %3 = get %0 : f32[16,16]\n";
  const std::pair<std::string, std::string> cases[] = {
      {get + "  %4 = erf %3 : f32[16,16]\n", "does not compile erf"},
      {get + "  %4 = cumsum %3 {axis = 0, reverse = true} : f32[16,16]\n", "cumsum: in reverse"},
      {get + "  %4 = concatenate %3, %3 {axis = 1} : f32[16,32]\n", "along the last axis only"},
      {get + "  %4 = stack %3, %3 {axis = 0} : f32[2,16,16]\n", "a new last axis only"},
      {get + "  %4 = reshape %3 : f32[2,8,16]\n  %5 = dot_general %4, %4 {lhs_contract = [2], rhs_contract = [2], "
             "lhs_batch = [0], rhs_batch = [0]} : f32[2,8,8]\n",
       "rank 2 only"},
      {"  %3 = get %1 : u32[16,16]\n  %4 = dot_general %3, %3 {lhs_contract = [1], rhs_contract = [0], lhs_batch = [], "
       "rhs_batch = []} : u32[16,16]\n",
       "unsigned operands"},
      {"  %3 = get %0 {view = [index(slice(0, 8), slice(0, 16)), index(slice(0, 4), slice(0, 16))]} : f32[4,16]\n",
       "several indexers"},
      {"  %3 = get %0 {view = [transpose(1, 0)]} : f32[16,16]\n", "ref transform transpose"},
  };
  for (const auto& [body, words] : cases) expect(kernel("}\n" + kOperands, body), "PS-TRI-003", words);
}

TEST(TritonRules, NoOtherMachineIsMeant) {
  std::string text = kernel("}\n" + kOperands, "  %3 = iota {axis = 0} : i32[12]\n");
  text.replace(text.find("triton"), 6, "mosaic_gpu");
  EXPECT_EQ(broken(text), "");
}

}  // namespace
}  // namespace pallasim::hw
