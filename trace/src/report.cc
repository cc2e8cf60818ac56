// The data of a report's page: columns of numbers, times in ticks, each the difference to the one before.
#include "pallasim/trace/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "pallasim/hw/rules.h"
#include "pallasim/trace/perfetto.h"
#include "report_page.h"

namespace pallasim::trace {
namespace {

using Json = nlohmann::ordered_json;
using interp::Timeline;

std::string text_of(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

class Data {
 public:
  explicit Data(const Reported& r)
      : r_(r), t_(*r.timeline), tick_(r.prediction ? 1e-10 : 1e-9), lane_of_(t_.slices.size()) {}

  Json all() {
    Json j;
    j["kernel"] = r_.module->name;
    j["chip"] = r_.chip->name;
    j["machine"] = ir::name(r_.module->machine);
    j["family"] = r_.chip->family == hw::Family::Gpu || r_.module->machine == ir::Machine::Triton ||
                          r_.module->machine == ir::Machine::MosaicGpu
                      ? "gpu"
                      : "tpu";
    j["unit"] = r_.prediction ? "s" : "steps";
    j["tick"] = r_.prediction ? tick_ : 1.0;
    j["end"] = ticks(r_.prediction ? std::max(t_.end(), 0.0) : t_.end());
    j["prediction"] = r_.prediction ? Json::parse(interp::to_json(*r_.prediction)) : Json();
    j["left_out"] = t_.left_out();
    j["moves_dropped"] = t_.moves_dropped, j["points_dropped"] = t_.points_dropped;
    lines(&j);
    j["names"] = t_.names;
    j["tracks"] = Json::array();
    for (const Timeline::Track& x : t_.tracks)
      j["tracks"].push_back({{"name", x.name}, {"parent", x.parent}, {"kind", static_cast<int>(x.kind)}});
    j["lanes"] = lanes();
    j["arrows"] = arrows();
    j["counters"] = counters();
    j["rooms"] = rooms();
    j["moves"] = moves();
    j["grid"] = grid();
    j["memories"] = memories();
    j["operands"] = operands();
    j["findings"] = findings();
    j["traffic"] = traffic();
    return j;
  }

 private:
  int64_t ticks(double seconds) const { return std::llround(std::max(seconds, 0.0) / tick_); }

  // Lines of the kernel, each once, in the order of their files and numbers.
  void lines(Json* j) {
    std::map<std::pair<std::string, int>, int> known;
    std::vector<const ir::Site*> sites;
    for (const ir::Site& s : t_.lines)
      if (!s.source.file.empty() && known.emplace(std::pair(s.source.file, s.source.line), 0).second)
        sites.push_back(&s);
    for (const ir::Loc& l : r_.module->locs)
      if (!l.source.file.empty()) known.emplace(std::pair(l.source.file, l.source.line), 0);
    int n = 0;
    for (auto& [key, number] : known) number = n++;
    Json all = Json::array();
    for (const auto& [key, number] : known)
      all.push_back({{"file", key.first},
                     {"line", key.second},
                     {"text", ""},
                     {"function", ""},
                     {"scope", ""},
                     {"seconds", 0.0},
                     {"busy", 0.0}});
    const auto fill = [&](const ir::SourceLine& at, const std::string& scope) {
      if (at.file.empty()) return;
      Json& x = all[static_cast<size_t>(known.at({at.file, at.line}))];
      if (x["text"].get_ref<const std::string&>().empty()) x["text"] = at.text;
      x["function"] = at.function;
      if (!scope.empty()) x["scope"] = scope;
    };
    for (const ir::Loc& l : r_.module->locs) fill(l.source, l.scope);
    for (const ir::Site* s : sites) fill(s->source, s->scope);
    line_of_.assign(t_.lines.size(), -1);
    for (size_t i = 0; i < t_.lines.size(); ++i)
      if (!t_.lines[i].source.file.empty()) line_of_[i] = known.at({t_.lines[i].source.file, t_.lines[i].source.line});
    if (r_.prediction)
      for (const auto& l : r_.prediction->lines) {
        const auto it = known.find({l.site.source.file, l.site.source.line});
        if (it == known.end()) continue;
        Json& x = all[static_cast<size_t>(it->second)];
        x["seconds"] = l.seconds, x["busy"] = l.busy;
      }
    else
      for (const Timeline::Slice& s : t_.slices)
        if (s.line >= 0 && line_of_[static_cast<size_t>(s.line)] >= 0 &&
            t_.tracks[static_cast<size_t>(s.track)].kind == Timeline::Kind::Thread) {
          Json& x = all[static_cast<size_t>(line_of_[static_cast<size_t>(s.line)])]["seconds"];
          x = x.get<double>() + s.seconds() * 1e9;
        }
    (*j)["lines"] = std::move(all);
    known_ = std::move(known);
  }
  int line(int32_t n) const { return n < 0 ? -1 : line_of_[static_cast<size_t>(n)]; }
  int line(const ir::SourceLine& at) const {
    const auto it = known_.find({at.file, at.line});
    return it == known_.end() ? -1 : it->second;
  }

  Json lanes() {
    Json all = Json::array();
    for (const Lane& l : lanes_of(t_)) {
      std::vector<int64_t> begin, length, name, line_, point, folded;
      int64_t before = 0;
      bool points = false, folds = false;
      for (const size_t i : l.slices) {
        const Timeline::Slice& s = t_.slices[i];
        lane_of_[i] = {static_cast<int>(all.size()), static_cast<int>(begin.size())};
        const int64_t at = ticks(s.begin);
        begin.push_back(at - before);
        before = at;
        length.push_back(std::max<int64_t>(ticks(s.end) - at, 0));
        name.push_back(s.name);
        line_.push_back(line(s.line));
        point.push_back(s.point);
        folded.push_back(s.folded);
        points = points || s.point >= 0;
        folds = folds || s.folded;
      }
      Json x = {{"track", l.track}, {"begin", begin}, {"length", length}, {"name", name}, {"line", line_}};
      if (points) x["point"] = point;
      if (folds) x["folded"] = folded;
      all.push_back(std::move(x));
    }
    return all;
  }

  // From and to, as lane and slice.
  Json arrows() const {
    std::map<int64_t, std::pair<int64_t, int64_t>> ends;
    for (size_t i = 0; i < t_.slices.size(); ++i) {
      if (t_.slices[i].leaves >= 0)
        ends.try_emplace(t_.slices[i].leaves, -1, -1).first->second.first = static_cast<int64_t>(i);
      if (t_.slices[i].arrives >= 0)
        ends.try_emplace(t_.slices[i].arrives, -1, -1).first->second.second = static_cast<int64_t>(i);
    }
    std::vector<int> all;
    for (const auto& [arrow, e] : ends) {
      if (e.first < 0 || e.second < 0) continue;
      const auto &a = lane_of_[static_cast<size_t>(e.first)], &b = lane_of_[static_cast<size_t>(e.second)];
      all.insert(all.end(), {a.first, a.second, b.first, b.second});
    }
    return all;
  }

  Json counters() const {
    std::map<int32_t, std::vector<const Timeline::Count*>> by_track;
    for (const Timeline::Count& c : t_.counts) by_track[c.track].push_back(&c);
    Json all = Json::array();
    for (auto& [track, counts] : by_track) {
      std::stable_sort(counts.begin(), counts.end(), [](const auto* a, const auto* b) { return a->time < b->time; });
      std::vector<int64_t> time;
      std::vector<double> value;
      int64_t before = 0;
      for (const Timeline::Count* c : counts) {
        const int64_t at = ticks(c->time);
        // Of one moment the last value counts.
        if (!time.empty() && at == before) {
          value.back() = c->value;
          continue;
        }
        time.push_back(at - before);
        before = at;
        value.push_back(c->value);
      }
      all.push_back({{"track", track}, {"time", time}, {"value", value}});
    }
    return all;
  }

  Json rooms() const {
    Json all = Json::array();
    for (const Timeline::Room& r : t_.rooms)
      all.push_back({{"name", r.name},
                     {"space", r.space},
                     {"core", r.core},
                     {"device", r.device},
                     {"bytes", r.bytes},
                     {"slots", r.slots},
                     {"dims", r.dims}});
    return all;
  }

  Json moves() const {
    std::vector<const Timeline::Move*> sorted;
    for (const Timeline::Move& m : t_.moves) sorted.push_back(&m);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->begin < b->begin; });
    std::vector<int64_t> begin, length, name, line_, from, to, from_box, to_box, from_slot, to_slot, bytes;
    int64_t before = 0;
    for (const Timeline::Move* m : sorted) {
      const int64_t at = ticks(m->begin);
      begin.push_back(at - before);
      before = at;
      length.push_back(std::max<int64_t>(ticks(m->end) - at, 0));
      name.push_back(m->name), line_.push_back(line(m->line));
      from.push_back(m->from), to.push_back(m->to);
      from_box.push_back(m->from_box), to_box.push_back(m->to_box);
      from_slot.push_back(m->from_slot), to_slot.push_back(m->to_slot);
      bytes.push_back(m->bytes);
    }
    return {{"begin", begin},         {"length", length},   {"name", name},         {"line", line_},
            {"from", from},           {"to", to},           {"from_box", from_box}, {"to_box", to_box},
            {"from_slot", from_slot}, {"to_slot", to_slot}, {"bytes", bytes}};
  }

