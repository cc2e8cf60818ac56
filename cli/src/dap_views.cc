// What an editor shows of a kernel that stands: threads, frames, variables.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "dap_adapter.h"
#include "debug_picture.h"
#include "debug_text.h"
#include "io.h"

namespace pallasim::cli {

Json DapAdapter::threads(const Json&) {
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

Json DapAdapter::source_of(const std::string& file) const {
  const std::filesystem::path path(file);
  Json r = {{"name", path.filename().string()}};
  std::error_code none;
  if (std::filesystem::exists(path, none)) r["path"] = std::filesystem::absolute(path, none).string();
  else r["path"] = file, r["sourceReference"] = 1 + static_cast<int64_t>(std::hash<std::string>()(file) & 0x3fffffff);
  return r;
}

Json DapAdapter::loaded_sources(const Json&) {
  std::vector<std::string> files;
  for (const ir::SourceLine& l : debugger().lines())
    if (std::find(files.begin(), files.end(), l.file) == files.end()) files.push_back(l.file);
  Json r = Json::array();
  for (const std::string& f : files) r.push_back(source_of(f));
  return {{"sources", std::move(r)}};
}

// Of a file that is not there: the lines that the kernel quotes, where they stood.
Json DapAdapter::source(const Json& a) {
  const int64_t wanted = dap_number(a, "sourceReference");
  std::string text;
  int line = 1;
  for (const ir::SourceLine& l : debugger().lines()) {
    if (dap_number(source_of(l.file), "sourceReference") != wanted) continue;
    for (; line < l.line; ++line) text += "\n";
    text += l.text + "\n";
    line = l.line + 1;
  }
  return {{"content", text}};
}

Json DapAdapter::stack_trace(const Json& a) {
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

Json DapAdapter::scopes(const Json& a) {
  const int64_t frame = dap_number(a, "frameId", 1);
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

int64_t DapAdapter::reference(std::string expression, std::vector<int64_t> dims) {
  if (dims.empty()) return 0;
  arrays_.push_back({std::move(expression), std::move(dims)});
  return kFirstArray + std::ssize(arrays_) - 1;
}

namespace {

// Stepping is not to wait for what nobody may look at.
bool is_large(const DebugValue& v) {
  int64_t n = 1;
  for (const int64_t d : v.dims) n *= d;
  return n > 4'000'000;
}

bool to_look_at(const DebugValue& v) { return v.bytes.empty() && !ir::is_sync(v.dtype) && !is_large(v); }

}  // namespace

Json DapAdapter::variable(const DebugValue& v, const std::string& expression) {
  std::string text = v.dims.empty() && !v.bytes.empty() ? debug_element(v, 0) : debug_summary(v);
  Json r = {{"name", v.name}, {"value", text}, {"type", debug_type(v)}, {"evaluateName", expression}};
  const bool there = !v.bytes.empty() || (is_large(v) && !ir::is_sync(v.dtype));
  r["variablesReference"] = there ? reference(expression, v.dims) : 0;
  if (there && !v.dims.empty()) r["indexedVariables"] = v.dims[0];
  return r;
}

Json DapAdapter::variables(const Json& a) {
  const int64_t of = dap_number(a, "variablesReference");
  Json r = Json::array();
  if (of >= kScopeBase) {
    const int64_t which = (of - kScopeBase) % kScopes;
    choose_frame((of - kScopeBase) / kScopes);
    if (which == kLocals || which == kRefs)
      for (const DebugValue& v : which == kLocals ? debugger().locals() : debugger().refs())
        r.push_back(variable(to_look_at(v) ? debugger().evaluate(v.name) : v, v.name));
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
  const int64_t start = std::clamp<int64_t>(dap_number(a, "start"), 0, e.dims[0]);
  const int64_t asked = dap_number(a, "count");
  const int64_t end = std::min(e.dims[0], start + (asked > 0 ? asked : kMost));
  for (int64_t i = start; i < end; ++i) {
    const std::string expression = fmt::format("{}[{}]", e.expression, i);
    DebugValue v = debugger().evaluate(expression);
    v.name = fmt::format("[{}]", i);
    r.push_back(variable(v, expression));
  }
  return {{"variables", std::move(r)}};
}

void DapAdapter::choose_frame(int64_t id) {
  if (id < 1) return;
  debugger().choose_thread(static_cast<int32_t>((id - 1) / kFrames));
  debugger().choose_frame(static_cast<size_t>((id - 1) % kFrames));
}

Json DapAdapter::evaluate(const Json& a) {
  choose_frame(dap_number(a, "frameId"));
  const std::string text = dap_text(a, "expression");
  const bool typed = dap_text(a, "context") == "repl";
  constexpr std::string_view kPicture = "picture ";
  if (typed && text.starts_with(kPicture))
    return {{"result", picture_command(debugger(), trimmed(text.substr(kPicture.size())),
                                       colours_ ? Colours::All : Colours::None, 100)},
            {"variablesReference", 0}};
  const DebugValue v = debugger().evaluate(text);
  Json r = variable(v, text);
  std::string result = r["value"];
  if (typed && !v.dims.empty()) result += "\n" + debug_elements(v);
  return {{"result", result},
          {"type", r["type"]},
          {"variablesReference", r["variablesReference"]},
          {"indexedVariables", v.dims.empty() ? 0 : v.dims[0]}};
}

namespace {

std::string base64(const std::string& bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string r;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) r += k <= bytes.size() - i ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return r;
}

}  // namespace

// Of this adapter alone: what front ends that show pictures need of an array, and where it lies in the operand's.
Json DapAdapter::picture(const Json& a) {
  choose_frame(dap_number(a, "frameId"));
  const std::string expression = dap_text(a, "expression");
  const DebugValue v = debugger().evaluate(expression);
  const DebugPicture p = debug_picture(v, 128, 128);
  const auto numbers = [&](const char* attribute) {
    Json r = Json::array();
    try {
      const DebugValue list = debugger().evaluate(expression + attribute);
      for (size_t at = 0; at + 8 <= list.bytes.size(); at += 8) {
        int64_t n;
        std::memcpy(&n, list.bytes.data() + at, 8);
        r.push_back(n);
      }
    } catch (const DebugError&) {}  // it is no block of one
    return r;
  };
  return {{"summary", debug_summary(v)},
          {"elements", debug_elements(v)},
          {"dims", v.dims},
          {"block", numbers(".block")},
          {"array", numbers(".array.shape")},
          {"down", p.down},
          {"across", p.across},
          {"plane", p.plane},
          {"rows", p.rows},
          {"columns", p.columns},
          {"least", fmt::format("{:g}", p.least)},
          {"most", fmt::format("{:g}", p.most)},
          {"scale", Json::array({picture_colour(p, 0), picture_colour(p, 0.5), picture_colour(p, 1)})},
          {"legend", picture_legend(p, true)},
          {"cell", picture_cell(p)},
          {"png", base64(picture_png(p))}};
}

}  // namespace pallasim::cli
