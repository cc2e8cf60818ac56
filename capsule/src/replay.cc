#include "pallasim/capsule/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>

#include "pallasim/capsule/exit_code.h"
#include "pallasim/capsule/files.h"
#include "pallasim/interp/predict.h"

namespace pallasim::capsule {
namespace {

// Options that decide what a kernel computes.
constexpr const char* kMeanings[] = {"machine",   "numerics", "uninitialized_memory", "out_of_bounds", "padding",
                                     "pipeline",  "cores",    "dma_execution_mode",   "random_seed",   "replay",
                                     "grid_order"};

// An array of semaphores holds handles, which a session gives out: those of the recording stand for those of this run.
class Semaphores {
 public:
  void rename(Array* a) const {
    for (size_t at = 0; at + 4 <= a->data.size(); at += 4) {
      int32_t handle;
      std::memcpy(&handle, &a->data[at], 4);
      if (const auto it = here_.find(handle); it != here_.end()) std::memcpy(&a->data[at], &it->second, 4);
    }
  }
  void learn(const Array& got, const Array& recorded) {
    for (size_t at = 0; at + 4 <= got.data.size(); at += 4) {
      int32_t here, there;
      std::memcpy(&here, &got.data[at], 4);
      std::memcpy(&there, &recorded.data[at], 4);
      here_[there] = here;
    }
  }

 private:
  std::map<int32_t, int32_t> here_;  // by the recorded one
};

std::vector<CapsuleFinding> known_by(const std::vector<ir::Diagnostic>& findings) {
  std::vector<CapsuleFinding> all;
  for (const ir::Diagnostic& d : findings)
    all.push_back({std::string(d.code.text()), d.site.source.file, d.site.source.line});
  std::sort(all.begin(), all.end());
  return all;
}

std::string text(const CapsuleFinding& f) {
  return f.file.empty() ? f.code : fmt::format("{} at {}:{}", f.code, f.file, f.line);
}

interp::Options as_predicted(interp::Options o) {
  static_cast<interp::PlanOptions&>(o) = interp::predicted_options(o);
  return o;
}

class Replay {
 public:
  Replay(const Capsule& c, const std::string& file_name, int64_t max_bytes, const ReplayOptions& o)
      : how_(o),
        launches_(c, file_name, max_bytes, o.adapt),
        timed_(c, file_name, max_bytes, [&o](interp::Options recorded) { return as_predicted(o.adapt(recorded)); }) {}

  void run(const std::function<void(Replayed&)>& each) {
    if (how_.launch > std::ssize(all()))
      fail("PS-CLI-001",
           fmt::format("--launch {}: the launches of the capsule are 1 to {}", how_.launch, all().size()));
    for (size_t i = 0, n; i < all().size(); i += n) {
      n = launches_.devices(i);
      const auto chosen = static_cast<size_t>(how_.launch);
      if (chosen && (chosen <= i || chosen > i + n)) continue;
      Replayed r = together(i, n);
      each(r);
    }
  }

 private:
  std::span<const CapsuleLaunch> all() const { return launches_.all(); }

  // What this run has otherwise than the recording, the chip first, explains a difference before anything else does.
  ir::Diagnostic differs(ir::Code code, size_t i, std::string message, const char* further = nullptr) const {
    const CapsuleLaunch& l = all()[i];
    const interp::Options then = interp::parse_options(l.options), now = launches_.options(i);
    ir::Diagnostic d = ir::Diagnostic(code, std::move(message)).of(l.kernel);
    if (now.chip->family != hw::Family::Generic) d.chip = now.chip->name;
    const auto compare = [&](const char* name) {
      const interp::OptionRow& row = *interp::find_option(name);
      const std::string a = interp::option_text(then, row), b = interp::option_text(now, row);
      if (a == b) return;
      d.numbers.push_back(fmt::format("recorded with {} {}, run with {}",
                                      row.kind == interp::OptionRow::Kind::Chip ? "chip" : name, a.empty() ? "none" : a,
                                      b.empty() ? "none" : b));
    };
    for (const char* name : kMeanings) compare(name);
    if (further) compare(further);
    if (now.chip != then.chip)
      d.hint = fmt::format(
          "{} is another machine: its cores, rules, rounding and memory are others; without --chip the run is that of "
          "the recording",
          now.chip->name);
    else if (!d.numbers.empty()) d.hint = "without these options the run is that of the recording";
    return d;
  }

