// pallasim run, check and info of a capsule: a recorded program, launch by launch.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "capsule.h"
#include "commands.h"
#include "io.h"
#include "npy.h"
#include "pallasim/interp/options.h"
#include "progress.h"
#include "verdict.h"

namespace pallasim::cli {
namespace {

struct Difference {
  int64_t count = 0, first = 0, worst = 0;  // elements in row-major order
  double greatest = 0;                      // among those that differ and are numbers
};

bool same_bytes(const std::byte* a, const std::byte* b, ir::DType t) {
  return std::memcmp(a, b, static_cast<size_t>(ir::byte_size(t))) == 0;
}

// With all digits: values that differ in the last bit read differently.
std::string exact_text(const std::byte* element, ir::DType t) {
  if (t == ir::DType::F32) return fmt::format("{}", static_cast<float>(to_double(element, t)));
  if (t == ir::DType::F64) return fmt::format("{}", to_double(element, t));
  return element_text(element, t);
}

bool within(double got, double want, const RunOptions& o) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (std::isinf(got) || std::isinf(want)) return got == want;
  return std::fabs(got - want) <= o.atol + o.rtol * std::fabs(want);
}

Difference compare(const Array& got, const Array& want, const RunOptions& o) {
  Difference d;
  const int size = ir::byte_size(got.dtype);
  const bool number = ir::is_float(got.dtype) || ir::is_signed_int(got.dtype) || ir::is_unsigned_int(got.dtype);
  const bool tolerant = ir::is_float(got.dtype) && (o.rtol > 0 || o.atol > 0);
  for (int64_t i = 0; i < got.elements(); ++i) {
    const std::byte *a = &got.data[static_cast<size_t>(i * size)], *b = &want.data[static_cast<size_t>(i * size)];
    if (same_bytes(a, b, got.dtype)) continue;
    const double x = number ? to_double(a, got.dtype) : 0, y = number ? to_double(b, got.dtype) : 0;
    if (tolerant && within(x, y, o)) continue;
    if (d.count++ == 0) d.first = d.worst = i;
    const double by = std::fabs(x - y);
    if (by > d.greatest) d.greatest = by, d.worst = i;
  }
  return d;
}

std::string index_text(int64_t element, const std::vector<int64_t>& dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t i = dims.size(); i-- > 0; element /= dims[i]) index[i] = element % dims[i];
  return fmt::format("[{}]", fmt::join(index, ", "));
}

// Options that decide what a kernel computes.
constexpr const char* kMeanings[] = {"machine",   "numerics", "uninitialized_memory", "out_of_bounds", "padding",
                                     "pipeline",  "cores",    "dma_execution_mode",   "random_seed",   "replay",
                                     "grid_order"};

class Replay {
 public:
  Replay(const RunOptions& o, const std::string& bytes, Out& out)
      : options_(o), out_(out), capsule_(bytes, shown(o.file), budget_of(o, bytes)), budget_(budget_of(o, bytes)) {}

  int run() {
    const auto& launches = capsule_.launches();
    refuse_options();
    header();
    out_.object["launches"] = Json::array();
    for (size_t i = 0; i < launches.size();) {
      const size_t n = std::min(launches.size() - i, devices_of(launches[i]));
      const auto chosen = static_cast<size_t>(options_.launch);
      if (!chosen || (chosen > i && chosen <= i + n)) together(std::span(launches).subspan(i, n), i + 1);
      i += n;
    }
    if (!options_.launch && capsule_.omitted())
      out_.text(fmt::format("{} later launches were not recorded\n", capsule_.omitted()));
    return code_;
  }

 private:
  void refuse_options() const {
    if (!options_.args.empty() || !options_.dims.empty() || !options_.fill.empty())
      fail("PS-CLI-001", "--arg, --dim and --fill have no use here: a capsule has its own inputs");
    if (options_.launch > static_cast<int64_t>(capsule_.launches().size()))
      fail("PS-CLI-001", fmt::format("--launch {}: the launches of the capsule are 1 to {}", options_.launch,
                                     capsule_.launches().size()));
  }

  void header() {
    std::set<std::string> modules;
    for (const CapsuleLaunch& l : capsule_.launches()) modules.insert(l.module);
    out_.text(fmt::format("capsule  {}: {} {} of {} {}, recorded with {}\n", escaped(shown(options_.file)),
                          capsule_.launches().size(), capsule_.launches().size() == 1 ? "launch" : "launches",
                          modules.size(), modules.size() == 1 ? "kernel" : "kernels", escaped(capsule_.recorded_by())));
    out_.object["capsule"] = options_.file;
    out_.object["recorded_by"] = capsule_.recorded_by();
    out_.object["omitted"] = capsule_.omitted();
  }

