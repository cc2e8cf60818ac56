// Shares, servers, transfers and figures: cases that a hand can compute.
#include "pallasim/hw/timing.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace pallasim::hw {
namespace {

std::vector<Transfers::Done> all(Transfers& t) {
  std::vector<Transfers::Done> r;
  Transfers::Done d;
  while (t.next() < Transfers::kNever)
    if (t.step(&d)) r.push_back(d);
  return r;
}

TEST(FairShare, OneTakesWorkOverRate) {
  FairShare s(100);
  s.add(1, 50, 7);
  EXPECT_DOUBLE_EQ(s.next(), 1.5);
  EXPECT_EQ(s.take(), 7);
  EXPECT_EQ(s.next(), FairShare::kNever);
  EXPECT_DOUBLE_EQ(s.busy(), 0.5);
  EXPECT_DOUBLE_EQ(s.served(), 50);
}

TEST(FairShare, TwoHaveHalfEach) {
  FairShare s(100);
  s.add(0, 100, 1);
  s.add(0, 50, 2);
  EXPECT_DOUBLE_EQ(s.next(), 1);  // 50 at half the rate
  EXPECT_EQ(s.take(), 2);
  EXPECT_DOUBLE_EQ(s.next(), 1.5);  // its other half alone
  EXPECT_EQ(s.take(), 1);
}

TEST(FairShare, WhoComesLaterSharesWhatIsLeft) {
  FairShare s(100);
  s.add(0, 100, 1);
  s.add(0.5, 100, 2);  // the first one has 50 left
  EXPECT_DOUBLE_EQ(s.next(), 1.5);
  EXPECT_EQ(s.take(), 1);
  EXPECT_DOUBLE_EQ(s.next(), 2);
  EXPECT_EQ(s.take(), 2);
  s.add(10, 100, 3);  // and nothing of it is remembered
  EXPECT_DOUBLE_EQ(s.next(), 11);
}

TEST(Server, OneBehindTheOther) {
  Server s;
  EXPECT_DOUBLE_EQ(s.take(1, 2), 3);
  EXPECT_DOUBLE_EQ(s.take(2, 1), 4);
  EXPECT_DOUBLE_EQ(s.take(10, 1), 11);
  EXPECT_DOUBLE_EQ(s.busy(), 4);
}

TEST(Transfers, LatencyAndBytesOverBandwidth) {
  Transfers t;
  const Transfers::Use use{t.add("memory", 10), 20};
  t.begin(1, 0.5, &use, 1, 3);
  const auto done = all(t);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tag, 3);
  EXPECT_DOUBLE_EQ(done[0].time, 1 + 0.5 + 2);
  EXPECT_EQ(done[0].resource, use.resource);
}

TEST(Transfers, TheSlowestOfItsResourcesCounts) {
  Transfers t;
  const Transfers::Use uses[] = {{t.add("port", 10), 20}, {t.add("memory", 5), 20}};
  t.begin(0, 1, uses, 2, 0);
  const auto done = all(t);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_DOUBLE_EQ(done[0].time, 5);
  EXPECT_EQ(t.name(done[0].resource), "memory");
}

TEST(Transfers, WithoutResourcesLatencyAlone) {
  Transfers t;
  t.begin(2, 3, nullptr, 0, 9);
  const auto done = all(t);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_DOUBLE_EQ(done[0].time, 5);
  EXPECT_EQ(done[0].resource, -1);
}

