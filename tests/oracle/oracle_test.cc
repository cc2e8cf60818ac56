// The judge against values that were worked out on paper.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "evaluate.h"

namespace pallasim::oracle {
namespace {

template <typename T>
Array array(ir::DType t, std::vector<int64_t> dims, const std::vector<T>& v) {
  Array a{t, std::move(dims), std::vector<std::byte>(v.size() * sizeof(T))};
  std::memcpy(a.bytes.data(), v.data(), a.bytes.size());
  return a;
}
Array f32(std::vector<int64_t> dims, const std::vector<float>& v) { return array(ir::DType::F32, std::move(dims), v); }
Array i32(std::vector<int64_t> dims, const std::vector<int32_t>& v) {
  return array(ir::DType::I32, std::move(dims), v);
}

using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

template <typename T>
std::vector<T> values(const Outcome& o, size_t i = 0) {
  EXPECT_EQ(o.end, End::Done) << o.what;
  if (i >= o.results.size()) return {};
  std::vector<T> r(o.results[i].bytes.size() / sizeof(T));
  std::memcpy(r.data(), o.results[i].bytes.data(), r.size() * sizeof(T));
  return r;
}

Outcome run(const std::string& text, std::vector<Array> args, const Setting& s = {}) {
  const ir::Module m = ir::parse(text);
  ir::verify(m);
  return evaluate(m, args, s);
}

// One input %0, one output %1; `body` begins with %2.
Outcome kernel(const std::string& in, const std::string& out, const std::string& body, Array x,
               const std::string& machine = "generic") {
  return run("pallasim-ir 1\nmodule \"t\" {machine = " + machine + "}\ninput \"x\" : " + in +
                 " {space = any}\noutput \"o\" : " + out + " {space = any}\nbody (%0 \"x\": ref<" + in +
                 ", any>, %1 \"o\": ref<" + out + ", any>) {\n" + body + "  yield\n}\n",
             {std::move(x)});
}

const std::string kMinusOneTwo = R"(  %2 = get %0 : f32[2]
  %3 = constant {value = f32 0x3f800000} : f32[]
  %4 = max %2, %3 : f32[2]
  store %1, %4
)";

TEST(Arithmetic, IntegersWrapAndDivideAsDocumented) {
  EXPECT_EQ(values<int32_t>(kernel("i32[4]", "i32[4]", R"(  %2 = get %0 : i32[4]
  %3 = constant {value = i32[4] 0x000000000000000002000000ffffffff} : i32[4]
  %4 = div %2, %3 : i32[4]
  %5 = rem %2, %3 : i32[4]
  %6 = mul %4, %5 : i32[4]
  %7 = add %4, %6 : i32[4]
  store %1, %7
)",
                                   i32({4}, {5, -3, 7, INT32_MIN}))),
            (Ints{-1 - 5, -1 + 3, 3 + 3, INT32_MIN}));
}

TEST(Arithmetic, NaNAndMaximumPerMachine) {
  const Array x = f32({2}, {NAN, 2});
  EXPECT_TRUE(std::isnan(values<float>(kernel("f32[2]", "f32[2]", kMinusOneTwo, x))[0]));
  EXPECT_EQ(values<float>(kernel("f32[2]", "f32[2]", kMinusOneTwo, x, "triton")), (Floats{1, 2}));
}

TEST(Arithmetic, NarrowFloatsRoundAfterEveryOperation) {
  // 256 + 1 is 256 in bf16, so that adding 1 twice changes nothing; 2 added at once does.
  EXPECT_EQ(values<float>(kernel("f32[1]", "f32[1]", R"(  %2 = get %0 : f32[1]
  %3 = convert %2 : bf16[1]
  %4 = constant {value = bf16 0x3f80} : bf16[]
  %5 = add %3, %4 : bf16[1]
  %6 = add %5, %4 : bf16[1]
  %7 = convert %6 : f32[1]
  store %1, %7
)",
                                 f32({1}, {256}))),
            (Floats{256}));
}

