// The table of options: every row reads what it writes, is found by all of its names, and is in the key of plans or
// not.
#include "pallasim/interp/options.h"

#include <gtest/gtest.h>

#include <set>

#include "pallasim/ir/diagnostic.h"

namespace pallasim::interp {
namespace {

using Kind = OptionRow::Kind;

// Some values of a row besides its default.
std::vector<std::string> others(const OptionRow& row) {
  std::vector<std::string> all;
  switch (row.kind) {
    case Kind::Flag: all = {"true", "false"}; break;
    case Kind::Choice: all.assign(row.values.begin(), row.values.end()); break;
    case Kind::Number:
      all = {std::to_string(row.least), std::to_string(row.least + 7), std::to_string(row.most)};
      break;
    case Kind::MaybeNumber: all = {"0", "7", "18446744073709551615"}; break;
    case Kind::Chip: all = {"tpu-v5e", "gpu-h100"}; break;
    case Kind::Order: all = {"1,0", "2,0,1||1,0"}; break;
    case Kind::Text: all = {"ps2:random:7"}; break;
  }
  std::erase(all, row.default_text);
  return all;
}

std::string code_of(std::string_view text) {
  try {
    parse_options(text);
  } catch (const ir::DiagnosticError& e) { return std::string(e.diagnostic().code.text()); }
  return "";
}

TEST(Options, EveryRowReadsWhatItWrites) {
  EXPECT_EQ(to_text({}), "");
  for (const OptionRow& row : option_rows()) {
    ASSERT_FALSE(others(row).empty()) << row.name;
    for (const std::string& value : others(row)) {
      Options o;
      set_option(o, row.name, value);
      EXPECT_EQ(option_text(o, row), value) << row.name;
      EXPECT_EQ(to_text(o), std::string(row.name) + "=" + value);
      EXPECT_EQ(parse_options(to_text(o)), o) << to_text(o);
      EXPECT_FALSE(o == Options{}) << to_text(o);
      EXPECT_EQ(plan_key(o) != plan_key({}), row.in_plan) << row.name;
    }
  }
}

TEST(Options, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (const OptionRow& row : option_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(find_option(row.name), &row);
    for (std::string_view s : row.spellings) {
      EXPECT_TRUE(names.insert(s).second) << s;
      EXPECT_EQ(find_option(s), &row);
    }
    EXPECT_FALSE(row.help.empty() || row.doc.empty() || row.group.empty()) << row.name;
  }
  EXPECT_EQ(find_option("frobnicate"), nullptr);
}

TEST(Options, WhatARowDoesNotHaveIsRefused) {
  for (const char* text : {"workers=many", "workers=-1", "workers=1025", "workers=", "workers", "fuse=maybe",
                           "rules=no", "rules=2", "numerics=1", "machine=tpu-v9", "random_seed=x", "grid_order=1,x",
                           "frobnicate=1", "max_memory=0", "verify_restore=-1"})
    EXPECT_EQ(code_of(text), "PS-OPT-001") << text;
  Options o;
  EXPECT_THROW(set_option(o, "replay", "ps2:random:7;workers=2"), ir::DiagnosticError);
}

TEST(Options, SpellingsOfOlderCapsulesAreRead) {
  const Options o =
      parse_options("checked=1;policy=random;seed=7;copies=on_wait;chip=tpu-v5e;rules=0;uninitialized=most");
  EXPECT_EQ(to_text(o),
            "machine=tpu-v5e;rules=off;detect_races=true;random_seed=7;uninitialized_memory=most;"
            "dma_execution_mode=on_wait");
  EXPECT_EQ(parse_options("policy=run_to_block;seed=7"), Options{});
  EXPECT_EQ(parse_options("rules=1"), Options{});
  Options negative;
  set_option(negative, "random_seed", "-1");
  EXPECT_EQ(negative.random_seed, UINT64_MAX);
}

}  // namespace
}  // namespace pallasim::interp
