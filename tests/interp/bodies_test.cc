// Several meshes in one launch, a body each: their threads run beside each other.
#include <fmt/format.h>

#include "run.h"

namespace pallasim::interp::test {
namespace {

std::string edited(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// Two TensorCores give rows to two subcores each, through HBM, and wait for what becomes of them. Both meshes have an
// axis "core".
const std::string kBeside = R"(pallasim-ir 1
module "beside" {machine = tpu}
mesh "tc" {kind = tensorcore, axes = [axis("core", 2)]}
mesh "vs" {kind = vector_subcore, axes = [axis("sc", 2), axis("core", 2)]}
input "x" : i32[4] {space = hbm}
output "o" : i32[4] {space = hbm}
output "sums" : i32[2] {space = hbm}
scratch "rows" : ref<i32[4], hbm, grid>
scratch "ready" : ref<sem[], semaphore, @"vs">
scratch "done" : ref<sem[], semaphore, @"tc">
body "tc" (%0 "x": ref<i32[4], hbm>, %1 "o": ref<i32[4], hbm>, %2 "sums": ref<i32[2], hbm>, )"
                            R"(%3 "rows": ref<i32[4], hbm, grid>, %4 "ready": ref<sem[], semaphore, @"vs">, )"
                            R"(%5 "done": ref<sem[], semaphore, @"tc">) {
  %6 = axis_index {axis = "core"} : i32[]
  %7 = axis_size {axis = "core"} : i32[]
  %8 = mul %6, %7 : i32[]
  %9 = constant {value = i32 0x1} : i32[]
  %10 = add %8, %9 : i32[]
  %11 = constant {value = i32 0xa} : i32[]
  %12 = get %0, %8 {view = [index($1)]} : i32[]
  %13 = mul %12, %11 : i32[]
  store %3, %13, %8 {view = [index($2)]}
  sem_signal %4, %8 {inc = 1, core_index = $1}
  %14 = get %0, %10 {view = [index($1)]} : i32[]
  %15 = mul %14, %11 : i32[]
  store %3, %15, %10 {view = [index($2)]}
  sem_signal %4, %10 {inc = 1, core_index = $1}
  sem_wait %5 {value = 2}
  %16 = get %1, %8 {view = [index($1)]} : i32[]
  %17 = get %1, %10 {view = [index($1)]} : i32[]
  %18 = add %16, %17 : i32[]
  store %2, %18, %6 {view = [index($2)]}
  yield
}
body "vs" (%0 "x": ref<i32[4], hbm>, %1 "o": ref<i32[4], hbm>, %2 "sums": ref<i32[2], hbm>, )"
                            R"(%3 "rows": ref<i32[4], hbm, grid>, %4 "ready": ref<sem[], semaphore, @"vs">, )"
                            R"(%5 "done": ref<sem[], semaphore, @"tc">) {
  %6 = axis_index {axis = "sc"} : i32[]
  %7 = axis_size {axis = "core"} : i32[]
  %8 = axis_index {axis = "core"} : i32[]
  %9 = mul %6, %7 : i32[]
  %10 = add %9, %8 : i32[]
  %11 = constant {value = i32 0x1} : i32[]
  sem_wait %4 {value = 1}
  %12 = get %3, %10 {view = [index($1)]} : i32[]
  %13 = add %12, %11 : i32[]
  store %1, %13, %10 {view = [index($2)]}
  sem_signal %5, %6 {inc = 1, core_index = $1}
  yield
}
)";

std::vector<Options> schedules() {
  std::vector<Options> all(1);
  for (int seed = 0; seed < 20; ++seed)
    for (int64_t restore : {0, 1}) {
      Options o;
      o.random_seed = static_cast<uint64_t>(seed);
      o.verify_restore = seed < 4 ? restore : 0;
      all.push_back(o);
    }
  return all;
}

TEST(Bodies, MeshesOfOneLaunchRunBesideEachOther) {
  for (const Options& o : schedules()) {
    const Outcome r = run(kBeside, {i32({4}, {1, 2, 3, 4})}, o);
    EXPECT_EQ(r.results[0].as<int32_t>(), (std::vector<int32_t>{11, 21, 31, 41}));
    EXPECT_EQ(r.results[1].as<int32_t>(), (std::vector<int32_t>{32, 72}));
    EXPECT_EQ(r.report.threads, 6);
  }
  Options checked;
  checked.checked = true;
  const Outcome r = run(kBeside, {i32({4}, {1, 2, 3, 4})}, checked);
  EXPECT_TRUE(r.report.findings.empty()) << ir::render(r.report.findings.front());
}

