#include "debug_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "debug_text.h"
#include "io.h"
#include "pallasim/ir/nearest.h"

namespace pallasim::cli {
namespace {

using interp::DebugError;
using interp::Debugger;
using interp::DebugStop;

// "a b if c" -> "a b", "c".
std::pair<std::string, std::string> condition_of(const std::string& s) {
  if (s.starts_with("if ")) return {"", trimmed(s.substr(3))};
  const size_t at = s.find(" if ");
  if (at == std::string::npos) return {trimmed(s), ""};
  return {trimmed(s.substr(0, at)), trimmed(s.substr(at + 4))};
}

int64_t number_of(const std::string& s, const char* what) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  if (error != std::errc() || end != s.data() + s.size()) throw DebugError(fmt::format("{} is no {}", s, what));
  return n;
}

std::vector<std::string> words_of(const char* names) {
  std::vector<std::string> r;
  std::string all(names);
  for (size_t from = 0; from < all.size();) {
    const size_t to = std::min(all.find(' ', from), all.size());
    r.push_back(all.substr(from, to - from));
    from = to + 1;
  }
  return r;
}

constexpr const char* kInfo[] = {"breakpoints", "threads", "locals",   "refs",   "semaphores",
                                 "flight",      "memory",  "findings", "prints", "grid"};

}  // namespace

DebugSession::DebugSession(std::unique_ptr<Debugger> d, std::function<void(const std::string&)> print, Colours colours)
    : d_(std::move(d)), print_(std::move(print)), colours_(colours) {}

const std::vector<DebugSession::Row>& DebugSession::rows() {
  using S = DebugSession;
  static const std::vector<Row> kRows = {
      {"break b", "[FILE:]LINE [if CONDITION]", "stop before this line", &S::do_break},
      {"watch w", "ELEMENTS [if CONDITION]", "stop when elements of a ref change", &S::do_watch},
      {"rwatch", "ELEMENTS", "stop when they are read", &S::do_rwatch},
      {"awatch", "ELEMENTS", "stop when they are read or written", &S::do_awatch},
      {"watch-nan", "ELEMENTS", "stop when one of them becomes NaN", &S::do_nan},
      {"watch-undefined", "ELEMENTS", "stop when one becomes undefined (--checked)", &S::do_undefined},
      {"catch", "[CODE ...|off]", "stop at findings: all, or those of these codes", &S::do_catch},
      {"delete d clear", "[NUMBER ...]", "forget breakpoints and watchpoints, or all", &S::do_delete},
      {"run r restart", "", "from the start to the first stop", &S::do_run},
      {"continue c", "", "go on to the next stop", &S::do_continue},
      {"step s", "[N]", "to the next line, into functions and regions", &S::do_step},
      {"next n", "[N]", "to the next line of this function or region", &S::do_next},
      {"stepi si", "[N]", "to the next operation", &S::do_stepi},
      {"finish return up-to-caller", "", "to the line behind this function or region", &S::do_finish},
      {"reverse-step rs", "[N]", "step, backwards", &S::do_reverse_step},
      {"reverse-next rn", "[N]", "next, backwards", &S::do_reverse_next},
      {"reverse-stepi rsi", "[N]", "stepi, backwards", &S::do_reverse_stepi},
      {"reverse-finish", "", "back to where this function or region was entered", &S::do_reverse_finish},
      {"reverse-continue rc", "", "back to the last stop, or the start", &S::do_reverse_continue},
      {"last-write lw", "ELEMENTS", "back to the operation that wrote them last", &S::do_last_write},
      {"print p", "EXPRESSION", "a value: names, slices, arithmetic", &S::do_print},
      {"picture", "[FILE.png] EXPRESSION", "an array in colours, here or in a file", &S::do_picture},
      {"where bt backtrace", "", "the functions around this place", &S::do_where},
      {"list l", "[LINE]", "source lines", &S::do_list},
      {"thread t", "[NUMBER]", "look at this thread", &S::do_thread},
      {"frame f", "[NUMBER]", "look at this function of where", &S::do_frame},
      {"up u", "", "to the function that calls this one", &S::do_up},
      {"down", "", "and back", &S::do_down},
      {"info i", "WHAT", "breakpoints, threads, locals, refs, semaphores, flight, memory, findings, prints, grid",
       &S::do_info},
      {"help h", "[COMMAND]", "this list", &S::do_help},
      {"quit q exit", "", "end", &S::do_quit},
  };
  return kRows;
}

