#include <gtest/gtest.h>

#include <map>

#include "pallasim/memory/shadow/regions.h"
#include "pallasim/memory/shadow/written.h"
#include "views.h"

namespace pallasim::memory::shadow {
namespace {

TEST(Box, SetsOfBytes) {
  Random rng(1);
  for (int round = 0; round < 20000; ++round) {
    const ArrayView v = rng.view(), w = rng.view();
    const Bytes bv = bytes_of(v), bw = bytes_of(w);
    const Box a = box_of(v), b = box_of(w);
    ASSERT_EQ(bytes_of(a), bv) << round;
    ASSERT_EQ(a.empty(), bv.empty());
    ASSERT_EQ(overlap(a, b), meet(bv, bw)) << round;
    if (surely_inside(a, b)) { ASSERT_TRUE(std::includes(bv.begin(), bv.end(), bw.begin(), bw.end())) << round; }
    if (!bv.empty()) { ASSERT_EQ(a.hull(), (Range{*bv.begin(), *bv.rbegin() + 1})); }
    if (a == b) {
      ASSERT_EQ(bv, bw);
      ASSERT_EQ(a.hash(), b.hash());
    }
  }
}

TEST(Box, WhatIsLeftBesideABlock) {
  Random rng(7);
  int cut = 0;
  for (int round = 0; round < 50000; ++round) {
    const Box a = box_of(rng.view()), b = box_of(rng.view());
    std::vector<Box> rest;
    if (a.empty() || b.empty() || !surely_inside(a, b) || !a.nested() || !b.nested() || !subtract(a, b, &rest))
      continue;
    ++cut;
    Bytes sum = bytes_of(b);
    for (const Box& r : rest)
      for (int64_t x : bytes_of(r)) ASSERT_TRUE(sum.insert(x).second) << round;
    ASSERT_EQ(sum, bytes_of(a)) << round;
  }
  EXPECT_GT(cut, 1000);
}

TEST(Box, OneFormForOneSet) {
  const int64_t whole[] = {4, 8}, dense[] = {8, 1}, turned_dims[] = {8, 4}, turned[] = {1, 8}, back[] = {-8, -1};
  EXPECT_EQ(Box(0, whole, dense, 2, 4), Box(0, 128));
  EXPECT_EQ(Box(0, turned_dims, turned, 2, 4), Box(0, 128));
  EXPECT_EQ(Box(124, whole, back, 2, 4), Box(0, 128));
  const int64_t part[] = {4, 2};
  const Box p(0, part, dense, 2, 4);
  EXPECT_EQ(p.rank, 1);
  EXPECT_EQ(p.run, 8);
  EXPECT_TRUE(surely_inside(Box(0, 128), p));
  EXPECT_FALSE(surely_inside(p, Box(0, 128)));
}

// How often each byte was visited, and by whom last.
struct Count {
  int64_t visits = 0, last = -1;
  int64_t heap_bytes() const { return 0; }
  bool operator==(const Count&) const = default;
};

void visit_view(const ArrayView& v, bool forgets, int64_t n, Regions<Count>* regions, std::map<int64_t, Count>* naive) {
  const Bytes bytes = bytes_of(v);
  const auto next = [&](const Count& c) { return forgets ? Count{1, n} : Count{c.visits + 1, c.last}; };
  regions->visit(box_of(v), [&](Count& c, Range hull) {
    EXPECT_GE(hull.begin, *bytes.begin());
    EXPECT_LE(hull.end, *bytes.rbegin() + 1);
    c = next(c);
  });
  for (int64_t b : bytes) (*naive)[b] = next((*naive)[b]);
}

TEST(Regions, EveryByteHasItsState) {
  Random rng(2);
  for (int round = 0; round < 400; ++round) {
    Regions<Count> regions;
    std::map<int64_t, Count> naive;
    for (int64_t n = 0; n < 40; ++n) {
      if (rng.below(12) == 0) {
        const int64_t begin = rng.below(220), end = begin + rng.below(100);
        regions.forget(begin, end);
        std::erase_if(naive, [&](const auto& e) { return e.first >= begin && e.first < end; });
        continue;
      }
      const bool forgets = rng.below(2) == 0;
      if (rng.below(3) == 0) {  // at places of its own, of which some may be one
        const int64_t size = int64_t{1} << rng.below(7), step = rng.below(3) == 0 ? 1 : size;
        std::vector<int64_t> places;
        for (int64_t i = rng.below(12); i >= 0; --i) places.push_back(rng.below(12) * step - (step == 1 ? 20 : 0));
        regions.visit(Box(0, size), places, [&](Count& c, Range) {
          c = forgets ? Count{1, n} : Count{c.visits + 1, c.last};
        });
        for (const int64_t p : places)
          for (int64_t b = p; b < p + size; ++b)
            naive[b] = forgets ? Count{1, n} : Count{naive[b].visits + 1, naive[b].last};
      } else {
        visit_view(rng.view(), forgets, n, &regions, &naive);
      }
      std::map<int64_t, Count> got;
      for (int64_t b = -200; b < 1000; ++b) regions.look(Box(b, b + 1), [&](const Count& c, Range) { got[b] = c; });
      ASSERT_EQ(got.size(), naive.size()) << round << " " << n;
      for (const auto& [b, c] : naive) ASSERT_EQ(got.at(b), c) << round << " " << n << " byte " << b;
    }
    const Regions<Count> copy = regions;
    EXPECT_EQ(copy, regions);
    regions.forget(-200, 3000);
    EXPECT_EQ(regions.regions() + regions.runs(), 0u);
  }
}

TEST(Regions, BlocksStayBlocks) {
  Regions<Count> regions;
  const int64_t dims[] = {128, 128}, strides[] = {1024, 1};
  const auto block = [&](int64_t i, int64_t j) { return Box((i * 128 * 1024 + j * 128) * 4, dims, strides, 2, 4); };
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 8; ++j) regions.visit(block(i, j), [](Count& c, Range) { ++c.visits; });
  EXPECT_EQ(regions.regions(), 64u);
  EXPECT_EQ(regions.runs(), 0u);
  // The whole array: its blocks stay where they differ from each other, and become one where they do not.
  regions.visit(block(3, 3), [](Count& c, Range) { ++c.visits; });
  regions.visit(Box(0, 4 << 20), [](Count& c, Range) { ++c.visits; });
  EXPECT_EQ(regions.regions(), 64u);
  regions.visit(Box(0, 4 << 20), [](Count& c, Range) { c = {}; });
  EXPECT_EQ(regions.regions(), 1u);
  // A block of it, wherever: beside it are boxes, of which other blocks are parts.
  regions.visit(block(3, 5), [](Count& c, Range) { ++c.visits; });
  EXPECT_EQ(regions.regions(), 5u);  // and above, below, to both sides
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 8; ++j) regions.visit(block(j, i), [&](Count& c, Range) { c.last = i * 8 + j; });
  EXPECT_EQ(regions.regions(), 64u);
  EXPECT_EQ(regions.runs(), 0u);
  // A box across two of them: rows.
  regions.visit(Box(4 * 64, 4 * 192), [](Count& c, Range) { ++c.visits; });
  EXPECT_EQ(regions.regions(), 62u);
  EXPECT_EQ(regions.runs(), 258u);
}

