// Lazy values: a value keeps what it was when it was computed, whatever is written before it is used.
#include "run.h"

namespace pallasim::interp::test {
namespace {

// A body over x (8 elements of `dtype`) and o (likewise), whole.
std::string kernel(const std::string& dtype, const std::string& body, const std::string& declarations = "") {
  const std::string ref = "ref<" + dtype + "[8], any>";
  return "pallasim-ir 1\nmodule \"lazy\" {machine = generic}\ninput \"x_ref\" : " + dtype +
         "[8] {space = any}\noutput \"o_ref\" : " + dtype + "[8] {space = any}\n" + declarations +
         "body (%0 \"x_ref\": " + ref + ", %1 \"o_ref\": " + ref + ") {\n" + body + "}\n";
}

std::vector<Options> configurations() {
  std::vector<Options> all(4);
  all[1].fuse = false;
  all[2].checked = true;
  all[3].numerics = Options::Numerics::Reference;
  return all;
}

std::vector<float> floats(const std::string& body, const std::vector<float>& x) {
  std::vector<float> first;
  for (const Options& o : configurations()) {
    const std::vector<float> got = run(kernel("f32", body), {f32({8}, x)}, o).results[0].as<float>();
    if (first.empty()) first = got;
    EXPECT_EQ(got, first);
  }
  return first;
}

std::vector<int32_t> integers(const std::string& body, const std::vector<int32_t>& x) {
  std::vector<int32_t> first;
  for (const Options& o : configurations()) {
    const std::vector<int32_t> got = run(kernel("i32", body), {i32({8}, x)}, o).results[0].as<int32_t>();
    if (first.empty()) first = got;
    EXPECT_EQ(got, first);
  }
  return first;
}

const std::vector<float> kOnes(8, 1.0f);
const std::vector<int32_t> kCount{0, 1, 2, 3, 4, 5, 6, 7}, kPerm{3, 0, 1, 2, 7, 4, 5, 6};
const std::string kBounds =
    "  %2 = constant {value = i32 0x0} : i32[]\n  %3 = constant {value = i32 0x4} : i32[]\n"
    "  %4 = constant {value = i32 0x1} : i32[]\n";

// acc = acc + x * s; s = s * 0.5
TEST(Lazy, ProductsOfAScalarCarry) {
  EXPECT_EQ(floats(kBounds + R"(  %5 = constant {value = f32 0x3f800000} : f32[]
  %6 = constant {value = f32[8] 0x0000000000000000000000000000000000000000000000000000000000000000} : f32[8]
  %7 = constant {value = f32 0x3f000000} : f32[]
  %8 = get %0 : f32[8]
  %9, %10 = for %2, %3, %4, %5, %6 (%11: i32[], %12: f32[], %13: f32[8]) {
    %14 = mul %8, %12 : f32[8]
    %15 = mul %12, %7 : f32[]
    %16 = add %13, %14 : f32[8]
    yield %15, %16
  } : f32[], f32[8]
  store %1, %10
  yield
)",
                   kOnes),
            std::vector<float>(8, 1.875f));
}

// old = optimization_barrier(s); s = s + 1; k = k + old
TEST(Lazy, ASecondNameOfAScalarCarry) {
  EXPECT_EQ(floats(kBounds + R"(  %5 = constant {value = f32 0x3f800000} : f32[]
  %6 = constant {value = f32 0x0} : f32[]
  %7, %8 = for %2, %3, %4, %5, %6 (%9: i32[], %10: f32[], %11: f32[]) {
    %12 = optimization_barrier %10 : f32[]
    %13 = add %10, %5 : f32[]
    %14 = add %11, %12 : f32[]
    yield %13, %14
  } : f32[], f32[]
  %15 = broadcast_in_dim %8 {dims = []} : f32[8]
  store %1, %15
  yield
)",
                   kOnes),
            std::vector<float>(8, 10.0f));
}

// t = broadcast(s); s = s + 1; acc = acc * s + t
TEST(Lazy, ABroadcastOfAScalarCarry) {
  EXPECT_EQ(floats(kBounds + R"(  %5 = constant {value = f32 0x0} : f32[]
  %6 = constant {value = f32[8] 0x0000000000000000000000000000000000000000000000000000000000000000} : f32[8]
  %7 = constant {value = f32 0x3f800000} : f32[]
  %8, %9 = for %2, %3, %4, %5, %6 (%10: i32[], %11: f32[], %12: f32[8]) {
    %13 = broadcast_in_dim %11 {dims = []} : f32[8]
    %14 = add %11, %7 : f32[]
    %15 = mul %12, %14 : f32[8]
    %16 = add %15, %13 : f32[8]
    yield %14, %16
  } : f32[], f32[8]
  store %1, %9
  yield
)",
                   kOnes),
            std::vector<float>(8, 23.0f));  // ((0*2+1)*3+2)*4+3
}

