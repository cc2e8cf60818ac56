// The data of a report's page, and the page.
#include "pallasim/trace/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "run.h"

namespace pallasim::trace {
namespace {

using Json = nlohmann::json;

Json data_of(const interp::Timeline& t, const ir::Module& m) {
  Reported r;
  r.timeline = &t;
  r.module = &m;
  r.chip = &hw::generic();
  r.findings = {ir::Diagnostic("PS-OOB-001", "it says </script>")};
  return Json::parse(report_data(r));
}

TEST(Report, TimesAreDifferences) {
  interp::Timeline t;
  const int32_t a = t.track("thread"), step = t.name("step"), point = t.name("(1)");
  t.add({.begin = 2e-9, .end = 5e-9, .track = a, .name = step, .point = point});
  t.add({.begin = 7e-9, .end = 9e-9, .track = a, .name = step});
  t.count(3e-9, t.track("bytes", interp::Timeline::Kind::Counter), 12);
  ir::Module m;
  m.name = "k";
  const Json j = data_of(t, m);
  const Json& lane = j["lanes"][0];
  EXPECT_EQ(lane["begin"], Json({2, 5}));
  EXPECT_EQ(lane["length"], Json({3, 2}));
  EXPECT_EQ(lane["point"], Json({point, -1}));
  EXPECT_EQ(j["counters"][0]["time"], Json({3}));
  EXPECT_EQ(j["end"], 9);
  EXPECT_EQ(j["unit"], "steps");
  EXPECT_EQ(j["findings"][0]["code"], "PS-OOB-001");
}

TEST(Report, ArrowsHaveBothEnds) {
  interp::Timeline t;
  const int32_t a = t.track("thread"), b = t.track("in flight", interp::Timeline::Kind::Flight), n = t.name("copy");
  const int64_t arrow = t.new_arrow(), lost = t.new_arrow();
  t.add({.begin = 0, .end = 1e-9, .track = a, .name = n, .leaves = arrow});
  t.add({.begin = 1e-9, .end = 2e-9, .track = a, .name = n, .leaves = lost});
  t.add({.begin = 0, .end = 4e-9, .track = b, .name = n, .arrives = arrow});
  ir::Module m;
  EXPECT_EQ(data_of(t, m)["arrows"], Json({0, 0, 1, 0}));
}

TEST(Report, NothingClosesTheScriptThatHoldsTheData) {
  interp::Timeline t;
  t.name("</script><script>alert(1)</script>");
  t.track("<!-- <script>");
  ir::Module m;
  m.name = "\xff</script>";
  const std::string data = data_of(t, m).dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string page = report_page("<b>&", {data});
  size_t scripts = 0;
  for (size_t at = 0; (at = page.find("</script", at)) != std::string::npos; ++at) ++scripts;
  EXPECT_EQ(scripts, 2u) << "that of the data, and the page's own";
  EXPECT_EQ(page.find("<!--"), std::string::npos);
  EXPECT_NE(page.find("&lt;b>&amp;"), std::string::npos);
  EXPECT_LT(report_page("", {}).size(), 1'500'000u);
  for (const char* elsewhere : {"http://", "https://", "src="})
    for (size_t at = 0; (at = page.find(elsewhere, at)) != std::string::npos; ++at)
      EXPECT_EQ(page.substr(at, 18), "http://www.w3.org/") << "the page needs nothing else";
}

}  // namespace
}  // namespace pallasim::trace