// Of n transfers at once the last is through when all bytes have passed, whatever their order.
TEST(Transfers, BandwidthIsSharedAndKept) {
  Transfers t;
  const int memory = t.add("memory", 10);
  for (int i = 0; i < 5; ++i) {
    const Transfers::Use use{memory, 10.0 * (i + 1)};
    t.begin(0, 0, &use, 1, i);
  }
  const auto done = all(t);
  ASSERT_EQ(done.size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(done[static_cast<size_t>(i)].tag, i);
  EXPECT_NEAR(done.back().time, 15, 1e-12);
  EXPECT_NEAR(t.busy(memory), 15, 1e-12);
}

TEST(Transfers, AQueueServesAsTheyCome) {
  Transfers t;
  const Transfers::Use use{t.add("memory", 10, Transfers::Order::Queued), 10};
  t.begin(0, 0.5, &use, 1, 1);
  t.begin(0, 0.5, &use, 1, 2);
  t.begin(5, 0.5, &use, 1, 3);
  const auto done = all(t);
  ASSERT_EQ(done.size(), 3u);
  EXPECT_DOUBLE_EQ(done[0].time, 1.5);
  EXPECT_DOUBLE_EQ(done[1].time, 2.5);
  EXPECT_DOUBLE_EQ(done[2].time, 6.5);
  EXPECT_DOUBLE_EQ(t.busy(use.resource), 3);
  EXPECT_DOUBLE_EQ(t.free(use.resource), 6);
}

TEST(BoxCache, TheOldestGoFirst) {
  BoxCache c(20);
  EXPECT_FALSE(c.touch(1, 10, 0).hit);
  EXPECT_FALSE(c.touch(2, 10, 0).hit);
  EXPECT_TRUE(c.touch(1, 10, 0).hit);   // 2 is the oldest now
  EXPECT_FALSE(c.touch(3, 10, 0).hit);  // and goes
  EXPECT_TRUE(c.touch(1, 10, 0).hit);
  EXPECT_FALSE(c.touch(2, 10, 0).hit);
}

TEST(TimingFigures, EveryChipHasItsOwnWithASource) {
  for (const Profile& p : profiles()) {
    const auto f = timing_figures(p);
    if (p.family == Family::Generic) {
      EXPECT_EQ(f, nullptr);
      continue;
    }
    ASSERT_NE(f, nullptr) << p.name;
    for (const TimingFigure& x : f->all()) EXPECT_FALSE(x.source.empty()) << p.name << " " << x.name;
    EXPECT_GT((*f)("clock"), 1e8) << p.name;
    EXPECT_THROW((*f)("no such figure"), std::out_of_range);
  }
}

// What is counted of an operation is found by its name.
TEST(TimingFigures, CountedInstructionsAreOfOperations) {
  const auto f = timing_figures(*find_profile("tpu-v5e"));
  EXPECT_DOUBLE_EQ((*f)("valu_sin"), 148);
  EXPECT_DOUBLE_EQ((*f)("valu_div_i32"), 326);
  EXPECT_DOUBLE_EQ((*f)("eup_exp"), 1);
  EXPECT_EQ(timing_figures(*find_profile("gpu-h100"))->find("valu_sin"), nullptr);
  size_t counted = 0;
  for (const TimingFigure& x : f->all()) {
    if (x.source.find("bundles.py") == std::string::npos) continue;
    ++counted;
    std::string name = x.name.substr(x.name.find('_') + 1);
    if (name.starts_with("convert_") || name.starts_with("select")) continue;  // of two types; of several operations
    for (const char* end : {"_bf16", "_i32", "_i16", "_lanes"})
      if (name.ends_with(end)) name.resize(name.size() - std::string_view(end).size());
    ir::OpCode op;
    EXPECT_TRUE(ir::parse_op(name, &op) || name == "broadcast") << x.name;
  }
  EXPECT_GT(counted, 100u);
}

TEST(TimingFigures, UseIsKeptAndScaleIsOfOne) {
  const auto f = timing_figures(*find_profile("tpu-v5e"));
  EXPECT_TRUE(f->used().empty());
  const double clock = (*f)("clock");
  ASSERT_EQ(f->used().size(), 1u);
  EXPECT_EQ(f->used()[0]->name, "clock");
  EXPECT_DOUBLE_EQ(f->scaled("clock", 1.25)("clock"), 1.25 * clock);
  EXPECT_DOUBLE_EQ(f->scaled("clock", 1.25)("valu_slots"), (*f)("valu_slots"));
}

TEST(TimingFigures, MalformedFilesAreRefused) {
  const std::string head = "name,value,unit,status,source,note\n";
  EXPECT_EQ(parse_timing("x", head + "clock,1e9,Hz,measured,here,\n").size(), 1u);
  EXPECT_THROW(parse_timing("x", "name,value\n"), std::runtime_error);
  EXPECT_THROW(parse_timing("x", head + "clock,fast,Hz,measured,here,\n"), std::runtime_error);
  EXPECT_THROW(parse_timing("x", head + "clock,1e9,Hz,sure,here,\n"), std::runtime_error);
  EXPECT_THROW(parse_timing("x", head + "clock,1e9,Hz,measured,,\n"), std::runtime_error);
  EXPECT_THROW(parse_timing("x", head + "clock,1,Hz,measured,a,\nclock,2,Hz,measured,a,\n"), std::runtime_error);
}

}  // namespace
}  // namespace pallasim::hw