const DebugSession::Row* DebugSession::find(const std::string& word) {
  const Row* beginning = nullptr;
  int beginnings = 0;
  for (const Row& r : rows()) {
    const std::vector<std::string> names = words_of(r.names);
    if (std::find(names.begin(), names.end(), word) != names.end()) return &r;
    if (names.front().starts_with(word)) beginning = &r, ++beginnings;
  }
  return beginnings == 1 ? beginning : nullptr;
}

std::vector<std::string> DebugSession::completions(const std::string& word) const {
  std::vector<std::string> r;
  const auto offer = [&](const std::string& s) {
    if (s.starts_with(word)) r.push_back(s);
  };
  for (const Row& row : rows()) offer(words_of(row.names).front());
  for (const char* w : kInfo) offer(w);
  try {
    for (const auto& v : d_->locals()) offer(v.name);
    for (const auto& v : d_->refs()) offer(v.name);
  } catch (const DebugError&) {}
  std::sort(r.begin(), r.end());
  return r;
}

bool DebugSession::command(const std::string& given) {
  std::string line = trimmed(given);
  if (!line.empty() && line[0] == '#') return true;
  if (line.empty()) line = last_;
  if (line.empty()) return true;
  last_ = line;
  const size_t space = line.find_first_of(" \t/");
  std::string word = line.substr(0, space), rest = space == std::string::npos ? "" : trimmed(line.substr(space));
  const Row* row = find(word);
  try {
    if (!row) {
      std::vector<std::string> names;
      for (const Row& r : rows()) names.push_back(words_of(r.names).front());
      const std::string near(ir::nearest(word, {names.begin(), names.end()}));
      throw DebugError(fmt::format("there is no command {}{}; help shows them", escaped(word),
                                   near.empty() ? "" : ", did you mean " + near + "?"));
    }
    (this->*row->run)(rest);
  } catch (const DebugError& e) { say(escaped(e.what())); } catch (const ir::DiagnosticError& e) {
    print_(ir::render(e.diagnostic()));
  }
  return !over_;
}

// -- where it stands --

void DebugSession::greet() {
  say(fmt::format("kernel {}{}; help shows the commands", escaped(d_->kernel()),
                  d_->grid().empty() ? "" : fmt::format(", grid ({})", fmt::join(d_->grid(), ", "))));
  show_place();
}

void DebugSession::show_new_prints() {
  const std::vector<std::string> all = d_->prints();
  for (size_t i = std::min(prints_, all.size()); i < all.size(); ++i) say("print: " + escaped(all[i]));
  prints_ = all.size();
}

void DebugSession::show(const DebugStop& stop) {
  show_new_prints();
  listed_ = 0;
  using Why = DebugStop::Why;
  switch (stop.why) {
    case Why::Breakpoint:
      say(fmt::format("breakpoint {}{}", stop.number, stop.text.empty() ? "" : ": " + escaped(stop.text)));
      break;
    case Why::Watchpoint: say(fmt::format("watchpoint {}: {}", stop.number, escaped(stop.text))); break;
    case Why::LastWrite: say(escaped(stop.text)); break;
    case Why::Start: say("the start"); break;
    case Why::Interrupt: say("interrupted"); break;
    case Why::Finding:
    case Why::Error: print_(ir::render(*stop.found)); break;
    case Why::End: return show_end();
    case Why::Step: break;
  }
  show_place();
}

void DebugSession::show_end() {
  say("the launch ended");
  for (const ir::Diagnostic& f : d_->findings()) print_(ir::render(f));
}

