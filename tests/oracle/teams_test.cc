// Several bodies, and whose memory it is, against values that were worked out on paper.
#include <gtest/gtest.h>

#include <cstring>

#include "evaluate.h"

namespace pallasim::oracle {
namespace {

using Ints = std::vector<int32_t>;

Array i32(std::vector<int64_t> dims, const Ints& v) {
  Array a{ir::DType::I32, std::move(dims), std::vector<std::byte>(v.size() * 4)};
  std::memcpy(a.bytes.data(), v.data(), a.bytes.size());
  return a;
}

Outcome run(const std::string& text, std::vector<Array> args, const Setting& s = {}) {
  const ir::Module m = ir::parse(text);
  ir::verify(m);
  return evaluate(m, args, s);
}

Ints values(const Outcome& o) {
  EXPECT_EQ(o.end, End::Done) << o.what;
  if (o.results.empty()) return {};
  Ints r(o.results[0].bytes.size() / 4);
  std::memcpy(r.data(), o.results[0].bytes.data(), o.results[0].bytes.size());
  return r;
}

std::string edited(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// The scalar subcore of each SparseCore puts 100 times its number into memory that its subcores share, signals them,
// and copies a row of x into the own memory of each. They add both up.
const std::string kArguments =
    R"((%0 "x": ref<i32[4,2], hbm>, %1 "o": ref<i32[4,2], hbm>, %2 "row": ref<i32[2], vmem, @"vs">, )"
    R"(%3 "came": ref<dma_sem[], semaphore, @"vs">, %4 "go": ref<sem[], semaphore, @"vs">, )"
    R"(%5 "shared": ref<i32[2], vmem_shared, subcore_group>) {
)";
const std::string kDelivered = R"(pallasim-ir 1
module "delivered" {machine = tpu}
mesh "ss" {kind = scalar_subcore, axes = [axis("core", 2)]}
mesh "vs" {kind = vector_subcore, axes = [axis("core", 2), axis("subcore", 2)]}
input "x" : i32[4,2] {space = hbm}
output "o" : i32[4,2] {space = hbm}
scratch "row" : ref<i32[2], vmem, @"vs">
scratch "came" : ref<dma_sem[], semaphore, @"vs">
scratch "go" : ref<sem[], semaphore, @"vs">
scratch "shared" : ref<i32[2], vmem_shared, subcore_group>
body "ss" )" + kArguments + R"(  %6 = axis_index {axis = "core"} : i32[]
  %7 = constant {value = i32 0x64} : i32[]
  %8 = mul %6, %7 : i32[]
  %9 = broadcast_in_dim %8 {dims = []} : i32[2]
  store %5, %9
  %10 = constant {value = i32 0x0} : i32[]
  %11 = constant {value = i32 0x1} : i32[]
  %12 = constant {value = i32 0x2} : i32[]
  for %10, %12, %11 (%13: i32[]) {
    %14 = mul %6, %12 : i32[]
    %15 = add %14, %13 : i32[]
    sem_signal %4, %6, %13 {inc = 1, device_id = none, core_index = [axis("core", $1), axis("subcore", $2)]}
    dma_start %0, %2, %3, %15 {src = view($0, [index($3, slice(0, 2))]), dst = view($1, []),
      dst_sem = view($2, []), core_index = $3}
    yield
  }
  yield
}
body "vs" )" + kArguments + R"(  %6 = axis_index {axis = "core"} : i32[]
  %7 = axis_index {axis = "subcore"} : i32[]
  %8 = axis_size {axis = "subcore"} : i32[]
  %9 = mul %6, %8 : i32[]
  %10 = add %9, %7 : i32[]
  sem_wait %4 {value = 1}
  dma_wait %2, %3 {src = view($0, []), dst = view($0, []), dst_sem = view($1, [])}
  %11 = get %2 : i32[2]
  %12 = get %5 : i32[2]
  %13 = add %11, %12 : i32[2]
  store %1, %13, %10 {view = [index($2, slice(0, 2))]}
  yield
}
)";
const Array kX = i32({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});

TEST(Teams, ABodyReachesTheThreadsOfAnotherAndTheirSparseCore) {
  for (const std::vector<int>& order : {std::vector<int>{}, {5, 4, 3, 2, 1, 0}, {2, 0, 5}})
    EXPECT_EQ(values(run(kDelivered, {kX}, {order})), (Ints{1, 2, 3, 4, 105, 106, 107, 108}));
}

