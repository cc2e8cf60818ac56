// The debugger behind the Debug Adapter Protocol: a handler per request.
#pragma once
#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dap_connection.h"
#include "debug_target.h"

namespace pallasim::cli {

using interp::DebugError;
using interp::Debugger;
using interp::DebugStop;
using interp::DebugValue;

// Of a request's arguments.
inline std::string dap_text(const Json& j, const char* key, const std::string& otherwise = "") {
  return j.contains(key) && j[key].is_string() ? j[key].get<std::string>() : otherwise;
}
inline int64_t dap_number(const Json& j, const char* key, int64_t otherwise = 0) {
  return j.contains(key) && j[key].is_number() ? j[key].get<int64_t>() : otherwise;
}

class DapAdapter {
 public:
  DapAdapter(int in, int out)
      : connection_(in, out, [this](const Json& m) {
          const std::string c = dap_text(m, "command");
          if (Debugger* d = running_.load(); d && (c == "pause" || c == "terminate" || c == "disconnect"))
            d->interrupt();
        }) {}

  void serve() {
    while (!over_) {
      const std::optional<Json> request = connection_.next();
      if (!request) break;
      if (dap_text(*request, "type") == "request") answer(*request);
    }
  }

 private:
  using Handler = Json (DapAdapter::*)(const Json& arguments);
  static const std::map<std::string, Handler>& handlers();

  void answer(const Json& request) {
    Json response = {{"type", "response"},
                     {"request_seq", dap_number(request, "seq")},
                     {"command", dap_text(request, "command")},
                     {"success", true}};
    const Json arguments =
        request.contains("arguments") && request["arguments"].is_object() ? request["arguments"] : Json::object();
    after_ = nullptr;
    try {
      const auto it = handlers().find(dap_text(request, "command"));
      if (it == handlers().end()) throw DebugError("there is no request " + dap_text(request, "command"));
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
  Json picture(const Json&);
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
  void choose_frame(int64_t id);
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
  bool stop_on_entry_ = true, over_ = false, colours_ = false;
  int64_t line_base_ = 1;
  DapConnection connection_;  // ends first
};

}  // namespace pallasim::cli
