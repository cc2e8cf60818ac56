#include "inspect.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "pallasim/hw/chips.h"
#include "pallasim/hw/machine.h"
#include "pallasim/hw/rules.h"
#include "pallasim/ir/module.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pallasim::python {
namespace {

nb::dict rule_dict(const ir::Diagnostic& d) {
  nb::dict r;
  r["code"] = d.code.text();
  r["severity"] = ir::name(d.severity);
  r["message"] = d.message;
  r["file"] = d.site.source.file;
  r["line"] = d.site.source.line;
  r["text"] = d.site.source.text;
  r["numbers"] = d.numbers;
  r["hint"] = d.hint;
  return r;
}

nb::list broken_rules(const std::string& text, const std::string& chip) {
  const hw::Profile* profile = hw::find_profile(chip);
  if (!profile) throw nb::value_error(("unknown machine " + chip).c_str());
  const ir::Module m = ir::parse(text);
  ir::verify(m);
  nb::list r;
  for (const ir::Diagnostic& d : hw::broken_rules(m, *profile)) r.append(rule_dict(d));
  return r;
}

nb::list occupancy(const std::string& text) {
  const ir::Module m = ir::parse(text);
  nb::list r;
  for (const hw::SpaceUse& o : hw::space_use(m)) {
    nb::list buffers;
    for (const hw::BufferUse& b : o.buffers) {
      nb::dict e;
      e["name"] = b.name;
      e["dtype"] = b.type ? std::string(ir::name(b.type->dtype)) : std::string();
      e["shape"] = b.dims;
      e["bytes"] = b.bytes;
      e["copies"] = b.copies;
      e["role"] = b.role;
      buffers.append(e);
    }
    nb::dict e;
    e["space"] = std::string(ir::name(o.space));
    e["bytes"] = o.bytes;
    e["buffers"] = buffers;
    r.append(e);
  }
  return r;
}

nb::dict capacities(const std::string& chip) {
  const hw::Profile* profile = hw::find_profile(chip);
  if (!profile) throw nb::value_error(("unknown machine " + chip).c_str());
  nb::dict r;
  for (const ir::Machine machine : {ir::Machine::Tpu, ir::Machine::Triton, ir::Machine::MosaicGpu}) {
    const hw::MachineModel& model = hw::model(machine);
    if (model.family != profile->family) continue;
    for (size_t s = 0; s < hw::kSpaces; ++s) {
      const char* figure = model.spaces[static_cast<ir::Space>(s)].capacity.figure;
      const int64_t n = figure ? profile->capacity(figure) : hw::kUnknown;
      if (n != hw::kUnknown) r[std::string(ir::name(static_cast<ir::Space>(s))).c_str()] = n;
    }
  }
  return r;
}

}  // namespace

void define_inspection(nb::module_& m) {
  m.def("broken_rules", &broken_rules, "text"_a, "chip"_a,
        "Every rule of the chip's compiler that a module breaks, as dictionaries. Raises DiagnosticError.");
  m.def("occupancy", &occupancy, "text"_a,
        "What a launch keeps in each memory of a TensorCore: space, bytes, buffers (bytes of one copy).");
  m.def("capacities", &capacities, "chip"_a, "Memory space -> bytes for one owner, as far as they are known.");
}

}  // namespace pallasim::python
