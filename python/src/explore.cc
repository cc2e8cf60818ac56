#include "explore.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "interrupt.h"
#include "launch_call.h"
#include "pallasim/capsule/exploration.h"
#include "pallasim/interp/explore.h"
#include "pallasim/interp/policy.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pallasim::python {
namespace {

using Array = std::tuple<std::string, std::vector<int64_t>, nb::bytes>;  // dtype, dims, elements
using Arrays = std::vector<Array>;
using Device = std::tuple<int64_t, Arrays, Arrays>;  // number, arguments, results

interp::Buffer buffer_of(const Array& a, std::vector<std::vector<std::byte>>* kept) {
  const auto& [dtype, dims, bytes] = a;
  interp::Buffer b;
  if (!ir::parse_dtype(dtype, &b.dtype)) throw nb::value_error(("unknown element type " + dtype).c_str());
  b.dims = dims;
  int64_t want = ir::byte_size(b.dtype);
  for (const int64_t n : dims)
    if (n < 0 || __builtin_mul_overflow(want, n, &want)) throw nb::value_error("no shape");
  const auto* at = reinterpret_cast<const std::byte*>(bytes.c_str());
  if (bytes.size() != 0 && static_cast<int64_t>(bytes.size()) != want) throw nb::value_error("bytes of another shape");
  kept->emplace_back(at, at + bytes.size());
  kept->back().resize(static_cast<size_t>(want));
  b.data = kept->back().data();
  return b;
}

nb::dict outcome_dict(const interp::ExploredOutcome& o, const Shown& shown) {
  nb::dict d;
  d["count"] = o.count;
  d["variants"] = o.variants;
  d["spread"] = o.spread;
  d["token"] = o.token;
  d["switches"] = o.switches;
  d["deadlock"] = o.deadlock;
  d["prints"] = o.report.prints;
  nb::list findings, outputs, differs;
  for (const ir::Diagnostic& f : o.report.findings) findings.append(shown.finding(f));
  d["findings"] = findings;
  d["stop"] = o.stop ? nb::object(shown.finding(*o.stop)) : nb::none();
  for (const interp::ExploredArray& a : o.outputs) {
    nb::dict e;
    e["name"] = a.name;
    e["device"] = a.device;
    e["dtype"] = std::string(ir::name(a.dtype));
    e["shape"] = a.dims;
    e["bytes"] = nb::bytes(a.bytes.data(), a.bytes.size());
    outputs.append(e);
  }
  d["outputs"] = outputs;
  for (const interp::OutputDifference& x : o.differs) {
    nb::dict e;
    e["name"] = x.name;
    e["device"] = x.device;
    e["elements"] = x.elements;
    e["first"] = nb::tuple(nb::cast(x.first));
    e["last"] = nb::tuple(nb::cast(x.last));
    differs.append(e);
  }
  d["differs"] = differs;
  d["order"] =
      o.order ? nb::object(nb::make_tuple(shown.site(o.order->first), shown.site(o.order->second))) : nb::none();
  return d;
}

nb::dict exploration_dict(const interp::Exploration& x, const Shown& shown) {
  nb::dict d;
  d["kernel"] = x.kernel;
  d["policy"] = x.policy;
  d["seed"] = x.seed;
  d["schedules"] = x.schedules;
  d["given_up"] = x.given_up;
  d["exhausted"] = x.exhausted;
  d["interrupted"] = x.interrupted;
  d["uncounted"] = x.uncounted;
  d["text"] = interp::to_text(x);
  using Json = nlohmann::ordered_json;
  d["json"] = capsule::to_json(x).dump(-1, ' ', false, Json::error_handler_t::replace);
  nb::list outcomes;
  for (const interp::ExploredOutcome& o : x.outcomes) outcomes.append(outcome_dict(o, shown));
  d["outcomes"] = outcomes;
  return d;
}

Shown g_shown;

// The devices of a launch, with arrays of their own.
struct Devices {
  std::vector<std::vector<std::byte>> kept;
  std::vector<std::vector<interp::Buffer>> args, results;
  std::vector<interp::DeviceCall> calls;

