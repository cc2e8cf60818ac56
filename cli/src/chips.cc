// pallasim chips: what is known of each chip, and who says so.
#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "io.h"

namespace pallasim::cli {

int chips(const ChipsOptions& o, Out& out) {
  if (o.name.empty()) {
    Json all = Json::array();
    for (const hw::Profile& p : hw::profiles()) {
      const bool gpu = p.family == hw::Family::Gpu;
      out.text(fmt::format(
          "{:9} {:22} {}\n", p.name, p.device_kind,
          p.family == hw::Family::Generic
              ? std::string("refuses nothing that has a meaning")
              : fmt::format("{} {}{}", p.device_cores, gpu ? "SM" : "TensorCore", p.device_cores > 1 ? "s" : "")));
      all.push_back(p.name);
    }
    out.object["chips"] = all;
    return kOk;
  }
  const hw::Chip* chip = hw::find_chip(o.name);
  if (!chip && hw::find_profile(o.name)) {
    out.text(fmt::format("{} is no chip: it has no figures, and refuses nothing that has a meaning\n", o.name));
    out.object["chip"] = o.name;
    out.object["figures"] = Json::array();
    return kOk;
  }
  if (!chip) {
    const std::string_view meant = hw::nearest_chip(o.name);
    std::vector<std::string> names;
    for (const hw::Profile& p : hw::profiles()) names.push_back(p.name);
    fail("PS-CLI-001", fmt::format("there is no chip {}", escaped(o.name)),
         {fmt::format("there are {}", fmt::join(names, ", "))},
         meant.empty() ? "" : fmt::format("did you mean {}?", meant));
  }
  size_t widths[3] = {};
  auto value = [](const hw::Figure& f) { return f.unit.empty() || !f.known ? f.text : f.text + " " + f.unit; };
  for (const hw::Figure& f : chip->figures) {
    widths[0] = std::max(widths[0], f.field.size());
    widths[1] = std::max(widths[1], value(f).size());
    widths[2] = std::max(widths[2], f.scope.size());
  }
  Json figures = Json::array();
  for (const hw::Figure& f : chip->figures) {
    out.text(fmt::format("{:{}}  {:{}}  per {:{}}  {}{}\n", f.field, widths[0], value(f), widths[1], f.scope, widths[2],
                         f.source, f.note.empty() ? "" : "; " + f.note));
    figures.push_back({{"field", f.field},
                       {"value", f.text},
                       {"unit", f.unit},
                       {"scope", f.scope},
                       {"source", f.source},
                       {"note", f.note}});
  }
  out.object["chip"] = chip->name;
  out.object["figures"] = figures;
  return kOk;
}

}  // namespace pallasim::cli
