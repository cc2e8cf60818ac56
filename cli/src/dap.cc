// pallasim dap: the debugger for editors, over Microsoft's Debug Adapter Protocol.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "dap_adapter.h"
#include "debug_text.h"
#include "io.h"

namespace pallasim::cli {

const std::map<std::string, DapAdapter::Handler>& DapAdapter::handlers() {
  static const std::map<std::string, Handler> kHandlers = {
      {"initialize", &DapAdapter::initialize},
      {"launch", &DapAdapter::launch},
      {"setBreakpoints", &DapAdapter::set_breakpoints},
      {"setExceptionBreakpoints", &DapAdapter::set_exception_breakpoints},
      {"configurationDone", &DapAdapter::configuration_done},
      {"threads", &DapAdapter::threads},
      {"stackTrace", &DapAdapter::stack_trace},
      {"scopes", &DapAdapter::scopes},
      {"variables", &DapAdapter::variables},
      {"evaluate", &DapAdapter::evaluate},
      {"pallasim/picture", &DapAdapter::picture},
      {"dataBreakpointInfo", &DapAdapter::data_breakpoint_info},
      {"setDataBreakpoints", &DapAdapter::set_data_breakpoints},
      {"continue", &DapAdapter::go_on},
      {"next", &DapAdapter::next},
      {"stepIn", &DapAdapter::step_in},
      {"stepOut", &DapAdapter::step_out},
      {"stepBack", &DapAdapter::step_back},
      {"reverseContinue", &DapAdapter::reverse_continue},
      {"pause", &DapAdapter::pause},
      {"restart", &DapAdapter::restart},
      {"loadedSources", &DapAdapter::loaded_sources},
      {"source", &DapAdapter::source},
      {"terminate", &DapAdapter::terminate},
      {"disconnect", &DapAdapter::disconnect},
  };
  return kHandlers;
}

// -- the session --

Json DapAdapter::initialize(const Json& a) {
  line_base_ = a.value("linesStartAt1", true) ? 1 : 0;
  colours_ = a.value("supportsANSIStyling", false);
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

Json DapAdapter::launch(const Json& a) {
  RunOptions o;
  o.file = dap_text(a, "program");
  if (o.file.empty()) throw DebugError("launch.json: program is the capsule, or the kernel (.psir)");
  if (const std::string folder = dap_text(a, "cwd"); !folder.empty()) std::filesystem::current_path(folder);
  o.launch = dap_number(a, "launch");
  o.seed = static_cast<uint64_t>(dap_number(a, "seed"));
  o.fill = dap_text(a, "fill");
  if (const std::string chip = dap_text(a, "chip"); !chip.empty()) o.options.emplace_back("machine", chip);
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

Json DapAdapter::configuration_done(const Json&) {
  if (stop_on_entry_) {
    after_ = [this] { stopped({DebugStop::Why::Start, 0, "", {}}); };
    return Json::object();
  }
  return going([this] { return debugger().go_on(); });
}

Json DapAdapter::restart(const Json&) {
  prints_ = 0;
  return going([this] { return debugger().restart(); });
}

Json DapAdapter::terminate(const Json&) {
  after_ = [this] { event("terminated"); };
  return Json::object();
}

Json DapAdapter::disconnect(const Json&) {
  over_ = true;
  return Json::object();
}

void DapAdapter::new_output() {
  const std::vector<std::string> all = debugger().prints();
  for (size_t i = std::min(prints_, all.size()); i < all.size(); ++i)
    event("output", {{"category", "stdout"}, {"output", all[i] + "\n"}});
  prints_ = all.size();
}

void DapAdapter::stopped(const DebugStop& stop) {
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

Json DapAdapter::going(std::function<DebugStop()> f) {
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
void DapAdapter::choose(const Json& a) {
  const int64_t thread = dap_number(a, "threadId") - 1;
  if (thread >= 0 && thread != debugger().thread()) debugger().choose_thread(static_cast<int32_t>(thread));
}

static Debugger::How how_of(const Json& a, Debugger::How otherwise) {
  return dap_text(a, "granularity") == "instruction" ? Debugger::How::Operation : otherwise;
}

Json DapAdapter::go_on(const Json&) {
  return going([this] { return debugger().go_on(); });
}
Json DapAdapter::next(const Json& a) {
  choose(a);
  return going([this, how = how_of(a, Debugger::How::Over)] { return debugger().step(how); });
}
Json DapAdapter::step_in(const Json& a) {
  choose(a);
  return going([this, how = how_of(a, Debugger::How::Into)] { return debugger().step(how); });
}
Json DapAdapter::step_out(const Json& a) {
  choose(a);
  return going([this] { return debugger().step(Debugger::How::Out); });
}
Json DapAdapter::step_back(const Json& a) {
  choose(a);
  return going([this, how = how_of(a, Debugger::How::Over)] { return debugger().step_back(how); });
}
Json DapAdapter::reverse_continue(const Json&) {
  return going([this] { return debugger().go_back(); });
}

// -- breakpoints --

Json DapAdapter::set_breakpoints(const Json& a) {
  const Json source = a.contains("source") ? a["source"] : Json::object();
  const std::string file = dap_text(source, "path", dap_text(source, "name"));
  for (const int n : lines_[file]) debugger().remove(n);
  lines_[file].clear();
  Json r = Json::array();
  const Json wanted = a.contains("breakpoints") ? a["breakpoints"] : Json::array();
  for (const Json& b : wanted) {
    const auto line = static_cast<int>(dap_number(b, "line") + 1 - line_base_);
    try {
      // What the capsule calls the file may be a part of its path, or another folder's.
      interp::DebugBreakpoint at;
      try {
        at = debugger().break_at(file, line, dap_text(b, "condition"));
      } catch (const DebugError&) {
        at = debugger().break_at(std::filesystem::path(file).filename().string(), line, dap_text(b, "condition"));
      }
      lines_[file].push_back(at.number);
      r.push_back(
          {{"id", at.number}, {"verified", true}, {"line", at.line - 1 + line_base_}, {"source", source_of(at.file)}});
    } catch (const DebugError& e) { r.push_back({{"verified", false}, {"message", e.what()}, {"line", line}}); }
  }
  return {{"breakpoints", std::move(r)}};
}

Json DapAdapter::set_exception_breakpoints(const Json& a) {
  std::vector<std::string> codes;
  const auto has = [&](const Json& list) {
    return list.is_array() && std::find(list.begin(), list.end(), "findings") != list.end();
  };
  if (a.contains("filters") && has(a["filters"])) codes.push_back("");
  if (a.contains("filterOptions") && a["filterOptions"].is_array())
    for (const Json& o : a["filterOptions"]) {
      std::string all = dap_text(o, "condition");
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

Json DapAdapter::data_breakpoint_info(const Json& a) {
  std::string name = dap_text(a, "name");
  const int64_t of = dap_number(a, "variablesReference");
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

Json DapAdapter::set_data_breakpoints(const Json& a) {
  for (const int n : data_) debugger().remove(n);
  data_.clear();
  Json r = Json::array();
  const Json wanted = a.contains("breakpoints") ? a["breakpoints"] : Json::array();
  for (const Json& b : wanted) {
    const std::string access = dap_text(b, "accessType", "write");
    const Debugger::Watch kind = access == "read"        ? Debugger::Watch::Read
                                 : access == "readWrite" ? Debugger::Watch::Access
                                                         : Debugger::Watch::Write;
    try {
      const auto at = debugger().watch(dap_text(b, "dataId"), kind, dap_text(b, "condition"));
      data_.push_back(at.number);
      r.push_back({{"id", at.number}, {"verified", true}});
    } catch (const DebugError& e) { r.push_back({{"verified", false}, {"message", e.what()}}); }
  }
  return {{"breakpoints", std::move(r)}};
}

int dap(const DapCommand& o, Out&) {
  const int client = o.port > 0 ? accept_on(o.port) : -1;
  DapAdapter(client >= 0 ? client : STDIN_FILENO, client >= 0 ? client : STDOUT_FILENO).serve();
  if (client >= 0) ::close(client);
  return kOk;
}

}  // namespace pallasim::cli