TEST(Arithmetic, SelectClampConvertBitcast) {
  EXPECT_EQ(values<int32_t>(kernel("f32[4]", "i32[4]", R"(  %2 = get %0 : f32[4]
  %3 = constant {value = f32 0xc0000000} : f32[]
  %4 = constant {value = f32 0x40400000} : f32[]
  %5 = clamp %3, %2, %4 : f32[4]
  %6 = convert %5 : i32[4]
  %7 = bitcast_convert %2 : i32[4]
  %8 = lt %2, %3 : bool[4]
  %9 = select_n %8, %6, %7 : i32[4]
  store %1, %9
)",
                                   f32({4}, {1.75f, 9, -2, -4}))),
            (Ints{1, 3, -2, static_cast<int32_t>(0xc0800000)}));
}

TEST(Shape, PadRevConcatenateTranspose) {
  EXPECT_EQ(values<float>(kernel("f32[2,2]", "f32[3,4]", R"(  %2 = get %0 : f32[2,2]
  %3 = transpose %2 {perm = [1, 0]} : f32[2,2]
  %4 = rev %2 {axes = [0]} : f32[2,2]
  %5 = concatenate %3, %4 {axis = 1} : f32[2,4]
  %6 = constant {value = f32 0xbf800000} : f32[]
  %7 = pad %5, %6 {low = [0, -1], high = [0, 1], interior = [1, 0]} : f32[3,4]
  store %1, %7
)",
                                 f32({2, 2}, {1, 2, 3, 4}))),
            (Floats{3, 3, 4, -1, -1, -1, -1, -1, 4, 1, 2, -1}));
}

TEST(Shape, SlicesClampTheirStarts) {
  EXPECT_EQ(values<int32_t>(kernel("i32[4]", "i32[4]", R"(  %2 = get %0 : i32[4]
  %3 = constant {value = i32 0x9} : i32[]
  %4 = dynamic_slice %2, %3 {sizes = [2]} : i32[2]
  %5 = constant {value = i32 0xffffffff} : i32[]
  %6 = dynamic_update_slice %2, %4, %5 : i32[4]
  store %1, %6
)",
                                   i32({4}, {1, 2, 3, 4}))),
            (Ints{3, 4, 3, 4}));
}

TEST(Shape, RollStackSplitSort) {
  EXPECT_EQ(values<int32_t>(kernel("i32[4]", "i32[2,4]", R"(  %2 = get %0 : i32[4]
  %3 = constant {value = i32 0x1} : i32[]
  %4 = roll %2, %3 {axis = 0} : i32[4]
  %5, %6 = split %4 {sizes = [1, 3], axis = 0} : i32[1], i32[3]
  %7 = concatenate %6, %5 {axis = 0} : i32[4]
  %8 = sort %2 {axis = 0, num_keys = 1, stable = true} : i32[4]
  %9 = stack %7, %8 {axis = 0} : i32[2,4]
  store %1, %9
)",
                                   i32({4}, {3, 1, 4, 2}))),
            (Ints{3, 1, 4, 2, 1, 2, 3, 4}));
}

TEST(Reduction, SumsIndicesScansAndProducts) {
  EXPECT_EQ(values<float>(kernel("f32[2,3]", "f32[2,2]", R"(  %2 = get %0 : f32[2,3]
  %3 = dot_general %2, %2 {lhs_contract = [1], rhs_contract = [1], lhs_batch = [], rhs_batch = []} : f32[2,2]
  %4 = reduce_sum %2 {axes = [1]} : f32[2]
  %5 = cumsum %4 {axis = 0, reverse = true} : f32[2]
  %6 = argmax %2 {axis = 1} : i32[2]
  %7 = convert %6 : f32[2]
  %8 = add %5, %7 : f32[2]
  %9 = broadcast_in_dim %8 {dims = [0]} : f32[2,2]
  %10 = add %3, %9 : f32[2,2]
  store %1, %10
)",
                                 f32({2, 3}, {1, 3, 3, 0, 2, 1}))),
            (Floats{19 + 11, 9 + 11, 9 + 4, 5 + 4}));
}

