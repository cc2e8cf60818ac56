#include "pallasim/hw/chips.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>

namespace pallasim::hw {
namespace {

TEST(Chips, EveryFigureHasASourceAndAKnownUnit) {
  ASSERT_EQ(chips().size(), 10u);
  const std::set<std::string> units = {
      "",       "B",       "B/s",         "op/s",       "op/cycle",   "B/cycle", "blocks/s",          "Hz",
      "s",      "cycles",  "TensorCores", "SMs",        "elements",   "columns", "buffers of 8 rows", "warps",
      "blocks", "threads", "x 32 bit",    "dimensions", "bf16 passes"};
  for (const Chip& c : chips())
    for (const Figure& f : c.figures) {
      EXPECT_FALSE(f.source.empty()) << c.name << ' ' << f.field;
      EXPECT_TRUE(units.count(f.unit)) << c.name << ' ' << f.field << ": " << f.unit;
    }
}

// A field means the same thing on every chip that has it.
TEST(Chips, AFieldHasOneUnitAndScopePerFamily) {
  for (const char* family : {"tpu", "gpu"}) {
    std::map<std::string, std::pair<std::string, std::string>> seen;
    for (const Chip& c : chips()) {
      if (c.find("family")->text != family) continue;
      for (const Figure& f : c.figures) {
        const auto [it, first] = seen.try_emplace(f.field, f.unit, f.scope);
        EXPECT_EQ(it->second, std::make_pair(f.unit, f.scope)) << c.name << ' ' << f.field;
      }
    }
  }
}

TEST(Chips, UnknownStaysUnknown) {
  const Figure* l2 = find_chip("gpu-b200")->find("l2_bytes");
  ASSERT_TRUE(l2);
  EXPECT_FALSE(l2->known);
  EXPECT_FALSE(l2->source.empty());
  EXPECT_EQ(find_chip("gpu-h200")->find("hbm_latency")->value, 698);
  EXPECT_EQ(find_chip("gpu-h200")->find("no_such_field"), nullptr);
  EXPECT_EQ(find_chip("gpu-v100"), nullptr);
}

TEST(Chips, WhoWritesAnotherNameMeantAChip) {
  for (const Profile& p : profiles()) EXPECT_EQ(nearest_chip(p.device_kind), p.name);  // `pallasim chips` shows it
  const std::map<std::string_view, std::string_view> meant = {
      {"TPU v5 Lite", "tpu-v5e"}, {"v5e", "tpu-v5e"},       {"tpu_v5e", "tpu-v5e"},  {"tpu-v5-lite", "tpu-v5e"},
      {"v5litepod-8", "tpu-v5e"}, {"tup-v5e", "tpu-v5e"},   {"tpu-v7", "tpu-7x"},    {"tpu-v7x", "tpu-7x"},
      {"h100", "gpu-h100"},       {"H100 SXM", "gpu-h100"}, {"gpu-h10", "gpu-h100"}, {"nvidia-a100", "gpu-a100"},
      {"genric", "generic"},      {"tpu-v6", "tpu-v6e"}};
  for (const auto& [written, chip] : meant) EXPECT_EQ(nearest_chip(written), chip) << written;
  for (const char* none : {"", "tpu-v9", "gpu-v100", "gpu-h300", "no such value", "-"})
    EXPECT_EQ(nearest_chip(none), "") << none;
}

TEST(Profiles, CarryTheFiguresOfTheFile) {
  const Profile* v5e = find_profile("tpu-v5e");
  ASSERT_TRUE(v5e);
  EXPECT_EQ(v5e->family, Family::Tpu);
  EXPECT_EQ(v5e->device_kind, "TPU v5 lite");
  EXPECT_EQ(v5e->capacity("vmem_bytes"), 128 << 20);
  EXPECT_EQ(v5e->capacity("smem_bytes"), 1 << 20);
  EXPECT_EQ(v5e->sparsecores, 0);
  EXPECT_EQ(v5e->subcores, kUnknown);
  EXPECT_EQ(v5e->capacity("smem_per_block_bytes"), kUnknown);
  const Profile* h100 = find_profile("gpu-h100");
  ASSERT_TRUE(h100);
  EXPECT_EQ(h100->family, Family::Gpu);
  EXPECT_EQ(h100->compute_capability, "9.0");
  EXPECT_EQ(h100->device_cores, 132);
  EXPECT_EQ(h100->capacity("smem_per_block_bytes"), 232448);
  EXPECT_EQ(h100->tensor_sum, TensorSum::Aligned);
  EXPECT_EQ(find_profile("gpu-a100")->tensor_sum, TensorSum::Unknown);
  EXPECT_EQ(find_profile("gpu-b200")->tensor_sum, TensorSum::AlignedWide);
  EXPECT_EQ(h100->capacity("l2_latency"), kUnknown);  // no bytes
  EXPECT_EQ(find_profile("tpu-7x")->device_cores, 1);
  EXPECT_EQ(find_profile("tpu-v5p")->device_cores, 2);
  EXPECT_EQ(find_profile("tpu-v9"), nullptr);
}

TEST(Profiles, GenericComesFirstAndKnowsNothing) {
  EXPECT_EQ(&profiles().front(), &generic());
  EXPECT_EQ(generic().name, "generic");
  EXPECT_TRUE(generic().bytes.empty());
  EXPECT_EQ(generic().capacity("hbm_bytes"), kUnknown);
}

constexpr const char* kHeader = "field,value,unit,scope,source,note\n";

TEST(ParseChip, QuotesAndEmptyCells) {
  const Chip c = parse_chip("x", std::string(kHeader) + "a,12,B,chip,\"a \"\"b\"\", c\",\n");
  ASSERT_EQ(c.figures.size(), 1u);
  EXPECT_EQ(c.figures[0].source, "a \"b\", c");
  EXPECT_EQ(c.figures[0].value, 12);
  EXPECT_TRUE(c.figures[0].note.empty());
}

void expect_refused(const std::string& csv, const std::string& why) {
  try {
    make_profile(parse_chip("x", csv));
    ADD_FAILURE() << "accepted: " << csv;
  } catch (const std::runtime_error& e) { EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what(); }
}

TEST(ParseChip, RefusesMalformedFiles) {
  const std::string h = kHeader;
  expect_refused("a,b\n", "header");
  expect_refused(h + "a,1,B,chip,s\n", "5 cells");
  expect_refused(h + "a,1,B,chip,,\n", "source");
  expect_refused(h + "a,1,B,chip,s,\na,2,B,chip,s,\n", "twice");
  expect_refused(h + "a,1,B,chip,s,\n", "no family");
  expect_refused(h + "family,cpu,,chip,s,\n", "no family cpu");
  expect_refused(h + "family,tpu,,chip,s,\ndevice_kind,K,,device,s,\n", "no device_cores");
  expect_refused(h + "family,tpu,,chip,s,\ndevice_kind,K,,device,s,\ndevice_cores,two,,device,s,\n", "no count");
}

}  // namespace
}  // namespace pallasim::hw
