// pallasim check, fmt and info: everything that does not run the kernel.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "commands.h"
#include "io.h"
#include "pallasim/capsule/archive.h"
#include "pallasim/hw/machine.h"
#include "pallasim/hw/occupancy.h"
#include "pallasim/hw/rules.h"
#include "verdict.h"

namespace pallasim::cli {
namespace {

template <class F>
void for_each_op(const ir::Region& region, const F& f) {
  for (const ir::Op& op : region.ops) {
    f(op);
    for (const ir::Region& inner : op.regions) for_each_op(inner, f);
  }
}

// Comments outside of strings: canonical text has none, so formatting loses them.
int count_comments(std::string_view text) {
  int n = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      in_string = false;
    } else if (in_string) {
      if (text[i] == '\\') ++i;
      else in_string = text[i] != '"';
    } else if (text[i] == '"') {
      in_string = true;
    } else if (text[i] == '/' && i + 1 < text.size() && text[i + 1] == '/') {
      ++n;
      i = std::min(text.find('\n', i), text.size());
    }
  }
  return n;
}

std::string block_text(const ir::Operand& p) {
  std::string r;
  for (const ir::BlockDim& b : p.block) {
    r += r.empty() ? "" : ", ";
    switch (b.kind) {
      case ir::BlockDim::Kind::Blocked: r += fmt::format("{}", b.size); break;
      case ir::BlockDim::Kind::Squeezed: r += "squeezed"; break;
      case ir::BlockDim::Kind::Element: r += fmt::format("element({}, {}, {})", b.size, b.pad_lo, b.pad_hi); break;
      case ir::BlockDim::Kind::BoundedSlice: r += fmt::format("bounded({})", b.size); break;
      case ir::BlockDim::Kind::Indirect: r += fmt::format("indirect({})", b.size); break;
    }
  }
  return "[" + r + "]";
}

// Bytes, or nothing while a shape parameter is unbound. The verifier has checked static products.
std::optional<int64_t> bytes_of(const ir::Type& t) {
  if (!t.is_static() || !t.members.empty()) return std::nullopt;
  return t.num_bytes();
}

std::optional<int64_t> block_bytes(const ir::Operand& p) {
  int64_t n = ir::byte_size(p.array->dtype);
  for (const ir::BlockDim& b : p.block)
    if (b.kind != ir::BlockDim::Kind::Squeezed && __builtin_mul_overflow(n, b.size, &n)) return std::nullopt;
  return n;
}

const char* kind_name(ir::Operand::Kind k) {
  return k == ir::Operand::Kind::Prefetch ? "prefetch" : k == ir::Operand::Kind::Input ? "input" : "output";
}

struct OpCounts {
  std::array<int64_t, 3> by_fidelity{};
  std::map<std::string, int64_t> by_name;
  int64_t body = 0, index_maps = 0;
};

OpCounts count_ops(const ir::Module& m) {
  OpCounts c;
  for (const ir::Body& b : m.bodies) {
    for_each_op(b.graph.region, [&](const ir::Op& op) {
      if (op.code == ir::OpCode::yield) return;
      ++c.body;
      ++c.by_fidelity[static_cast<size_t>(ir::info(op.code).fidelity)];
      ++c.by_name[std::string(ir::name(op.code))];
    });
  }
  for (const ir::Operand& p : m.operands)
    if (p.index_map)
      for_each_op(p.index_map->region, [&](const ir::Op& op) { c.index_maps += op.code != ir::OpCode::yield; });
  return c;
}

