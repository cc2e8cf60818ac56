// Whole-array operations against values worked out by hand, refs made in a kernel, and hints that change no value.
#include "pallasim/interp/rewrites.h"
#include "run.h"

namespace pallasim::interp::test {
namespace {

std::string kernel(const std::string& in, const std::string& out, const std::string& body,
                   const std::string& machine = "generic") {
  return "pallasim-ir 1\nmodule \"t\" {machine = " + machine + "}\ninput \"x_ref\" : " + in +
         " {space = any}\noutput \"o_ref\" : " + out + " {space = any}\nbody (%0 \"x_ref\": ref<" + in +
         ", any>, %1 \"o_ref\": ref<" + out + ", any>) {\n" + body + "  yield\n}\n";
}

TEST(Arrays, RepeatIsTheWholeAgain) {
  const auto r = run(kernel("f32[2]", "f32[6]", R"(  %2 = get %0 : f32[2]
  %3 = repeat %2 {repeats = 3, axis = 0} : f32[6]
  store %1, %3
)"),
                     {f32({2}, {1, 2})});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{1, 2, 1, 2, 1, 2}));
}

TEST(Arrays, RollTakesAnyShift) {
  const auto r = run(kernel("f32[5]", "f32[5]", R"(  %2 = get %0 : f32[5]
  %3 = constant {value = i32 0x7} : i32[]
  %4 = roll %2, %3 {axis = 0} : f32[5]
  store %1, %4
)"),
                     {f32({5}, {0, 1, 2, 3, 4})});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{3, 4, 0, 1, 2}));
}

TEST(Arrays, LogarithmToBase2IsExactAtPowers) {
  const auto r = run(kernel("f32[6]", "f32[6]", R"(  %2 = get %0 : f32[6]
  %3 = log2 %2 : f32[6]
  store %1, %3
)"),
                     {f32({6}, {8, 1, 0.125f, 0x1p-149f, INFINITY, 0})});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{3, 0, -3, -149, INFINITY, -INFINITY}));
}

TEST(Arrays, ConvolutionsThatDoNotFitAreRefused) {
  const std::string head =
      "  %2 = get %0 : f32[1,1,4]\n  %3 = constant {value = f32 0x3f800000} : f32[]\n  %4 = broadcast_in_dim %3 {dims "
      "= []} : f32[1,1,2]\n  %5 = conv_general_dilated %2, %4 ";
  const auto body = [&](const std::string& attrs) {
    return kernel("f32[1,1,4]", "f32[1,1,4]",
                  head + "{strides = [1], low = [1], high = [0], lhs_dilation = [1], rhs_dilation = [1], " + attrs +
                      "} : f32[1,1,4]\n  store %1, %5\n");
  };
  const std::string specs = "lhs_spec = [0, 1, 2], rhs_spec = [0, 1, 2], out_spec = [0, 1, 2]";
  EXPECT_EQ(run(body(specs + ", feature_groups = 1, batch_groups = 1"), {f32({1, 1, 4}, {1, 2, 3, 4})})
                .results[0]
                .as<float>(),
            (std::vector<float>{1, 3, 5, 7}));
  for (const char* wrong :
       {"lhs_spec = [0, 1, 2], rhs_spec = [0, 1, 2], out_spec = [0, 1, 2], feature_groups = 0, batch_groups = 1",
        "lhs_spec = [0, 1, 2], rhs_spec = [0, 1, 2], out_spec = [0, 1, 2], feature_groups = 2, batch_groups = 1",
        "lhs_spec = [0, 1, 1], rhs_spec = [0, 1, 2], out_spec = [0, 1, 2], feature_groups = 1, batch_groups = 1",
        "lhs_spec = [0, 1, 9], rhs_spec = [0, 1, 2], out_spec = [0, 1, 2], feature_groups = 1, batch_groups = 1",
        "lhs_spec = [0, 1], rhs_spec = [0, 1, 2], out_spec = [0, 1, 2], feature_groups = 1, batch_groups = 1"})
    EXPECT_EQ(error_code(body(wrong), {f32({1, 1, 4}, {1, 2, 3, 4})}), "PS-UNSUP-001") << wrong;
}

TEST(Arrays, ResultsThatDoNotFitAreRefused) {
  const char* body[] = {
      "  %3 = sort %2 {axis = 0, num_keys = 1, stable = true} : f32[4]\n  %4 = einshape %3 {equation = \"(ab)->ba\", "
      "sizes = [item(\"a\", 3)]} : f32[4]\n",
      "  %3 = constant {value = f32 0x0} : f32[]\n  %4 = roll %2, %3 {axis = 0} : f32[4]\n",
      "  %3 = iota {axis = 0} : i32[4]\n  %4 = gather %2, %3 {offset_dims = [5], collapsed_slice_dims = [0], "
      "start_index_map = [0], slice_sizes = [1], mode = clip} : f32[4]\n",
      "  %3, %4 = top_k %2 {k = 9} : f32[9], i32[9]\n"};
  for (const char* b : body)
    EXPECT_EQ(
        error_code(kernel("f32[4]", "f32[4]", std::string("  %2 = get %0 : f32[4]\n") + b), {f32({4}, {1, 2, 3, 4})}),
        "PS-UNSUP-001")
        << b;
}