void DebugSession::show_place() {
  const auto frames = d_->frames();
  if (frames.empty()) return say("the thread stands nowhere");
  const interp::DebugFrame& f = frames[std::min(d_->frame(), frames.size() - 1)];
  std::string where = escaped(f.function.empty() ? d_->kernel() : f.function);
  if (!f.line.file.empty()) where += fmt::format(" ({}:{})", escaped(f.line.file), f.line.line);
  const auto threads = d_->threads();
  for (const interp::DebugThread& t : threads) {
    if (t.number != d_->thread()) continue;
    if (!t.point.empty()) where += ", grid point " + debug_point(t.point);
    if (!t.name.empty()) where += ", " + escaped(t.name);
  }
  if (f.done) where += ", at its end";
  say(where);
  if (f.line.line > 0 && !f.done)
    say(fmt::format("{:>5}  {}", f.line.line, escaped(debug_source(*d_, f.line.file, f.line.line))));
}

// -- stops --

void DebugSession::do_break(const std::string& rest) {
  const auto [place, condition] = condition_of(rest);
  std::string file;
  std::string line = place;
  if (const size_t colon = place.rfind(':'); colon != std::string::npos)
    file = place.substr(0, colon), line = place.substr(colon + 1);
  if (place.empty()) {
    const auto frames = d_->frames();
    if (frames.empty()) throw DebugError("where? break FILE:LINE");
    file = frames.front().line.file, line = std::to_string(frames.front().line.line);
  }
  const interp::DebugBreakpoint b = d_->break_at(file, static_cast<int>(number_of(line, "line")), condition);
  say(fmt::format("breakpoint {} at {}", b.number, escaped(b.text)));
}

void DebugSession::add_watch(const std::string& rest, Debugger::Watch kind) {
  const auto [elements, condition] = condition_of(rest);
  if (elements.empty()) throw DebugError("which elements? watch o_ref[0, 0]");
  const interp::DebugBreakpoint b = d_->watch(elements, kind, condition);
  say(fmt::format("watchpoint {}: {}", b.number, escaped(b.text)));
}
void DebugSession::do_watch(const std::string& rest) { add_watch(rest, Debugger::Watch::Write); }
void DebugSession::do_rwatch(const std::string& rest) { add_watch(rest, Debugger::Watch::Read); }
void DebugSession::do_awatch(const std::string& rest) { add_watch(rest, Debugger::Watch::Access); }
void DebugSession::do_nan(const std::string& rest) { add_watch(rest, Debugger::Watch::Nan); }
void DebugSession::do_undefined(const std::string& rest) { add_watch(rest, Debugger::Watch::Undefined); }

void DebugSession::do_catch(const std::string& rest) {
  if (rest == "off") {
    d_->stop_on({});
    return say("findings stop nothing");
  }
  std::vector<std::string> codes = rest.empty() ? std::vector<std::string>{""} : words_of(rest.c_str());
  d_->stop_on(codes);
  say(rest.empty() ? "stops at findings" : "stops at findings " + escaped(rest));
}

void DebugSession::do_delete(const std::string& rest) {
  if (rest.empty()) {
    std::vector<int> all;
    for (const auto& b : d_->breakpoints()) all.push_back(b.number);
    for (const int n : all) d_->remove(n);
    return;
  }
  for (const std::string& w : words_of(rest.c_str()))
    if (!d_->remove(static_cast<int>(number_of(w, "number")))) throw DebugError("there is no breakpoint " + w);
}

// -- going --

void DebugSession::times(const std::string& rest, const std::function<DebugStop()>& once) {
  const int64_t n = rest.empty() ? 1 : number_of(rest, "number");
  DebugStop stop;
  for (int64_t i = 0; i < n; ++i) {
    stop = once();
    if (stop.why != DebugStop::Why::Step) break;
  }
  show(stop);
}