TEST(Control, ADecayingScaleInALoop) {
  // acc = acc + x s; s = s / 2, four times: 1 + 1/2 + 1/4 + 1/8.
  EXPECT_EQ(values<float>(kernel("f32[1]", "f32[1]", R"(  %2 = get %0 : f32[1]
  %3 = constant {value = f32 0x3f800000} : f32[]
  %4 = constant {value = f32 0x3f000000} : f32[]
  %5 = constant {value = i32 0x0} : i32[]
  %6 = constant {value = i32 0x4} : i32[]
  %7 = constant {value = i32 0x1} : i32[]
  %8 = sub %2, %2 : f32[1]
  %9, %10 = for %5, %6, %7, %8, %3 (%11: i32[], %12: f32[1], %13: f32[]) {
    %14 = mul %2, %13 : f32[1]
    %15 = add %12, %14 : f32[1]
    %16 = mul %13, %4 : f32[]
    yield %15, %16
  } : f32[1], f32[]
  store %1, %9
)",
                                 f32({1}, {1}))),
            (Floats{1.875f}));
}

TEST(Control, ReverseLoopsSwapTheirCarries) {
  // i = 4, 2, 0: (a, b) becomes (b, a + i).
  EXPECT_EQ(values<int32_t>(kernel("i32[2]", "i32[2]", R"(  %2 = get %0 {view = [index(0)]} : i32[]
  %3 = get %0 {view = [index(1)]} : i32[]
  %4 = constant {value = i32 0x0} : i32[]
  %5 = constant {value = i32 0x6} : i32[]
  %6 = constant {value = i32 0x2} : i32[]
  %7, %8 = for %4, %5, %6, %2, %3 {reverse = true} (%9: i32[], %10: i32[], %11: i32[]) {
    %12 = add %10, %9 : i32[]
    yield %11, %12
  } : i32[], i32[]
  store %1, %7 {view = [index(0)]}
  store %1, %8 {view = [index(1)]}
)",
                                   i32({2}, {10, 20}))),
            (Ints{20 + 2, 10 + 4 + 0}));
}

TEST(Control, BranchesClampTheirIndexAndWriteThroughViews) {
  EXPECT_EQ(values<int32_t>(kernel("i32[2]", "i32[2]", R"(  %2 = get %0 : i32[2]
  store %1, %2
  %3 = get %1 : i32[2]
  %4 = constant {value = i32 0x7} : i32[]
  cond %4 () {
    yield
  } () {
    %5 = view %1 {view = [index(slice(1, 1))]} : ref<i32[1], any>
    store %5, %4 {view = [index(0)]}
    yield
  }
  %6 = get %1 : i32[2]
  %7 = add %3, %6 : i32[2]
  store %1, %7
)",
                                   i32({2}, {1, 2}))),
            (Ints{2, 9}));
}

TEST(Control, LoopsThatDoNotEndAreStopped) {
  const Outcome o = kernel("i32[1]", "i32[1]", R"(  while () {
    %2 = constant {value = bool 0x1} : bool[]
    yield %2
  } () {
    yield
  }
)",
                           i32({1}, {0}));
  EXPECT_EQ(o.end, End::Stopped);
}

TEST(Memory, APermutationInPlaceReadsBeforeItWrites) {
  EXPECT_EQ(values<int32_t>(kernel("i32[4]", "i32[4]", R"(  %2 = get %0 : i32[4]
  %3 = constant {value = i32 0xa} : i32[]
  %4 = mul %2, %3 : i32[4]
  store %1, %4
  %5 = get %1 : i32[4]
  store %1, %5, %2 {view = [index(array($2))]}
)",
                                   i32({4}, {1, 2, 3, 0}))),
            (Ints{0, 10, 20, 30}));
}