  explicit Devices(const std::vector<Device>& given) {
    for (const auto& [number, in, out] : given) {
      auto& a = args.emplace_back();
      for (const Array& x : in) a.push_back(buffer_of(x, &kept));
      auto& r = results.emplace_back();
      for (const Array& x : out) r.push_back(buffer_of(x, &kept));
    }
    for (size_t i = 0; i < given.size(); ++i)
      calls.push_back({static_cast<int32_t>(std::get<0>(given[i])), args[i], results[i]});
  }
};

using Counted = std::tuple<nb::bytes, int64_t, int64_t>;  // key, count, first

nb::dict explored(const std::string& text, const std::string& options, const std::vector<Device>& devices,
                  const std::string& policy, int64_t schedules, int depth, uint64_t seed, int jobs, double tolerance,
                  const std::optional<std::vector<Counted>>& counted) {
  const Devices on(devices);
  interp::ExploreOptions how{.policy = policy, .schedules = schedules, .depth = depth, .seed = seed, .jobs = jobs};
  how.tolerance = tolerance;
  if (counted) {
    how.counted.emplace();
    for (const auto& [key, count, first] : *counted)
      how.counted->push_back({std::string(key.c_str(), key.size()), count, first});
  }
  watch_interrupts(-1);
  interp::Exploration x;
  {
    nb::gil_scoped_release unlocked;
    x = interp::explore(interp::compile_cached(text, interp::parse_options(options)), on.calls,
                        interp::parse_options(options), how);
  }
  return exploration_dict(x, g_shown);
}

std::vector<Counted> counted_outcomes(const std::string& text, const std::string& options,
                                      const std::vector<Device>& devices, const std::string& policy, int64_t schedules,
                                      int depth, uint64_t seed, int jobs, int64_t begin, int64_t end) {
  const Devices on(devices);
  watch_interrupts(-1);
  std::vector<interp::CountedOutcome> found;
  {
    nb::gil_scoped_release unlocked;
    found = interp::count_outcomes(
        interp::compile_cached(text, interp::parse_options(options)), on.calls, interp::parse_options(options),
        {.policy = policy, .schedules = schedules, .depth = depth, .seed = seed, .jobs = jobs}, begin, end);
  }
  std::vector<Counted> r;
  for (const interp::CountedOutcome& c : found) r.emplace_back(nb::bytes(c.key.data(), c.key.size()), c.count, c.first);
  return r;
}

}  // namespace

void define_explore(nb::module_& m, const Shown& shown) {
  g_shown = shown;
  m.def("explore", &explored, "text"_a, "options"_a, "devices"_a, "policy"_a, "schedules"_a, "depth"_a, "seed"_a,
        "jobs"_a, "tolerance"_a, "counted"_a = nb::none(),
        "Runs a module under many schedules; a device is (number, arguments, results), an array (dtype, dims, bytes).");
  m.def("count_outcomes", &counted_outcomes, "text"_a, "options"_a, "devices"_a, "policy"_a, "schedules"_a, "depth"_a,
        "seed"_a, "jobs"_a, "begin"_a, "end"_a,
        "Of some of the schedules that explore runs: (what tells an outcome from others, how many, the first).");
  m.def(
      "policies",
      [] {
        std::vector<std::string> names;
        for (const interp::PolicyRow* row : interp::policy_rows())
          if (row->name != std::string_view("choices")) names.emplace_back(row->name);
        return names;
      },
      "Names of the policies that explore knows.");
  m.def(
      "devices_of",
      [](const std::string& text, const std::string& options) {
        return interp::devices_of(*interp::compile_cached(text, interp::parse_options(options)).plan);
      },
      "text"_a, "options"_a, "How many devices one launch of the module runs.");
}

}  // namespace pallasim::python