void show_memory(const ir::Module& m, Out& out) {
  size_t width = 0;
  for (const auto& p : m.operands) width = std::max(width, escaped(p.name).size());
  for (const auto& s : m.scratch) width = std::max(width, escaped(s.name).size());
  out.object["operands"] = Json::array();
  for (const ir::Operand& p : m.operands) {
    const auto whole = bytes_of(*p.array);
    out.text(fmt::format("{:8} {:{}}  {} in {}", kind_name(p.kind), escaped(p.name), width, ir::to_string(p.array),
                         ir::name(p.space)));
    if (whole) out.text(", " + human_bytes(*whole));
    Json j = {
        {"kind", kind_name(p.kind)}, {"name", p.name}, {"type", ir::to_string(p.array)}, {"space", ir::name(p.space)}};
    j["bytes"] = whole ? Json(*whole) : Json();
    if (p.has_block) {
      const auto block = block_bytes(p);
      out.text(", block " + block_text(p) + (block ? " = " + human_bytes(*block) : ""));
      j["block"] = block_text(p);
      j["block_bytes"] = block ? Json(*block) : Json();
    }
    out.text("\n");
    out.object["operands"].push_back(std::move(j));
  }
  for (const ir::Scratch& s : m.scratch) {
    const auto bytes = bytes_of(*s.type);
    out.text(fmt::format("scratch  {:{}}  {}", escaped(s.name), width, escaped(ir::to_string(s.type))));
    out.text(bytes ? ", " + human_bytes(*bytes) + "\n" : "\n");
    out.object["scratch"].push_back(
        {{"name", s.name}, {"type", ir::to_string(s.type)}, {"bytes", bytes ? Json(*bytes) : Json()}});
  }
  for (const ir::Alias& a : m.aliases) {
    out.text(fmt::format("alias    input {} and output {} share a buffer\n", a.input, a.output));
    out.object["aliases"].push_back({{"input", a.input}, {"output", a.output}});
  }
}

}  // namespace

std::string shown(const std::string& file) { return file == "-" ? "<stdin>" : file; }

std::string read_program(const std::string& file, int64_t max_capsule_bytes) {
  return read_input(file, ir::Limits{}.max_text_bytes, max_capsule_bytes);
}

ir::Module load_module(const std::string& text, const std::string& file) {
  ir::Module m = ir::parse(text, shown(file), {}, ir::Unplaced::Text);
  ir::verify(m);
  return m;
}

std::string kernel_name(const ir::Module& m) { return m.name.empty() ? "(no name)" : escaped(m.name); }

std::string grid_text(const ir::Module& m, const std::vector<int64_t>& bounds) {
  std::string r;
  for (const ir::GridAxis& a : m.grid) {
    r += r.empty() ? "" : " x ";
    const auto bound = static_cast<size_t>(a.dynamic);
    if (a.dynamic >= 0 && bound >= bounds.size()) r += fmt::format("(bound {})", a.dynamic);
    else r += fmt::format("{}", a.dynamic >= 0 ? bounds[bound] : a.size);
  }
  return r.empty() ? "of 1 point" : r;
}

int check(const CheckOptions& o, Out& out) {
  int code = kOk;
  for (const std::string& file : o.files) {
    out.sarif.about(file);
    Json j = {{"file", file}};
    try {
      const std::string text = read_program(file);
      if (looks_like_zip(text)) {
        code = std::max(code, check_capsule(file, text, o, out, &j));
        out.object["files"].push_back(std::move(j));
        continue;
      }
      if (!o.chips.empty()) {
        code = std::max(code, check_on_chips(text, file, o, out, &j));
        out.object["files"].push_back(std::move(j));
        continue;
      }
      ir::Module m = load_module(text, file);
      const std::string kernel = kernel_name(m);
      const int64_t ops = count_ops(m).body;
      if (m.params.empty()) placed(m, [&] { return interp::compile(std::move(m)); });
      out.text(fmt::format("{}: ok: kernel {}, {} {}\n", escaped(shown(file)), kernel, ops,
                           ops == 1 ? "operation" : "operations"));
      j["ok"] = true;
    } catch (const ir::DiagnosticError& e) {
      out.finding(e.diagnostic());
      j["ok"] = false;
      code = std::max(code, exit_code_of(e.diagnostic()));
    }
    out.object["files"].push_back(std::move(j));
  }
  return code;
}

