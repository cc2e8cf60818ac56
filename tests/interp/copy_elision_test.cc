// Memory whose bytes may stay where copies get them (passes/forward_copies.cc): results worked out by hand, with
// the rewrite and without it, wherever copies begin and end and whatever happens to their source.
#include <fmt/format.h>

#include "pallasim/interp/rewrites.h"
#include "rows.h"

namespace pallasim::interp::test {
namespace {

// %0 and %1: f32[8,4], read; %2: written; %3: memory of 4 rows that copies bring; %4: a semaphore; %5, %6: 0 and 1.
std::string kernel(const std::string& body, const std::string& alias = "") {
  return "pallasim-ir 1\nmodule \"k\" {machine = tpu}\ninput \"a\" : f32[8,4] {space = hbm}\n"
         "input \"b\" : f32[8,4] {space = hbm}\noutput \"o\" : f32[8,4] {space = hbm}\n"
         "scratch \"s\" : ref<f32[4,4], vmem>\nscratch \"sem\" : ref<dma_sem[], semaphore>\n" +
         alias +
         "body (%0 \"a\": ref<f32[8,4], hbm>, %1 \"b\": ref<f32[8,4], hbm>, %2 \"o\": ref<f32[8,4], hbm>, "
         "%3 \"s\": ref<f32[4,4], vmem>, %4 \"sem\": ref<dma_sem[], semaphore>) {\n"
         "  %5 = constant {value = i32 0x0} : i32[]\n  %6 = constant {value = i32 0x1} : i32[]\n" +
         body + "  yield\n}\n";
}

// `rows` rows of an operand from `from` on to the memory's from `to` on, and the wait for them.
std::string copy(int operand, int from, int to, int rows, const char* memory = "%3", const char* more = "") {
  std::string text;
  for (const char* name : {"dma_start", "dma_wait"})
    text += fmt::format(
        "  {0} %{1}, {5}, %4 {{src = view($0, [index(slice({2}, {4}), slice(0, 4))]), "
        "dst = view($1, [index(slice({3}, {4}), slice(0, 4))]), dst_sem = view($2, []){6}}}\n",
        name, operand, from, to, rows, memory, std::string_view(name) == "dma_start" ? more : "");
  return text;
}

std::string load(int id, int from, int rows, const char* memory = "%3") {
  return fmt::format("  %{0} = get {3} {{view = [index(slice({1}, {2}), slice(0, 4))]}} : f32[{2},4]\n", id, from, rows,
                     memory);
}
std::string store(int id, int to, int rows) {
  return fmt::format("  store %2, %{0} {{view = [index(slice({1}, {2}), slice(0, 4))]}}\n", id, to, rows);
}

struct Case {
  const char* name;
  std::string text;
  int64_t memories;  // whose bytes may stay away
  Rows want;
};

std::vector<Case> cases(const Rows& a, const Rows& b) {
  const std::string whole = copy(0, 2, 0, 4) + load(10, 0, 4) + store(10, 0, 4);
  const std::string scoped =
      "  %40 = constant {value = i32 0x2} : i32[]\n"
      "  for %5, %40, %6 (%41: i32[]) {\n    run_scoped (%42 \"t\": ref<f32[4,4], vmem>) {\n" +
      load(43, 0, 4, "%42") + copy(0, 0, 0, 4, "%42") + load(44, 0, 4, "%42") + store(43, 0, 4) + store(44, 4, 4) +
      "      yield\n    }\n    yield\n  }\n";
  return {
      {"as it came", kernel(whole), 1, rows_of(a, 2, 4) + unwritten(4)},
      {"a part of it, and one that nobody brought", kernel(copy(1, 0, 1, 2) + load(10, 0, 4) + store(10, 0, 4)), 1,
       unwritten(1) + rows_of(b, 0, 2) + unwritten(1) + unwritten(4)},
      {"two halves of two arrays, looked at as one and alone",
       kernel(copy(0, 4, 0, 2) + copy(1, 1, 2, 2) + load(10, 2, 2) + store(10, 4, 2) + load(11, 0, 4) +
              store(11, 0, 4)),
       1, rows_of(a, 4, 2) + rows_of(b, 1, 2) + rows_of(b, 1, 2) + unwritten(2)},
      {"over the middle of what came before",
       kernel(copy(0, 0, 0, 4) + copy(1, 5, 1, 2) + load(10, 0, 4) + store(10, 0, 4) + load(11, 3, 1) +
              store(11, 4, 1)),
       1, rows_of(a, 0, 1) + rows_of(b, 5, 2) + rows_of(a, 3, 1) + rows_of(a, 3, 1) + unwritten(3)},
      {"columns, which do not lie side by side",
       kernel("  dma_start %0, %3, %4 {src = view($0, [index(slice(0, 4), slice(0, 2))]), "
              "dst = view($1, [index(slice(0, 4), slice(2, 2))]), dst_sem = view($2, [])}\n"
              "  dma_wait %0, %3, %4 {src = view($0, [index(slice(0, 4), slice(0, 2))]), "
              "dst = view($1, [index(slice(0, 4), slice(2, 2))]), dst_sem = view($2, [])}\n" +
              load(10, 0, 1) + store(10, 0, 1)),
       1, Rows{kNobody, kNobody, a[0], a[1]} + unwritten(7)},
      {"added to what came before",
       kernel(copy(0, 0, 0, 4) + copy(1, 0, 0, 4, "%3", ", add = true") + load(10, 0, 4) + store(10, 0, 4)), 1,
       [&] {
         Rows sum = rows_of(a, 0, 4);
         for (size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
         return sum;
       }() +
           unwritten(4)},
      {"of an array that is an output, too, and changes",
       kernel(copy(0, 0, 0, 4) + load(10, 0, 4) + store(10, 4, 4) + copy(0, 4, 0, 4) + load(11, 4, 4, "%2") +
                  store(11, 0, 4) + "  %12 = add %11, %11 : f32[4,4]\n" + store(12, 4, 4) + load(13, 0, 4) +
                  store(13, 0, 4),
              "alias {input = 0, output = 0}\n"),
       1,
       rows_of(a, 0, 4) +
           [&] {
             Rows twice = rows_of(a, 0, 4);
             for (float& x : twice) x *= 2;
             return twice;
           }()},
      {"a scope that begins again: nothing came yet", kernel(scoped), 1, unwritten(4) + rows_of(a, 0, 4)},
      {"written by a store, too: always there",
       kernel(copy(0, 0, 0, 4) + load(10, 0, 4) + "  store %3, %10\n" + load(11, 0, 4) + store(11, 0, 4)), 0,
       rows_of(a, 0, 4) + unwritten(4)},
  };
}

TEST(CopyElision, TheBytesThatCopiesBring) {
  const Array a = noise({8, 4}, 1), b = noise({8, 4}, 2);
  for (const Case& c : cases(a.as<float>(), b.as<float>()))
    for (const bool fuse : {true, false}) {
      Options o;
      o.fuse = fuse;
      const int64_t before = hits(Rewrite::CopyElided);
      const Rows got = run(c.text, {a, b}, o).results[0].as<float>();
      EXPECT_EQ(hits(Rewrite::CopyElided) - before, fuse ? c.memories : 0) << c.name;
      expect_rows(got, c.want, fmt::format("{}, fuse {}", c.name, fuse));
    }
}

}  // namespace
}  // namespace pallasim::interp::test
