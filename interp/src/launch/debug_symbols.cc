#include "debug_symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "../plan/kinds.h"

namespace pallasim::interp {
namespace {

bool is_name(const std::string& s) {
  const auto inside = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !s.empty() && !std::isdigit(static_cast<unsigned char>(s[0])) && std::all_of(s.begin(), s.end(), inside);
}

std::string trimmed(const std::string& s) {
  const size_t a = s.find_first_not_of(" \t"), b = s.find_last_not_of(" \t");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

// The first "=" that assigns: outside of brackets and texts, and no comparison; npos: there is none. `augmented`: "+=".
size_t assignment(const std::string& s) {
  int depth = 0;
  char quote = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    if (quote) {
      if (c == quote) quote = 0;
      continue;
    }
    if (c == '"' || c == '\'') quote = c;
    else if (c == '#') return std::string::npos;
    else if (c == '(' || c == '[' || c == '{') ++depth;
    else if (c == ')' || c == ']' || c == '}') --depth;
    else if (c == '=' && depth == 0 && i > 0) {
      const bool compares = (i + 1 < s.size() && s[i + 1] == '=') || std::string("=!<>:").find(s[i - 1]) < 5;
      return compares ? std::string::npos : i;
    }
  }
  return std::string::npos;
}

std::vector<ir::LocId> chain(const ir::LocTable& locs, ir::LocId loc) {
  std::vector<ir::LocId> r;
  for (; loc >= 0 && r.size() < 64; loc = locs[static_cast<size_t>(loc)].caller) r.push_back(loc);
  std::reverse(r.begin(), r.end());
  return r;
}

bool ends_with_path(const std::string& path, const std::string& end) {
  if (path == end || end.empty()) return true;
  return path.size() > end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0 &&
         path[path.size() - end.size() - 1] == '/';
}

}  // namespace

std::vector<std::string> assigned_names(const std::string& text) {
  std::string line = trimmed(text);
  const size_t at = assignment(line);
  if (at == std::string::npos) return {};
  std::string left = trimmed(line.substr(0, at));
  while (!left.empty() && std::string("+-*/%&|^@<>").find(left.back()) != std::string::npos) left.pop_back();
  left = trimmed(left);
  if (!left.empty() && left.front() == '(' && left.back() == ')') left = left.substr(1, left.size() - 2);
  std::vector<std::string> r;
  for (size_t from = 0; from <= left.size();) {
    const size_t to = std::min(left.find(',', from), left.size());
    std::string one = trimmed(left.substr(from, to - from));
    one = trimmed(one.substr(0, one.find(':')));  // an annotation
    if (!is_name(one)) return one.empty() && !r.empty() ? r : std::vector<std::string>{};
    r.push_back(one);
    from = to + 1;
  }
  return r;
}

DebugSymbols::DebugSymbols(const Plan& plan, const ir::LocTable& locs)
    : plan_(plan), locs_(locs), places_(plan.steps.size()) {
  for (const auto& b : plan.bodies)
    walk(plan.module.bodies[static_cast<size_t>(b->index)].graph.region, b->index, 0, {});
  for (const Step& s : plan.steps) {
    if (s.kind != Kind::stop_point) continue;
    const auto ops = plan.ops_of(s);
    if (const auto it = ops.empty() ? ops_.end() : ops_.find(ops.back()); it != ops_.end())
      places_[static_cast<size_t>(s.id)] = it->second;
  }
  name_values();
}

const ir::SourceLine& DebugSymbols::line(ir::LocId loc) const {
  static const ir::SourceLine nowhere;
  return loc < 0 || static_cast<size_t>(loc) >= locs_.size() ? nowhere : locs_[static_cast<size_t>(loc)].source;
}

// `before`: the frames of the operation in front of the region.
void DebugSymbols::walk(const ir::Region& region, int32_t body, int depth, const std::vector<ir::LocId>& before) {
  std::vector<ir::LocId> last = before;
  bool first = true;
  for (const ir::Op& op : region.ops) {
    if (op.code == ir::OpCode::constant) continue;
    StopPlace p{&op, body, depth, op.loc >= 0 ? chain(locs_, op.loc) : last, StopPlace::kNowhere};
    for (size_t i = 0; i < p.frames.size() && p.begins == StopPlace::kNowhere; ++i) {
      const ir::SourceLine &now = line(p.frames[i]), &was = line(i < last.size() ? last[i] : -1);
      if (i >= last.size() || now.line != was.line || now.file != was.file || now.function != was.function)
        p.begins = static_cast<int>(i);
    }
    // A region is entered again and again.
    if (first && depth > 0 && p.begins == StopPlace::kNowhere && !p.frames.empty())
      p.begins = static_cast<int>(p.frames.size()) - 1;
    if (p.frames.empty() && first) p.begins = 0;
    if (op.code == ir::OpCode::yield && depth == 0) p.begins = 0;  // where all is done
    first = false;
    last = p.frames;
    for (const ir::Region& r : op.regions) walk(r, body, depth + 1, last);
    ops_.emplace(&op, std::move(p));
  }
}

const StopPlace& DebugSymbols::around(const Step& s) const {
  int32_t id = s.id;
  while (id > 0 && places_[static_cast<size_t>(id)].body < 0) --id;
  return places_[static_cast<size_t>(id)];
}

std::vector<ir::LocId> DebugSymbols::frames(const Step& s) const {
  const StopPlace& p = at(s);
  if (p.body >= 0) return p.frames;
  return chain(locs_, plan_.loc_of(s));
}

// A line's name is that of the last value which is made for it: in the function that has the line, or in those that it
// calls.
void DebugSymbols::name_values() {
  const auto is_ref = [](const ValuePlace& v) { return v.what >= ValuePlace::What::Ref; };
  std::unordered_map<int64_t, std::vector<size_t>> places;  // by body and value
  const auto key_of = [](int32_t body, ir::ValueId v) { return (int64_t{body} << 32) | static_cast<uint32_t>(v); };
  for (size_t i = 0; i < plan_.values.size(); ++i)
    places[key_of(plan_.values[i].body, plan_.values[i].value)].push_back(i);
  const auto add = [&](std::string text, ir::LocId caller, size_t place) {
    named_.push_back({std::move(text), caller, is_ref(plan_.values[place]), false, place});
  };
  const auto name_of_value = [&](int32_t body, ir::ValueId v) -> const std::string& {
    return plan_.module.bodies[static_cast<size_t>(body)].graph.names[static_cast<size_t>(v)];
  };
  std::set<std::pair<int32_t, ir::ValueId>> arguments;           // of regions, without a name: loop indices and carries
  std::map<std::pair<int32_t, ir::ValueId>, ir::LocId> callers;  // of the functions that have regions with named ones
  // A line as one function call has it.
  using Line = std::tuple<ir::LocId, std::string, int>;
  const auto line_of = [&](ir::LocId l) {
    const ir::Loc& loc = locs_[static_cast<size_t>(l)];
    return Line{loc.caller, loc.source.file, loc.source.line};
  };
  // `around`: the operation that has the region. What the region computes for that one's line, such as the next index
  // of a loop, is not what the line assigns.
  using Visit = std::function<void(const ir::Region&, int32_t, const ir::Op*)>;
  const Visit visit = [&](const ir::Region& region, int32_t body, const ir::Op* around) {
    std::map<Line, const ir::Op*> last;  // of each line in this region the last operation
    std::set<Line> others;
    for (ir::LocId l = around ? around->loc : -1; l >= 0; l = locs_[static_cast<size_t>(l)].caller)
      others.insert(line_of(l));
    for (const ir::Op& op : region.ops) {
      for (ir::LocId l = op.loc; l >= 0; l = locs_[static_cast<size_t>(l)].caller) {
        if (!op.results.empty()) last[line_of(l)] = &op;
      }
      for (const ir::Region& r : op.regions) {
        bool named = false;
        for (const ir::ValueId a : r.args) {
          if (name_of_value(body, a).empty()) arguments.insert({body, a});
          else if (op.loc >= 0) callers[{body, a}] = locs_[static_cast<size_t>(op.loc)].caller;
          named |= !name_of_value(body, a).empty();
        }
        // Where JAX counts besides what the body calls its index, that is one too many.
        if (named && op.code == ir::OpCode::for_) arguments.erase({body, r.args[0]});
        visit(r, body, &op);
      }
    }
    for (const ir::Op& op : region.ops)
      for (ir::LocId l = op.loc; l >= 0 && !op.results.empty(); l = locs_[static_cast<size_t>(l)].caller) {
        const ir::Loc& loc = locs_[static_cast<size_t>(l)];
        if (last[line_of(l)] != &op || others.contains(line_of(l))) continue;
        const std::vector<std::string> names = assigned_names(loc.source.text);
        if (names.size() != op.results.size()) continue;
        for (size_t i = 0; i < names.size(); ++i)
          for (const size_t place : places[key_of(body, op.results[i])]) add(names[i], loc.caller, place);
      }
  };
  for (const auto& b : plan_.bodies)
    visit(plan_.module.bodies[static_cast<size_t>(b->index)].graph.region, b->index, nullptr);
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    const ValuePlace& v = plan_.values[i];
    const auto caller = callers.find({v.body, v.value});
    if (const std::string& n = name_of_value(v.body, v.value); !n.empty())
      add(n, caller == callers.end() || is_ref(v) ? -1 : caller->second, i);
    named_.push_back({fmt::format("%{}", v.value), -2, is_ref(v), arguments.contains({v.body, v.value}), i});
  }
}