// What puts an array together does so where the one store of it is, unless the array is made of what it replaces.
TEST(Arranged, WhereItIsStored) {
  using Rows = std::vector<float>;
  struct Case {
    const char *body, *out;
    Rows want;
    int64_t in_place = 1;
  };
  const Case cases[] = {
      {"  %3 = slice %2 {start = [4], limit = [6]} : f32[2]\n  %4 = slice %2 {start = [0], limit = [4]} : f32[4]\n"
       "  %5 = neg %4 : f32[4]\n  %6 = concatenate %3, %5 {axis = 0} : f32[6]\n  store %1, %6\n",
       "f32[6]",
       {5, 6, -1, -2, -3, -4}},
      {"  %3 = constant {value = f32 0x41100000} : f32[]\n  %4 = neg %2 : f32[6]\n"
       "  %5 = pad %4, %3 {low = [-1], high = [2], interior = [0]} : f32[7]\n  store %1, %5\n",
       "f32[7]",
       {-2, -3, -4, -5, -6, 9, 9}},
      {"  %3 = constant {value = f32 0x41100000} : f32[]\n"
       "  %5 = pad %2, %3 {low = [1], high = [-2], interior = [1]} : f32[10]\n  store %1, %5\n",
       "f32[10]",
       {9, 1, 9, 2, 9, 3, 9, 4, 9, 5}},
      {"  %3 = reshape %2 : f32[2,3]\n  %4 = constant {value = f32 0x41100000} : f32[]\n"
       "  %5 = pad %3, %4 {low = [1, 0], high = [0, 1], interior = [0, 0]} : f32[3,4]\n  store %1, %5\n",
       "f32[3,4]",
       {9, 9, 9, 9, 1, 2, 3, 9, 4, 5, 6, 9}},
      {"  %3 = reshape %2 : f32[2,3]\n  %4 = transpose %3 {perm = [1, 0]} : f32[3,2]\n"
       "  %5 = reshape %4 : f32[6]\n  store %1, %5\n",
       "f32[6]",
       {1, 4, 2, 5, 3, 6}},
      {"  %3 = tile %2 {reps = [2]} : f32[12]\n  store %1, %3\n", "f32[12]", {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}},
      {"  %3 = neg %2 : f32[6]\n  %4 = stack %2, %3 {axis = 1} : f32[6,2]\n  store %1, %4\n",
       "f32[6,2]",
       {1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6}},
      {"  %3 = constant {value = i32 0x2} : i32[]\n  %4 = roll %2, %3 {axis = 0} : f32[6]\n  store %1, %4\n",
       "f32[6]",
       {5, 6, 1, 2, 3, 4}},
      // Into every second row: a roll wants one piece.
      {"  %3 = constant {value = i32 0x2} : i32[]\n  %4 = roll %2, %3 {axis = 0} : f32[6]\n"
       "  store %1, %4 {view = [index(slice(0, 6), 1)]}\n  store %1, %2 {view = [index(slice(0, 6), 0)]}\n",
       "f32[6,2]",
       {1, 5, 2, 6, 3, 1, 4, 2, 5, 3, 6, 4},
       0},
      // Made of what it replaces.
      {"  store %1, %2\n  %3 = get %1 : f32[6]\n  %4 = slice %3 {start = [1], limit = [6]} : f32[5]\n"
       "  %5 = slice %3 {start = [0], limit = [1]} : f32[1]\n  %6 = concatenate %4, %5 {axis = 0} : f32[6]\n"
       "  store %1, %6\n",
       "f32[6]",
       {2, 3, 4, 5, 6, 1},
       0},
      {"  store %1, %2\n  %3 = get %1 : f32[6]\n  %4 = constant {value = i32 0x2} : i32[]\n"
       "  %5 = roll %3, %4 {axis = 0} : f32[6]\n  store %1, %5\n",
       "f32[6]",
       {5, 6, 1, 2, 3, 4},
       0},
      // What it is made of changes before it is stored.
      {"  store %1, %2\n  %3 = get %1 : f32[6]\n  %4 = rev %3 {axes = [0]} : f32[6]\n  %5 = reshape %4 : f32[2,3]\n"
       "  %6 = reshape %5 : f32[6]\n  %7 = constant {value = f32 0x0} : f32[]\n"
       "  store %1, %7 {view = [index(0)]}\n  store %1, %6\n",
       "f32[6]",
       {6, 5, 4, 3, 2, 1},
       0}};
  for (const Case& c : cases)
    for (const bool fuse : {true, false}) {
      Options o;
      o.fuse = fuse;
      const int64_t before = hits(Rewrite::ArrangedInPlace);
      const auto r = run(kernel("f32[6]", c.out, std::string("  %2 = get %0 : f32[6]\n") + c.body),
                         {f32({6}, {1, 2, 3, 4, 5, 6})}, o);
      EXPECT_EQ(r.results[0].as<float>(), c.want) << c.body;
      EXPECT_EQ(hits(Rewrite::ArrangedInPlace) - before, fuse ? c.in_place : 0) << c.body;
    }
}

