// Outcomes as JSON: the one place that says what they look like.
#include <algorithm>

#include "pallasim/capsule/exit_code.h"
#include "pallasim/capsule/files.h"
#include "pallasim/capsule/replay.h"

namespace pallasim::capsule {
namespace {

bool is_difference(const ir::Diagnostic& d) { return d.code.text().starts_with("PS-DIFF-"); }

void add(const Replayed& r, const Capsule& c, const ReplayOptions& o, Outcome* all) {
  const bool differs = std::any_of(r.findings.begin(), r.findings.end(), is_difference);
  for (const ir::Diagnostic& d : r.findings) {
    all->findings.push_back(d);
    all->exit = std::max(all->exit, static_cast<int>(exit_code_of(d)));
    if (differs && d.severity == ir::Severity::Error) all->differences.push_back(d);
  }
  for (const LaunchOutcome& l : r.launches) {
    const CapsuleLaunch& recorded = c.launches()[l.number - 1];
    ++all->launches;
    all->with_findings += o.compare_findings && recorded.findings;
    all->with_times += o.compare_times && recorded.predicted;
    all->json["launches"].push_back(to_json(l));
  }
}

}  // namespace

Outcome run_capsule(const std::string& path, int64_t max_memory, const ReplayOptions& o) {
  const std::string bytes = read_input(path, max_memory);
  const int64_t budget = max_memory - static_cast<int64_t>(bytes.size());
  const Capsule c(bytes, path, budget);
  Outcome all;
  all.json = {{"ok", true}, {"findings", Json::array()}};
  all.json.update(outcome_json(c, path));
  replay(c, path, budget, o, [&](Replayed& r) { add(r, c, o, &all); });
  for (const ir::Diagnostic& d : all.findings) all.json["findings"].push_back(to_json_object(d));
  all.json["ok"] = all.exit == kOk;
  all.json["exit"] = all.exit;
  return all;
}

Json to_json_object(const ir::Diagnostic& d) {
  std::string text = ir::to_json(d);
  Json j = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!j.is_discarded()) return j;
  for (char& c : text)
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';  // not UTF-8
  return Json::parse(text, nullptr, false);
}

Json outcome_json(const Capsule& c, const std::string& file) {
  return {{"capsule", file}, {"recorded_by", c.recorded_by()}, {"omitted", c.omitted()}, {"launches", Json::array()}};
}

Json to_json(const LaunchOutcome& l) {
  Json j = {{"launch", l.number}, {"kernel", l.kernel}, {"device", l.device}, {"error", nullptr}};
  if (!l.error.empty()) j["error"] = l.error;
  if (l.ran) {
    j["prints"] = l.prints;
    j["token"] = l.token;
    j["steps"] = l.steps;
  }
  if (!l.compared) return j;
  j["outputs"] = Json::array();
  for (const OutputOutcome& o : l.outputs)
    j["outputs"].push_back({{"name", o.name},
                            {"dtype", ir::name(o.array.dtype)},
                            {"shape", o.array.dims},
                            {"differing", o.differing},
                            {"greatest_difference", o.greatest_difference}});
  j["same"] = l.same;
  return j;
}

}  // namespace pallasim::capsule