int check_on_chips(const std::string& text, const std::string& file, const CheckOptions& o, Out& out, Json* result) {
  int code = kOk;
  for (const hw::Profile* chip : chips_of(o.chips)) {
    ir::Module m = load_module(text, file);  // running it takes the module
    const std::string where = fmt::format("{}: ", escaped(shown(file))), kernel = kernel_name(m);
    const std::string open = not_looked_at(m, *chip);
    const Verdict v = m.params.empty() ? hold_against(std::move(m), *chip) : Verdict{chip, {}};
    for (const ir::Diagnostic& d : v.remarks) code = std::max(code, out.finding(d));
    if (v.reasons > 0)
      out.text(fmt::format("{}refused: kernel {} on {}, {} {}\n", where, kernel, chip->name, v.reasons,
                           v.reasons == 1 ? "reason" : "reasons"));
    else if (!open.empty())
      out.text(fmt::format("{}ok: kernel {}; no rule of {} was looked at: {}\n", where, kernel, chip->name, open));
    else out.text(fmt::format("{}ok: kernel {} on {}\n", where, kernel, chip->name));
    (*result)["chips"][chip->name] = v.reasons > 0 ? Json(v.why()) : Json();
  }
  (*result)["ok"] = code == kOk;
  return code;
}

int format(const FmtOptions& o, Out& out) {
  const std::string text = read_program(o.file);
  if (looks_like_zip(text))
    fail("PS-CLI-001", fmt::format("{} is a capsule, not a kernel", escaped(o.file)), {},
         "unzip it: its kernels are modules/*.psir");
  ir::Module m = ir::parse(text, shown(o.file));
  ir::PrintOptions print;
  print.literal_comments = o.literals;
  const std::string formatted = ir::print(m, print);
  const bool same = formatted == text;
  out.object["formatted"] = same;
  if (o.check) {
    if (!same) out.text(fmt::format("{}: not in canonical form\n", escaped(shown(o.file))));
    return same ? kOk : kFinding;
  }
  const int comments = count_comments(text);
  if (o.in_place) {
    if (o.file == "-") fail("PS-CLI-001", "--in-place needs a file, not standard input");
    if (comments > 0 && !o.drop_comments && !o.literals) {
      fail("PS-CLI-001",
           fmt::format("{} has {} {}, which the canonical form cannot keep", o.file, comments,
                       comments == 1 ? "comment" : "comments"),
           {}, "--drop-comments formats it all the same");
    }
    if (!same) write_file(o.file, formatted);
    return kOk;
  }
  out.text(formatted);
  out.object["text"] = formatted;
  return kOk;
}

// What a kernel keeps in the memories of a core, and of how much where one chip is asked about.
static void show_occupancy(const ir::Module& m, const std::vector<const hw::Profile*>& chips, Out& out) {
  for (const hw::SpaceUse& use : hw::space_use(m)) {
    std::string buffers;
    Json list = Json::array();
    for (const hw::BufferUse& b : use.buffers) {
      buffers += fmt::format("{}{}{}", buffers.empty() ? "" : ", ",
                             b.copies > 1 ? std::to_string(b.copies) + " x " : "", escaped(b.name));
      list.push_back({{"name", b.name}, {"bytes", b.bytes}, {"copies", b.copies}, {"what", b.role}});
    }
    const bool counted = use.space == ir::Space::Semaphore;
    const char* figure = hw::model(m).spaces[use.space].capacity.figure;
    const int64_t whole = figure && chips.size() == 1 ? chips[0]->capacity(figure) : hw::kUnknown;
    const std::string of = whole == hw::kUnknown ? "" : fmt::format(", which has {}", human_bytes(whole));
    out.text(fmt::format("fills    {} {}{}{}: {}\n", ir::name(use.space),
                         counted ? std::to_string(use.bytes) : human_bytes(use.bytes), counted ? "" : " of a core", of,
                         buffers));
    out.object["occupancy"].push_back(
        {{"space", ir::name(use.space)}, {counted ? "count" : "bytes", use.bytes}, {"buffers", list}});
    if (whole != hw::kUnknown) out.object["occupancy"].back()["capacity"] = whole;
  }
}

// Which of its machine's chips' compilers take it.
static void show_chips(const ir::Module& m, hw::Family family, Out& out) {
  const bool known = hw::knows_compiler(m);
  std::string takes;
  for (const hw::Profile& p : hw::profiles()) {
    if (p.family != family) continue;
    std::string why;
    for (const ir::Diagnostic& d : hw::broken_rules(m, p))
      if (why.empty() && d.severity == ir::Severity::Error) why = fmt::format("{}: {}", d.code.text(), d.message);
    if (why.empty()) takes += (takes.empty() ? "" : ", ") + p.name;
    else out.text(fmt::format("chip     {} refuses it: {}\n", p.name, escaped(why)));
    if (known || !why.empty()) out.object["chips"][p.name] = why.empty() ? Json() : Json(why);
  }
  if (!takes.empty() && known) out.text(fmt::format("chips    {} take it\n", takes));
}

