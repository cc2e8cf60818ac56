// pallasim run, check and info of a capsule: a recorded program, launch by launch.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "commands.h"
#include "io.h"
#include "pallasim/capsule/npy.h"
#include "pallasim/capsule/replay.h"
#include "progress.h"
#include "verdict.h"

namespace pallasim::cli {
namespace {

// What a step of a replay says: text for people, JSON, and files.
class Shown {
 public:
  Shown(const RunOptions& o, Out& out) : options_(o), out_(out) {}

  void show(Replayed& r) {
    for (const std::string& line : r.prints) out_.text(escaped(line) + '\n');
    for (const ir::Diagnostic& d : r.findings) code_ = std::max(code_, out_.finding(d));
    for (const LaunchOutcome& l : r.launches) {
      if (!options_.out.empty()) write(l);
      out_.text(fmt::format("launch {:<3} {} on device {}{}: {}\n", l.number, escaped(l.kernel), l.device,
                            r.chip.empty() ? "" : ", " + r.chip, l.verdict));
      out_.object["launches"].push_back(to_json(l));
    }
    if (options_.time && !r.seconds.empty())
      out_.text(fmt::format("           least {:.3f} ms of {}\n",
                            1e3 * *std::min_element(r.seconds.begin(), r.seconds.end()), r.seconds.size()));
  }
  int code() const { return code_; }

 private:
  void write(const LaunchOutcome& l) const {
    if (!l.compared) return;
    const std::string folder =
        fmt::format("{}{}launch-{}", options_.out, options_.out.back() == '/' ? "" : "/", l.number);
    make_directory(folder);
    for (size_t i = 0; i < l.outputs.size(); ++i) {
      const Array& a = l.outputs[i].array;
      write_file(fmt::format("{}/{}-{}.npy", folder, i, safe_file_name(l.outputs[i].name)),
                 npy_file(a.data.data(), a.dtype, a.dims));
    }
  }

