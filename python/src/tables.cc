#include "tables.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <vector>

#include "pallasim/hw/chips.h"
#include "pallasim/hw/machine.h"
#include "pallasim/interp/options.h"
#include "pallasim/ir/diagnostic.h"
#include "pallasim/ir/module.h"
#include "pallasim/ir/nearest.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pallasim::python {
namespace {

nb::list options() {
  nb::list r;
  for (const interp::OptionRow& row : interp::option_rows()) {
    nb::dict d;
    d["name"] = row.name;
    nb::list values;
    for (std::string_view v : row.values) values.append(v);
    d["values"] = nb::tuple(values);
    d["allowed"] = interp::allowed(row);
    r.append(d);
  }
  return r;
}

// Raises ValueError, as a constructor of Python does: nothing has begun to run.
std::string options_text(const std::map<std::string, std::string>& values) {
  interp::Options o;
  for (const interp::OptionRow& row : interp::option_rows()) {
    const auto it = values.find(std::string(row.name));
    if (it == values.end()) continue;
    try {
      interp::set_option(o, row.name, it->second);
    } catch (const ir::DiagnosticError&) {
      std::string text = it->first + " is " + interp::allowed(row) + ", not '" + it->second + "'";
      if (const std::string meant = interp::nearest_value(row, it->second); !meant.empty())
        text += "; did you mean '" + meant + "'?";
      throw nb::value_error(text.c_str());
    }
  }
  return interp::to_text(o);
}

constexpr const char* name_of(ir::Blame b) {
  switch (b) {
    case ir::Blame::Kernel: return "kernel";
    case ir::Blame::Chip: return "chip";
    case ir::Blame::Input: return "input";
    case ir::Blame::CommandLine: return "command line";
    case ir::Blame::Unsupported: return "unsupported";
    case ir::Blame::Interrupt: return "interrupt";
    case ir::Blame::Pallasim: return "pallasim";
  }
  return "";
}

nb::dict diagnostics() {
  nb::dict r;
  for (const ir::CodeRow& row : ir::kCodes) {
    const ir::Code code = *ir::Code::find(row.text);
    r[nb::str(row.text.data(), row.text.size())] =
        nb::make_tuple(ir::name(row.severity), name_of(code.blame()), row.title);
  }
  return r;
}

}  // namespace

void define_tables(nb::module_& m) {
  m.def(
      "machines",
      [] {
        nb::list r;
        for (const hw::Profile& p : hw::profiles()) {
          constexpr const char* kFamilies[] = {"generic", "tpu", "gpu"};
          r.append(nb::make_tuple(p.name, kFamilies[static_cast<int>(p.family)], p.device_kind, p.device_cores,
                                  p.compute_capability));
        }
        return r;
      },
      "(name, family, device kind, cores, compute capability) of each machine.");
  m.def(
      "default_spaces",
      [](const std::string& machine) {
        ir::Machine parsed{};
        if (!ir::parse_machine(machine, &parsed)) throw nb::value_error(("no machine '" + machine + "'").c_str());
        const hw::DefaultSpaces& spaces = hw::model(parsed).defaults;
        nb::dict d;
        const auto set = [&](const char* key, ir::Space s) { d[key] = std::string(ir::name(s)); };
        set("unnamed", spaces.unnamed), set("any", spaces.any), set("constants", spaces.constants),
            set("scalars", spaces.scalars);
        return d;
      },
      "machine"_a, "Where operands lie on the machine that no space was given to: unnamed, any, constants, scalars.");
  m.def(
      "chip_figures",
      [](const std::string& name) {
        nb::dict d;
        if (const hw::Chip* chip = hw::find_chip(name))
          for (const hw::Figure& f : chip->figures)
            d[f.field.c_str()] = nb::make_tuple(f.text, f.unit, f.scope, f.source);
        return d;
      },
      "name"_a, "field -> (value, unit, scope, source) of a chip; empty for `generic`.");
  m.def(
      "nearest",
      [](const std::string& word, const std::vector<std::string>& words) {
        return std::string(ir::nearest(word, {words.begin(), words.end()}));
      },
      "word"_a, "words"_a, "Which of the words somebody meant who wrote another one; empty where none is near.");
  m.def(
      "nearest_chip", [](const std::string& name) { return std::string(hw::nearest_chip(name)); }, "name"_a,
      "The same of the names of chips, by which their device kinds and their models go, too.");
  m.def("options", &options, "The options of a run, each a dictionary: name, values of a choice, and what is allowed.");
  m.def("options_text", &options_text, "values"_a,
        "The options of these values (name -> text) as executables and capsules keep them; raises ValueError.");
  m.def("diagnostics", &diagnostics, "Code -> (severity, whom it is about, title) of every diagnostic.");
}

}  // namespace pallasim::python