void show_verdicts(const std::string& text, const std::string& file, const InfoOptions& o, Out& out) {
  for (const hw::Profile* chip : chips_of(o.chips)) {
    ir::Module m = load_module(text, file);
    if (!o.dims.empty()) m = ir::bind_shapes(m, parse_dims(o.dims));
    if (const std::string open = not_looked_at(m, *chip); !open.empty()) {
      out.text(fmt::format("chip     {}: no rule was looked at: {}\n", chip->name, open));
      continue;
    }
    const Verdict v = hold_against(std::move(m), *chip);
    for (const ir::Diagnostic& d : v.remarks)
      out.text(fmt::format("chip     {} {}: {}: {}\n", chip->name,
                           d.severity == ir::Severity::Error ? "refuses it" : "may not take it", d.code.text(),
                           escaped(d.message)));
    if (v.remarks.empty()) out.text(fmt::format("chip     {}: nothing refuses it\n", chip->name));
    out.object["chips"][chip->name] = v.reasons > 0 ? Json(v.why()) : Json();
  }
}

// How many thread blocks each GPU holds at a time, and what each of its resources would allow.
void show_residency(const ir::Module& m, const std::vector<std::string>& chips, Out& out) {
  const hw::BlockNeeds needs = hw::block_needs(m);
  for (const hw::Profile& p : hw::profiles()) {
    if (p.family != hw::Family::Gpu) continue;
    if (!chips.empty() && std::find(chips.begin(), chips.end(), p.name) == chips.end()) continue;
    const hw::Residency r = hw::residency(needs, p);
    if (r.blocks == hw::kUnknown) continue;
    out.text(
        fmt::format("holds    {:10} {:6} blocks: {} on each of {} SMs\n", p.name, r.blocks, r.per_sm, p.device_cores));
    Json list = Json::array();
    for (const auto& l : r.limits) {
      out.text(fmt::format("           {:16} {:4}  {}\n", l.resource, l.blocks, l.why));
      list.push_back({{"resource", l.resource}, {"blocks", l.blocks}, {"why", l.why}});
    }
    out.object["resident"][p.name] = {{"blocks", r.blocks}, {"per_sm", r.per_sm}, {"limits", list}};
  }
}

