#include "predict.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "interrupt.h"
#include "pallasim/capsule/files.h"
#include "pallasim/interp/predict.h"
#include "pallasim/trace/perfetto.h"
#include "pallasim/trace/report.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pallasim::python {
namespace {

// Of each device, by argument; they outlive the prediction. None: zeros.
using Contents = std::vector<std::vector<std::optional<std::string_view>>>;

interp::Buffer buffer_of(const ir::Type& t, const std::string_view* content, std::vector<Zeros>* kept) {
  interp::Buffer b;
  b.dtype = t.dtype;
  for (const ir::Dim& d : t.dims) b.dims.push_back(d.size);
  if (content && content->size() != static_cast<size_t>(t.num_bytes())) throw nb::value_error("bytes of another shape");
  // No launch writes to its arguments.
  b.data = content ? const_cast<char*>(content->data()) : zeros(b, kept);
  return b;
}

struct Predicted {
  interp::CachedPlan plan;
  interp::Options options;
  interp::Prediction prediction;
};

// `contents`: of arguments, dynamic bounds of the grid first. Called without Python's lock.
Predicted predict_text(const std::string& text, interp::Options o, const Contents& contents,
                       interp::PredictOptions how) {
  static_cast<interp::PlanOptions&>(o) = interp::predicted_options(o);
  const interp::CachedPlan plan = interp::compile_cached(text, o);
  const ir::Module& m = interp::module_of(*plan.plan);
  if (!m.params.empty()) throw nb::value_error("a kernel whose shapes are symbolic has no one time: give shapes");
  std::vector<Zeros> kept;
  const auto devices = static_cast<size_t>(interp::devices_of(*plan.plan));
  std::vector<std::vector<interp::Buffer>> args(devices), results(devices);
  std::vector<interp::DeviceCall> calls;
  for (size_t d = 0; d < devices; ++d) {
    const auto* given = d < contents.size() ? &contents[d] : contents.empty() ? nullptr : &contents.front();
    size_t n = 0;
    const auto content = [&]() -> const std::string_view* {
      const size_t i = n++;
      const bool there = given && i < given->size() && (*given)[i];
      if (i >= how.made_up.size()) how.made_up.resize(i + 1);
      if (!there) how.made_up[i] = true;
      return there ? &*(*given)[i] : nullptr;
    };
    ir::Type bound;
    bound.dtype = ir::DType::I32;
    for (int i = 0; i < m.num_dynamic; ++i) args[d].push_back(buffer_of(bound, content(), &kept));
    for (const ir::Operand& op : m.operands)
      if (op.kind == ir::Operand::Kind::Output) results[d].push_back(buffer_of(*op.array, nullptr, &kept));
      else args[d].push_back(buffer_of(*op.array, content(), &kept));
    calls.push_back({static_cast<int32_t>(d), args[d], results[d], 0});
  }
  return {plan, o, interp::predict(plan, calls, o, how)};
}

std::string report_of(const Predicted& p, std::vector<ir::Diagnostic> findings, std::vector<interp::Traffic> traffic) {
  trace::Reported r;
  r.timeline = &p.prediction.timeline;
  r.prediction = &p.prediction;
  r.module = &interp::module_of(*p.plan.plan);
  r.chip = p.options.chip;
  r.findings = std::move(findings);
  r.traffic = std::move(traffic);
  return trace::report_data(r);
}

// The prediction as JSON, and the data of a report of it.
std::pair<std::string, std::string> predicted(const std::string& text, const std::string& options,
                                              const std::vector<std::vector<std::optional<nb::bytes>>>& given,
                                              bool values, bool sensitivity, int waves, bool cold,
                                              const std::string& trace, int64_t most_steps, bool report, bool sample) {
  Contents contents;
  for (const auto& device : given) {
    auto& of_device = contents.emplace_back();
    for (const auto& b : device)
      of_device.push_back(b ? std::optional(std::string_view(b->c_str(), b->size())) : std::nullopt);
  }
  watch_interrupts(-1);
  nb::gil_scoped_release unlocked;
  interp::PredictOptions how;
  how.values = values;
  how.sensitivity = sensitivity;
  how.waves = waves;
  how.cold = cold;
  how.sample = sample;
  if (most_steps > 0) how.most_steps = most_steps;
  how.timeline = report || !trace.empty();
  how.every_trip = report;
  if (report && trace.empty()) how.picture = trace::report_limits();
  const Predicted p = predict_text(text, interp::parse_options(options), contents, how);
  if (!trace.empty()) capsule::write_file(trace, trace::to_perfetto(p.prediction.timeline));
  return {interp::to_json(p.prediction), report ? report_of(p, {}, {}) : ""};
}

struct Latest {
  std::mutex mutex;
  std::optional<Reportable> launch;
};
Latest& latest() {
  static Latest& l = *new Latest;
  return l;
}

// Of the latest launch: its kernel's name, and the data of a report.
std::pair<std::string, std::string> latest_report() {
  Reportable r;
  {
    std::lock_guard lock(latest().mutex);
    if (!latest().launch) throw std::runtime_error("nothing to report: no kernel was launched");
    r = *latest().launch;
  }
  watch_interrupts(-1);
  nb::gil_scoped_release unlocked;
  interp::PredictOptions how;
  how.timeline = how.every_trip = true;
  how.picture = trace::report_limits();
  Contents contents;
  for (const auto& device : r.contents) contents.emplace_back(device.begin(), device.end());
  Predicted p = predict_text(r.kernel->text, r.kernel->options, contents, how);
  const ir::Module& m = interp::module_of(*p.plan.plan);
  if (p.prediction.with_values)
    p.prediction.notes.push_back("values were computed with the launch's scalars, and with zeros in its arrays");
  return {m.name, report_of(p, std::move(r.findings), std::move(r.traffic))};
}

}  // namespace