void DebugSession::do_run(const std::string&) {
  d_->restart();
  prints_ = 0;
  show(d_->go_on());
}
void DebugSession::do_continue(const std::string&) {
  if (d_->at_end()) throw DebugError("the launch is over; run begins it anew, reverse-continue goes back");
  show(d_->go_on());
}
void DebugSession::do_step(const std::string& r) {
  times(r, [&] { return d_->step(Debugger::How::Into); });
}
void DebugSession::do_next(const std::string& r) {
  times(r, [&] { return d_->step(Debugger::How::Over); });
}
void DebugSession::do_stepi(const std::string& r) {
  times(r, [&] { return d_->step(Debugger::How::Operation); });
}
void DebugSession::do_finish(const std::string& r) {
  times(r, [&] { return d_->step(Debugger::How::Out); });
}
void DebugSession::do_reverse_step(const std::string& r) {
  times(r, [&] { return d_->step_back(Debugger::How::Into); });
}
void DebugSession::do_reverse_next(const std::string& r) {
  times(r, [&] { return d_->step_back(Debugger::How::Over); });
}
void DebugSession::do_reverse_stepi(const std::string& r) {
  times(r, [&] { return d_->step_back(Debugger::How::Operation); });
}
void DebugSession::do_reverse_finish(const std::string& r) {
  times(r, [&] { return d_->step_back(Debugger::How::Out); });
}
void DebugSession::do_reverse_continue(const std::string&) { show(d_->go_back()); }
void DebugSession::do_last_write(const std::string& rest) {
  if (rest.empty()) throw DebugError("of which elements? last-write o_ref[0, 0]");
  show(d_->last_write(rest));
}

// -- looking --

void DebugSession::do_print(const std::string& rest) {
  std::string text = rest;
  if (text.starts_with("/")) text = trimmed(text.substr(std::min(text.find(' '), text.size())));
  if (text.empty()) throw DebugError("what? print x_ref[0:8, 3]");
  const interp::DebugValue v = d_->evaluate(text);
  if (v.bytes.empty() && !v.dims.empty() && std::count(v.dims.begin(), v.dims.end(), 0) == 0)
    throw DebugError(text + " is " + debug_summary(v) + ", which has no elements to look at");
  if (v.dims.empty() && !v.bytes.empty()) return say(fmt::format("{} = {}", escaped(text), debug_element(v, 0)));
  say(fmt::format("{}: {}", escaped(text), debug_summary(v)));
  if (const std::string corner = debug_elements(v); !corner.empty()) say(corner);
}

void DebugSession::do_picture(const std::string& rest) {
  say(picture_command(*d_, rest, colours_, terminal_columns()));
}

void DebugSession::do_where(const std::string&) {
  const auto frames = d_->frames();
  for (size_t i = 0; i < frames.size(); ++i) {
    const interp::DebugFrame& f = frames[i];
    say(fmt::format("{} {}  {}{}  {}", i == d_->frame() ? "*" : " ", i, escaped(f.function),
                    f.line.file.empty() ? "" : fmt::format(" ({}:{})", escaped(f.line.file), f.line.line),
                    escaped(f.line.text)));
  }
  if (frames.empty()) say("the thread stands nowhere");
}

void DebugSession::do_list(const std::string& rest) {
  const auto frames = d_->frames();
  if (frames.empty()) throw DebugError("the thread stands nowhere");
  const ir::SourceLine& at = frames[std::min(d_->frame(), frames.size() - 1)].line;
  int first = std::max(1, at.line - 5);
  if (!rest.empty()) first = std::max(1, static_cast<int>(number_of(rest, "line")) - 5);
  else if (listed_ > 0) first = listed_;
  bool any = false;
  for (int line = first; line < first + 11; ++line) {
    const std::string text = debug_source(*d_, at.file, line);
    if (text.empty() && line != at.line) continue;
    say(fmt::format("{} {:>4}  {}", line == at.line ? "->" : "  ", line, escaped(text)));
    any = true;
  }
  if (!any) say("no line is known there");
  listed_ = first + 11;
}

void DebugSession::do_thread(const std::string& rest) {
  if (!rest.empty()) d_->choose_thread(static_cast<int32_t>(number_of(rest, "thread")));
  show_place();
}
void DebugSession::do_frame(const std::string& rest) {
  if (!rest.empty()) d_->choose_frame(static_cast<size_t>(number_of(rest, "frame")));
  show_place();
}
void DebugSession::do_up(const std::string&) {
  d_->choose_frame(d_->frame() + 1);
  show_place();
}
void DebugSession::do_down(const std::string&) {
  if (d_->frame() == 0) throw DebugError("this is the innermost function");
  d_->choose_frame(d_->frame() - 1);
  show_place();
}