  Json grid() const {
    std::vector<int64_t> begin, length, core, name;
    std::vector<Timeline::Point> sorted = t_.points;
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    int64_t before = 0;
    for (const Timeline::Point& p : sorted) {
      const int64_t at = ticks(p.begin);
      begin.push_back(at - before);
      before = at;
      length.push_back(std::max<int64_t>(ticks(p.end) - at, 0));
      core.push_back(p.core), name.push_back(p.name);
    }
    Json axes = Json::array();
    for (size_t i = 0; i < r_.module->grid.size(); ++i) {
      const ir::GridAxis& a = r_.module->grid[i];
      axes.push_back(
          {{"size", i < r_.grid.size() ? r_.grid[i] : a.size}, {"name", a.name}, {"semantics", a.semantics}});
    }
    return {{"axes", axes}, {"begin", begin}, {"length", length}, {"core", core}, {"name", name}};
  }

  Json memories() const {
    Json all = Json::array();
    for (const hw::SpaceUse& u : hw::space_use(*r_.module, 0, *r_.chip)) {
      if (u.loc >= 0) continue;
      if (u.space == ir::Space::Semaphore) continue;
      const std::string space = u.space == ir::Space::GpuSmem ? "smem"
                                : u.space == ir::Space::Regs  ? "registers"
                                                              : std::string(ir::name(u.space));
      int64_t capacity = r_.chip->capacity(space + "_bytes");
      if (space == "smem" && r_.chip->family == hw::Family::Gpu) capacity = r_.chip->smem_per_sm_bytes;
      Json x = {{"space", space}, {"bytes", u.bytes}, {"capacity", capacity}, {"buffers", Json::array()}};
      for (const hw::BufferUse& b : u.buffers)
        x["buffers"].push_back({{"name", b.name},
                                {"type", b.type ? ir::to_string(b.type) : ""},
                                {"bytes", b.bytes},
                                {"copies", b.copies},
                                {"role", b.role}});
      all.push_back(std::move(x));
    }
    return all;
  }