// -2: a number, which every frame knows.
bool DebugSymbols::sees(const Named& n, const Step& s, const std::vector<ir::LocId>& frames, size_t level) const {
  const ValuePlace& v = plan_.values[n.place];
  if (s.id < v.begin || s.id >= v.end) return false;
  if (n.caller == -2 || (n.is_ref && n.caller == -1)) return true;
  return n.caller == (level == 0 ? -1 : frames[level - 1]);
}

std::vector<DebugSymbols::Name> DebugSymbols::names(const Step& s, size_t level) const {
  const std::vector<ir::LocId> all = frames(s);
  std::vector<Name> r;
  for (const Named& n : named_) {
    if ((n.caller == -2 && !n.is_argument) || !sees(n, s, all, level)) continue;
    const auto same = std::find_if(r.begin(), r.end(), [&](const Name& o) { return o.text == n.text; });
    const ValuePlace* place = &plan_.values[n.place];
    if (same == r.end()) r.push_back({n.text, place});
    else if (place->begin >= same->place->begin) same->place = place;
  }
  return r;
}

const ValuePlace* DebugSymbols::find(const Step& s, size_t level, const std::string& name) const {
  const std::vector<ir::LocId> all = frames(s);
  const ValuePlace* r = nullptr;
  for (const Named& n : named_)
    if (n.text == name && sees(n, s, all, level))
      if (const ValuePlace* p = &plan_.values[n.place]; !r || p->begin >= r->begin) r = p;
  return r;
}

