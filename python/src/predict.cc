#include "predict.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

#include "interrupt.h"
#include "pallasim/interp/predict.h"
#include "pallasim/trace/perfetto.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pallasim::python {
namespace {

interp::Buffer buffer_of(const ir::Type& t, const nb::bytes* content, std::vector<Zeros>* kept) {
  interp::Buffer b;
  b.dtype = t.dtype;
  for (const ir::Dim& d : t.dims) b.dims.push_back(d.size);
  if (content && content->size() != static_cast<size_t>(t.num_bytes())) throw nb::value_error("bytes of another shape");
  b.data = zeros(b, kept);
  if (content) std::memcpy(b.data, content->c_str(), content->size());
  return b;
}

// `contents`: of each device the bytes of its arguments, dynamic bounds of the grid first; none: zeros.
std::string predicted(const std::string& text, const std::string& options,
                      const std::vector<std::vector<std::optional<nb::bytes>>>& contents, bool values, bool sensitivity,
                      int waves, bool cold, const std::string& trace, int64_t most_steps) {
  interp::Options o = interp::parse_options(options);
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
    const auto content = [&]() -> const nb::bytes* {
      const size_t i = n++;
      return given && i < given->size() && (*given)[i] ? &*(*given)[i] : nullptr;
    };
    ir::Type bound;
    bound.dtype = ir::DType::I32;
    for (int i = 0; i < m.num_dynamic; ++i) args[d].push_back(buffer_of(bound, content(), &kept));
    for (const ir::Operand& op : m.operands)
      if (op.kind == ir::Operand::Kind::Output) results[d].push_back(buffer_of(*op.array, nullptr, &kept));
      else args[d].push_back(buffer_of(*op.array, content(), &kept));
    calls.push_back({static_cast<int32_t>(d), args[d], results[d], 0});
  }
  watch_interrupts(-1);
  nb::gil_scoped_release unlocked;
  interp::PredictOptions how;
  how.values = values;
  how.sensitivity = sensitivity;
  how.waves = waves;
  how.cold = cold;
  if (most_steps > 0) how.most_steps = most_steps;
  how.timeline = !trace.empty();
  const interp::Prediction p = interp::predict(plan, calls, o, how);
  if (!trace.empty()) {
    std::ofstream file(trace, std::ios::binary);
    file << trace::to_perfetto(p.timeline);
    if (!file) throw std::runtime_error("cannot write " + trace);
  }
  return interp::to_json(p);
}

}  // namespace

void* zeros(const interp::Buffer& b, std::vector<Zeros>* kept) {
  int64_t elements = 1;
  for (const int64_t d : b.dims) elements *= d;
  kept->emplace_back(std::calloc(static_cast<size_t>((elements * ir::bit_width(b.dtype) + 7) / 8 + 64), 1));
  if (!kept->back()) throw std::bad_alloc();
  return kept->back().get();
}

void define_predict(nb::module_& m) {
  m.def("predict", &predicted, "text"_a, "options"_a, "contents"_a, "values"_a, "sensitivity"_a, "waves"_a, "cold"_a,
        "trace"_a, "most_steps"_a = 0, "A launch in virtual time, as JSON.");
}

}  // namespace pallasim::python
