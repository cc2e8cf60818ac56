// Whose memory it is: what the subcores of a SparseCore share exists once per SparseCore.
#include "run.h"

namespace pallasim::interp::test {
namespace {

// Two SparseCores with two subcores each: every subcore writes its element of the shared memory, and all read both
// elements once everybody wrote. `scoped`: the memory is allocated inside the kernel.
std::string shared_memory(bool scoped) {
  std::string text = R"(pallasim-ir 1
module "shared" {machine = tpu}
mesh "sc" {kind = vector_subcore, axes = [axis("core", 2), axis("subcore", 2)]}
output "o_ref" : i32[4] {space = hbm}
)";
  if (!scoped) text += "scratch \"both\" : ref<i32[2], vmem_shared, subcore_group>\n";
  text +=
      "scratch \"wrote\" : ref<sem[], semaphore>\nscratch \"go\" : ref<sem[], semaphore>\nbody \"sc\" (%0 \"o_ref\": "
      "ref<i32[4], hbm>, ";
  text += scoped ? "%2 \"wrote\": ref<sem[], semaphore>, %3 \"go\": ref<sem[], semaphore>) {\n  run_scoped (%1 "
                   "\"both\": ref<i32[2], vmem_shared>) {\n"
                 : "%1 \"both\": ref<i32[2], vmem_shared, subcore_group>, %2 \"wrote\": ref<sem[], semaphore>, %3 "
                   "\"go\": ref<sem[], semaphore>) {\n";
  text += R"(  %4 = axis_index {axis = "core"} : i32[]
  %5 = axis_index {axis = "subcore"} : i32[]
  %6 = constant {value = i32 0xa} : i32[]
  %7 = mul %4, %6 : i32[]
  %8 = add %7, %5 : i32[]
  %9 = constant {value = i32 0x1} : i32[]
  %10 = add %8, %9 : i32[]
  store %1, %10, %5 {view = [index($2)]}
  %11 = constant {value = i32 0x0} : i32[]
  sem_signal %2, %9, %11 {inc = $1, core_index = $2}
  %12 = constant {value = i32 0x2} : i32[]
  %13 = mul %4, %12 : i32[]
  %14 = add %13, %5 : i32[]
  %15 = eq %14, %11 : bool[]
  cond %15 () {
    yield
  } () {
    %16 = constant {value = i32 0x4} : i32[]
    sem_wait %2, %16 {value = $1}
    %17 = constant {value = i32 0x0} : i32[]
    %18 = constant {value = i32 0x1} : i32[]
    for %17, %16, %18 (%19: i32[]) {
      sem_signal %3, %18, %19 {inc = $1, core_index = $2}
      yield
    }
    yield
  }
  sem_wait %3, %9 {value = $1}
  %20 = get %1, %11 {view = [index($1)]} : i32[]
  %21 = get %1, %9 {view = [index($1)]} : i32[]
  %22 = constant {value = i32 0x64} : i32[]
  %23 = mul %21, %22 : i32[]
  %24 = add %20, %23 : i32[]
  store %0, %24, %14 {view = [index($2)]}
)";
  return text + (scoped ? "  yield\n  }\n" : "") + "  yield\n}\n";
}

TEST(Owners, MemoryThatSubcoresShareIsOneOfTheirSparseCore) {
  for (bool scoped : {false, true})
    for (const bool random : {false, true}) {
      Options o;
      if (random) o.random_seed = 5;
      const std::vector<int32_t> want{1 + 2 * 100, 1 + 2 * 100, 11 + 12 * 100, 11 + 12 * 100};
      EXPECT_EQ(run(shared_memory(scoped), {}, o).results[0].as<int32_t>(), want) << scoped;
    }
}

// No wait before the reads: a race between subcores of one SparseCore, and none across.
TEST(Owners, RacesAreBetweenThoseWhoShare) {
  std::string text = shared_memory(false);
  const std::string wait = "  sem_wait %3, %9 {value = $1}\n";
  const size_t at = text.rfind(wait);
  text.erase(at, wait.size());
  text.insert(text.rfind("  yield\n}\n"), wait);
  Options o;
  o.checked = true;
  const auto found = run(text, {}, o).report.findings;
  ASSERT_FALSE(found.empty());
  for (const ir::Diagnostic& d : found) {
    EXPECT_EQ(d.code, "PS-RACE-002");
    const bool first = d.message.find("SparseCore 0") != std::string::npos,
               second = d.message.find("SparseCore 1") != std::string::npos;
    EXPECT_NE(first, second) << d.message;
  }
  EXPECT_TRUE(run(shared_memory(false), {}, o).report.findings.empty());
}

}  // namespace
}  // namespace pallasim::interp::test