TEST(Regions, ElementsGrowTogether) {
  Regions<Count> regions;
  for (int64_t i = 0; i < 1000; ++i) regions.visit(Box(4 * i, 4 * i + 4), [](Count& c, Range) { c.visits = 1; });
  EXPECT_EQ(regions.runs(), 1u);
  for (int64_t i = 0; i < 1000; ++i) regions.visit(Box(4 * i, 4 * i + 4), [](Count& c, Range) { c.visits = 2; });
  EXPECT_EQ(regions.runs(), 1u);
  EXPECT_EQ(regions.regions(), 0u);
  EXPECT_LT(regions.memory(), 1000);
}

// Elements that lists name are kept by element, in as few states as they have; a box over all of them is one region.
TEST(Regions, ElementsOfLists) {
  Regions<Count> regions;
  std::vector<int64_t> places(4096);
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i * 2741 % places.size()) * 4;
  int64_t asked = 0;
  for (size_t i = 0; i < places.size(); i += 128)
    regions.visit(Box(0, 4), {places.data() + i, 128}, [&](Count& c, Range) { ++c.visits, ++asked; });
  EXPECT_EQ(asked, 32);
  EXPECT_LT(regions.memory(), 6 * 4096);
  regions.visit(Box(0, 4 * 4096), [&](Count& c, Range) { EXPECT_EQ(c.visits, 1), c = {}; });
  EXPECT_EQ(regions.regions(), 1u);
  EXPECT_EQ(regions.runs(), 0u);
}

// What was written by element in any order is one run in the end.
TEST(Written, ElementsOfLists) {
  Written w;
  std::vector<int64_t> places(4096);
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i * 2741 % places.size()) * 4;
  w.write(Box(0, 4), {places.data(), 4095});
  EXPECT_EQ(w.missing(Box(0, 4 * 4096), 4), (Written::Missing{1, places.back()}));
  EXPECT_EQ(w.around(places.front()).begin, 0);
  w.write(Box(0, 4), {places.data() + 4095, 1});
  EXPECT_EQ(w.runs(), 1u);
  EXPECT_EQ(w.around(8), (Range{0, 4 * 4096}));
}

TEST(Written, AgreesWithBytes) {
  Random rng(4);
  for (int round = 0; round < 300; ++round) {
    Written w;
    Bytes naive;
    for (int n = 0; n < 40; ++n) {
      const ArrayView v = rng.view();
      const Bytes bytes = bytes_of(v);
      const Box box = box_of(v);
      const int64_t what = rng.below(8);
      if (what < 4) {
        w.write(box);
        naive.insert(bytes.begin(), bytes.end());
      } else if (what == 4) {
        w.clear(box);
        for (int64_t b : bytes) naive.erase(b);
      } else if (what == 5) {  // elements, of which some lie around the border of a page
        std::vector<int64_t> places;
        for (int64_t i = rng.below(40), base = rng.below(2) * 900; i >= 0; --i)
          places.push_back(base + rng.below(64) * 4);
        w.write(Box(0, 4), places);
        for (const int64_t p : places)
          for (int64_t b = p; b < p + 4; ++b) naive.insert(b);
      }
      ASSERT_EQ(w.any(box), meet(bytes, naive));
      Written::Missing want;
      for (const Range& r : box.rows())
        for (int64_t at = r.begin; at < r.end; at += 4)
          if (!naive.count(at)) {
            if (want.first < 0) want.first = at;
            ++want.elements;
          }
      ASSERT_EQ(w.missing(box, 4), want) << round << " " << n;
    }
  }
}

}  // namespace
}  // namespace pallasim::memory::shadow