// A value made from s before s changes, used by an inner loop.
TEST(Lazy, AnInnerLoopUsesWhatWasMadeFromAScalarCarry) {
  EXPECT_EQ(floats(kBounds + R"(  %5 = constant {value = f32 0x3f800000} : f32[]
  %6 = constant {value = f32[8] 0x0000000000000000000000000000000000000000000000000000000000000000} : f32[8]
  %7 = constant {value = f32 0x3f000000} : f32[]
  %8 = get %0 : f32[8]
  %9 = constant {value = i32 0x2} : i32[]
  %10, %11 = for %2, %3, %4, %5, %6 (%12: i32[], %13: f32[], %14: f32[8]) {
    %15 = optimization_barrier %13 : f32[]
    %16 = mul %13, %7 : f32[]
    %17 = for %2, %9, %4, %14 (%18: i32[], %19: f32[8]) {
      %20 = mul %8, %15 : f32[8]
      %21 = add %19, %20 : f32[8]
      yield %21
    } : f32[8]
    yield %16, %17
  } : f32[], f32[8]
  store %1, %11
  yield
)",
                   kOnes),
            std::vector<float>(8, 3.75f));
}

// Carries that are the program's ids, and each other's old values.
TEST(Lazy, PermutedCarries) {
  EXPECT_EQ(integers(kBounds + R"(  %5 = constant {value = i32 0x7} : i32[]
  %6, %7, %8 = for %2, %3, %4, %2, %4, %5 (%9: i32[], %10: i32[], %11: i32[], %12: i32[]) {
    %13 = add %10, %9 : i32[]
    %14 = sub %10, %12 : i32[]
    yield %11, %13, %14
  } : i32[], i32[], i32[]
  %15 = mul %6, %3 : i32[]
  %16 = add %15, %7 : i32[]
  %17 = mul %16, %3 : i32[]
  %18 = add %17, %8 : i32[]
  %19 = broadcast_in_dim %18 {dims = []} : i32[8]
  store %1, %19
  yield
)",
                     kCount),
            std::vector<int32_t>(8, [] {
              int a = 0, b = 1, c = 7;
              for (int i = 0; i < 4; ++i) {
                const int x = a + i, y = a - c;
                a = b, b = x, c = y;
              }
              return (a * 4 + b) * 4 + c;
            }()));
}

// o[perm] = o
TEST(Lazy, APermutationInPlace) {
  EXPECT_EQ(integers(R"(  %2 = get %0 : i32[8]
  %3 = iota {axis = 0} : i32[8]
  store %1, %3
  %4 = get %1 : i32[8]
  store %1, %4, %2 {view = [index(array($2))]}
  yield
)",
                     kPerm),
            (std::vector<int32_t>{1, 2, 3, 0, 5, 6, 7, 4}));
}

// o[o] = iota
TEST(Lazy, ARefAsItsOwnIndices) {
  EXPECT_EQ(integers(R"(  %2 = get %0 : i32[8]
  store %1, %2
  %3 = iota {axis = 0} : i32[8]
  %4 = get %1 : i32[8]
  store %1, %3, %4 {view = [index(array($2))]}
  yield
)",
                     kPerm),
            (std::vector<int32_t>{1, 2, 3, 0, 5, 6, 7, 4}));
  EXPECT_EQ(integers(R"(  %2 = get %0 : i32[8]
  store %1, %2
  %3 = iota {axis = 0} : i32[8]
  store %1, %3, %1 {view = [index(ref($2))]}
  yield
)",
                     kPerm),
            (std::vector<int32_t>{1, 2, 3, 0, 5, 6, 7, 4}));
}