  Replayed together(size_t i, size_t n) {
    const CapsuleLaunch& l = all()[i];
    Replayed r;
    for (size_t d = i; d < i + n; ++d) {
      LaunchOutcome& o = r.launches.emplace_back();
      o.number = d + 1;
      o.kernel = l.kernel;
      o.device = all()[d].device;
    }
    try {
      const interp::Options options = launches_.options(i);
      if (options.chip->family != hw::Family::Generic) r.chip = options.chip->name;
      Launch launch = launches_.load(i);
      for (auto& device : launch.in)
        for (Argument& a : device)
          if (ir::is_sync(a.array.dtype)) semaphores_.rename(&a.array);
      this->launch(i, launch, &r);
      for (size_t d = 0; d < n; ++d)
        if (l.error.empty()) outputs(i + d, launch.to[d], launch.left, &r, &r.launches[d]);
        else r.launches[d].verdict = "another end than recorded";
      if (!l.error.empty()) {
        r.findings.push_back(
            differs("PS-DIFF-002", i, fmt::format("launch {} ended well, but failed when it was recorded", i + 1)));
        r.findings.back().numbers.push_back(fmt::format("recorded: {}", l.error));
      }
    } catch (const ir::DiagnosticError& e) { failed(e.diagnostic(), i, &r); }
    if (how_.compare_times && l.predicted) time(i, *l.predicted, &r);
    return r;
  }

