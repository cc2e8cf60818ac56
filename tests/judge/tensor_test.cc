// Tensor memory and products of the tensor pipe without a wait or a commit that hardware needs, made of the judge's
// programs of clusters.
#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>
#include <vector>

#include "late.h"

namespace pallasim::judge {
namespace {

constexpr uint64_t kPrograms = 1500;
constexpr int kNever = 0;  // registers have what they load at once, and stores are seen: only a chip shows it

size_t line_of(const std::string& text, const char* what, size_t from = 0) {
  const size_t at = text.find(what, from);
  return at == std::string::npos ? at : text.rfind('\n', at) + 1;
}
size_t line_before(const std::string& text, const char* what, size_t at) {
  const size_t found = text.rfind(what, at);
  return found == std::string::npos ? found : text.rfind('\n', found) + 1;
}
std::string erased(std::string text, size_t at) { return text.erase(at, text.find('\n', at) + 1 - at); }

// The operations of these names get a line each, all of one name the same: which of them meet is the schedule's.
std::string located(std::string text, const char* earlier, std::initializer_list<const char*> later) {
  std::vector<std::pair<const char*, int>> lines{{earlier, 0}};
  for (const char* name : later) lines.emplace_back(name, 1);
  for (const auto& [name, line] : lines)
    for (size_t at = text.rfind(name); at != std::string::npos; at = at == 0 ? at - 1 : text.rfind(name, at - 1))
      locate(&text, at, line);
  add_lines(&text);
  return text;
}

// The wait for a product's barrier, right before its sum is loaded, comes behind that.
std::string sum_loaded_too_early(std::string text) {
  const size_t product = text.rfind("tcgen05_mma");
  if (product == std::string::npos) return "";
  const size_t load = line_of(text, "async_load_tmem", product), wait = line_before(text, "barrier_wait", load);
  if (load == std::string::npos || wait == std::string::npos || wait < product) return "";
  const std::string awaited = line_at(text, wait + 1) + "\n";
  text.insert(text.find('\n', load) + 1, awaited);
  text = erased(text, wait);
  return located(text, "tcgen05_mma", {"async_load_tmem"});
}

// Between two rounds the wait for the first one's products comes behind the copies that fill their operands.
std::string operand_filled_too_early(std::string text) {
  for (size_t at = text.find("tcgen05_mma"); at != std::string::npos; at = text.find("tcgen05_mma", at + 1)) {
    const size_t copy = line_of(text, "copy_gmem_to_smem", at);
    if (copy == std::string::npos) return "";
    const size_t wait = line_before(text, "barrier_wait", copy);
    const size_t product = line_before(text, "tcgen05_mma", copy);
    if (wait == std::string::npos || wait < product ||
        text.substr(product, copy - product).find("run_scoped") != std::string::npos)
      continue;
    size_t behind = copy;
    while (line_at(text, behind + 1).find("copy_gmem_to_smem") != std::string::npos)
      behind = text.find('\n', behind + 1) + 1;
    text.insert(behind, line_at(text, wait + 1) + "\n");
    text = erased(text, wait);
    return located(text, "tcgen05_mma", {"copy_gmem_to_smem"});
  }
  return "";
}

// What is stored to tensor memory is multiplied without a commit of the store.
std::string store_not_committed(std::string text) {
  for (size_t at = text.find("async_store_tmem"); at != std::string::npos; at = text.find("async_store_tmem", at + 1)) {
    const size_t commit = line_of(text, "commit_tmem", at), product = line_of(text, "tcgen05_mma", at);
    if (commit == std::string::npos || product == std::string::npos || commit > product) continue;
    text = erased(text, commit);
    return located(text, "async_store_tmem", {"tcgen05_mma", "async_load_tmem"});
  }
  return "";
}

// What is loaded is overwritten although nobody waited for the load.
std::string load_not_awaited(std::string text) {
  for (size_t at = text.find("wait_load_tmem"); at != std::string::npos; at = text.find("wait_load_tmem", at + 1)) {
    const size_t store = line_of(text, "async_store_tmem", at), wait = text.rfind('\n', at) + 1;
    if (store == std::string::npos || text.find('\n', wait) + 1 != store) continue;
    const std::string before = line_at(text, wait - 2);  // a load of all that the store writes
    if (before.find("async_load_tmem") == std::string::npos || before.find("slice(0, 128)") == std::string::npos)
      continue;
    text = erased(text, wait);
    return located(text, "async_load_tmem", {"async_store_tmem"});
  }
  return "";
}

// What is stored to shared memory is multiplied without a fence.
std::string operand_not_committed(std::string text) {
  const size_t product = line_of(text, "scaled = true");
  const size_t fence = line_before(text, "commit_smem", product);
  if (product == std::string::npos || fence == std::string::npos) return "";
  text = erased(text, fence);
  return located(text, " store ", {"tcgen05_mma"});
}

TEST(JudgeOfTensorMemory, SumsThatAreLoadedTooEarlyShowIt) {
  expect_found(look_for(sum_loaded_too_early, "PS-RACE-002", kPrograms), 95);
}
TEST(JudgeOfTensorMemory, OperandsThatAreFilledTooEarlyShowIt) {
  expect_found(look_for(operand_filled_too_early, "PS-RACE-002", kPrograms), 40);
}
TEST(JudgeOfTensorMemory, StoresThatAreNotCommittedShowIt) {
  expect_found(look_for(store_not_committed, "PS-RACE-002", kPrograms), 80);
}
TEST(JudgeOfTensorMemory, LoadsThatAreNotAwaitedAreReported) {
  expect_found(look_for(load_not_awaited, "PS-RACE-002", kPrograms), kNever);
}
TEST(JudgeOfTensorMemory, OperandsThatAreNotCommittedAreReported) {
  expect_found(look_for(operand_not_committed, "PS-RACE-003", kPrograms), kNever);
}

}  // namespace
}  // namespace pallasim::judge
