// Values that are stored for a copy alone (passes/forward_copies.cc): results worked out by hand, with the
// rewrite and without it, whenever copies move.
#include <fmt/format.h>

#include "pallasim/interp/rewrites.h"
#include "rows.h"

namespace pallasim::interp::test {
namespace {

// %0: f32[8,4], read; %1: written; %2: memory of 4 rows; %3: other memory of 4 rows; %4: a semaphore; %5 to %7: 0 to 2;
// %10: the first four rows of %0, %11: twice those.
std::string kernel(const std::string& body, const std::string& alias = "") {
  return "pallasim-ir 1\nmodule \"k\" {machine = tpu}\ninput \"a\" : f32[8,4] {space = hbm}\n"
         "output \"o\" : f32[8,4] {space = hbm}\nscratch \"s\" : ref<f32[4,4], vmem>\n"
         "scratch \"t\" : ref<f32[4,4], vmem>\nscratch \"sem\" : ref<dma_sem[], semaphore>\n" +
         alias +
         "body (%0 \"a\": ref<f32[8,4], hbm>, %1 \"o\": ref<f32[8,4], hbm>, %2 \"s\": ref<f32[4,4], vmem>, "
         "%3 \"t\": ref<f32[4,4], vmem>, %4 \"sem\": ref<dma_sem[], semaphore>) {\n"
         "  %5 = constant {value = i32 0x0} : i32[]\n  %6 = constant {value = i32 0x1} : i32[]\n"
         "  %7 = constant {value = i32 0x2} : i32[]\n" +
         body + "  yield\n}\n";
}

constexpr const char* kTwice =
    "  %10 = get %0 {view = [index(slice(0, 4), slice(0, 4))]} : f32[4,4]\n  %11 = add %10, %10 : f32[4,4]\n";

// Rows of memory from `from` on to rows of %1 from `to` on.
std::string start(const std::string& from, const std::string& to, int rows = 4, const char* memory = "%2") {
  return fmt::format(
      "  dma_start {}, %1, %4 {{src = view($0, [{}]), dst = view($1, [index(slice({}, {}), slice(0, 4))]), "
      "dst_sem = view($2, [])}}\n",
      memory, from, to, rows);
}
std::string wait(int rows = 4) {
  return fmt::format(
      "  dma_wait %0, %1, %4 {{src = view($0, [index(slice(0, {0}), slice(0, 4))]), "
      "dst = view($1, [index(slice(0, {0}), slice(0, 4))]), dst_sem = view($2, [])}}\n",
      rows);
}
std::string put(int value, const char* memory = "%2") { return fmt::format("  store {}, %{}\n", memory, value); }

struct Case {
  const char* name;
  std::string text;
  int64_t copies;  // that find their bytes where they take them
  Rows want;
};

std::vector<Case> cases(const Rows& a) {
  const std::string plain = start("", "2") + wait();
  const std::string by_slots =
      "  %20 = constant {value = i32 0x4} : i32[]\n  for %5, %20, %6 (%21: i32[]) {\n"
      "    %22 = rem %21, %7 : i32[]\n    %23 = mul %21, %7 : i32[]\n    %24 = mul %22, %7 : i32[]\n"
      "    %25 = get %0, %23 {view = [index(slice($1, 2), slice(0, 4))]} : f32[2,4]\n"
      "    %26 = add %25, %25 : f32[2,4]\n    store %2, %26, %24 {view = [index(slice($2, 2), slice(0, 4))]}\n"
      "    %27 = mul %21, %7 : i32[]\n"
      "    dma_start %2, %24, %1, %27, %4 {src = view($0, [index(slice($1, 2), slice(0, 4))]), "
      "dst = view($2, [index(slice($3, 2), slice(0, 4))]), dst_sem = view($4, [])}\n" +
      wait(2) + "    yield\n  }\n";
  return {
      {"all of it", kernel(kTwice + put(11) + plain), 1, unwritten(2) + rows_of(a, 0, 4, 2) + unwritten(2)},
      {"a load as it is", kernel(kTwice + put(10) + plain), 1, unwritten(2) + rows_of(a, 0, 4) + unwritten(2)},
      {"slots in a loop", kernel(by_slots), 1, rows_of(a, 0, 8, 2)},
      {"twice", kernel(kTwice + put(11) + plain + put(10) + start("", "0") + wait()), 2,
       rows_of(a, 0, 4) + rows_of(a, 2, 2, 2) + unwritten(2)},
      {"of memory that changes between the store and the copy",
       kernel(kTwice + put(10, "%3") + "  %12 = get %3 : f32[4,4]\n  %13 = add %12, %12 : f32[4,4]\n" + put(13) +
              put(11, "%3") + plain + "  %14 = get %3 : f32[4,4]\n" +
              "  store %1, %14 {view = [index(slice(4, 4), slice(0, 4))]}\n"),
       1, unwritten(2) + rows_of(a, 0, 2, 2) + rows_of(a, 0, 4, 2)},
      {"of the rows above those that the copy writes, in place",
       kernel(std::string("  %12 = get %1 {view = [index(slice(0, 4), slice(0, 4))]} : f32[4,4]\n"
                          "  %13 = add %12, %12 : f32[4,4]\n") +
                  put(13) + start("", "1") + wait(),
              "alias {input = 0, output = 0}\n"),
       1, rows_of(a, 0, 1) + rows_of(a, 0, 4, 2) + rows_of(a, 5, 3)},
      {"to columns, which do not lie side by side",
       kernel(kTwice + std::string("  %12 = slice %11 {start = [0, 0], limit = [4, 2], stride = [1, 1]} : f32[4,2]\n"
                                   "  store %2, %12 {view = [index(slice(0, 4), slice(0, 2))]}\n"
                                   "  dma_start %2, %1, %4 {src = view($0, [index(slice(0, 4), slice(0, 2))]), "
                                   "dst = view($1, [index(slice(0, 4), slice(1, 2))]), dst_sem = view($2, [])}\n"
                                   "  dma_wait %2, %1, %4 {src = view($0, [index(slice(0, 4), slice(0, 2))]), "
                                   "dst = view($1, [index(slice(0, 4), slice(1, 2))]), dst_sem = view($2, [])}\n")),
       1,
       [&] {
         Rows r = unwritten(8);
         for (size_t i = 0; i < 8; ++i) r[i / 2 * 4 + 1 + i % 2] = 2 * a[i / 2 * 4 + i % 2];
         return r;
       }()},
      {"looked at, too",
       kernel(kTwice + put(11) + plain + "  %12 = get %2 : f32[4,4]\n" +
              "  store %1, %12 {view = [index(slice(0, 4), slice(0, 4))]}\n"),
       0, rows_of(a, 0, 4, 2) + rows_of(a, 2, 2, 2) + unwritten(2)},
      {"copied to two places", kernel(kTwice + put(11) + start("", "0") + wait() + start("", "4") + wait()), 0,
       rows_of(a, 0, 4, 2) + rows_of(a, 0, 4, 2)},
      {"stored in two steps",
       kernel(kTwice + put(11) + "  %12 = get %0 {view = [index(slice(6, 1), slice(0, 4))]} : f32[1,4]\n" +
              "  store %2, %12 {view = [index(slice(1, 1), slice(0, 4))]}\n" + plain),
       0, unwritten(2) + rows_of(a, 0, 1, 2) + rows_of(a, 6, 1) + rows_of(a, 2, 2, 2) + unwritten(2)},
      {"another part than is copied",
       kernel(kTwice + put(11) + start("index(slice(1, 2), slice(0, 4))", "0", 2) + wait(2)), 0,
       rows_of(a, 1, 2, 2) + unwritten(6)},
      {"copied under a condition",
       kernel(kTwice + put(11) + "  %20 = convert %6 : bool[]\n  cond %20 () {\n    yield\n  } () {\n  " + plain +
              "    yield\n  }\n"),
       0, unwritten(2) + rows_of(a, 0, 4, 2) + unwritten(2)},
      {"changed by a copy in between",
       kernel(kTwice + put(11) +
              "  dma_start %0, %2, %4 {src = view($0, [index(slice(5, 1), slice(0, 4))]), "
              "dst = view($1, [index(slice(0, 1), slice(0, 4))]), dst_sem = view($2, [])}\n" +
              wait(1) + plain),
       0, unwritten(2) + rows_of(a, 5, 1) + rows_of(a, 1, 3, 2) + unwritten(2)},
      {"added by the copy",
       kernel(kTwice + put(11) +
                  "  dma_start %2, %1, %4 {src = view($0, []), dst = view($1, [index(slice(0, 4), slice(0, 4))]), "
                  "dst_sem = view($2, []), add = true}\n" +
                  wait(),
              "alias {input = 0, output = 0}\n"),
       0, rows_of(a, 0, 4, 3) + rows_of(a, 4, 4)},
  };
}

TEST(StoreForwarding, ValuesThatCopiesTake) {
  const Array a = noise({8, 4}, 1);
  for (const Case& c : cases(a.as<float>()))
    for (const bool fuse : {true, false})
      for (const Options::Copies copies : {Options::Copies::AtIssue, Options::Copies::AtWait}) {
        Options o;
        o.fuse = fuse;
        o.copies = copies;
        const int64_t before = hits(Rewrite::StoreForwarded);
        const Rows got = run(c.text, {a}, o).results[0].as<float>();
        EXPECT_EQ(hits(Rewrite::StoreForwarded) - before, fuse ? c.copies : 0) << c.name;
        expect_rows(got, c.want, fmt::format("{}, fuse {}, copies {}", c.name, fuse, static_cast<int>(copies)));
      }
}

// A slot is stored to again before anybody waited for the copy out of it: which bytes the copy takes depends on when it
// moves, and stays so.
TEST(StoreForwarding, MemoryThatIsUsedAgainTooEarly) {
  const Array a = noise({8, 4}, 1);
  const std::string text = kernel(kTwice + put(11) + start("", "0") + put(10) + start("", "4") + wait() + wait());
  Options o;
  const Rows twice = rows_of(a.as<float>(), 0, 4, 2), once = rows_of(a.as<float>(), 0, 4);
  EXPECT_EQ(run(text, {a}, o).results[0].as<float>(), twice + once);
  o.copies = Options::Copies::AtWait;
  EXPECT_EQ(run(text, {a}, o).results[0].as<float>(), once + once);
}

// Boxes that leave their array: what lies outside is dropped.
TEST(StoreForwarding, BoxesOfGpus) {
  const Array a = noise({8, 4}, 1);
  const std::string text = R"(pallasim-ir 1
module "k" {machine = mosaic_gpu}
mesh "gpu" {kind = gpu, axes = [axis("i", 3)], grid = 1, cluster = 0, threads = 0}
input "a" : f32[8,4] {space = gmem}
output "o" : f32[8,4] {space = gmem}
body "gpu" (%0 "a": ref<f32[8,4], gmem>, %1 "o": ref<f32[8,4], gmem>) {
  run_scoped {allocs = [none]} (%2 "s": ref<f32[3,4], gsmem, cta>) {
    %3 = axis_index {axis = "i"} : i32[]
    %4 = constant {value = i32 0x3} : i32[]
    %5 = constant {value = i32 0x0} : i32[]
    %6 = mul %3, %4 : i32[]
    %7 = get %0 {view = [index(slice(2, 3), slice(0, 4))]} : f32[3,4]
    %8 = add %7, %7 : f32[3,4]
    store %2, %8
    commit_smem
    copy_smem_to_gmem %2, %1, %6 {src = view($0, []), dst = view($1, [index(slice($2, 3), slice(0, 4))]),
        commit_group = true}
    wait_smem_to_gmem %5 {wait_read_only = false}
    yield
  }
  yield
}
)";
  for (const bool fuse : {true, false}) {
    Options o;
    o.fuse = fuse;
    const int64_t before = hits(Rewrite::StoreForwarded);
    const Rows tile = rows_of(a.as<float>(), 2, 3, 2), got = run(text, {a}, o).results[0].as<float>();
    EXPECT_EQ(got, tile + tile + rows_of(a.as<float>(), 2, 2, 2)) << fuse;
    EXPECT_EQ(hits(Rewrite::StoreForwarded) - before, fuse);
  }
}

}  // namespace
}  // namespace pallasim::interp::test
