// Going on and back.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "../report/causes.h"
#include "../report/report.h"
#include "bind.h"
#include "debugger_state.h"
#include "partitioned_run.h"
#include "population.h"

namespace pallasim::interp {
namespace {

std::shared_ptr<const Plan> debug_plan(ir::Module module, Options* options, std::span<const DeviceCall> devices) {
  options->keeps_values = true;
  options->verify_restore = 0;
  options->verify_footprints = options->verify_split = false;
  auto plan = compile(std::move(module), *options);
  if (plan->module.params.empty()) return plan;
  return specialised(*plan, plan->module.locs, devices);
}

}  // namespace

Debugger::State::State(ir::Module module, std::span<const DeviceCall> devices, const Options& o, int64_t snapshot_bytes)
    : options(o), plan(debug_plan(std::move(module), &options, devices)), calls(devices.begin(), devices.end()) {
  bound = bind_launch(*plan, plan->module.locs, session, calls, options, {});
  Call& call = bound->call;
  for (const int i : std::exchange(call.deferred_init, {}))
    poison_output(*plan, options, static_cast<size_t>(i), call.operands[0][static_cast<size_t>(i)]);
  call.who = population_of(*plan, options, call.grid);
  symbols = std::make_unique<DebugSymbols>(*plan, plan->module.locs);
  run = std::make_unique<DebugRun>(*plan, call, snapshot_bytes);
  run->restored = [this] { watch_again(); };
}

Debugger::Debugger(ir::Module m, std::span<const DeviceCall> devices, const Options& o, int64_t snapshot_bytes)
    : state_(std::make_unique<State>(std::move(m), devices, o, snapshot_bytes)) {
  restart();
}
Debugger::~Debugger() = default;

bool Debugger::State::begun(const Thread& t) const { return t.body && t.arena; }

const Step* Debugger::State::step_of(const Thread& t) const {
  if (&t == run->standing() && run->place()) return run->place();
  return begun(t) && t.stop != Stop::Done ? t.pc : nullptr;
}

DebugScope Debugger::State::scope() const {
  const Thread& t = run->execution().threads[static_cast<size_t>(chosen)];
  const Step* s = step_of(t);
  if (!s) throw DebugError("the thread stands nowhere: it has ended, or has not begun");
  const auto frames = static_cast<int>(symbols->frames(*s).size());
  const int top = &t == run->standing() ? shown : frames - 1;
  return scope(t, *s, static_cast<size_t>(std::max(0, std::min(top, frames - 1) - static_cast<int>(frame))));
}

// Where the run stands now, and why.
DebugStop Debugger::State::stand(std::optional<Found> f, DebugStop::Why otherwise) {
  frame = 0;
  const Thread* t = run->standing();
  if (t) chosen = t->index;
  const Step* s = t ? step_of(*t) : nullptr;
  const int innermost = s ? std::max<int>(0, static_cast<int>(symbols->frames(*s).size()) - 1) : 0;
  const int begins = s && symbols->at(*s).body >= 0 ? symbols->at(*s).begins : StopPlace::kNowhere;
  shown = f && f->level >= 0 ? f->level : std::min(begins, innermost);
  if (run->error()) {
    conclude();
    return {DebugStop::Why::Error, 0, "", outcome.stop};
  }
  if (run->over()) {
    conclude();
    return {DebugStop::Why::End, 0, "", {}};
  }
  if (run->interrupted()) return {DebugStop::Why::Interrupt, 0, "", {}};
  concluded = false;
  if (!f) return {otherwise, 0, "", {}};
  if (f->stop.number > 0) ++of(f->stop.number).hits;
  return std::move(f->stop);
}

// As a launch without a debugger reports it.
void Debugger::State::conclude() {
  if (std::exchange(concluded, true)) return;
  Execution& ex = run->execution();
  Report report;
  report.grid_points = bound->points;
  report.threads = plan->threads.count * static_cast<int>(calls.size());
  report.findings = plan->findings;
  report.steps = ex.steps;
  if (!run->error()) report.token = run->token();
  deliver(ex.log.prints, bound->call, ex.points > 0, &report);
  report.findings.insert(report.findings.end(), ex.log.findings.begin(), ex.log.findings.end());
  if (Checks* checks = run->checks()) {
    checks->finish(report.findings);
    report.traffic = checks->traffic();
    report.undefined = checks->undefined();
  }
  outcome = {std::move(report), run->error()};
  if (options.nans != Options::Nans::Off) drop_followers(&outcome.report.findings);
  interp::conclude(plan->module, plan->module.locs, &outcome);
  if (options.chip->family == hw::Family::Generic) return;
  for (ir::Diagnostic& d : outcome.report.findings) d.chip = options.chip->name;
  if (outcome.stop) outcome.stop->chip = options.chip->name;
}

Debugger::State::Judge Debugger::State::stepping(How how) {
  const Thread& from = run->execution().threads[static_cast<size_t>(chosen)];
  const Step* s = run->over() ? nullptr : step_of(from);
  const StopPlace none;
  const StopPlace& here = s ? symbols->around(*s) : none;
  const int depth = here.depth;
  const int level = &from == run->standing() ? shown : std::max<int>(0, static_cast<int>(here.frames.size()) - 1);
  const int32_t who = chosen;
  return [this, how, depth, level, who](const Thread& at, const Step& step) {
    if ((found = fires(at, step))) return true;
    const Thread& of = run->execution().threads[static_cast<size_t>(who)];
    if (at.index == who || of.stop == Stop::Done || !of.arena) {
      const StopPlace& p = symbols->at(step);
      const bool line = p.begins != StopPlace::kNowhere;
      const bool out = p.depth < depth || (p.begins < level && p.depth <= depth);
      const bool ends = how == How::Operation ? true
                        : how == How::Into    ? line
                        : how == How::Over    ? out || (line && p.begins <= level && p.depth <= depth)
                                              : out;
      const bool last = p.op->code == ir::OpCode::yield && p.depth == 0;  // nothing is behind it
      if (ends || (last && how != How::Operation)) {
        const int innermost = std::max<int>(0, static_cast<int>(p.frames.size()) - 1);
        found = Found{{DebugStop::Why::Step, 0, "", {}}, how == How::Operation ? innermost : -1};
        if (auto b = breaks(at, step); b && b->stop.why == DebugStop::Why::Breakpoint) found->stop = b->stop;
        return true;
      }
    }
    return (found = breaks(at, step)).has_value();
  };
}

DebugStop Debugger::step(How how) {
  State& s = *state_;
  if (at_end()) return s.stand({}, DebugStop::Why::End);
  const Thread* t = s.run->standing();
  const Step* at = t ? s.run->place() : nullptr;
  // Into a function whose call stands here: nothing runs.
  if (how == How::Into && at && t->index == s.chosen &&
      s.shown + 1 < static_cast<int>(s.symbols->at(*at).frames.size())) {
    ++s.shown;
    s.frame = 0;
    return {DebugStop::Why::Step, 0, "", {}};
  }
  s.found.reset();
  s.run->advance(s.stepping(how));
  return s.stand(std::exchange(s.found, {}), DebugStop::Why::Step);
}

DebugStop Debugger::go_on() {
  State& s = *state_;
  s.found.reset();
  s.run->advance(
      [&](const Thread& t, const Step& at) { return (s.found = s.fires(t, at)) || (s.found = s.breaks(t, at)); });
  return s.stand(std::exchange(s.found, {}), DebugStop::Why::Step);
}

DebugStop Debugger::finish() {
  State& s = *state_;
  s.run->advance([](const Thread&, const Step&) { return false; });
  return s.stand({}, DebugStop::Why::End);
}

DebugStop Debugger::step_back(How how) {
  State& s = *state_;
  const State::Judge ends = s.stepping(how);
  std::optional<State::Found> at;
  const int64_t found = s.run->retreat(
      [&](const Thread& t, const Step& step) {
        const bool yes = ends(t, step);
        if (yes) at = s.found;
        return yes;
      },
      s.run->until());
  if (found == 0 && !s.run->interrupted()) return restart();
  return s.stand(std::move(at), DebugStop::Why::Step);
}

DebugStop Debugger::go_back() {
  State& s = *state_;
  std::optional<State::Found> at;
  int64_t moment = 0;  // of `at`
  const int64_t found = s.run->retreat(
      [&](const Thread& t, const Step& step) {
        std::optional<State::Found> f = s.fires(t, step);
        if (!f) f = s.breaks(t, step);
        if (f) at = std::move(f), moment = s.run->moment();
        return at.has_value() && s.run->moment() == moment;
      },
      s.run->until());
  if (found == 0 && !s.run->interrupted()) return restart();
  return s.stand(std::move(at), DebugStop::Why::Step);
}

DebugStop Debugger::restart() {
  State& s = *state_;
  s.found.reset();
  s.run->go_to(1);
  return s.stand({}, DebugStop::Why::Start);
}

void Debugger::State::go_back_to(int64_t moment, bool over) {
  run->go_to(moment);
  if (over) run->advance([](const Thread&, const Step&) { return false; });
}

DebugStop Debugger::last_write(const std::string& text) {
  State& s = *state_;
  const DebugExpression expression(text);
  const WatchedElements elements = elements_of(s.scope(), expression.view(s.scope()));
  const int64_t now = s.run->moment();
  const bool over = s.run->over();
  WatchObserver& watch = s.run->watch();
  const size_t which = watch.watched.size();
  watch.watched.push_back(&elements);
  struct Write {
    int64_t moment = 0;
    std::vector<std::byte> after;
  } last;
  s.run->retreat(
      [&](const Thread&, const Step&) {
        bool wrote = false;
        for (const WatchObserver::Hit& h : watch.hits)
          if (h.which == which && h.write) last = {s.run->moment_before(h.thread), s.bytes_of(elements)}, wrote = true;
        watch.hits.clear();
        return wrote;
      },
      now + 1);
  watch.watched.pop_back();
  watch.hits.clear();
  if (last.moment == 0) {
    s.go_back_to(now, over);
    throw DebugError("nobody has written to " + text + " so far");
  }
  s.go_back_to(last.moment, false);
  Watched w;
  w.elements = elements;
  DebugStop stop = s.stand({}, DebugStop::Why::LastWrite);
  if (stop.why == DebugStop::Why::LastWrite)
    stop.text = fmt::format("{}: {} -> {}, written here", text, s.value_text(w, s.bytes_of(elements)),
                            s.value_text(w, last.after));
  return stop;
}

void Debugger::interrupt() { state_->run->interrupt = true; }
bool Debugger::at_end() const { return state_->run->over(); }
const std::optional<ir::Diagnostic>& Debugger::error() const { return state_->outcome.stop; }
int64_t Debugger::moment() const { return state_->run->moment(); }
const Report& Debugger::report() const { return state_->outcome.report; }

std::vector<ir::Diagnostic> Debugger::findings() const {
  return at_end() ? state_->outcome.report.findings : state_->run->execution().log.findings;
}

std::vector<std::string> Debugger::prints() const {
  if (at_end()) return state_->outcome.report.prints;
  std::vector<std::string> r;
  for (const Print& p : state_->run->execution().log.prints)
    if (!p.call) r.push_back(p.text);
  return r;
}

}  // namespace pallasim::interp
