// Pages against plain vectors: what is written, saved and put back at random is what it was.
#include "pallasim/memory/pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pallasim::memory {
namespace {

using Bytes = std::vector<std::byte>;
constexpr int64_t kChunkBytes = Pages::kPage * Pages::kChunk;

TEST(Pages, AValueIsItsBytesAtEverySize) {
  std::mt19937 random(1);
  for (const int64_t size : {int64_t{0}, int64_t{1}, Pages::kPage - 1, Pages::kPage, Pages::kPage + 1, kChunkBytes - 1,
                             kChunkBytes, kChunkBytes + 1, 3 * kChunkBytes + 77}) {
    Bytes bytes(static_cast<size_t>(size));
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    const Pages p(bytes);
    EXPECT_EQ(p.size(), size);
    EXPECT_TRUE(p.equals(bytes));
    EXPECT_TRUE(p == Pages(bytes)) << "bytes count, not whose pages they are";
    Bytes back(bytes.size());
    p.load(back);
    EXPECT_EQ(back, bytes);
    for (const int64_t at : {int64_t{0}, size / 2, size - 1}) {
      if (size == 0) continue;
      bytes[static_cast<size_t>(at)] ^= std::byte{1};
      EXPECT_FALSE(p.equals(bytes)) << at;
      EXPECT_FALSE(p == Pages(bytes)) << at;
      bytes[static_cast<size_t>(at)] ^= std::byte{1};
    }
  }
}

// Memory that is written at random, saved by marks or by comparison, and put back to any moment: with marks kept since
// the last of either, as who saves keeps them.
TEST(Pages, MomentsAreWhatMemoryWas) {
  std::mt19937 random(2);
  for (const int64_t size : {int64_t{300}, 5 * Pages::kPage + 5, 2 * kChunkBytes + 3 * Pages::kPage + 1}) {
    Bytes memory(static_cast<size_t>(size));
    std::vector<Bytes> was = {memory};
    std::vector<Pages> moments = {Pages(memory)};
    Pages last = moments[0];
    PageMarks marks(size);
    for (int i = 0; i < 400; ++i) {
      for (int writes = static_cast<int>(random() % 4); writes > 0; --writes) {
        const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(size));
        const int64_t most = random() % 8 == 0 ? size : 40;
        const int64_t end = std::min<int64_t>(size, begin + 1 + static_cast<int64_t>(random()) % most);
        std::fill(memory.begin() + begin, memory.begin() + end, static_cast<std::byte>(random()));
        marks.mark(begin, end);
      }
      if (random() % 3 == 0) {
        const size_t to = random() % moments.size();
        moments[to].load(memory, &last, &marks);
        ASSERT_EQ(memory, was[to]);
        last = moments[to];
      } else {
        const Pages now = last.updated(memory, random() % 4 == 0 ? nullptr : &marks);
        ASSERT_TRUE(now.equals(memory));
        ASSERT_EQ(now == last, last.equals(memory));
        moments.push_back(now);
        was.push_back(memory);
        last = now;
      }
      marks.clear();
    }
    for (size_t i = 0; i < was.size(); ++i) ASSERT_TRUE(moments[i].equals(was[i])) << "a later moment changed it";
    for (int i = 0; i < 100; ++i) {
      const size_t a = random() % was.size(), b = random() % was.size();
      ASSERT_EQ(moments[a] == moments[b], was[a] == was[b]);
    }
  }
}

// What is not marked is taken to be as it was: marks are what callers answer for.
TEST(Pages, WhatNobodyMarkedIsNotLookedAt) {
  Bytes memory(static_cast<size_t>(2 * kChunkBytes));
  const Pages first(memory);
  memory[0] = memory[static_cast<size_t>(Pages::kPage)] = std::byte{1};
  PageMarks marks(2 * kChunkBytes);
  marks.mark(Pages::kPage, Pages::kPage + 1);
  const Pages by_marks = first.updated(memory, &marks);
  EXPECT_FALSE(by_marks.equals(memory));
  EXPECT_TRUE(first.updated(memory).equals(memory));
  memory[0] = std::byte{0};
  EXPECT_TRUE(by_marks.equals(memory));
}

TEST(Pages, MarksOutsideAreNobodys) {
  PageMarks marks(100);
  marks.mark(-50, 0);
  marks.mark(100, 5000);
  EXPECT_EQ(marks.chunk(0), 0u);
  marks.mark(-50, 1);
  EXPECT_EQ(marks.chunk(0), 1u);
}

}  // namespace
}  // namespace pallasim::memory