  void launch(size_t i, Launch& launch, Replayed* r) {
    interp::Report report;
    for (int repetition = 0; repetition < how_.repeat; ++repetition) {
      const auto start = std::chrono::steady_clock::now();
      auto progress = how_.progress ? how_.progress(all()[i].kernel) : nullptr;
      interp::Outcome outcome =
          interp::try_launch(*launch.plan, session_, launch.calls(), launch.options, {nullptr, progress.get()});
      progress.reset();
      report = std::move(outcome.report);
      if (outcome.stop) {
        r->prints = report.prints;
        r->findings = report.findings;
        if (outcome.stop->code == all()[i].error) findings(i, report.findings, r);
        throw ir::DiagnosticError(std::move(*outcome.stop));
      }
      r->seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    for (LaunchOutcome& o : r->launches) {
      o.ran = true;
      o.prints = report.prints;
      o.token = report.token;
      o.steps = report.steps;
    }
    r->prints = report.prints;
    r->findings = report.findings;
    if (all()[i].error.empty()) findings(i, report.findings, r);
  }

  // A launch that failed. Throws where the failure is not the kernel's.
  void failed(ir::Diagnostic d, size_t i, Replayed* r) {
    const CapsuleLaunch& l = all()[i];
    if (d.kernel.empty()) d.kernel = l.kernel;
    const int exit = exit_code_of(d);
    const bool as_recorded = d.code == l.error;
    if (exit != kFinding && exit != kUnsupported && !as_recorded) throw ir::DiagnosticError(std::move(d));
    r->seconds.clear();
    for (LaunchOutcome& o : r->launches) {
      o.error = d.code.text();
      o.verdict = as_recorded ? fmt::format("{}, as recorded", d.code.text()) : d.code.text();
      o.same = as_recorded;
    }
    r->findings.push_back(std::move(d));
    if (as_recorded) return;
    ir::Diagnostic other =
        differs("PS-DIFF-002", i, fmt::format("launch {} failed, but not when it was recorded", i + 1));
    if (!l.error.empty()) {
      other.message = fmt::format("launch {} failed in another way than when it was recorded", i + 1);
      other.numbers.push_back(fmt::format("recorded: {}", l.error));
    }
    r->findings.push_back(std::move(other));
  }

  void outputs(size_t i, std::vector<Argument>& to, int64_t left, Replayed* r, LaunchOutcome* o) {
    int64_t bytes = 0;
    o->compared = o->same = true;
    for (size_t k = 0; k < to.size(); ++k) {
      Array& got = to[k].array;
      const Array want = launches_.result(i, k, left);
      const bool handles = ir::is_sync(got.dtype);
      if (handles) semaphores_.learn(got, want);
      const Difference d = handles ? Difference{} : compare(got, want, how_.tolerance);
      bytes += static_cast<int64_t>(got.data.size());
      if (d.count) {
        o->same = false;
        r->findings.push_back(differs(
            "PS-DIFF-001", i, fmt::format("output {} of launch {} differs from the recording", to[k].name, i + 1)));
        describe(d, got, want, how_.tolerance, &r->findings.back());
      }
      o->outputs.push_back({to[k].name, std::move(got), d.count, d.greatest});
    }
    const std::string what =
        fmt::format("{} {}, {}", to.size(), to.size() == 1 ? "output" : "outputs", human_bytes(bytes));
    o->verdict = !o->same                 ? "differs from the recording"
                 : how_.tolerance.exact() ? fmt::format("same bytes ({})", what)
                                          : fmt::format("same within the tolerance ({})", what);
  }

  void findings(size_t i, const std::vector<ir::Diagnostic>& found, Replayed* r) {
    if (!how_.compare_findings || !all()[i].findings) return;
    std::vector<CapsuleFinding> here = known_by(found), there = *all()[i].findings, only_here, only_there;
    std::sort(there.begin(), there.end());
    std::set_difference(here.begin(), here.end(), there.begin(), there.end(), std::back_inserter(only_here));
    std::set_difference(there.begin(), there.end(), here.begin(), here.end(), std::back_inserter(only_there));
    if (only_here.empty() && only_there.empty()) return;
    ir::Diagnostic d =
        differs("PS-DIFF-003", i, fmt::format("launch {} ended with other findings than in the recording", i + 1),
                "detect_races");
    for (const CapsuleFinding& f : only_here) d.numbers.push_back("only here: " + text(f));
    for (const CapsuleFinding& f : only_there) d.numbers.push_back("only recorded: " + text(f));
    r->findings.push_back(std::move(d));
  }

  void time(size_t i, const CapsuleTime& then, Replayed* r) {
    ir::Diagnostic d = differs("PS-DIFF-004", i,
                               fmt::format("launch {} is predicted to take another time than in the recording", i + 1));
    const std::string recorded = fmt::format("recorded: {:.6g} us on {}", then.seconds * 1e6, then.chip);
    try {
      Launch launch = timed_.load(i);
      const interp::Prediction now =
          interp::predict(launch.cached(), launch.calls(), launch.options, {.sensitivity = false});
      if (std::fabs(now.seconds - then.seconds) <= how_.time_rtol * then.seconds) return;
      d.numbers.push_back(recorded);
      d.numbers.push_back(fmt::format("predicted here: {:.6g} us on {}, {:+.2f} %", now.seconds * 1e6, now.chip,
                                      100 * (now.seconds / then.seconds - 1)));
    } catch (const ir::DiagnosticError& e) {
      if (e.diagnostic().code.blame() == ir::Blame::Interrupt) throw;
      d.numbers.push_back(recorded);
      d.numbers.push_back(fmt::format("here: {}: {}", e.diagnostic().code.text(), e.diagnostic().message));
    }
    r->findings.push_back(std::move(d));
  }

  const ReplayOptions& how_;
  Launches launches_, timed_;
  interp::Session session_;  // of all launches, as in the recorded process
  Semaphores semaphores_;
};

}  // namespace

void replay(const Capsule& c, const std::string& file_name, int64_t max_bytes, const ReplayOptions& o,
            const std::function<void(Replayed&)>& each) {
  Replay(c, file_name, max_bytes, o).run(each);
}

}  // namespace pallasim::capsule