// What the passes did to the kernel, and what it was before and after those that are asked for.
static void show_passes(const InfoOptions& o, const interp::PassObserver& watch, Out& out) {
  const auto asked = [](const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (o.passes) out.text("passes\n");
  for (const interp::PassRow& row : interp::pass_rows()) {
    const auto run =
        std::find_if(watch.runs.begin(), watch.runs.end(), [&](const auto& r) { return r.name == row.name; });
    const bool ran = run != watch.runs.end();
    if (o.passes) {
      out.text(fmt::format("{:>16} {:>6}  {}\n", row.name, ran ? fmt::format("{}", run->changes) : "-", row.what));
      out.object["passes"].push_back({{"name", row.name}, {"changes", ran ? Json(run->changes) : Json()}});
    }
  }
  for (const interp::PassObserver::Run& run : watch.runs) {
    const std::string name(run.name);
    if (asked(o.print_before, name)) {
      out.text(fmt::format("before {}\n{}", name, run.before));
      out.object["before"][name] = run.before;
    }
    if (asked(o.print_after, name)) {
      out.text(fmt::format("after {}\n{}", name, run.after));
      out.object["after"][name] = run.after;
    }
  }
}

int info(const InfoOptions& o, Out& out) {
  const std::string text = read_program(o.file);
  if (looks_like_zip(text)) return info_capsule(o.file, text, o, out);
  ir::Module m = load_module(text, o.file);
  if (!o.dims.empty()) m = ir::bind_shapes(m, parse_dims(o.dims));
  out.object["kernel"] = m.name;
  out.object["machine"] = ir::name(m.machine);
  out.text(fmt::format("kernel   {}\nmachine  {}\ngrid     {}\n", kernel_name(m), ir::name(m.machine), grid_text(m)));
  out.object["grid"] = Json::array();
  for (const ir::GridAxis& a : m.grid) {
    Json j = {{"size", a.dynamic >= 0 ? Json() : Json(a.size)}};
    if (a.dynamic >= 0) j["dynamic"] = a.dynamic;
    if (!a.name.empty()) j["name"] = a.name;
    if (!a.semantics.empty()) j["semantics"] = a.semantics;
    out.object["grid"].push_back(std::move(j));
  }
  for (const ir::Mesh& mesh : m.meshes) {
    std::string axes;
    Json list = Json::array();
    for (const ir::MeshAxis& a : mesh.axes) {
      axes += fmt::format("{}{} {}", axes.empty() ? "" : ", ", escaped(a.name), a.size);
      list.push_back({{"name", a.name}, {"size", a.size}});
    }
    out.text(fmt::format("mesh     {} of {}: {}\n", escaped(mesh.name), escaped(mesh.kind), axes));
    out.object["meshes"].push_back({{"name", mesh.name}, {"kind", mesh.kind}, {"axes", list}});
  }
  for (const std::string& p : m.params) out.text(fmt::format("shape    {} is bound at the call\n", escaped(p)));
  if (!m.params.empty()) out.object["params"] = m.params;
  show_memory(m, out);

  const OpCounts ops = count_ops(m);
  out.text(
      fmt::format("ops      in the body {}: exact {}, within a bound of ULPs {}, contractions {}; in index maps {}\n",
                  ops.body, ops.by_fidelity[0], ops.by_fidelity[1], ops.by_fidelity[2], ops.index_maps));
  out.object["ops"] = {{"body", ops.body},          {"index_maps", ops.index_maps},      {"exact", ops.by_fidelity[0]},
                       {"ulp", ops.by_fidelity[1]}, {"contraction", ops.by_fidelity[2]}, {"by_name", ops.by_name}};

  const hw::Family family = hw::model(m).family;
  const std::vector<const hw::Profile*> chips = chips_of(o.chips);
  if (m.params.empty() && family != hw::Family::Generic) show_occupancy(m, chips, out);
  if (!chips.empty()) show_verdicts(text, o.file, o, out);
  else if (m.params.empty() && family != hw::Family::Generic) show_chips(m, family, out);
  if (m.params.empty() && family == hw::Family::Gpu) show_residency(m, o.chips, out);
  if (!m.params.empty()) {
    out.text("runs     not known before --dim gives the shape parameters\n");
    out.object["runs"] = nullptr;
    return kOk;
  }
  interp::Options options;
  if (!chips.empty()) options.chip = chips[0], options.rules = interp::Options::Rules::Off;
  options.without = o.without;
  interp::PassObserver watch{o.print_before, {}};
  watch.print.insert(watch.print.end(), o.print_after.begin(), o.print_after.end());
  // Steps, and kernels after passes, name lines of the kernel alone.
  if ((o.plan || !watch.print.empty()) && o.dims.empty()) m = ir::parse(text, shown(o.file));
  try {
    const auto plan = placed(m, [&] { return interp::compile(std::move(m), options, watch); });
    out.text("runs     yes\n");
    out.object["runs"] = true;
    show_passes(o, watch, out);
    if (o.plan) {
      const std::string steps = interp::dump(*plan);
      out.text("plan\n" + steps);
      out.object["plan"] = steps;
    }
  } catch (const ir::DiagnosticError& e) {
    if (exit_code_of(e.diagnostic()) == kInternal) throw;
    out.text(fmt::format("runs     no: {}\n", escaped(e.diagnostic().message)));
    for (const std::string& n : e.diagnostic().numbers) out.text(fmt::format("         {}\n", escaped(n)));
    out.object["runs"] = false;
    out.object["why_not"] = to_json_object(e.diagnostic());
    show_passes(o, watch, out);
  }
  return kOk;
}

}  // namespace pallasim::cli