// store(o.at[1:8], o[0:7], mask), and a mask that is the ref's own.
TEST(Lazy, MaskedStoresOfTheRefItself) {
  EXPECT_EQ(integers(R"(  %2 = get %0 : i32[8]
  store %1, %2
  %3 = get %1 {view = [index(slice(0, 7))]} : i32[7]
  %4 = constant {value = i32 0x5} : i32[]
  %5 = iota {axis = 0} : i32[7]
  %6 = lt %5, %4 : bool[7]
  masked_store %1, %3, %6 {view = [index(slice(1, 7))], mask = $2}
  yield
)",
                     kCount),
            (std::vector<int32_t>{0, 0, 1, 2, 3, 4, 6, 7}));
  const std::vector<int8_t> x{1, 0, 1, 1, 0, 0, 1, 0};
  const auto got = run(kernel("bool", R"(  %2 = get %0 : bool[8]
  store %1, %2
  %3 = get %1 {view = [index(slice(0, 7))]} : bool[7]
  %4 = not %3 : bool[7]
  masked_store %1, %4, %3 {view = [index(slice(1, 7))], mask = $2}
  yield
)"),
                       {array(ir::DType::Bool, {8}, x)})
                       .results[0]
                       .as<int8_t>();
  EXPECT_EQ(got, (std::vector<int8_t>{1, 0, 1, 0, 0, 0, 1, 0}));
}

TEST(Lazy, SwapByIndicesReturnsWhatWasThere) {
  EXPECT_EQ(integers(R"(  %2 = get %0 : i32[8]
  %3 = iota {axis = 0} : i32[8]
  store %1, %3
  %4 = get %1 : i32[8]
  %5 = swap %1, %4, %2 {view = [index(array($2))]} : i32[8]
  %6 = get %1 : i32[8]
  %7 = mul %6, %5 : i32[8]
  store %1, %7
  yield
)",
                     kPerm),
            (std::vector<int32_t>{3, 0, 3, 0, 35, 24, 35, 24}));
}

// A view inside a branch writes: what was read before is saved whether the branch runs or not.
TEST(Lazy, AViewInsideABranchThatDoesNotRun) {
  for (const char* flag : {"0x0", "0x1"}) {
    const auto got = integers(
        std::string("  %2 = get %0 : i32[8]\n  store %1, %2\n  %3 = get %1 : i32[8]\n  %4 = constant {value = bool ") +
            flag + R"(} : bool[]
  cond %4 () {
    yield
  } () {
    %5 = view %1 {view = [index(slice(0, 4))]} : ref<i32[4], any>
    %6 = iota {axis = 0} : i32[4]
    store %5, %6
    yield
  }
  %7 = get %1 : i32[8]
  %8 = sub %3, %7 : i32[8]
  store %1, %8
  yield
)",
        {10, 20, 30, 40, 50, 60, 70, 80});
    EXPECT_EQ(
        got, *flag && flag[2] == '1' ? (std::vector<int32_t>{10, 19, 28, 37, 0, 0, 0, 0}) : std::vector<int32_t>(8, 0));
  }
}

// The same through the argument of a call, in a loop that may run zero times.
TEST(Lazy, ACallInsideALoopThatDoesNotRun) {
  for (const char* count : {"0x0", "0x2"}) {
    const auto got = integers(
        std::string("  %2 = get %0 : i32[8]\n  store %1, %2\n  %3 = get %1 : i32[8]\n  %4 = constant {value = i32 ") +
            count + R"(} : i32[]
  %5 = constant {value = i32 0x0} : i32[]
  %6 = constant {value = i32 0x1} : i32[]
  for %5, %4, %6 (%7: i32[]) {
    call %1 (%8: ref<i32[8], any>) {
      %9 = get %8 : i32[8]
      %10 = add %9, %6 : i32[8]
      store %8, %10
      yield
    }
    yield
  }
  %11 = get %1 : i32[8]
  %12 = sub %11, %3 : i32[8]
  store %1, %12
  yield
)",
        {10, 20, 30, 40, 50, 60, 70, 80});
    EXPECT_EQ(got, std::vector<int32_t>(8, count[2] == '2' ? 2 : 0));
  }
}

