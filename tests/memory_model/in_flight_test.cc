#include <gtest/gtest.h>

#include "pallasim/memory/shadow/in_flight.h"
#include "views.h"

namespace pallasim::memory::shadow {
namespace {

TEST(InFlight, NobodyTouchesWhatIsNotAwaited) {
  InFlight f;
  const auto copy = [&](int64_t id, int64_t offset, int64_t source_semaphore) {
    Flight x;
    x.site = 1;
    x.sides = {{0, Box(offset, offset + 4), true}, {1, Box(offset, offset + 4), false}};
    if (source_semaphore >= 0) x.after_read = {{Completion::Kind::Semaphore, source_semaphore, 4}};
    x.after_write = {{Completion::Kind::Semaphore, 0, 4}};
    f.start(id, x);
  };
  copy(0, 0, 1);
  copy(1, 4, -1);
  Access source = element(0, false, 2);
  source.instance = 1;
  f.access(source, 0);
  EXPECT_TRUE(f.found().empty());  // both read it
  source.write = true;
  f.access(source, 0);
  ASSERT_EQ(f.found().size(), 1u);
  EXPECT_EQ(f.found()[0], (InFlightUse{0, 1, {0, false, 2, true, false}, false, 4, 1, {0, 4}}));
  f.taken(1, 4);
  source.site = 3;
  f.access(source, 0);
  EXPECT_EQ(f.found().size(), 1u);
  f.taken(0, 6);
  f.access(element(0, false, 4), 0);
  EXPECT_EQ(f.found().size(), 1u);  // the first copy is awaited
  f.access(element(0, false, 5, 4), 0);
  ASSERT_EQ(f.found().size(), 2u);
  EXPECT_EQ(f.found()[1].owed, 2);
  f.taken(0, 2);
  EXPECT_TRUE(f.empty());
}

// A wait for some of the rows of a list: which ones those were is doubtful, and what is left is not awaited.
TEST(InFlight, RowsFallApart) {
  InFlight f;
  const auto rows = [](std::initializer_list<int64_t> places, int64_t units) {
    Flight x;
    x.site = 1;
    x.sides = {{0, Box(0, 4), true, places}};
    x.after_write = {{Completion::Kind::Semaphore, 0, units}};
    x.of_rows = places.size() > 1;
    return x;
  };
  f.start(7, rows({0, 8, 16}, 12));
  f.access(element(0, false, 2, 4), 0);
  f.access(element(0, false, 2, 20), 0);
  EXPECT_TRUE(f.found().empty());  // between the rows, and behind them
  EXPECT_EQ(f.taken_apart(1, 4), std::vector<int64_t>{});
  EXPECT_EQ(f.taken_apart(0, 12), std::vector<int64_t>{});
  ASSERT_EQ(f.taken_apart(0, 4), std::vector<int64_t>{7});
  f.fall_apart(7, {rows({0}, 4), rows({8}, 4), rows({16}, 4)});
  EXPECT_EQ(f.size(), 3u);
  f.taken(0, 4);
  f.access(element(0, false, 3, 0), 0);
  f.access(element(0, false, 4, 8), 0);
  ASSERT_EQ(f.found().size(), 2u);
  EXPECT_EQ(f.found()[0].instead, 9);
  EXPECT_EQ(f.found()[1].instead, -1);
  EXPECT_EQ(f.found()[1].owed, 4);
  f.taken(0, 8);
  EXPECT_TRUE(f.empty());
}

TEST(InFlight, WhatIsGivenBackIsFound) {
  InFlight f;
  Flight copy;
  copy.site = 5;
  copy.sides = {{1, Box(0, 64), false}, {2, Box(128, 192), true}};
  copy.after_write = {{Completion::Kind::Semaphore, 9, 64, INT64_MAX}};
  f.start(0, copy);
  f.freed(2, 0, 128, 3);  // beside it
  EXPECT_TRUE(f.found().empty());
  f.freed(2, 160, 256, 3);
  ASSERT_EQ(f.found().size(), 1u);
  EXPECT_EQ(f.found()[0], (InFlightUse{0, 5, {3, true, 5, true, false}, true, 64, 2, {160, 256}, true}));
  // What comes to lie there is free; what the copy reads is not, until it is awaited.
  Access write = element(0, true, 6, 128);
  write.instance = 2;
  f.access(write, 3);
  EXPECT_EQ(f.found().size(), 1u);
  Access source = element(0, true, 6);
  source.instance = 1;
  f.access(source, 3);
  EXPECT_EQ(f.found().size(), 2u);
  f.taken(9, 64);
  EXPECT_TRUE(f.empty());
}

TEST(InFlight, PhasesAndGroupsFree) {
  InFlight f;
  Flight load;
  load.site = 1;
  load.sides = {{0, Box(0, 4), true}};
  load.after_write = {{Completion::Kind::Barrier, 3}};
  f.start(0, load);
  f.saw_phase(3, 5);
  EXPECT_FALSE(f.empty());
  f.counted(0, 3, 6);
  f.saw_phase(3, 5);
  EXPECT_FALSE(f.empty());
  f.saw_phase(3, 6);
  EXPECT_TRUE(f.empty());
  Flight store;
  store.site = 2;
  store.sides = {{0, Box(0, 4), false}, {1, Box(0, 4), true}};
  store.after_read = store.after_write = {{Completion::Kind::Group, 7, 1, 0}};
  f.start(1, store);
  f.access(element(0, true, 3), 0);
  EXPECT_EQ(f.found().size(), 1u);
  f.saw_groups(7, 0, true);
  f.access(element(0, true, 4), 0);
  EXPECT_EQ(f.found().size(), 1u);
  EXPECT_FALSE(f.empty());
  f.saw_groups(7, 0, false);
  EXPECT_TRUE(f.empty());
}

TEST(InFlight, WhatAThreadLeavesToItselfIsFound) {
  const auto store = [](Completion::Kind kind) {
    Flight x;
    x.site = 2;
    x.sides = {{0, Box(0, 4), false}, {1, Box(0, 4), true}};
    x.after_read = x.after_write = {{kind, 7, 1, 0}};
    return x;
  };
  for (const Completion::Kind kind : {Completion::Kind::Group, Completion::Kind::Semaphore}) {
    InFlight f;
    f.start(0, store(kind));
    f.abandoned(1, 3);  // another one
    EXPECT_TRUE(f.found().empty());
    f.abandoned(0, 3);
    f.abandoned(0, 3);
    ASSERT_EQ(f.found().size(), kind == Completion::Kind::Group ? 1u : 0u);  // for a semaphore others may wait
    if (kind != Completion::Kind::Group) continue;
    EXPECT_EQ(f.found()[0], (InFlightUse{0, 2, {3, true, 2, false, false}, false, 1, 0, {0, 4}, true, kind}));
  }
  InFlight read;
  read.start(0, store(Completion::Kind::Group));
  read.saw_groups(7, 0, true);
  read.abandoned(0, 3);
  EXPECT_TRUE(read.found().empty());
}

}  // namespace
}  // namespace pallasim::memory::shadow