  const RunOptions& options_;
  Out& out_;
  int code_ = kOk;
};

std::string header(const Capsule& c, const std::string& file) {
  std::set<std::string> modules;
  for (const CapsuleLaunch& l : c.launches()) modules.insert(l.module);
  return fmt::format("capsule  {}: {} {} of {} {}, recorded with {}\n", escaped(shown(file)), c.launches().size(),
                     c.launches().size() == 1 ? "launch" : "launches", modules.size(),
                     modules.size() == 1 ? "kernel" : "kernels", escaped(c.recorded_by()));
}

std::string list(const std::vector<CapsuleArray>& arrays) {
  std::string r;
  for (const CapsuleArray& a : arrays)
    r += fmt::format("{}{} {}[{}]", r.empty() ? "" : ", ", escaped(a.name), ir::name(a.dtype), fmt::join(a.dims, ","));
  return r.empty() ? "nothing" : r;
}

Json list_json(const std::vector<CapsuleArray>& arrays) {
  Json all = Json::array();
  for (const CapsuleArray& a : arrays) {
    all.push_back({{"name", a.name}, {"dtype", ir::name(a.dtype)}, {"shape", a.dims}});
    all.back()["file"] = a.file.empty() ? Json() : Json(a.file);
  }
  return all;
}

constexpr int64_t kInspectBytes = 8LL << 30;

}  // namespace

void refuse_operands(const RunOptions& o) {
  if (!o.args.empty() || !o.dims.empty() || !o.fill.empty())
    fail("PS-CLI-001", "--arg, --dim and --fill have no use here: a capsule has its own inputs");
}

int replay(const RunOptions& o, const std::string& bytes, Out& out) {
  const int64_t budget = engine_options(o).max_memory - static_cast<int64_t>(bytes.size());
  const Capsule c(bytes, shown(o.file), budget);
  refuse_operands(o);
  ReplayOptions how;
  how.launch = o.launch;
  how.tolerance = {o.rtol, o.atol};
  how.repeat = o.repeat;
  how.adapt = [&o](interp::Options recorded) { return engine_options(o, std::move(recorded)); };
  how.progress = [&o](const std::string& kernel) {
    const auto line = std::make_shared<ProgressLine>(o.progress, escaped(kernel));
    return std::shared_ptr<interp::Progress>(line, line->counter());
  };
  out.text(header(c, o.file));
  out.object.update(outcome_json(c, o.file));
  Shown says(o, out);
  replay(c, shown(o.file), budget, how, [&](Replayed& r) { says.show(r); });
  if (!o.launch && c.omitted()) out.text(fmt::format("{} later launches were not recorded\n", c.omitted()));
  return says.code();
}

int check_capsule(const std::string& file, const std::string& bytes, const CheckOptions& o, Out& out, Json* result) {
  const Capsule capsule(bytes, shown(file), kInspectBytes);
  int code = kOk;
  std::set<std::string> modules;
  for (const CapsuleLaunch& l : capsule.launches()) {
    interp::parse_options(l.options);
    for (const auto* arrays : {&l.arguments, &l.results}) {
      for (const CapsuleArray& a : *arrays) {
        int64_t budget = kInspectBytes;
        if (!a.file.empty()) capsule.array(a, &budget);
      }
    }
    if (!modules.insert(l.module).second) continue;
    try {
      const std::string text = capsule.module_text(l), name = shown(file) + "/" + l.module;
      if (!o.chips.empty()) {
        code = std::max(code, check_on_chips(text, name, o, out, result));
        continue;
      }
      ir::Module m = load_module(text, name);
      if (m.params.empty()) placed(m, [&] { return interp::compile(std::move(m)); });
    } catch (const ir::DiagnosticError& e) {
      out.finding(e.diagnostic());
      code = std::max(code, exit_code_of(e.diagnostic()));
    }
  }
  if (code == kOk)
    out.text(fmt::format("{}: ok: {} {} of {} {}\n", escaped(shown(file)), capsule.launches().size(),
                         capsule.launches().size() == 1 ? "launch" : "launches", modules.size(),
                         modules.size() == 1 ? "kernel" : "kernels"));
  (*result)["ok"] = code == kOk;
  return code;
}

int info_capsule(const std::string& file, const std::string& bytes, const InfoOptions& o, Out& out) {
  const Capsule capsule(bytes, shown(file), kInspectBytes);
  out.text(fmt::format("capsule  {}\nby       {}\n", escaped(shown(file)), escaped(capsule.recorded_by())));
  out.object["recorded_by"] = capsule.recorded_by();
  out.object["omitted"] = capsule.omitted();
  out.object["launches"] = Json::array();
  size_t number = 0;
  for (const CapsuleLaunch& l : capsule.launches()) {
    out.text(
        fmt::format("launch {:<2}{} on device {}, {}\n", ++number, escaped(l.kernel), l.device, escaped(l.module)));
    out.text(fmt::format("  in     {}\n  out    {}\n", list(l.arguments), list(l.results)));
    if (!l.options.empty()) out.text(fmt::format("  with   {}\n", escaped(l.options)));
    if (!l.error.empty()) out.text(fmt::format("  ended  {}\n", escaped(l.error)));
    out.object["launches"].push_back({{"launch", number},
                                      {"kernel", l.kernel},
                                      {"device", l.device},
                                      {"module", l.module},
                                      {"options", l.options},
                                      {"arguments", list_json(l.arguments)},
                                      {"results", list_json(l.results)}});
    out.object["launches"].back()["error"] = l.error.empty() ? Json() : Json(l.error);
  }
  if (capsule.omitted()) out.text(fmt::format("{} later launches were not recorded\n", capsule.omitted()));
  std::set<std::string> modules;
  for (const CapsuleLaunch& l : capsule.launches()) {
    if (o.chips.empty() || !modules.insert(l.module).second) continue;
    out.text(fmt::format("{}\n", escaped(l.module)));
    show_verdicts(capsule.module_text(l), shown(file) + "/" + l.module, o, out);
  }
  return kOk;
}

}  // namespace pallasim::cli