  static int64_t budget_of(const RunOptions& o, const std::string& bytes) {
    return engine_options(o).max_memory - static_cast<int64_t>(bytes.size());
  }

  void finding(ir::Diagnostic d) { code_ = std::max(code_, out_.finding(d)); }

  // What this run has otherwise than the recording, the chip first, explains a difference before anything else does.
  ir::Diagnostic differs(ir::Code code, const CapsuleLaunch& l, std::string message) const {
    const interp::Options then = interp::parse_options(l.options), now = engine_options(options_, then);
    ir::Diagnostic d = ir::Diagnostic(code, std::move(message)).of(l.kernel);
    if (now.chip->family != hw::Family::Generic) d.chip = now.chip->name;
    for (const char* name : kMeanings) {
      const interp::OptionRow& row = *interp::find_option(name);
      const std::string a = interp::option_text(then, row), b = interp::option_text(now, row);
      if (a == b) continue;
      d.numbers.push_back(fmt::format("recorded with {} {}, run with {}",
                                      row.kind == interp::OptionRow::Kind::Chip ? "chip" : name, a.empty() ? "none" : a,
                                      b.empty() ? "none" : b));
    }
    if (now.chip != then.chip)
      d.hint = fmt::format(
          "{} is another machine: its cores, rules, rounding and memory are others; without --chip the run is that of "
          "the recording",
          now.chip->name);
    else if (!d.numbers.empty()) d.hint = "without these options the run is that of the recording";
    return d;
  }

  // Launches of one module with the same options share a plan.
  std::shared_ptr<const interp::Plan> plan_of(const CapsuleLaunch& l, const interp::Options& options) {
    auto& plan = plans_[{l.module, l.options}];
    if (!plan) {
      ir::Module m = ir::parse(capsule_.module_text(l), shown(options_.file) + "/" + l.module);
      plan = placed(m, [&] { return interp::compile(std::move(m), options); });
    }
    return plan;
  }

  // How many recorded launches are one: those of devices that reach into each other follow each other.
  size_t devices_of(const CapsuleLaunch& l) {
    try {
      return static_cast<size_t>(
          interp::devices_of(*plan_of(l, engine_options(options_, interp::parse_options(l.options)))));
    } catch (const ir::DiagnosticError&) {
      return 1;  // its own launch reports it
    }
  }

  std::vector<Argument> arguments(const CapsuleLaunch& l, int64_t* budget) {
    std::vector<Argument> all;
    for (const CapsuleArray& a : l.arguments) {
      all.push_back({nullptr, a.name, {}, {}});
      all.back().array = capsule_.array(a, budget);
      if (ir::is_sync(a.dtype)) rename_semaphores(&all.back().array);
    }
    return all;
  }

  // An array of semaphores holds handles, which a session gives out: those of the recording stand for those of this
  // run.
  void rename_semaphores(Array* a) const {
    for (size_t at = 0; at + 4 <= a->data.size(); at += 4) {
      int32_t handle;
      std::memcpy(&handle, &a->data[at], 4);
      if (const auto it = semaphores_.find(handle); it != semaphores_.end()) std::memcpy(&a->data[at], &it->second, 4);
    }
  }
  void learn_semaphores(const Array& got, const Array& recorded) {
    for (size_t at = 0; at + 4 <= got.data.size(); at += 4) {
      int32_t here, there;
      std::memcpy(&here, &got.data[at], 4);
      std::memcpy(&there, &recorded.data[at], 4);
      semaphores_[there] = here;
    }
  }

  static std::vector<Argument> results(const CapsuleLaunch& l, int64_t* budget) {
    std::vector<Argument> all;
    for (const CapsuleArray& a : l.results) {
      if (a.bytes > *budget)
        fail("PS-SIZE-001", fmt::format("output {} is too large", escaped(a.name)),
             {fmt::format("{} bytes do not fit into the {} that are left", a.bytes, *budget)},
             "raise --max-memory if the machine has more");
      *budget -= a.bytes;
      all.push_back({nullptr, a.name, {}, {}});
      all.back().array = {a.dtype, a.dims, std::vector<std::byte>(static_cast<size_t>(a.bytes))};
    }
    return all;
  }