TEST(Bodies, TheTextOfSeveralBodiesPrintsBack) {
  EXPECT_EQ(ir::print(ir::parse(kBeside)), kBeside);
  ir::verify(ir::parse(kBeside));
}

TEST(Bodies, ARaceBetweenBodiesNamesBothAsUsersDo) {
  Options o;
  o.checked = true;
  const std::string text =
      edited(edited(kBeside, "  sem_wait %5 {value = 2}\n", ""), "  store %2, %18, %6 {view = [index($2)]}\n",
             "  store %2, %18, %6 {view = [index($2)]}\n  sem_wait %5 {value = 2}\n");
  const auto found = run(text, {i32({4}, {1, 2, 3, 4})}, o).report.findings;
  ASSERT_FALSE(found.empty());
  std::string all;
  for (const ir::Diagnostic& d : found) {
    all += ir::render(d);
    if (d.code == "PS-RACE-002") continue;
    EXPECT_EQ(d.code, "PS-UNINIT-001") << ir::render(d);  // what was read before it was written
  }
  EXPECT_NE(all.find("TensorCore 0"), std::string::npos) << all;
  EXPECT_NE(all.find("subcore 1 of SparseCore 0"), std::string::npos) << all;
}

TEST(Bodies, ADeadlockSaysWhichBodyWaitsForWhich) {
  std::string report;
  const std::string text = edited(kBeside, "  sem_signal %5, %6 {inc = 1, core_index = $1}\n", "");
  EXPECT_EQ(error_code(text, {i32({4}, {1, 2, 3, 4})}, {}, &report), "PS-DEAD-001");
  EXPECT_NE(report.find("TensorCore 1 waits for done of TensorCore 1 to reach 2: it is 0, of 0 signalled in all"),
            std::string::npos)
      << report;
  EXPECT_NE(report.find("4 threads have ended"), std::string::npos) << report;
}

// The scalar subcore of each SparseCore copies a row into each vector subcore's own memory, and leaves a number in
// memory that all of a SparseCore share.
const std::string kShared =
    R"(pallasim-ir 1
module "sparse" {machine = tpu}
mesh "ss" {kind = scalar_subcore, axes = [axis("core", 2)]}
mesh "vs" {kind = vector_subcore, axes = [axis("core", 2), axis("subcore", 2)]}
input "x" : i32[4,8] {space = hbm}
output "o" : i32[4,8] {space = hbm}
scratch "row" : ref<i32[8], vmem, @"vs">
scratch "came" : ref<dma_sem[], semaphore, @"vs">
scratch "shared" : ref<i32[8], vmem_shared, subcore_group>
scratch "own" : ref<i32[8], vmem, @"ss">
scratch "sem" : ref<dma_sem[], semaphore>
body "ss" (%0 "x": ref<i32[4,8], hbm>, %1 "o": ref<i32[4,8], hbm>, )"
    R"(%2 "row": ref<i32[8], vmem, @"vs">, %3 "came": ref<dma_sem[], semaphore, @"vs">, )"
    R"(%4 "shared": ref<i32[8], vmem_shared, subcore_group>, %5 "own": ref<i32[8], vmem, @"ss">, )"
    R"(%6 "sem": ref<dma_sem[], semaphore>) {
  %7 = axis_index {axis = "core"} : i32[]
  %8 = constant {value = i32 0x64} : i32[]
  %9 = mul %7, %8 : i32[]
  %10 = broadcast_in_dim %9 {dims = []} : i32[8]
  store %5, %10
  dma_start %5, %4, %6 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
  dma_wait %5, %4, %6 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
  %11 = constant {value = i32 0x0} : i32[]
  %12 = constant {value = i32 0x1} : i32[]
  %13 = constant {value = i32 0x2} : i32[]
  %14 = mul %7, %13 : i32[]
  for %11, %13, %12 (%15: i32[]) {
    %16 = add %14, %15 : i32[]
    dma_start %0, %2, %3, %16 {src = view($0, [index($3, slice(0, 8))]), dst = view($1, []), )"
    R"(dst_sem = view($2, []), core_index = $3}
    yield
  }
  yield
}
body "vs" (%0 "x": ref<i32[4,8], hbm>, %1 "o": ref<i32[4,8], hbm>, )"
    R"(%2 "row": ref<i32[8], vmem, @"vs">, %3 "came": ref<dma_sem[], semaphore, @"vs">, )"
    R"(%4 "shared": ref<i32[8], vmem_shared, subcore_group>, %5 "own": ref<i32[8], vmem, @"ss">, )"
    R"(%6 "sem": ref<dma_sem[], semaphore>) {
  %7 = axis_index {axis = "core"} : i32[]
  %8 = axis_index {axis = "subcore"} : i32[]
  %9 = constant {value = i32 0x2} : i32[]
  %10 = mul %7, %9 : i32[]
  %11 = add %10, %8 : i32[]
  dma_wait %2, %3 {src = view($0, []), dst = view($0, []), dst_sem = view($1, [])}
  run_scoped (%12 "mine": ref<i32[8], vmem>) {
    dma_start %4, %12, %6 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
    dma_wait %4, %12, %6 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
    %13 = get %2 : i32[8]
    %14 = get %12 : i32[8]
    %15 = add %13, %14 : i32[8]
    store %2, %15
    dma_start %2, %1, %6, %11 {src = view($0, []), dst = view($1, [index($3, slice(0, 8))]), dst_sem = view($2, [])}
    dma_wait %2, %1, %6, %11 {src = view($0, []), dst = view($1, [index($3, slice(0, 8))]), dst_sem = view($2, [])}
    yield
  }
  yield
}
)";