void keep_reportable(Reportable r) {
  std::lock_guard lock(latest().mutex);
  latest().launch = std::move(r);
}

std::vector<std::optional<std::string>> scalars_of(const ir::Module& m, const interp::DeviceCall& call) {
  constexpr int64_t kMost = 1 << 20;
  std::vector<std::optional<std::string>> r;
  const auto take = [&](bool wanted, int64_t bytes) {
    const interp::Buffer& b = call.args[r.size()];
    if (wanted && bytes <= kMost)
      r.emplace_back(std::string(static_cast<const char*>(b.data), static_cast<size_t>(bytes)));
    else r.emplace_back(std::nullopt);
  };
  for (int i = 0; i < m.num_dynamic; ++i) take(call.args[r.size()].dtype == ir::DType::I32, 4);
  for (const ir::Operand& o : m.operands)
    if (o.kind != ir::Operand::Kind::Output && r.size() < call.args.size())
      take(o.array->is_static() && !ir::is_sync(o.array->dtype) &&
               (o.kind == ir::Operand::Kind::Prefetch || o.space == ir::Space::Smem),
           o.array->num_bytes());
  return r;
}

void* zeros(const interp::Buffer& b, std::vector<Zeros>* kept) {
  int64_t elements = 1;
  for (const int64_t d : b.dims) elements *= d;
  kept->emplace_back(std::calloc(static_cast<size_t>((elements * ir::bit_width(b.dtype) + 7) / 8 + 64), 1));
  if (!kept->back()) throw std::bad_alloc();
  return kept->back().get();
}

void define_predict(nb::module_& m) {
  m.def("predict", &predicted, "text"_a, "options"_a, "contents"_a, "values"_a, "sensitivity"_a, "waves"_a, "cold"_a,
        "trace"_a, "most_steps"_a = 0, "report"_a = false, "sample"_a = false,
        "A launch in virtual time, as JSON, and the data of a report of it.");
  m.def("latest_report", &latest_report, "The kernel's name of the latest launch, and the data of a report.");
  m.def("report_page", &trace::report_page, "title"_a, "launches"_a, "A page of reports' data.");
}

}  // namespace pallasim::python