TEST(Memory, AMaskedShiftInPlace) {
  EXPECT_EQ(values<int32_t>(kernel("i32[5]", "i32[5]", R"(  %2 = get %0 : i32[5]
  store %1, %2
  %3 = get %1 {view = [index(slice(0, 4))]} : i32[4]
  %4 = constant {value = bool[4] 0x01010001} : bool[4]
  masked_store %1, %3, %4 {view = [index(slice(1, 4))], mask = $2}
)",
                                   i32({5}, {1, 2, 3, 4, 5}))),
            (Ints{1, 1, 2, 4, 4}));
}

TEST(Memory, OfSeveralWritesToOnePlaceTheLastOneStays) {
  EXPECT_EQ(values<int32_t>(kernel("i32[3]", "i32[3]", R"(  %2 = get %0 : i32[3]
  store %1, %2
  %3 = constant {value = i32[3] 0x010000000100000002000000} : i32[3]
  %4 = swap %1, %3, %3 {view = [index(array($2))]} : i32[3]
  %5 = get %1 : i32[3]
  %6 = add %4, %5 : i32[3]
  store %1, %6
)",
                                   i32({3}, {10, 20, 30}))),
            (Ints{20 + 10, 1 + 1, 30 + 2}));
}

TEST(Memory, ArraysThatAreNotAdjacentComeFirst) {
  // x[1, :, [0, 1, 1]]: scalars count as arrays, so that the arrays' dimension comes first.
  EXPECT_EQ(values<int32_t>(kernel("i32[2,2,2]", "i32[3,2]",
                                   R"(  %2 = constant {value = i32[3] 0x000000000100000001000000} : i32[3]
  %3 = get %0, %2 {view = [index(1, slice(0, 2), array($1))]} : i32[3,2]
  store %1, %3
)",
                                   i32({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}))),
            (Ints{4, 6, 5, 7, 5, 7}));
}

TEST(Memory, StoresThroughOtherWidthsTouchTheirBytesOnly) {
  // Row 1 of the 16-bit view is the upper half of every word.
  EXPECT_EQ(values<int32_t>(kernel("i32[1,2]", "i32[1,2]", R"(  %2 = get %0 : i32[1,2]
  store %1, %2
  %3 = constant {value = i16[2] 0x01000200} : i16[2]
  store %1, %3 {view = [bitcast(i16[]), index(1, slice(0, 2))]}
)",
                                   i32({1, 2}, {0x7fff1234, 0x7fff5678}), "tpu")),
            (Ints{0x00011234, 0x00025678}));
}

TEST(Memory, OutOfBoundsStops) {
  const std::string body = R"(  %2 = get %0 {view = [index(0)]} : i32[]
  %3 = get %0, %2 {view = [index($1)]} : i32[]
  store %1, %3 {view = [index(0)]}
)";
  EXPECT_EQ(values<int32_t>(kernel("i32[2]", "i32[1]", body, i32({2}, {1, 5}))), (Ints{5}));
  EXPECT_EQ(kernel("i32[2]", "i32[1]", body, i32({2}, {2, 5})).end, End::Stopped);
  EXPECT_EQ(kernel("i32[2]", "i32[1]", body, i32({2}, {-1, 5})).end, End::Stopped);
}

TEST(Memory, InputsAreNotWritten) {
  EXPECT_EQ(kernel("i32[1]", "i32[1]", "  %2 = get %0 : i32[1]\n  store %0, %2\n", i32({1}, {1})).end, End::Stopped);
}

TEST(Memory, ScopedMemoryIsFreshAtEveryVisit) {
  const Floats r = values<float>(kernel("f32[2]", "f32[2]", R"(  %2 = constant {value = i32 0x0} : i32[]
  %3 = constant {value = i32 0x2} : i32[]
  %4 = constant {value = i32 0x1} : i32[]
  for %2, %3, %4 (%5: i32[]) {
    run_scoped (%6: ref<f32[], vmem>) {
      %7 = get %6 : f32[]
      store %1, %7, %5 {view = [index($2)]}
      %8 = get %0 {view = [index(0)]} : f32[]
      store %6, %8
      yield
    }
    yield
  }
)",
                                        f32({2}, {1, 1})));
  EXPECT_TRUE(std::isnan(r.at(0)) && std::isnan(r.at(1)));
}