  // One launch of one device, or of all that reach into each other.
  void together(std::span<const CapsuleLaunch> launches, size_t number) {
    const CapsuleLaunch& l = launches[0];
    std::vector<Json> all;
    for (size_t i = 0; i < launches.size(); ++i)
      all.push_back({{"launch", number + i}, {"kernel", l.kernel}, {"device", launches[i].device}, {"error", nullptr}});
    std::vector<std::string> verdicts(launches.size());
    int64_t budget = budget_;
    std::string chip;
    try {
      const interp::Options options = engine_options(options_, interp::parse_options(l.options));
      if (options.chip->family != hw::Family::Generic) chip = options.chip->name;
      const auto plan = plan_of(l, options);
      std::vector<std::vector<Argument>> in, to;
      for (const CapsuleLaunch& device : launches) {
        in.push_back(arguments(device, &budget));
        to.push_back(results(device, &budget));
      }
      launch(*plan, options, launches, in, to, all);
      for (size_t i = 0; i < launches.size(); ++i) {
        verdicts[i] =
            l.error.empty() ? outputs(launches[i], number + i, to[i], &budget, &all[i]) : "another end than recorded";
      }
      if (!l.error.empty()) {
        ir::Diagnostic d =
            differs("PS-DIFF-002", l, fmt::format("launch {} ended well, but failed when it was recorded", number));
        d.numbers.push_back(fmt::format("recorded: {}", l.error));
        finding(std::move(d));
      }
    } catch (const ir::DiagnosticError& e) {
      const std::string verdict = failed(e.diagnostic(), l, number);
      for (size_t i = 0; i < launches.size(); ++i) {
        verdicts[i] = verdict;
        all[i]["error"] = e.diagnostic().code.text();
      }
    }
    for (size_t i = 0; i < launches.size(); ++i) {
      out_.text(fmt::format("launch {:<3} {} on device {}{}: {}\n", number + i, escaped(l.kernel), launches[i].device,
                            chip.empty() ? "" : ", " + chip, verdicts[i]));
      out_.object["launches"].push_back(std::move(all[i]));
    }
    if (options_.time && !seconds_.empty())
      out_.text(fmt::format("           least {:.3f} ms of {}\n",
                            1e3 * *std::min_element(seconds_.begin(), seconds_.end()), seconds_.size()));
  }

  // Reports a launch that failed; returns the verdict. Throws where the failure is not the kernel's.
  std::string failed(ir::Diagnostic d, const CapsuleLaunch& l, size_t number) {
    if (d.kernel.empty()) d.kernel = l.kernel;
    const int exit = exit_code_of(d);
    if (exit != kFinding && exit != kUnsupported && d.code != l.error) throw ir::DiagnosticError(std::move(d));
    finding(d);
    if (d.code == l.error) return fmt::format("{}, as recorded", d.code.text());
    ir::Diagnostic other =
        differs("PS-DIFF-002", l, fmt::format("launch {} failed, but not when it was recorded", number));
    if (!l.error.empty()) {
      other.message = fmt::format("launch {} failed in another way than when it was recorded", number);
      other.numbers.push_back(fmt::format("recorded: {}", l.error));
    }
    finding(std::move(other));
    return std::string(d.code.text());
  }

