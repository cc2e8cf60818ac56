// What regions may write, as the analysis sums it up.
#include "analysis/writes.h"

#include "run.h"

namespace pallasim::interp::test {
namespace {

using analysis::Writes;
using analysis::WriteSet;

// The body of a module over two refs, %0 and %1, and its analysis.
struct Analysed {
  explicit Analysed(const std::string& body)
      : module(ir::parse("pallasim-ir 1\nmodule \"w\" {machine = tpu}\ninput \"x_ref\" : i32[8] {space = any}\noutput "
                         "\"o_ref\" : i32[8] {space = any}\n"
                         "body (%0 \"x_ref\": ref<i32[8], any>, %1 \"o_ref\": ref<i32[8], any>) {\n" +
                         body + "  yield\n}\n")),
        writes(module.bodies[0].graph) {}
  const ir::Region& region() const { return module.bodies[0].graph.region; }
  const WriteSet& of(size_t op) const { return writes.of(region().ops[op]); }

  ir::Module module;
  Writes writes;
};

TEST(Writes, ReadsWriteNothing) {
  const Analysed a("  %2 = get %0 : i32[8]\n  store %1, %2\n");
  EXPECT_TRUE(a.of(0).empty());
  EXPECT_FALSE(a.of(1).everything);
  EXPECT_EQ(a.of(1).origins, (std::vector<ir::ValueId>{1}));
}

TEST(Writes, ViewsAndCallsInsideRegionsShowWhatTheyWereMadeFrom) {
  const Analysed a(R"(  %2 = constant {value = bool 0x1} : bool[]
  %3 = iota {axis = 0} : i32[4]
  cond %2 () {
    yield
  } () {
    %4 = view %1 {view = [index(slice(0, 4))]} : ref<i32[4], any>
    call %4 (%5: ref<i32[4], any>) {
      store %5, %3
      yield
    }
    yield
  }
)");
  EXPECT_EQ(a.writes.origins(4).origins, (std::vector<ir::ValueId>{1}));
  EXPECT_EQ(a.writes.origins(5).origins, (std::vector<ir::ValueId>{1}));
  EXPECT_EQ(a.of(2).origins, (std::vector<ir::ValueId>{1}));
  EXPECT_FALSE(a.of(2).everything);
}

TEST(Writes, MemoryBornInsideIsItsOwn) {
  const Analysed a(R"(  run_scoped (%2 "s": ref<i32[8], vmem>) {
    %3 = get %0 : i32[8]
    store %2, %3
    yield
  }
)");
  EXPECT_EQ(a.of(0).origins, (std::vector<ir::ValueId>{2}));
}

TEST(Writes, AChoiceShowsAllItsRefs) {
  const Analysed a(R"(  %2 = constant {value = i32 0x1} : i32[]
  %3 = select_ref %2, %0, %1 : ref<i32[8], any>
)");
  EXPECT_EQ(a.writes.origins(3).origins, (std::vector<ir::ValueId>{0, 1}));
}

TEST(Writes, WhoSynchronisesMayFindEverythingWritten) {
  const Analysed a(R"(  %2 = constant {value = i32 0x2} : i32[]
  %3 = constant {value = i32 0x0} : i32[]
  %4 = constant {value = i32 0x1} : i32[]
  for %3, %2, %4 (%5: i32[]) {
    run_scoped (%6 "sem": ref<dma_sem[], semaphore>) {
      dma_start %0, %1, %6 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
      dma_wait %0, %1, %6 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
      yield
    }
    yield
  }
)");
  EXPECT_TRUE(a.of(3).everything);
}

}  // namespace
}  // namespace pallasim::interp::test
