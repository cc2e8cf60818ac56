#include "pallasim/capsule/exploration.h"

#include <fmt/format.h>

#include "pallasim/capsule/replay.h"
#include "pallasim/capsule/values.h"

namespace pallasim::capsule {
namespace {

Json site_object(const ir::Site& s) {
  return {{"file", s.source.file}, {"line", s.source.line}, {"text", s.source.text}};
}

Json outcome_object(const interp::ExploredOutcome& o) {
  Json j = {{"count", o.count},          {"variants", o.variants},   {"spread", o.spread},
            {"token", o.token},          {"switches", o.switches},   {"deadlock", o.deadlock},
            {"prints", o.report.prints}, {"findings", Json::array()}};
  for (const ir::Diagnostic& d : o.report.findings) j["findings"].push_back(to_json_object(d));
  j["stop"] = o.stop ? to_json_object(*o.stop) : Json();
  j["outputs"] = Json::array();
  for (const interp::ExploredArray& a : o.outputs) {
    const Array values{a.dtype, a.dims, a.bytes};
    j["outputs"].push_back({{"name", a.name},
                            {"device", a.device},
                            {"dtype", ir::name(a.dtype)},
                            {"shape", a.dims},
                            {"fnv1a", fmt::format("{:016x}", summarize(values).hash)},
                            {"first", first_elements(values, 8)}});
  }
  j["differs"] = Json::array();
  for (const interp::OutputDifference& d : o.differs)
    j["differs"].push_back(
        {{"name", d.name}, {"device", d.device}, {"elements", d.elements}, {"first", d.first}, {"last", d.last}});
  j["order"] = o.order ? Json::array({site_object(o.order->first), site_object(o.order->second)}) : Json();
  return j;
}

}  // namespace

Json to_json(const interp::Exploration& x) {
  Json j = {{"kernel", x.kernel},           {"policy", x.policy},       {"seed", x.seed},
            {"schedules", x.schedules},     {"given_up", x.given_up},   {"exhausted", x.exhausted},
            {"interrupted", x.interrupted}, {"uncounted", x.uncounted}, {"outcomes", Json::array()}};
  for (const interp::ExploredOutcome& o : x.outcomes) j["outcomes"].push_back(outcome_object(o));
  return j;
}

}  // namespace pallasim::capsule