// A choice between refs by a carry that goes on before the choice is used.
TEST(Lazy, AChoiceOfRefsKeepsItsIndex) {
  const std::string text = R"(pallasim-ir 1
module "choice" {machine = tpu}
input "x_ref" : i32[8] {space = any}
input "y_ref" : i32[8] {space = any}
output "o_ref" : i32[8] {space = any}
body (%0 "x_ref": ref<i32[8], any>, %1 "y_ref": ref<i32[8], any>, %2 "o_ref": ref<i32[8], any>) {
  %3 = constant {value = i32 0x0} : i32[]
  %4 = constant {value = i32 0x1} : i32[]
  run_scoped (%5 "sem": ref<dma_sem[], semaphore>) {
    %6 = for %3, %4, %4, %3 (%7: i32[], %8: i32[]) {
      %9 = select_ref %8, %0, %1 : ref<i32[8], any>
      %10 = add %8, %4 : i32[]
      dma_start %9, %2, %5 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
      dma_wait %9, %2, %5 {src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}
      yield %10
    } : i32[]
    yield
  }
  yield
}
)";
  const Array x = i32({8}, kCount), y = i32({8}, kPerm);
  EXPECT_EQ(run(text, {x, y}).results[0].as<int32_t>(), kCount);
}

// What one branch keeps lazily is nothing that another branch could make memory of.
// A product, its second name in a sum, and the product itself behind it.
TEST(Lazy, AProductWithASecondNameStaysBesideTheSumOfIt) {
  for (const char* name : {"optimization_barrier %3", "multiple_of %3 {values = [7]}"}) {
    const std::string text = R"(pallasim-ir 1
module "m" {machine = generic}
input "x" : i32[2] {space = any}
output "o" : i32[2] {space = any}
body (%0 "x": ref<i32[2], any>, %1 "o": ref<i32[2], any>) {
  %2 = get %0 {view = [index(0)]} : i32[]
  %7 = get %0 {view = [index(1)]} : i32[]
  %3 = mul %2, %7 : i32[]
  %4 = )" + std::string(name) +
                             R"( : i32[]
  %5 = add %4, %7 : i32[]
  %6 = sub %3, %7 : i32[]
  store %1, %5 {view = [index(0)]}
  store %1, %6 {view = [index(1)]}
  yield
}
)";
    EXPECT_EQ(run(text, {i32({2}, {5, 7})}).results[0].as<int32_t>(), (std::vector<int32_t>{42, 28})) << name;
  }
}

TEST(Lazy, ABranchDoesNotTouchWhatAnotherOneRead) {
  const std::string text = R"(pallasim-ir 1
module "offset_of_the_other_branch" {machine = generic}
grid {size = 3, semantics = arbitrary}
input "x" : i32[12,8] {space = vmem, block = [blocked(4), blocked(8)]} (%0: i32[]) {
  %1 = constant {value = i32 0x0} : i32[]
  yield %0, %1
}
output "o" : i32[12,8] {space = vmem, block = [blocked(4), blocked(8)]} (%0: i32[]) {
  %1 = constant {value = i32 0x0} : i32[]
  yield %0, %1
}
output "p" : i32[12,4] {space = vmem, block = [blocked(4), blocked(4)]} (%0: i32[]) {
  %1 = constant {value = i32 0x0} : i32[]
  yield %0, %1
}
body (%0 "x": ref<i32[4,8], vmem>, %1 "o": ref<i32[4,8], vmem>, %2 "p": ref<i32[4,4], vmem>) {
  %3 = constant {value = i32 0x0} : i32[]
  %4 = get %0 : i32[4,8]
  store %1, %4
  %5 = constant {value = bool 0x0} : bool[]
  %6 = cond %5 () {
    %9 = broadcast_in_dim %3 {dims = []} : i32[8]
    store %1, %9, %3 {view = [index($2, slice(0, 8))]}
    %10 = broadcast_in_dim %3 {dims = []} : i32[4,4]
    yield %10
  } () {
    %7 = get %1, %3 {view = [index(slice(0, 4), slice($1, 4))]} : i32[4,4]
    %8 = neg %7 : i32[4,4]
    yield %8
  } : i32[4,4]
  store %2, %6
  yield
}
)";
  std::vector<int32_t> x(96);
  for (int i = 0; i < 96; ++i) x[static_cast<size_t>(i)] = i;
  Options o;
  o.verify_split = true;  // compares everything that the units of the grid touch
  const std::vector<Array> r = run(text, {i32({12, 8}, x)}, o).results;
  std::vector<int32_t> expected = x;
  for (int k = 0; k < 12; k += 4) std::fill_n(expected.begin() + 8 * k, 8, 0);
  EXPECT_EQ(r[0].as<int32_t>(), expected);
  EXPECT_TRUE(all_zero(r[1]));
}

}  // namespace
}  // namespace pallasim::interp::test
