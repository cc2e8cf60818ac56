// pallasim dap: the debugger for editors, over Microsoft's Debug Adapter Protocol.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>

#include "dap_connection.h"
#include "debug_target.h"
#include "debug_text.h"
#include "io.h"

namespace pallasim::cli {
namespace {

using interp::DebugError;
using interp::Debugger;
using interp::DebugStop;
using interp::DebugValue;

std::string text_of(const Json& j, const char* key, const std::string& otherwise = "") {
  return j.contains(key) && j[key].is_string() ? j[key].get<std::string>() : otherwise;
}
int64_t number_of(const Json& j, const char* key, int64_t otherwise = 0) {
  return j.contains(key) && j[key].is_number() ? j[key].get<int64_t>() : otherwise;
}

class Adapter {
 public:
  Adapter(int in, int out)
      : connection_(in, out, [this](const Json& m) {
          const std::string c = text_of(m, "command");
          if (Debugger* d = running_.load(); d && (c == "pause" || c == "terminate" || c == "disconnect"))
            d->interrupt();
        }) {}

  void serve() {
    while (!over_) {
      const std::optional<Json> request = connection_.next();
      if (!request) break;
      if (text_of(*request, "type") == "request") answer(*request);
    }
  }

 private:
  using Handler = Json (Adapter::*)(const Json& arguments);
  static const std::map<std::string, Handler>& handlers();

  void answer(const Json& request) {
    Json response = {{"type", "response"},
                     {"request_seq", number_of(request, "seq")},
                     {"command", text_of(request, "command")},
                     {"success", true}};
    const Json arguments =
        request.contains("arguments") && request["arguments"].is_object() ? request["arguments"] : Json::object();
    after_ = nullptr;
    try {
      const auto it = handlers().find(text_of(request, "command"));
      if (it == handlers().end()) throw DebugError("there is no request " + text_of(request, "command"));
      response["body"] = (this->*it->second)(arguments);
    } catch (const DebugError& e) { refuse(&response, e.what()); } catch (const ir::DiagnosticError& e) {
      refuse(&response, ir::render(e.diagnostic()));
    } catch (const Json::exception& e) { refuse(&response, std::string("arguments: ") + e.what()); }
    connection_.send(std::move(response));
    if (after_) std::exchange(after_, nullptr)();
  }
  static void refuse(Json* response, const std::string& why) {
    (*response)["success"] = false;
    (*response)["message"] = why;
    (*response)["body"] = {{"error", {{"id", 1}, {"format", why}, {"showUser", true}}}};
  }
  void event(const char* name, Json body = Json::object()) {
    connection_.send({{"type", "event"}, {"event", name}, {"body", std::move(body)}});
  }
  Debugger& debugger() {
    if (!debugger_) throw DebugError("nothing was launched");
    return *debugger_;
  }

  Json initialize(const Json&);
  Json launch(const Json&);
  Json set_breakpoints(const Json&);
  Json set_exception_breakpoints(const Json&);
  Json configuration_done(const Json&);
  Json threads(const Json&);
  Json stack_trace(const Json&);
  Json scopes(const Json&);
  Json variables(const Json&);
  Json evaluate(const Json&);
  Json data_breakpoint_info(const Json&);
  Json set_data_breakpoints(const Json&);
  Json go_on(const Json&);
  Json next(const Json&);
  Json step_in(const Json&);
  Json step_out(const Json&);
  Json step_back(const Json&);
  Json reverse_continue(const Json&);
  Json pause(const Json&) { return Json::object(); }
  Json restart(const Json&);
  Json loaded_sources(const Json&);
  Json source(const Json&);
  Json terminate(const Json&);
  Json disconnect(const Json&);
  // Runs behind the response, and says where it stopped.
  Json going(std::function<DebugStop()>);
  void stopped(const DebugStop&);
  void new_output();
  void choose(const Json& arguments);
  Json source_of(const std::string& file) const;
  Json variable(const DebugValue&, const std::string& expression);
  int64_t reference(std::string expression, std::vector<int64_t> dims);