  Json operands() const {
    Json all = Json::array();
    for (const ir::Operand& o : r_.module->operands) {
      Json x = {{"name", o.name}, {"type", ir::to_string(o.array)}, {"output", o.kind == ir::Operand::Kind::Output}};
      const ir::Type* block = o.has_block ? o.array : nullptr;
      x["blocked"] = block != nullptr;
      all.push_back(std::move(x));
    }
    return all;
  }

  Json findings() const {
    Json all = Json::array();
    for (const ir::Diagnostic& d : r_.findings)
      all.push_back({{"code", d.code.text()},
                     {"severity", ir::name(d.severity)},
                     {"message", d.message},
                     {"line", line(d.site.source)},
                     {"numbers", d.numbers},
                     {"hint", d.hint}});
    return all;
  }

  Json traffic() const {
    Json all = Json::array();
    for (const interp::Traffic& t : r_.traffic) {
      Json& x = all.emplace_back(Json{{"name", t.name}, {"space", t.space}});
      x["bytes_read"] = t.bytes_read, x["bytes_written"] = t.bytes_written;
      x["bytes_fetched"] = t.bytes_fetched, x["bytes_written_back"] = t.bytes_written_back;
    }
    return all;
  }

  const Reported& r_;
  const Timeline& t_;
  double tick_;
  std::vector<std::pair<int, int>> lane_of_;
  std::vector<int> line_of_;
  std::map<std::pair<std::string, int>, int> known_;
};

void replace(std::string* text, const std::string& what, const std::string& with) {
  const size_t at = text->find(what);
  if (at != std::string::npos) text->replace(at, what.size(), with);
}

// What a kernel says must not end the element that it lies in, nor begin another.
std::string in_script(const std::string& json) {
  std::string r;
  r.reserve(json.size());
  for (const char c : json)
    if (c == '<') r += "\\u003c";
    else r += c;
  return r;
}

std::string in_html(const std::string& s) {
  std::string r;
  for (const char c : s)
    if (c == '<') r += "&lt;";
    else if (c == '&') r += "&amp;";
    else r += c;
  return r;
}

}  // namespace

interp::Timeline report_limits() {
  Timeline t;
  t.most = 60'000, t.most_counts = 60'000, t.most_moves = 20'000, t.most_points = 20'000;
  t.most_cores = 8;
  return t;
}

std::string report_data(const Reported& r) { return text_of(Data(r).all()); }

std::string report_page(const std::string& title, const std::vector<std::string>& launches) {
  std::string data = "{\"version\":1,\"launches\":[";
  for (size_t i = 0; i < launches.size(); ++i) data += (i ? "," : "") + launches[i];
  data += "]}";
  std::string page(kReportPage);
  replace(&page, "@TITLE@", in_html(title));
  replace(&page, "@DATA@", in_script(data));
  return page;
}

}  // namespace pallasim::trace