TEST(Teams, WhoIsNotThereIsNamed) {
  const Outcome beyond = run(edited(kDelivered, "core_index = $3}", "core_index = 4}"), {kX});
  EXPECT_EQ(beyond.end, End::Stopped);
  EXPECT_EQ(beyond.what, "copy to a core that does not exist");
  const Outcome axis = run(edited(kDelivered, "axis(\"subcore\", $2)", "axis(\"subcore\", 2)"), {kX});
  EXPECT_EQ(axis.end, End::Stopped);
  EXPECT_EQ(axis.what, "signal to a core that does not exist");
  // Nobody of the scalar subcores has a coordinate on the axis of subcores.
  const Outcome some = run(edited(kDelivered, ", axis(\"subcore\", $2)]", "]"), {kX});
  EXPECT_EQ(some.end, End::Missing);
}

TEST(Teams, ASignalThatDoesNotComeIsADeadlock) {
  const Outcome o = run(edited(kDelivered, "sem_wait %4 {value = 1}", "sem_wait %4 {value = 2}"), {kX});
  EXPECT_EQ(o.end, End::Stopped);
  EXPECT_NE(o.what.find("deadlock"), std::string::npos) << o.what;
}

// Without a core_index it is the thread beside: each vector subcore signals the scalar one of its SparseCore, which
// counts what all of them wrote.
TEST(Teams, ASignalWithoutACoreGoesToWhoIsBeside) {
  const std::string arguments =
      R"((%0 "o": ref<i32[2], hbm>, %1 "done": ref<sem[], semaphore, @"ss">, %2 "sum": ref<i32[3], vmem_shared, )"
      R"(subcore_group>) {
)";
  const std::string text = R"(pallasim-ir 1
module "beside" {machine = tpu}
mesh "vs" {kind = vector_subcore, axes = [axis("core", 2), axis("subcore", 3)]}
mesh "ss" {kind = scalar_subcore, axes = [axis("core", 2)]}
output "o" : i32[2] {space = hbm}
scratch "done" : ref<sem[], semaphore, @"ss">
scratch "sum" : ref<i32[3], vmem_shared, subcore_group>
body "vs" )" + arguments + R"(  %3 = axis_index {axis = "core"} : i32[]
  %4 = axis_index {axis = "subcore"} : i32[]
  %5 = constant {value = i32 0xa} : i32[]
  %6 = mul %3, %5 : i32[]
  %7 = add %6, %4 : i32[]
  store %2, %7, %4 {view = [index($2)]}
  sem_signal %1 {inc = 1}
  yield
}
body "ss" )" + arguments + R"(  %3 = axis_index {axis = "core"} : i32[]
  sem_wait %1 {value = 3}
  %4 = get %2 : i32[3]
  %5 = reduce_sum %4 {axes = [0]} : i32[]
  store %0, %5, %3 {view = [index($2)]}
  yield
}
)";
  for (const std::vector<int>& order : {std::vector<int>{}, {7, 6, 5, 4, 3, 2, 1, 0}})
    EXPECT_EQ(values(run(text, {}, {order})), (Ints{0 + 1 + 2, 10 + 11 + 12}));
}

// Subcores of two SparseCores: a barrier is of one of them, and words are those of its subcores.
TEST(Teams, BarriersAndWordsAreOfOneSparseCore) {
  const std::string text = R"(pallasim-ir 1
module "words" {machine = tpu}
mesh "vs" {kind = vector_subcore, axes = [axis("core", 2), axis("subcore", 3)]}
output "o" : i32[2,3] {space = hbm}
scratch "word" : ref<i32[1], smem>
body "vs" (%0 "o": ref<i32[2,3], hbm>, %1 "word": ref<i32[1], smem>) {
  %2 = axis_index {axis = "core"} : i32[]
  %3 = axis_index {axis = "subcore"} : i32[]
  %4 = constant {value = i32 0x64} : i32[]
  %5 = mul %2, %4 : i32[]
  store %1, %5 {view = [index(0)]}
  sc_barrier
  %6 = constant {value = i32 0x2} : i32[]
  %7 = sc_fetch_and_add %1, %3, %6 {view = [index(0)], subcore = $2} : i32[]
  sc_barrier
  %8 = get %1 {view = [index(0)]} : i32[]
  store %0, %8, %2, %3 {view = [index($2, $3)]}
  yield
}
)";
  EXPECT_EQ(values(run(text, {})), (Ints{0, 0, 0 + 1 + 2, 100, 100, 100 + 0 + 1 + 2}));
}

}  // namespace
}  // namespace pallasim::oracle