  struct Elements {  // of an array: its parts along the first dimension
    std::string expression;
    std::vector<int64_t> dims;
  };
  enum Scope : int64_t { kLocals = 1, kRefs, kSemaphores, kFlight, kMemory, kFirstArray = 1000 };
  static constexpr int64_t kFrames = 1000;  // frame ids: thread * kFrames + frame + 1
  static constexpr int64_t kScopes = 10;    // scope references: (frame id) * kScopes + scope, above kScopeBase
  static constexpr int64_t kScopeBase = int64_t{1} << 32;

  std::atomic<Debugger*> running_{nullptr};
  std::unique_ptr<DebugTarget> target_;
  std::unique_ptr<Debugger> debugger_;
  std::function<void()> after_;
  std::map<std::string, std::vector<int>> lines_;  // breakpoints by file
  std::vector<int> data_;
  std::vector<Elements> arrays_;
  size_t prints_ = 0;
  bool stop_on_entry_ = true, over_ = false;
  int64_t line_base_ = 1;
  DapConnection connection_;  // ends first
};

const std::map<std::string, Adapter::Handler>& Adapter::handlers() {
  static const std::map<std::string, Handler> kHandlers = {
      {"initialize", &Adapter::initialize},
      {"launch", &Adapter::launch},
      {"setBreakpoints", &Adapter::set_breakpoints},
      {"setExceptionBreakpoints", &Adapter::set_exception_breakpoints},
      {"configurationDone", &Adapter::configuration_done},
      {"threads", &Adapter::threads},
      {"stackTrace", &Adapter::stack_trace},
      {"scopes", &Adapter::scopes},
      {"variables", &Adapter::variables},
      {"evaluate", &Adapter::evaluate},
      {"dataBreakpointInfo", &Adapter::data_breakpoint_info},
      {"setDataBreakpoints", &Adapter::set_data_breakpoints},
      {"continue", &Adapter::go_on},
      {"next", &Adapter::next},
      {"stepIn", &Adapter::step_in},
      {"stepOut", &Adapter::step_out},
      {"stepBack", &Adapter::step_back},
      {"reverseContinue", &Adapter::reverse_continue},
      {"pause", &Adapter::pause},
      {"restart", &Adapter::restart},
      {"loadedSources", &Adapter::loaded_sources},
      {"source", &Adapter::source},
      {"terminate", &Adapter::terminate},
      {"disconnect", &Adapter::disconnect},
  };
  return kHandlers;
}

// -- the session --

Json Adapter::initialize(const Json& a) {
  line_base_ = a.value("linesStartAt1", true) ? 1 : 0;
  return {{"supportsConfigurationDoneRequest", true},
          {"supportsConditionalBreakpoints", true},
          {"supportsStepBack", true},
          {"supportsDataBreakpoints", true},
          {"supportsEvaluateForHovers", true},
          {"supportsRestartRequest", true},
          {"supportsTerminateRequest", true},
          {"supportsLoadedSourcesRequest", true},
          {"supportsSteppingGranularity", true},
          {"supportsExceptionFilterOptions", true},
          {"exceptionBreakpointFilters",
           Json::array({{{"filter", "findings"},
                         {"label", "Findings"},
                         {"description", "Stop at warnings, too; with codes such as PS-UNINIT as the condition"},
                         {"supportsCondition", true},
                         {"default", false}}})}};
}

Json Adapter::launch(const Json& a) {
  RunOptions o;
  o.file = text_of(a, "program");
  if (o.file.empty()) throw DebugError("launch.json: program is the capsule, or the kernel (.psir)");
  if (const std::string folder = text_of(a, "cwd"); !folder.empty()) std::filesystem::current_path(folder);
  o.launch = number_of(a, "launch");
  o.seed = static_cast<uint64_t>(number_of(a, "seed"));
  o.fill = text_of(a, "fill");
  if (const std::string chip = text_of(a, "chip"); !chip.empty()) o.options.emplace_back("machine", chip);
  const auto text = [](const Json& v) { return v.is_string() ? v.get<std::string>() : v.dump(); };
  if (a.contains("options") && a["options"].is_object())
    for (const auto& [name, value] : a["options"].items())
      o.options.emplace_back(name == "checked" ? "detect_races" : name, text(value));
  if (a.contains("args") && a["args"].is_array())
    for (const Json& v : a["args"]) o.args.push_back(text(v));
  stop_on_entry_ = a.value("stopOnEntry", true);
  target_ = std::make_unique<DebugTarget>(o);
  debugger_ = target_->start();
  after_ = [this] { event("initialized"); };
  return Json::object();
}

Json Adapter::configuration_done(const Json&) {
  if (stop_on_entry_) {
    after_ = [this] { stopped({DebugStop::Why::Start, 0, "", {}}); };
    return Json::object();
  }
  return going([this] { return debugger().go_on(); });
}

Json Adapter::restart(const Json&) {
  prints_ = 0;
  return going([this] { return debugger().restart(); });
}

Json Adapter::terminate(const Json&) {
  after_ = [this] { event("terminated"); };
  return Json::object();
}

Json Adapter::disconnect(const Json&) {
  over_ = true;
  return Json::object();
}

void Adapter::new_output() {
  const std::vector<std::string> all = debugger().prints();
  for (size_t i = std::min(prints_, all.size()); i < all.size(); ++i)
    event("output", {{"category", "stdout"}, {"output", all[i] + "\n"}});
  prints_ = all.size();
}

void Adapter::stopped(const DebugStop& stop) {
  using Why = DebugStop::Why;
  arrays_.clear();
  new_output();
  if (stop.why == Why::End) {
    for (const ir::Diagnostic& d : debugger().findings())
      event("output", {{"category", "stderr"}, {"output", ir::render(d)}});
    // Editors end with the program; who wants to go back stays at its last place.
    event("output", {{"category", "console"}, {"output", "the launch ended; step back, or disconnect\n"}});
  }
  const char* reason = stop.why == Why::Breakpoint                          ? "breakpoint"
                       : stop.why == Why::Watchpoint                        ? "data breakpoint"
                       : stop.why == Why::Start                             ? "entry"
                       : stop.why == Why::Interrupt                         ? "pause"
                       : stop.why == Why::Finding || stop.why == Why::Error ? "exception"
                       : stop.why == Why::End                               ? "end"
                                                                            : "step";
  Json body = {{"reason", reason}, {"threadId", debugger().thread() + 1}, {"allThreadsStopped", true}};
  if (stop.why == Why::End) body["description"] = "the launch ended";
  if (!stop.text.empty()) body["description"] = body["text"] = stop.text;
  if (stop.number > 0) body["hitBreakpointIds"] = Json::array({stop.number});
  if (stop.found) {
    body["text"] = fmt::format("{}: {}", stop.found->code.text(), stop.found->message);
    event("output", {{"category", "stderr"}, {"output", ir::render(*stop.found)}});
  }
  event("stopped", std::move(body));
}

Json Adapter::going(std::function<DebugStop()> f) {
  debugger();
  after_ = [this, f = std::move(f)] {
    running_ = debugger_.get();
    DebugStop stop;
    try {
      stop = f();
    } catch (const DebugError& e) {
      event("output", {{"category", "important"}, {"output", std::string(e.what()) + "\n"}});
    }
    running_ = nullptr;
    stopped(stop);
  };
  return {{"allThreadsContinued", true}};
}

// The thread that the editor steps is the one that steps.
void Adapter::choose(const Json& a) {
  const int64_t thread = number_of(a, "threadId") - 1;
  if (thread >= 0 && thread != debugger().thread()) debugger().choose_thread(static_cast<int32_t>(thread));
}

static Debugger::How how_of(const Json& a, Debugger::How otherwise) {
  return text_of(a, "granularity") == "instruction" ? Debugger::How::Operation : otherwise;
}

Json Adapter::go_on(const Json&) {
  return going([this] { return debugger().go_on(); });
}
Json Adapter::next(const Json& a) {
  choose(a);
  return going([this, how = how_of(a, Debugger::How::Over)] { return debugger().step(how); });
}
Json Adapter::step_in(const Json& a) {
  choose(a);
  return going([this, how = how_of(a, Debugger::How::Into)] { return debugger().step(how); });
}
Json Adapter::step_out(const Json& a) {
  choose(a);
  return going([this] { return debugger().step(Debugger::How::Out); });
}
Json Adapter::step_back(const Json& a) {
  choose(a);
  return going([this, how = how_of(a, Debugger::How::Over)] { return debugger().step_back(how); });
}
Json Adapter::reverse_continue(const Json&) {
  return going([this] { return debugger().go_back(); });
}

// -- breakpoints --

Json Adapter::set_breakpoints(const Json& a) {
  const Json source = a.contains("source") ? a["source"] : Json::object();
  const std::string file = text_of(source, "path", text_of(source, "name"));
  for (const int n : lines_[file]) debugger().remove(n);
  lines_[file].clear();
  Json r = Json::array();
  const Json wanted = a.contains("breakpoints") ? a["breakpoints"] : Json::array();
  for (const Json& b : wanted) {
    const auto line = static_cast<int>(number_of(b, "line") + 1 - line_base_);
    try {
      // What the capsule calls the file may be a part of its path, or another folder's.
      interp::DebugBreakpoint at;
      try {
        at = debugger().break_at(file, line, text_of(b, "condition"));
      } catch (const DebugError&) {
        at = debugger().break_at(std::filesystem::path(file).filename().string(), line, text_of(b, "condition"));
      }
      lines_[file].push_back(at.number);
      r.push_back(
          {{"id", at.number}, {"verified", true}, {"line", at.line - 1 + line_base_}, {"source", source_of(at.file)}});
    } catch (const DebugError& e) { r.push_back({{"verified", false}, {"message", e.what()}, {"line", line}}); }
  }
  return {{"breakpoints", std::move(r)}};
}

Json Adapter::set_exception_breakpoints(const Json& a) {
  std::vector<std::string> codes;
  const auto has = [&](const Json& list) {
    return list.is_array() && std::find(list.begin(), list.end(), "findings") != list.end();
  };
  if (a.contains("filters") && has(a["filters"])) codes.push_back("");
  if (a.contains("filterOptions") && a["filterOptions"].is_array())
    for (const Json& o : a["filterOptions"]) {
      std::string all = text_of(o, "condition");
      std::replace(all.begin(), all.end(), ',', ' ');
      if (all.empty()) codes.push_back("");
      for (size_t from = 0; from < all.size();) {
        const size_t to = std::min(all.find(' ', from), all.size());
        if (to > from) codes.push_back(all.substr(from, to - from));
        from = to + 1;
      }
    }
  debugger().stop_on(std::move(codes));
  return Json::object();
}

Json Adapter::data_breakpoint_info(const Json& a) {
  std::string name = text_of(a, "name");
  const int64_t of = number_of(a, "variablesReference");
  if (of >= kFirstArray && of < kScopeBase && of - kFirstArray < std::ssize(arrays_) && name.starts_with("["))
    name = arrays_[static_cast<size_t>(of - kFirstArray)].expression + name;
  try {
    const DebugValue v = debugger().evaluate(name);
    if (v.is_ref)
      return {{"dataId", name},
              {"description", name},
              {"accessTypes", Json::array({"read", "write", "readWrite"})},
              {"canPersist", false}};
    return {{"dataId", nullptr}, {"description", name + " is no ref: it never changes"}};
  } catch (const DebugError& e) { return {{"dataId", nullptr}, {"description", e.what()}}; }
}

Json Adapter::set_data_breakpoints(const Json& a) {
  for (const int n : data_) debugger().remove(n);
  data_.clear();
  Json r = Json::array();
  const Json wanted = a.contains("breakpoints") ? a["breakpoints"] : Json::array();
  for (const Json& b : wanted) {
    const std::string access = text_of(b, "accessType", "write");
    const Debugger::Watch kind = access == "read"        ? Debugger::Watch::Read
                                 : access == "readWrite" ? Debugger::Watch::Access
                                                         : Debugger::Watch::Write;
    try {
      const auto at = debugger().watch(text_of(b, "dataId"), kind, text_of(b, "condition"));
      data_.push_back(at.number);
      r.push_back({{"id", at.number}, {"verified", true}});
    } catch (const DebugError& e) { r.push_back({{"verified", false}, {"message", e.what()}}); }
  }
  return {{"breakpoints", std::move(r)}};
}

// -- looking --

Json Adapter::threads(const Json&) {
  Json r = Json::array();
  for (const interp::DebugThread& t : debugger().threads()) {
    if (!t.live && t.number != debugger().thread()) continue;
    std::string name = t.name.empty() ? debugger().kernel() : t.name;
    if (!t.point.empty()) name += " at " + debug_point(t.point);
    if (t.state.starts_with("waits")) name += ", " + t.state;
    r.push_back({{"id", t.number + 1}, {"name", name}});
  }
  return {{"threads", std::move(r)}};
}

Json Adapter::source_of(const std::string& file) const {
  const std::filesystem::path path(file);
  Json r = {{"name", path.filename().string()}};
  std::error_code none;
  if (std::filesystem::exists(path, none)) r["path"] = std::filesystem::absolute(path, none).string();
  else r["path"] = file, r["sourceReference"] = 1 + static_cast<int64_t>(std::hash<std::string>()(file) & 0x3fffffff);
  return r;
}

Json Adapter::loaded_sources(const Json&) {
  std::vector<std::string> files;
  for (const ir::SourceLine& l : debugger().lines())
    if (std::find(files.begin(), files.end(), l.file) == files.end()) files.push_back(l.file);
  Json r = Json::array();
  for (const std::string& f : files) r.push_back(source_of(f));
  return {{"sources", std::move(r)}};
}

// Of a file that is not there: the lines that the kernel quotes, where they stood.
Json Adapter::source(const Json& a) {
  const int64_t wanted = number_of(a, "sourceReference");
  std::string text;
  int line = 1;
  for (const ir::SourceLine& l : debugger().lines()) {
    if (number_of(source_of(l.file), "sourceReference") != wanted) continue;
    for (; line < l.line; ++line) text += "\n";
    text += l.text + "\n";
    line = l.line + 1;
  }
  return {{"content", text}};
}

Json Adapter::stack_trace(const Json& a) {
  choose(a);
  Json r = Json::array();
  const auto frames = debugger().frames();
  for (size_t i = 0; i < frames.size(); ++i) {
    const interp::DebugFrame& f = frames[i];
    Json one = {{"id", debugger().thread() * kFrames + static_cast<int64_t>(i) + 1},
                {"name", f.function.empty() ? debugger().kernel() : f.function},
                {"line", f.line.line > 0 ? f.line.line - 1 + line_base_ : 0},
                {"column", f.line.column + 1}};
    if (!f.line.file.empty()) one["source"] = source_of(f.line.file);
    r.push_back(std::move(one));
  }
  return {{"totalFrames", r.size()}, {"stackFrames", r}};
}

Json Adapter::scopes(const Json& a) {
  const int64_t frame = number_of(a, "frameId", 1);
  Json r = Json::array();
  const auto add = [&](const char* name, Scope which, bool expensive) {
    r.push_back(
        {{"name", name}, {"variablesReference", kScopeBase + frame * kScopes + which}, {"expensive", expensive}});
  };
  add("Locals", kLocals, false);
  add("Refs", kRefs, false);
  if (!debugger().objects().empty()) add("Semaphores", kSemaphores, false);
  add("In flight", kFlight, false);
  add("Memory", kMemory, true);
  return {{"scopes", std::move(r)}};
}

int64_t Adapter::reference(std::string expression, std::vector<int64_t> dims) {
  if (dims.empty()) return 0;
  arrays_.push_back({std::move(expression), std::move(dims)});
  return kFirstArray + std::ssize(arrays_) - 1;
}

Json Adapter::variable(const DebugValue& v, const std::string& expression) {
  std::string text = v.dims.empty() && !v.bytes.empty() ? debug_element(v, 0) : debug_summary(v);
  Json r = {{"name", v.name}, {"value", text}, {"type", debug_type(v)}, {"evaluateName", expression}};
  const bool there = !v.bytes.empty();
  r["variablesReference"] = there ? reference(expression, v.dims) : 0;
  if (there && !v.dims.empty()) r["indexedVariables"] = v.dims[0];
  return r;
}

Json Adapter::variables(const Json& a) {
  const int64_t of = number_of(a, "variablesReference");
  Json r = Json::array();
  if (of >= kScopeBase) {
    const int64_t frame = (of - kScopeBase) / kScopes - 1, which = (of - kScopeBase) % kScopes;
    debugger().choose_thread(static_cast<int32_t>(frame / kFrames));
    debugger().choose_frame(static_cast<size_t>(frame % kFrames));
    if (which == kLocals || which == kRefs)
      for (const DebugValue& v : which == kLocals ? debugger().locals() : debugger().refs())
        r.push_back(variable(v.bytes.empty() && !ir::is_sync(v.dtype) ? debugger().evaluate(v.name) : v, v.name));
    const auto plain = [&](const std::string& name, const std::string& value) {
      r.push_back({{"name", name}, {"value", value}, {"variablesReference", 0}});
    };
    if (which == kSemaphores)
      for (const auto& o : debugger().objects()) plain(o.name, o.state);
    if (which == kFlight)
      for (const std::string& s : debugger().in_flight()) plain(fmt::format("{}", r.size()), s);
    if (which == kMemory)
      for (const auto& m : debugger().memory())
        plain(m.name, fmt::format("{} in {}, {}", m.type, m.space, human_bytes(m.bytes)));
    return {{"variables", std::move(r)}};
  }
  if (of < kFirstArray || of - kFirstArray >= std::ssize(arrays_)) throw DebugError("that was before the last stop");
  const Elements e = arrays_[static_cast<size_t>(of - kFirstArray)];
  constexpr int64_t kMost = 256;
  const int64_t start = std::clamp<int64_t>(number_of(a, "start"), 0, e.dims[0]);
  const int64_t asked = number_of(a, "count");
  const int64_t end = std::min(e.dims[0], start + (asked > 0 ? asked : kMost));
  for (int64_t i = start; i < end; ++i) {
    const std::string expression = fmt::format("{}[{}]", e.expression, i);
    DebugValue v = debugger().evaluate(expression);
    v.name = fmt::format("[{}]", i);
    r.push_back(variable(v, expression));
  }
  return {{"variables", std::move(r)}};
}

Json Adapter::evaluate(const Json& a) {
  if (const int64_t frame = number_of(a, "frameId") - 1; frame >= 0) {
    debugger().choose_thread(static_cast<int32_t>(frame / kFrames));
    debugger().choose_frame(static_cast<size_t>(frame % kFrames));
  }
  const std::string text = text_of(a, "expression");
  const DebugValue v = debugger().evaluate(text);
  Json r = variable(v, text);
  std::string result = r["value"];
  if (text_of(a, "context") == "repl" && !v.dims.empty()) result += "\n" + debug_elements(v);
  return {{"result", result},
          {"type", r["type"]},
          {"variablesReference", r["variablesReference"]},
          {"indexedVariables", v.dims.empty() ? 0 : v.dims[0]}};
}

}  // namespace

int dap(const DapCommand& o, Out&) {
  const int client = o.port > 0 ? accept_on(o.port) : -1;
  Adapter(client >= 0 ? client : STDIN_FILENO, client >= 0 ? client : STDOUT_FILENO).serve();
  if (client >= 0) ::close(client);
  return kOk;
}

}  // namespace pallasim::cli
