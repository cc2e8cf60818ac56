// Products of warpgroups that are awaited too late, made of the judge's programs of clusters: what they leave depends
// on when their bytes move, and checked runs name both lines.
#include <gtest/gtest.h>

#include "late.h"

namespace pallasim::judge {
namespace {

constexpr uint64_t kPrograms = 600;
// The n-th operand of the line's operation, from 0.
std::string operand(const std::string& line, int n) {
  size_t at = line.find("wgmma_ref") == std::string::npos ? line.find("store ") + 6 : line.find("wgmma_ref ") + 10;
  for (; n > 0; --n) at = line.find(", ", at) + 2;
  return line.substr(at, line.find_first_of(", {\n", at) - at);
}

// Of the last product of the text: nothing where it is awaited by an operation of its own.
struct Product {
  size_t at, read;  // of its line, and of the first line that reads an accumulator behind it
  std::string line;
};
bool find_product(const std::string& text, Product* p) {
  p->at = text.rfind("wgmma_ref");
  if (p->at == std::string::npos) return false;
  p->line = line_at(text, p->at);
  p->read = text.find("wgmma_accumulator_deref", p->at);
  return text.substr(p->at, p->read - p->at).find("wgmma_wait %110") == std::string::npos;
}

// The accumulator is read while the product may be in flight.
std::string read_too_early(std::string text) {
  Product p;
  if (!find_product(text, &p)) return "";
  for (size_t at = p.read; at != std::string::npos; at = text.find("wgmma_accumulator_deref", at + 40)) {
    text.replace(text.find("wait_n = 0", at), 10, "wait_n = 1");
    locate(&text, at, 1);
  }
  locate(&text, p.at, 0);
  add_lines(&text);
  return text;
}

// Its right operand, which lies in shared memory, gets what the left one began with.
std::string overwritten_too_early(std::string text) {
  Product p;
  if (!find_product(text, &p) || text.find("commit_smem") == std::string::npos) return "";
  const std::string right = operand(p.line, 2);
  const size_t own = text.find("store " + right + ", ");
  if (own == std::string::npos) return "";
  size_t other = text.rfind("store ", own - 1);
  if (other == std::string::npos || operand(line_at(text, other), 0) == right) return "";
  const size_t above = text.rfind('\n', text.rfind('\n', other) - 1);
  if (text.find("convert", above) > other) return "";
  const std::string before = text.substr(0, text.rfind('\n', p.read) + 1);
  text = before + "store " + right + ", " + operand(line_at(text, other), 1) + " @1\n" + text.substr(before.size());
  locate(&text, p.at, 0);
  add_lines(&text);
  return text;
}

TEST(JudgeOfClusters, AccumulatorsThatAreReadTooEarlyShowIt) {
  expect_found(look_for(read_too_early, "PS-RACE-002", kPrograms), 95);
}
TEST(JudgeOfClusters, OperandsThatAreOverwrittenTooEarlyShowIt) {
  expect_found(look_for(overwritten_too_early, "PS-RACE-002", kPrograms), 95);
}

}  // namespace
}  // namespace pallasim::judge