void DebugSession::info_threads() {
  int64_t ended = 0, later = 0;
  for (const interp::DebugThread& t : d_->threads()) {
    if (!t.live) {
      (t.state == "has ended" ? ended : later) += 1;
      continue;
    }
    std::string text = fmt::format("{} {:>3}  {}", t.number == d_->thread() ? "*" : " ", t.number, escaped(t.name));
    if (!t.name.empty()) text += "  ";
    if (!t.point.empty()) text += debug_point(t.point) + "  ";
    text += escaped(t.state);
    if (!t.line.file.empty() && !t.state.starts_with("waits"))
      text += fmt::format("  {}:{}", escaped(t.line.file), t.line.line);
    say(text);
  }
  if (ended > 0) say(fmt::format("{} ended", ended));
  if (later > 0) say(fmt::format("{} not begun", later));
}

void DebugSession::info_memory() {
  std::string space;
  for (const interp::DebugAllocation& a : d_->memory()) {
    if (a.space != space) say(a.space);
    space = a.space;
    say(fmt::format("  {:<16} {}  {}{}", a.name.empty() ? "(no name)" : escaped(a.name), a.type, human_bytes(a.bytes),
                    a.count > 1
                        ? fmt::format(", {} times, one of each {}", a.count, a.owner == "operand" ? "device" : a.owner)
                        : ""));
  }
}

void DebugSession::do_info(const std::string& rest) {
  std::string what;
  for (const char* w : kInfo)
    if (!rest.empty() && std::string(w).starts_with(rest)) what = w;
  if (rest == "barriers") what = "semaphores";
  if (what == "breakpoints") {
    for (const auto& b : d_->breakpoints())
      say(fmt::format("{:>3}  {}{}", b.number, escaped(b.text),
                      b.hits > 0 ? fmt::format("  hit {} times", b.hits) : ""));
    if (d_->breakpoints().empty()) say("none");
  } else if (what == "threads") {
    info_threads();
  } else if (what == "locals" || what == "refs") {
    const auto values = what == "locals" ? d_->locals() : d_->refs();
    for (const auto& v : values) {
      const interp::DebugValue whole = v.bytes.empty() && !ir::is_sync(v.dtype) ? d_->evaluate(v.name) : v;
      say(fmt::format("{:<12} {}", escaped(v.name), debug_summary(whole)));
    }
    if (values.empty()) say("none");
  } else if (what == "semaphores") {
    const auto objects = d_->objects();
    size_t idle = 0;
    for (const auto& o : objects) {
      idle += o.idle;
      if (!o.idle || objects.size() <= 16) say(fmt::format("{}: {}", escaped(o.name), o.state));
    }
    if (objects.size() > 16 && idle > 0) say(fmt::format("{} more are as at the start", idle));
    if (objects.empty()) say("none");
  } else if (what == "flight") {
    for (const std::string& s : d_->in_flight()) say(escaped(s));
    if (d_->in_flight().empty()) say("nothing is in flight");
  } else if (what == "memory") {
    info_memory();
  } else if (what == "findings") {
    for (const ir::Diagnostic& f : d_->findings()) print_(ir::render(f));
    if (d_->findings().empty()) say("none so far");
  } else if (what == "prints") {
    for (const std::string& p : d_->prints()) say(escaped(p));
  } else if (what == "grid") {
    say(d_->grid().empty() ? "no grid" : fmt::format("({})", fmt::join(d_->grid(), ", ")));
  } else {
    throw DebugError(fmt::format("info {}", fmt::join(kInfo, ", ")));
  }
}

void DebugSession::do_help(const std::string& rest) {
  for (const Row& r : rows()) {
    const std::vector<std::string> names = words_of(r.names);
    if (!rest.empty() && std::find(names.begin(), names.end(), rest) == names.end()) continue;
    const std::string usage = fmt::format("{} {}", fmt::join(names, ", "), r.arguments);
    say(fmt::format("{:<44} {}", usage, r.help));
  }
}

void DebugSession::do_quit(const std::string&) { over_ = true; }

}  // namespace pallasim::cli