TEST(Triton, AtomicsCountEveryOccurrence) {
  EXPECT_EQ(values<int32_t>(kernel("i32[4]", "i32[2]", R"(  %2 = get %0 : i32[4]
  %3 = constant {value = i32[2] 0x0000000000000000} : i32[2]
  store %1, %3
  %4 = constant {value = i32[4] 0x01000000010000000100000001000000} : i32[4]
  %5 = constant {value = bool[4] 0x01010100} : bool[4]
  %6 = atomic_rmw %1, %4, %2, %5 {kind = add, view = [index(array($2))], mask = $3} : i32[4]
)",
                                   i32({4}, {1, 0, 1, 1}), "triton")),
            (Ints{1, 2}));
}

// x of 5 elements in blocks of 2.
Outcome blocks(const std::string& machine, const std::string& body, const std::string& block = "blocked(2)") {
  return run("pallasim-ir 1\nmodule \"t\" {machine = " + machine +
                 "}\ngrid {size = 3}\ninput \"x\" : f32[5] {space = any, block = [" + block +
                 "]} (%0: i32[]) {\n  yield %0\n}\noutput \"o\" : f32[5] {space = any, block = [blocked(2)]} (%0: "
                 "i32[]) {\n  yield %0\n}\n"
                 "body (%0 \"x\": ref<f32[2], any>, %1 \"o\": ref<f32[2], any>) {\n  %2 = get %0 : f32[2]\n" +
                 body + "  yield\n}\n",
             {f32({5}, {1, 2, 3, 4, 5})});
}

TEST(Grid, BlocksReachBeyondTheirArray) {
  EXPECT_EQ(values<float>(blocks("generic", "  %3 = add %2, %2 : f32[2]\n  store %1, %3\n")), (Floats{2, 4, 6, 8, 10}));
  EXPECT_EQ(blocks("triton", "  store %1, %2\n").end, End::Stopped);
}

TEST(Grid, ElementBlocksOverlapAndArePadded) {
  // Starts at -1, 0, 1: the first element does not exist.
  const Floats r = values<float>(blocks("generic", "  store %1, %2\n", "element(2, 1, 0)"));
  EXPECT_TRUE(std::isnan(r.at(0)));
  EXPECT_EQ(Floats(r.begin() + 1, r.end()), (Floats{1, 1, 2, 2}));
}

TEST(Grid, AnOutputKeepsItsBlockAndScratchLasts) {
  const std::string text = R"(pallasim-ir 1
module "t" {machine = tpu}
grid {size = dynamic(0)}
prefetch "p" : i32[3] {space = smem}
output "o" : i32[2] {space = vmem, block = [blocked(1)]} (%0: i32[], %1 "p": ref<i32[3], smem>) {
  %2 = get %1, %0 {view = [index($1)]} : i32[]
  yield %2
}
scratch "s" : ref<i32[], smem>
body (%0 "p": ref<i32[3], smem>, %1 "o": ref<i32[1], vmem>, %2 "s": ref<i32[], smem>) {
  %3 = program_id {axis = 0} : i32[]
  %4 = constant {value = i32 0x0} : i32[]
  %5 = eq %3, %4 : bool[]
  cond %5 () {
    yield
  } () {
    store %2, %4
    yield
  }
  %6 = get %2 : i32[]
  %7 = constant {value = i32 0x1} : i32[]
  %8 = add %6, %7 : i32[]
  store %2, %8
  store %1, %8 {view = [index(0)]}
  yield
}
)";
  EXPECT_EQ(values<int32_t>(run(text, {i32({}, {3}), i32({3}, {1, 0, 0})})), (Ints{3, 1}));
  EXPECT_EQ(values<int32_t>(run(text, {i32({}, {0}), i32({3}, {1, 0, 0})})), (Ints{INT32_MIN, INT32_MIN}));
  EXPECT_EQ(run(text, {i32({}, {3}), i32({3}, {1, 2, 0})}).end, End::Stopped);
}