// Index vectors of no number: all updates are for one place, one after another.
TEST(Arrays, ScatterByNoIndex) {
  const auto r = run(kernel("f32[3]", "f32[1]", R"(  %2 = get %0 : f32[3]
  %3 = iota {axis = 0} : i32[3,0]
  %4 = constant {value = f32[1] 0x00002041} : f32[1]
  %5 = scatter_add %4, %3, %2 {update_window_dims = [], inserted_window_dims = [0], scatter_dims_to_operand_dims = [],
      mode = clip} : f32[1]
  store %1, %5
)"),
                     {f32({3}, {1, 2, 3})});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{16}));
}

// Elements chosen along rows, and rows chosen, on one OS thread and on several.
TEST(Arrays, GathersOfManyRows) {
  constexpr int64_t kRows = 400, kColumns = 300;
  const Array x = noise({kRows, kColumns});
  std::vector<int32_t> chosen(kRows * kColumns);
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = static_cast<int32_t>(i * 2654435761u >> 8) % 310 - 5;
  const std::string head =
      "pallasim-ir 1\nmodule \"t\" {machine = generic}\ninput \"x\" : f32[400,300] {space = any}\n"
      "input \"i\" : i32[400,300] {space = any}\noutput \"o\" : f32[400,300] {space = any}\n"
      "body (%0 \"x\": ref<f32[400,300], any>, %1 \"i\": ref<i32[400,300], any>, %2 \"o\": ref<f32[400,300], any>) {\n"
      "  %3 = get %0 : f32[400,300]\n";
  const auto f = x.as<float>();
  for (const char* mode : {"clip", "fill_or_drop"})
    for (const bool rows : {false, true}) {
      const std::string gather =
          rows ? "  %4 = get %1 {view = [index(slice(0, 400), 0)]} : i32[400]\n  %5 = reshape %4 : i32[400,1]\n"
                 "  %6 = gather %3, %5 {offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
                 "slice_sizes = [1, 300], fill = f32 0x3f800000, mode = "
               : "  %4 = get %1 : i32[400,300]\n  %5 = reshape %4 : i32[400,300,1]\n"
                 "  %6 = gather %3, %5 {offset_dims = [], collapsed_slice_dims = [1], start_index_map = [1], "
                 "operand_batching_dims = [0], start_indices_batching_dims = [0], slice_sizes = [1, 1], "
                 "fill = f32 0x3f800000, mode = ";
      std::vector<float> want(f.size());
      for (int64_t i = 0; i < kRows; ++i)
        for (int64_t j = 0; j < kColumns; ++j) {
          const int64_t last = (rows ? kRows : kColumns) - 1;
          const int64_t index = chosen[static_cast<size_t>(i * kColumns + (rows ? 0 : j))],
                        at = std::clamp<int64_t>(index, 0, last);
          const bool drops = index != at && *mode == 'f';
          want[static_cast<size_t>(i * kColumns + j)] =
              drops ? 1 : f[static_cast<size_t>(rows ? at * kColumns + j : i * kColumns + at)];
        }
      for (const int workers : {1, 4}) {
        Options o;
        o.workers = workers;
        const auto r = run(head + gather + mode + "} : f32[400,300]\n  store %2, %6\n  yield\n}\n",
                           {x, i32({kRows, kColumns}, chosen)}, o);
        EXPECT_EQ(r.results[0].as<float>(), want) << mode << " of rows " << rows << " with " << workers;
      }
    }
}

TEST(Refs, MadeInTheKernel) {
  const auto r = run(kernel("f32[4]", "f32[4]", R"(  %2 = get %0 : f32[4]
  %3 = new_ref %2 : ref<f32[4], any>
  %4 = empty_ref : ref<f32[4], any>
  addupdate %3, %2
  %5 = get %3 : f32[4]
  store %4, %5
  %6 = constant {value = bool[4] 0x01000100} : bool[4]
  %7 = masked_swap %4, %2, %6 {mask = $2} : f32[4]
  %8 = freeze %4 : f32[4]
  store %1, %8
)"),
                     {f32({4}, {1, 2, 3, 4})});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{1, 4, 3, 8}));
}