TEST(Bodies, ScalarAndVectorSubcoresShareTheirSparseCore) {
  std::vector<int32_t> x(32), want(32);
  for (int i = 0; i < 32; ++i) x[static_cast<size_t>(i)] = i + 1, want[static_cast<size_t>(i)] = i + 1 + i / 16 * 100;
  for (Options o : schedules())
    for (auto copies : {Options::Copies::AtIssue, Options::Copies::AtWait, Options::Copies::Scheduled}) {
      o.copies = copies;
      EXPECT_EQ(run(kShared, {i32({4, 8}, x)}, o).results[0].as<int32_t>(), want);
    }
  Options checked;
  checked.checked = true;
  const Outcome r = run(kShared, {i32({4, 8}, x)}, checked);
  EXPECT_TRUE(r.report.findings.empty()) << ir::render(r.report.findings.front());
  std::string report;
  const std::string waits =
      edited(kShared, "  dma_wait %2, %3 {src = view($0, []), dst = view($0, []), dst_sem = view($1, [])}\n",
             "  dma_wait %4, %3 {src = view($0, []), dst = view($0, []), dst_sem = view($1, [])}\n  dma_wait %4, %3 "
             "{src = view($0, []), dst = view($0, []), dst_sem = view($1, [])}\n");
  EXPECT_EQ(error_code(waits, {i32({4, 8}, x)}, {}, &report), "PS-DEAD-001");
  EXPECT_NE(report.find("subcore 1 of SparseCore 0 waits for came of subcore 1 of SparseCore 0"), std::string::npos)
      << report;
}

TEST(Bodies, MemoryOfAnotherMeshesThreadsIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> edits = {
      {"  store %5, %10\n", "  store %2, %10\n"},
      {", core_index = $3}", "}"},
      {"  dma_wait %5, %4, %6 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}\n",
       "  dma_wait %5, %4, %3 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}\n"}};
  for (const auto& [from, to] : edits) {
    std::string report;
    EXPECT_EQ(error_code(edited(kShared, from, to), {i32({4, 8}, std::vector<int32_t>(32))}, {}, &report),
              "PS-UNSUP-001");
    EXPECT_NE(report.find("which threads of mesh \"vs\" have for themselves, by a thread of mesh \"ss\""),
              std::string::npos)
        << report;
  }
  std::string report;
  EXPECT_EQ(error_code(edited(kShared, "core_index = $3}", "core_index = 7}"), {i32({4, 8}, std::vector<int32_t>(32))},
                       {}, &report),
            "PS-SEM-001");
  EXPECT_NE(report.find("copy to core 7, but there are 4"), std::string::npos) << report;
}

TEST(Bodies, ScratchOfAMeshWithoutABodyIsRefused) {
  std::string text = kShared, report;
  for (size_t at; (at = text.find("vmem, @\"ss\"")) != std::string::npos;) text.replace(at, 11, "vmem, @\"other\"");
  EXPECT_EQ(error_code(text, {i32({4, 8}, std::vector<int32_t>(32))}, {}, &report), "PS-UNSUP-001");
  EXPECT_NE(report.find("own of mesh \"other\", which has no body"), std::string::npos) << report;
}

}  // namespace
}  // namespace pallasim::interp::test