DebugSymbols::Line DebugSymbols::find_line(const std::string& file, int line_number) const {
  // By file and line: the steps that begin it.
  std::map<std::pair<std::string, int>, Line> all;
  for (size_t i = 0; i < places_.size(); ++i) {
    const StopPlace& p = places_[i];
    if (p.body < 0) continue;
    const bool end = p.op->code == ir::OpCode::yield;
    for (size_t level = 0; level < p.frames.size() && !end; ++level) {
      const ir::SourceLine& l = line(p.frames[level]);
      if (!ends_with_path(l.file, file)) continue;
      Line& of = all[{l.file, l.line}];
      of.file = l.file, of.line = l.line;
      if (p.begins <= static_cast<int>(level)) of.steps.emplace_back(static_cast<int32_t>(i), static_cast<int>(level));
    }
  }
  if (all.empty())
    throw DebugError(file.empty() ? "the kernel has no lines" : "no operation of the kernel is of a file " + file);
  const Line* best = nullptr;
  for (const auto& [key, l] : all)
    if (key.second >= line_number && !l.steps.empty() && (!best || key.second < best->line)) best = &l;
  if (!best) {
    int most = 0;
    for (const auto& [key, l] : all) most = std::max(most, key.second);
    throw DebugError(
        fmt::format("no operation is of line {} or behind it: the last one is of line {}", line_number, most));
  }
  return *best;
}

std::vector<ir::SourceLine> DebugSymbols::lines() const {
  std::map<std::pair<std::string, int>, ir::SourceLine> all;
  for (const StopPlace& p : places_)
    for (const ir::LocId l : p.frames) all.try_emplace({line(l).file, line(l).line}, line(l));
  std::vector<ir::SourceLine> r;
  for (auto& [key, l] : all) r.push_back(l);
  return r;
}

}  // namespace pallasim::interp