// Two cores; `body` gets o (a place per core) and the core's number %2.
Outcome two_cores(const std::string& body, const Setting& s = {}, const std::string& machine = "tpu") {
  return run("pallasim-ir 1\nmodule \"t\" {machine = " + machine +
                 "}\nmesh \"m\" {kind = tensorcore, axes = [axis(\"c\", 2)]}\n"
                 "output \"o\" : i32[2] {space = hbm}\nscratch \"d\" : ref<dma_sem[], semaphore>\nscratch \"s\" : "
                 "ref<sem[], semaphore>\n"
                 "scratch \"v\" : ref<i32[1], vmem>\n"
                 "body \"m\" (%0 \"o\": ref<i32[2], hbm>, %1 \"d\": ref<dma_sem[], semaphore>, %2 \"s\": ref<sem[], "
                 "semaphore>, "
                 "%3 \"v\": ref<i32[1], vmem>) {\n  %4 = axis_index {axis = \"c\"} : i32[]\n  %5 = constant {value = "
                 "i32 0x1} : i32[]\n"
                 "  %6 = sub %5, %4 : i32[]\n" +
                 body + "  yield\n}\n",
             {}, s);
}

TEST(Sync, ACopyOfNothingBeginsAnywhere) {
  // No elements from 65535 on, of 3: nothing is read, nothing moves, and whoever waits for no bytes goes on.
  const std::string operands =
      "%0, %1, %5, %3, %4 {src = view($0, [index(slice($3, $4))]), "
      "dst = view($1, [index(slice($3, $4))]), dst_sem = view($2, [])}";
  const auto copy = [&](const char* size) {
    return kernel("i32[3]", "i32[3]", std::string(R"(  %2 = get %0 : i32[3]
  store %1, %2
  %3 = constant {value = i32 0xffff} : i32[]
  %4 = constant {value = i32 )") + size + R"(} : i32[]
  run_scoped (%5: ref<dma_sem[], semaphore>) {
    dma_start )" + operands + R"(
    dma_wait )" + operands + R"(
    yield
  }
)",
                  i32({3}, {1, 2, 3}), "tpu");
  };
  EXPECT_EQ(values<int32_t>(copy("0x0")), (Ints{1, 2, 3}));
  EXPECT_EQ(copy("0x1").end, End::Stopped);
}

TEST(Sync, CopiesToTheOtherCoreInEveryOrder) {
  const std::string body = R"(  run_scoped (%7 "mine": ref<i32[1], vmem>) {
    store %7, %4 {view = [index(0)]}
    dma_start %7, %3, %1, %6 {src = view($0, []), dst = view($1, []), dst_sem = view($2, []), core_index = $3}
    dma_wait %7, %3, %1 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
    yield
  }
  %8 = get %3 {view = [index(0)]} : i32[]
  store %0, %8, %4 {view = [index($2)]}
)";
  EXPECT_EQ(values<int32_t>(two_cores(body)), (Ints{1, 0}));
  EXPECT_EQ(values<int32_t>(two_cores(body, {{1, 0}})), (Ints{1, 0}));
}

TEST(Sync, ThreadsThatWaitForEachOtherAreStopped) {
  const Outcome o = two_cores("  sem_wait %2\n  sem_signal %2, %6 {core_index = $1}\n");
  EXPECT_EQ(o.end, End::Stopped);
  EXPECT_NE(o.what.find("deadlock"), std::string::npos) << o.what;
}

TEST(Sync, WhoDoesNotExistIsNotReached) {
  EXPECT_EQ(two_cores("  sem_signal %2 {core_index = 2}\n").end, End::Stopped);
  EXPECT_EQ(two_cores("  sem_signal %2 {device_id = 1, device_id_type = logical}\n").end, End::Stopped);
}

