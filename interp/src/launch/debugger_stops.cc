// Breakpoints, watchpoints, findings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../report/report.h"
#include "debugger_state.h"

namespace pallasim::interp {

DebugBreakpoint& Debugger::State::of(int number) {
  return *std::find_if(breakpoints.begin(), breakpoints.end(), [&](const auto& b) { return b.number == number; });
}

std::optional<Debugger::State::Found> Debugger::State::breaks(const Thread& t, const Step& s) {
  for (Line& l : lines) {
    const auto at = l.steps.find(s.id);
    if (at == l.steps.end()) continue;
    Found f{{DebugStop::Why::Breakpoint, l.number, "", {}}, at->second};
    if (l.condition) try {
        if (!l.condition->holds(scope(t, s, static_cast<size_t>(at->second)))) continue;
      } catch (const DebugError& e) { f.stop.text = std::string("its condition cannot be told: ") + e.what(); }
    return f;
  }
  return {};
}

std::vector<std::byte> Debugger::State::bytes_of(const WatchedElements& w) const {
  const std::byte* base = w.base(run->execution());
  const auto size = static_cast<size_t>(w.bytes);
  if (!base) return {};
  std::vector<std::byte> r(w.offsets.size() * size);
  for (size_t i = 0; i < w.offsets.size(); ++i) std::memcpy(r.data() + i * size, base + w.offsets[i], size);
  return r;
}

void Debugger::State::watch_again() {
  for (Element& e : elements) e.watched.before = bytes_of(e.watched.elements);
  if (run->checks()) run->checks()->news(&seen);
}

// "1.5"; of several elements the first three.
std::string Debugger::State::value_text(const Watched& w, const std::vector<std::byte>& bytes) const {
  const auto size = static_cast<size_t>(w.elements.bytes);
  const ir::DType t = w.elements.dtype;
  std::string r;
  size_t n = 0;
  for (; (n + 1) * size <= bytes.size() && n < 3; ++n) {
    const std::byte* at = bytes.data() + n * size;
    const std::string one = t == ir::DType::Bool     ? (debug_integer(at, t) ? "true" : "false")
                            : ir::is_unsigned_int(t) ? fmt::format("{}", static_cast<uint64_t>(debug_integer(at, t)))
                            : debug_is_integer(t)    ? fmt::format("{}", debug_integer(at, t))
                            : ir::is_float(t)        ? fmt::format("{:g}", debug_number(at, t))
                                                     : "a value";
    r += (r.empty() ? "" : ", ") + one;
  }
  if (bytes.empty()) return "nothing";
  const size_t all = bytes.size() / size;
  return all == 1 ? r : fmt::format("[{}{}]", r, all > n ? ", ..." : "");
}

namespace {

bool has_nan(const WatchedElements& w, const std::vector<std::byte>& bytes) {
  if (!ir::is_float(w.dtype)) return false;
  const auto size = static_cast<size_t>(w.bytes);
  for (size_t at = 0; at + size <= bytes.size(); at += size)
    if (std::isnan(debug_number(bytes.data() + at, w.dtype))) return true;
  return false;
}

bool has_undefined(Checks* checks, const WatchedElements& w) {
  return checks && std::any_of(w.offsets.begin(), w.offsets.end(),
                               [&](int64_t o) { return checks->undefined(w.thread, w.buffer, o); });
}

}  // namespace

std::optional<Debugger::State::Found> Debugger::State::fires(const Thread& t, const Step& s) {
  WatchObserver& watch = run->watch();
  std::vector<ir::Diagnostic> said = std::exchange(watch.findings, {});
  if (!codes.empty() && run->checks())
    for (ir::Diagnostic& d : run->checks()->news(&seen)) said.push_back(std::move(d));
  if (watch.hits.empty() && said.empty()) return {};
  const std::vector<WatchObserver::Hit> hits = std::exchange(watch.hits, {});
  std::optional<Found> r;
  for (const ir::Diagnostic& d : said)
    if (const std::string code(d.code.text());
        std::any_of(codes.begin(), codes.end(), [&](const std::string& c) { return code.starts_with(c); })) {
      r = Found{{DebugStop::Why::Finding, 0, "", d}, -1};
      if (options.chip->family != hw::Family::Generic) r->stop.found->chip = options.chip->name;
    }
  for (const WatchObserver::Hit& h : hits) {
    if (h.which >= elements.size()) continue;
    Element& e = elements[h.which];
    Watched& w = e.watched;
    std::vector<std::byte> now = bytes_of(w.elements);
    const std::vector<std::byte> before = h.write ? std::exchange(w.before, now) : w.before;
    const bool changed = h.write && before != now;
    bool yes = false;
    switch (w.kind) {
      case Watch::Write: yes = changed; break;
      case Watch::Read: yes = !h.write; break;
      case Watch::Access: yes = true; break;
      case Watch::Nan: yes = h.write && has_nan(w.elements, now) && !has_nan(w.elements, before); break;
      case Watch::Undefined: yes = h.write && has_undefined(run->checks(), w.elements); break;
    }
    if (!yes || w.elements.offsets.empty()) continue;
    const Thread& who = run->execution().threads[static_cast<size_t>(h.thread)];
    const std::string by = run->execution().threads.size() > 1 && who.body ? " by " + name_of(who) : "";
    const std::string at = where(run->execution(), h.line);
    Found f{{DebugStop::Why::Watchpoint, w.number, "", {}}, -1};
    f.stop.text = h.write ? fmt::format("{}: {} -> {}, written{} at {}", w.text, value_text(w, before),
                                        value_text(w, now), by, at)
                          : fmt::format("{}: {}, read{} at {}", w.text, value_text(w, now), by, at);
    if (e.condition) try {
        const size_t level = std::max<size_t>(symbols->frames(s).size(), 1) - 1;
        if (!e.condition->holds(scope(t, s, level))) continue;
      } catch (const DebugError& error) {
        f.stop.text += std::string("; its condition cannot be told: ") + error.what();
      }
    r = std::move(f);
  }
  return r;
}

DebugBreakpoint Debugger::break_at(const std::string& file, int line, const std::string& condition) {
  State& s = *state_;
  const DebugSymbols::Line at = s.symbols->find_line(file, line);
  State::Line l{s.last_number + 1, {}, {}};
  for (const auto& [step, level] : at.steps) l.steps.emplace(step, level);
  if (!condition.empty()) l.condition.emplace(condition);
  ++s.last_number;
  s.lines.push_back(std::move(l));
  DebugBreakpoint b{s.last_number, false, fmt::format("{}:{}", at.file, at.line), at.file, at.line, 0};
  if (!condition.empty()) b.text += " if " + condition;
  s.breakpoints.push_back(b);
  return b;
}

DebugBreakpoint Debugger::watch(const std::string& text, Watch kind, const std::string& condition) {
  State& s = *state_;
  if (kind == Watch::Undefined && !s.run->checks())
    throw DebugError("what is undefined is known in checked runs: start with --checked");
  State::Element e;
  const DebugExpression expression(text);
  e.watched.elements = elements_of(s.scope(), expression.view(s.scope()));
  if (!condition.empty()) e.condition.emplace(condition);
  e.watched.number = ++s.last_number;
  e.watched.text = text;
  e.watched.kind = kind;
  e.watched.before = s.bytes_of(e.watched.elements);
  s.elements.push_back(std::move(e));
  s.run->watch().watched.push_back(&s.elements.back().watched.elements);
  static constexpr const char* kWords[] = {"watch", "rwatch", "awatch", "watch-nan", "watch-undefined"};
  DebugBreakpoint b{s.last_number, true, fmt::format("{} {}", kWords[static_cast<size_t>(kind)], text), "", 0, 0};
  if (!condition.empty()) b.text += " if " + condition;
  s.breakpoints.push_back(b);
  return b;
}

bool Debugger::remove(int number) {
  State& s = *state_;
  if (std::erase_if(s.breakpoints, [&](const DebugBreakpoint& b) { return b.number == number; }) == 0) return false;
  std::erase_if(s.lines, [&](const State::Line& l) { return l.number == number; });
  // Places among the watched ones stay what they are.
  for (size_t i = 0; i < s.elements.size(); ++i)
    if (s.elements[i].watched.number == number) {
      s.elements[i].watched.elements.offsets.clear();
      s.run->watch().watched[i] = nullptr;
    }
  return true;
}

const std::vector<DebugBreakpoint>& Debugger::breakpoints() const { return state_->breakpoints; }
void Debugger::stop_on(std::vector<std::string> codes) {
  state_->codes = std::move(codes);
  if (state_->run->checks()) state_->run->checks()->news(&state_->seen);
}

}  // namespace pallasim::interp
