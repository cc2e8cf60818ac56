#include "late.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "judge.h"

namespace pallasim::judge {

std::string line_at(const std::string& text, size_t at) {
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

void locate(std::string* text, size_t at, int n) {
  size_t end = text->find('\n', at);
  if ((*text)[end - 1] == ',') end = text->find('\n', end + 1);
  text->insert(end, fmt::format(" @{}", n));
}

void add_lines(std::string* text) {
  for (int n : {0, 1})
    *text += fmt::format("loc {} {{file = \"late.py\", line = {}, column = 1, function = \"late\", text = \"late\"}}\n",
                         n, 10 + n);
}

namespace {

bool names(const ir::Diagnostic& d, int line) {
  return d.site.source.line == line ||
         std::any_of(d.also.begin(), d.also.end(), [&](const ir::Site& s) { return s.source.line == line; });
}

bool is_shown(Engine& engine, const oracle::Outcome& want, uint64_t seed) {
  constexpr int kSchedules = 20;
  for (int n = 0; n < kSchedules; ++n) {
    Config config{"scheduled", {}};
    config.options.workers = 1;
    config.options.random_seed = static_cast<uint64_t>(n);
    config.options.copies = interp::Options::Copies::Scheduled;
    const EngineOutcome got = engine.run(config);
    EXPECT_TRUE(got.done) << "seed " << seed << ": " << got.message;
    if (!difference(want.results, got.results).empty()) return true;
  }
  return false;
}

}  // namespace

Found look_for(const std::function<std::string(std::string)>& late, const char* code, uint64_t programs) {
  Found f;
  for (uint64_t seed = 1; seed <= programs; ++seed) {
    Case c = generate_clusters(seed);
    if (c.in_order) continue;
    const std::string text = late(c.text);
    if (text.empty()) continue;
    const oracle::Outcome want = oracle::evaluate(ir::parse(c.text), c.args);  // for which waits are nothing
    EXPECT_EQ(want.end, oracle::End::Done) << "seed " << seed;
    c.text = text;
    ++f.programs;
    Engine engine(c);
    const bool shown = is_shown(engine, want, seed);
    Config checked{"checked", {}};
    checked.options.workers = 1;
    checked.options.checked = true;
    const EngineOutcome got = engine.run(checked);
    const bool reported = std::any_of(got.reports.begin(), got.reports.end(), [&](const ir::Diagnostic& d) {
      return d.code.text() == code && names(d, 10) && names(d, 11);
    });
    f.shown += shown, f.reported += reported;
    if (!reported)
      ADD_FAILURE() << "seed " << seed
                    << " is not reported: " << (got.findings.empty() ? "nothing is" : got.findings.front());
  }
  return f;
}

void expect_found(const Found& f, int percent) {
  testing::Test::RecordProperty("programs", f.programs);
  testing::Test::RecordProperty("shown", f.shown);
  testing::Test::RecordProperty("reported", f.reported);
  EXPECT_GE(f.programs, 15);
  EXPECT_EQ(f.reported, f.programs);
  EXPECT_GE(f.shown * 100, f.programs * percent) << f.shown << " of " << f.programs;
}

}  // namespace pallasim::judge