TEST(Sync, WhatIsSignalledIsTaken) {
  EXPECT_EQ(two_cores("  sem_signal %2 {inc = 2}\n  sem_wait %2\n").end, End::Stopped);
  EXPECT_EQ(two_cores("  sem_signal %2 {inc = 2}\n  sem_wait %2\n", {}, "generic").end, End::Done);
  EXPECT_EQ(
      values<int32_t>(two_cores("  sem_signal %2 {inc = 2}\n  %7 = sem_read %2 : i32[]\n  sem_wait %2 {value = 2}\n"
                                "  store %0, %7, %4 {view = [index($2)]}\n")),
      (Ints{2, 2}));
}

// x[3, 2] with rows at 2, 0, 2 (and one behind the end), of updates that count from 1.
Outcome scattered(const std::string& op, const std::string& mode, int32_t second = 0) {
  return run(
      "pallasim-ir 1\nmodule \"t\" {machine = generic}\ninput \"x\" : i32[3,2] {space = any}\n"
      "input \"i\" : i32[3,1] {space = any}\noutput \"o\" : i32[3,2] {space = any}\n"
      "body (%0 \"x\": ref<i32[3,2], any>, %1 \"i\": ref<i32[3,1], any>, %2 \"o\": ref<i32[3,2], any>) {\n"
      "  %3 = get %0 : i32[3,2]\n  %4 = get %1 : i32[3,1]\n  %5 = iota {axis = 0} : i32[6]\n"
      "  %6 = constant {value = i32 0x1} : i32[]\n  %7 = add %5, %6 : i32[6]\n  %8 = reshape %7 : i32[3,2]\n"
      "  %9 = " +
          op +
          " %3, %4, %8 {update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = "
          "[0], mode = " +
          mode + "} : i32[3,2]\n  store %2, %9\n  yield\n}\n",
      {i32({3, 2}, {10, 20, 30, 40, 50, 60}), i32({3, 1}, {2, second, 2})});
}

TEST(Arrays, UpdatesComeInTheOrderOfTheirIndices) {
  EXPECT_EQ(values<int32_t>(scattered("scatter", "clip")), (Ints{3, 4, 30, 40, 5, 6}));
  EXPECT_EQ(values<int32_t>(scattered("scatter_add", "clip")), (Ints{13, 24, 30, 40, 56, 68}));
  EXPECT_EQ(values<int32_t>(scattered("scatter_sub", "clip")), (Ints{7, 16, 30, 40, 44, 52}));
  EXPECT_EQ(values<int32_t>(scattered("scatter_mul", "clip")), (Ints{30, 80, 30, 40, 250, 720}));
  EXPECT_EQ(values<int32_t>(scattered("scatter_min", "clip")), (Ints{3, 4, 30, 40, 1, 2}));
  EXPECT_EQ(values<int32_t>(scattered("scatter_max", "clip")), (Ints{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(values<int32_t>(scattered("scatter", "clip", -5)), (Ints{3, 4, 30, 40, 5, 6}));
  EXPECT_EQ(values<int32_t>(scattered("scatter", "fill_or_drop", -5)), (Ints{10, 20, 30, 40, 5, 6}));
  EXPECT_EQ(values<int32_t>(scattered("scatter_add", "fill_or_drop", 3)), (Ints{10, 20, 30, 40, 56, 68}));
}

TEST(Judge, PrintsAndNamesWhatItLacks) {
  const Outcome p =
      kernel("i32[2]", "i32[2]", "  %2 = get %0 : i32[2]\n  debug_print %2 {format = \"x {}\"}\n", i32({2}, {1, 2}));
  EXPECT_EQ(p.prints, std::vector<std::string>{"x [1 2]"});
  const Outcome o = kernel("i32[2]", "i32[2]", "  %2 = get %0 : i32[2]\n  %3, %4 = top_k %2 {k = 1} : i32[1], i32[1]\n",
                           i32({2}, {1, 2}));
  EXPECT_EQ(o.end, End::Missing);
  EXPECT_EQ(o.what, "top_k");
}

}  // namespace
}  // namespace pallasim::oracle