TEST(Hints, ChangeNoValue) {
  const auto r = run(kernel("f32[4]", "f32[4]", R"(  %2 = get %0 : f32[4]
  %3 = constant {value = i32 0x3} : i32[]
  delay %3
  touch %0
  trace_mark {label = "mark"}
  trace_value %3 {label = "value"}
  set_max_registers {n = 1}
  print_layout %2
  %4 = multiple_of %3 {values = [3]} : i32[]
  %5 = max_contiguous %4 : i32[]
  %6 = layout_cast %2 : f32[4]
  %7 = memory_space_constraint %6 : f32[4]
  %8 = broadcast_in_dim %5 {dims = []} : i32[4]
  %9 = convert %8 : f32[4]
  %10 = call %7, %9 (%11: f32[4], %12: f32[4]) {
    %13 = add %11, %12 : f32[4]
    yield %13
  } : f32[4]
  store %1, %10
)"),
                     {f32({4}, {1, 2, 3, 4})});
  EXPECT_EQ(r.results[0].as<float>(), (std::vector<float>{4, 5, 6, 7}));
}

TEST(Random, AKeyIsItsWords) {
  const auto r = run(kernel("u32[2]", "u32[2]", R"(  %2 = get %0 : u32[2]
  %3 = random_wrap %2 : key_fry[]
  %4 = random_clone %3 : key_fry[]
  %5 = random_unwrap %4 : u32[2]
  store %1, %5
)"),
                     {array<uint32_t>(ir::DType::U32, {2}, {7, 9})});
  EXPECT_EQ(r.results[0].as<uint32_t>(), (std::vector<uint32_t>{7, 9}));
}

// Salmon et al.'s known answer for threefry2x32 with 20 rounds: key and counter of all ones.
TEST(Random, ThreefryKnownAnswer) {
  const auto r = run(kernel("u32[2]", "u32[2]", R"(  %2 = get %0 {view = [index(0)]} : u32[]
  %3, %4 = threefry2x32 %2, %2, %2, %2 : u32[], u32[]
  store %1, %3 {view = [index(0)]}
  store %1, %4 {view = [index(1)]}
)"),
                     {array<uint32_t>(ir::DType::U32, {2}, {0xffffffffu, 0})});
  EXPECT_EQ(r.results[0].as<uint32_t>(), (std::vector<uint32_t>{0x1cb996fcu, 0xbb002be7u}));
}

TEST(Grid, AxisSizeOfANamedAxis) {
  const auto r = run(R"(pallasim-ir 1
module "t" {machine = generic}
grid {size = 3, name = "rows"}
output "o_ref" : i32[3] {space = any}
body (%0 "o_ref": ref<i32[3], any>) {
  %1 = axis_size {axis = "rows"} : i32[]
  %2 = axis_index {axis = "rows"} : i32[]
  %3 = add %1, %2 : i32[]
  store %0, %3, %2 {view = [index($2)]}
  yield
}
)",
                     {});
  EXPECT_EQ(r.results[0].as<int32_t>(), (std::vector<int32_t>{3, 4, 5}));
}

// lax clamps starts: an unsigned one is never below zero.
TEST(Arrays, UnsignedStartsBeyondTheEnd) {
  for (const char* type : {"u32", "u8"}) {
    const std::string t = type, big = t == "u32" ? "0xfffffffe" : "0xfe";
    const std::string text =
        "pallasim-ir 1\nmodule \"t\" {machine = generic}\ninput \"x_ref\" : i32[8] {space = any}\noutput \"o_ref\" : "
        "i32[8] {space = any}\n"
        "body (%0 \"x_ref\": ref<i32[8], any>, %1 \"o_ref\": ref<i32[8], any>) {\n  %2 = get %0 : i32[8]\n  %3 = "
        "constant {value = " +
        t + " " + big + "} : " + t +
        "[]\n  %4 = dynamic_slice %2, %3 {sizes = [2]} : i32[2]\n  %5 = constant {value = " + t + " 0x1} : " + t +
        "[]\n  %6 = dynamic_update_slice %2, %4, %5 : i32[8]\n  %7 = dynamic_update_slice %6, %4, %3 : i32[8]\n  store "
        "%1, %7\n  yield\n}\n";
    EXPECT_EQ(run(text, {i32({8}, {0, 1, 2, 3, 4, 5, 6, 7})}).results[0].as<int32_t>(),
              (std::vector<int32_t>{0, 6, 7, 3, 4, 5, 6, 7}));
  }
}

}  // namespace
}  // namespace pallasim::interp::test