  void launch(const interp::Plan& plan, const interp::Options& options, std::span<const CapsuleLaunch> launches,
              std::vector<std::vector<Argument>>& in, std::vector<std::vector<Argument>>& to, std::vector<Json>& all) {
    seconds_.clear();
    interp::Report report;
    std::vector<std::vector<interp::Buffer>> args, results;
    for (size_t i = 0; i < launches.size(); ++i) {
      args.push_back(buffers(in[i]));
      results.push_back(buffers(to[i]));
    }
    std::vector<interp::DeviceCall> calls;
    for (size_t i = 0; i < launches.size(); ++i)
      calls.push_back({static_cast<int32_t>(launches[i].device), args[i], results[i]});
    for (int i = 0; i < options_.repeat; ++i) {
      const auto start = std::chrono::steady_clock::now();
      ProgressLine progress(options_.progress, escaped(launches[0].kernel));
      interp::Outcome outcome = interp::try_launch(plan, session_, calls, options, {nullptr, progress.counter()});
      progress.wipe();
      report = std::move(outcome.report);
      if (outcome.stop) {
        show_prints(report, out_);
        for (const ir::Diagnostic& d : report.findings) finding(d);
        throw ir::DiagnosticError(std::move(*outcome.stop));
      }
      seconds_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    show_prints(report, out_);
    for (Json& j : all) {
      j["prints"] = report.prints;
      j["token"] = report.token;
      j["steps"] = report.steps;
    }
    for (const ir::Diagnostic& d : report.findings) finding(d);
  }

  // Compares the outputs with the recorded ones, reports and writes them. Returns the verdict in words.
  std::string outputs(const CapsuleLaunch& l, size_t number, const std::vector<Argument>& to, int64_t* budget,
                      Json* j) {
    int64_t bytes = 0;
    bool same = true;
    (*j)["outputs"] = Json::array();
    const std::string folder = options_.out.empty() ? ""
                                                    : fmt::format("{}{}launch-{}", options_.out,
                                                                  options_.out.back() == '/' ? "" : "/", number);
    if (!folder.empty()) make_directory(folder);
    for (size_t i = 0; i < to.size(); ++i) {
      const Array& got = to[i].array;
      int64_t left = *budget;
      const Array want = capsule_.array(l.results[i], &left);
      const bool handles = ir::is_sync(got.dtype);
      if (handles) learn_semaphores(got, want);
      const Difference d = handles ? Difference{} : compare(got, want, options_);
      bytes += static_cast<int64_t>(got.data.size());
      if (d.count) {
        same = false;
        finding(difference(l, number, to[i], want, d));
      }
      (*j)["outputs"].push_back({{"name", to[i].name},
                                 {"dtype", ir::name(got.dtype)},
                                 {"shape", got.dims},
                                 {"differing", d.count},
                                 {"greatest_difference", d.greatest}});
      if (!folder.empty())
        write_file(fmt::format("{}/{}-{}.npy", folder, i, safe_file_name(to[i].name)),
                   npy_file(got.data.data(), got.dtype, got.dims));
    }
    (*j)["same"] = same;
    const std::string what =
        fmt::format("{} {}, {}", to.size(), to.size() == 1 ? "output" : "outputs", human_bytes(bytes));
    if (!same) return "differs from the recording";
    return (options_.rtol > 0 || options_.atol > 0 ? "same within the tolerance (" : "same bytes (") + what + ")";
  }

  ir::Diagnostic difference(const CapsuleLaunch& l, size_t number, const Argument& a, const Array& want,
                            const Difference& d) const {
    ir::Diagnostic f =
        differs("PS-DIFF-001", l, fmt::format("output {} of launch {} differs from the recording", a.name, number));
    const auto size = static_cast<size_t>(ir::byte_size(want.dtype));
    auto values = [&](int64_t i) {
      const size_t at = static_cast<size_t>(i) * size;
      return fmt::format("{} here, {} recorded", exact_text(&a.array.data[at], want.dtype),
                         exact_text(&want.data[at], want.dtype));
    };
    f.numbers.push_back(fmt::format("{} of {} elements of {}", d.count, want.elements(), type_text(want)));
    f.numbers.push_back(fmt::format("first at {}: {}", index_text(d.first, want.dims), values(d.first)));
    if (d.worst != d.first)
      f.numbers.push_back(
          fmt::format("most at {}: {}, by {:.6g}", index_text(d.worst, want.dims), values(d.worst), d.greatest));
    if (f.hint.empty() && options_.rtol == 0 && options_.atol == 0 && ir::is_float(want.dtype))
      f.hint = "contractions may round differently on another CPU; --rtol 1e-5 compares with a tolerance";
    return f;
  }

  const RunOptions& options_;
  Out& out_;
  Capsule capsule_;
  int64_t budget_;
  interp::Session session_;  // of all launches, as in the recorded process
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const interp::Plan>> plans_;
  std::map<int32_t, int32_t> semaphores_;  // recorded handle -> handle in session_
  std::vector<double> seconds_;
  int code_ = kOk;
};

std::string list(const std::vector<CapsuleArray>& arrays) {
  std::string r;
  for (const CapsuleArray& a : arrays)
    r += fmt::format("{}{} {}[{}]", r.empty() ? "" : ", ", escaped(a.name), ir::name(a.dtype), fmt::join(a.dims, ","));
  return r.empty() ? "nothing" : r;
}

Json to_json(const std::vector<CapsuleArray>& arrays) {
  Json all = Json::array();
  for (const CapsuleArray& a : arrays) {
    all.push_back({{"name", a.name}, {"dtype", ir::name(a.dtype)}, {"shape", a.dims}});
    all.back()["file"] = a.file.empty() ? Json() : Json(a.file);
  }
  return all;
}

constexpr int64_t kInspectBytes = 8LL << 30;

}  // namespace

int replay(const RunOptions& o, const std::string& bytes, Out& out) { return Replay(o, bytes, out).run(); }

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
                                      {"arguments", to_json(l.arguments)},
                                      {"results", to_json(l.results)}});
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
