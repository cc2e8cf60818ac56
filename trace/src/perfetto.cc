#include "pallasim/trace/perfetto.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

namespace pallasim::trace {
namespace {

// A message of protobuf: fields behind each other, each with its number and how it is written.
class Message {
 public:
  void number(int field, uint64_t v) {
    char* const at = room(2 * kMost);
    used_ += varint(varint(at, static_cast<uint64_t>(field) << 3), v) - at;
  }
  void fixed(int field, uint64_t v) {
    char *const begin = room(kMost + 8), *at = varint(begin, static_cast<uint64_t>(field) << 3 | 1);
    for (int i = 0; i < 8; ++i) *at++ = static_cast<char>(v >> (8 * i));
    used_ += at - begin;
  }
  void real(int field, double v) { fixed(field, std::bit_cast<uint64_t>(v)); }
  void text(int field, std::string_view s) {
    char* const at = room(static_cast<std::ptrdiff_t>(2 * kMost + s.size()));
    used_ += varint(varint(at, static_cast<uint64_t>(field) << 3 | 2), s.size()) - at;
    fields(s);
  }
  void message(int field, const Message& m) { text(field, m.bytes()); }
  // Those of another message, behind these.
  void fields(std::string_view all) {
    const auto n = static_cast<std::ptrdiff_t>(all.size());
    std::copy_n(all.data(), n, room(n));
    used_ += n;
  }
  std::string_view bytes() const { return {memory_.data(), static_cast<size_t>(used_)}; }
  bool empty() const { return used_ == 0; }
  // Nothing is in it; its memory is kept, as there are millions of them.
  Message& again() {
    used_ = 0;
    return *this;
  }
  std::string take() {
    memory_.resize(static_cast<size_t>(used_));
    used_ = 0;
    return std::move(memory_);
  }

 private:
  static constexpr std::ptrdiff_t kMost = 10;  // bytes of a number
  static char* varint(char* to, uint64_t v) {
    for (; v >= 0x80; v >>= 7) *to++ = static_cast<char>(v | 0x80);
    *to++ = static_cast<char>(v);
    return to;
  }
  char* room(std::ptrdiff_t n) {  // for so many bytes behind those that are there
    if (const auto all = static_cast<size_t>(used_ + n); all > memory_.size())
      memory_.resize(std::max(2 * memory_.size(), all));
    return memory_.data() + used_;
  }
  std::string memory_;
  std::ptrdiff_t used_ = 0;
};

// Numbers of fields, by message.
namespace trace {
constexpr int packet = 1;
}
namespace packet {
constexpr int timestamp = 8, sequence = 10, event = 11, interned = 12, flags = 13, descriptor = 60;
}
namespace track {
constexpr int uuid = 1, name = 2, parent = 5, counter = 8;
}
namespace event {
constexpr int annotation = 4, type = 9, name = 10, track = 11, counter = 44, leaves = 47, arrives = 48;
}
namespace annotation {
constexpr int name = 1, text = 17;
}
// Texts that are written once; what follows them has their numbers.
namespace interned {
constexpr int event_name = 2, annotation_name = 3, annotation_text = 29, number = 1, text = 2;
}
enum EventType : uint64_t { kBegin = 1, kEnd = 2, kCounter = 4 };
// Of `flags`: nothing of what came before is referred to; texts that were written before are.
constexpr uint64_t kCleared = 1, kRefers = 2;

constexpr uint64_t kSequence = 1, kFirstTrack = 100;

uint64_t nanoseconds(double seconds) { return static_cast<uint64_t>(std::llround(std::max(seconds, 0.0) * 1e9)); }

// Writes the launches of a file behind each other.
class TraceWriter {
 public:
  void launch(const interp::Timeline&, const std::string& title);
  std::string take() { return out_.take(); }

 private:
  void event(double time, const Message& e);
  // Texts by their number in a time line: 0 until they are written.
  using Known = std::vector<uint64_t>;
  uint64_t number_of(int kind, const std::string& text);
  uint64_t number_of(const interp::Timeline& t, int32_t name) {
    uint64_t& n = names_[static_cast<size_t>(name)];
    return n ? n : n = number_of(interned::event_name, t.names[static_cast<size_t>(name)]);
  }
  const std::string& line_arguments(const interp::Timeline&, int32_t line);
  const std::string& point_argument(const interp::Timeline&, int32_t point);
  void argument(Message* e, const char* name, uint64_t text);
  uint64_t describe(const std::string& name, uint64_t parent, bool counter);
  void lane(const interp::Timeline&, const Lane&, uint64_t track);
  void begin(const interp::Timeline&, const interp::Timeline::Slice&, uint64_t track);
  void end(double time, uint64_t track);
  void counters(const interp::Timeline&, const std::vector<uint64_t>& parents);

  Message out_;
  std::map<int, std::unordered_map<std::string, uint64_t>> texts_;  // by kind: what was written
  std::unordered_map<const char*, uint64_t> argument_names_;
  Known names_;                                         // of the launch
  std::vector<std::string> points_, lines_;             // of the launch: arguments that name them; empty: none did yet
  std::map<int32_t, std::vector<std::string>> scopes_;  // of its lines
  Message new_texts_;                                   // go into the next event's packet
  Message event_, packet_, annotation_;                 // one at a time
  uint64_t next_track_ = kFirstTrack, first_arrow_ = 1, last_arrow_ = 0;
  double shift_ = 0;  // of the launch: the ends of those before
};

void TraceWriter::event(double time, const Message& e) {
  Message& p = packet_.again();
  p.number(packet::timestamp, nanoseconds(time + shift_));
  p.number(packet::sequence, kSequence);
  p.message(packet::event, e);
  if (!new_texts_.empty()) p.message(packet::interned, new_texts_);
  new_texts_.again();
  p.number(packet::flags, kRefers);
  out_.message(trace::packet, p);
}

uint64_t TraceWriter::number_of(int kind, const std::string& text) {
  auto& known = texts_[kind];
  const auto [at, fresh] = known.emplace(text, known.size() + 1);
  if (fresh) {
    Message m;
    m.number(interned::number, at->second);
    m.text(interned::text, text);
    new_texts_.message(kind, m);
  }
  return at->second;
}

void TraceWriter::argument(Message* e, const char* name, uint64_t text) {
  uint64_t& known = argument_names_[name];
  if (!known) known = number_of(interned::annotation_name, name);
  Message& a = annotation_.again();
  a.number(annotation::name, known);
  a.number(annotation::text, text);
  e->message(event::annotation, a);
}

const std::string& TraceWriter::line_arguments(const interp::Timeline& t, int32_t line) {
  std::string& known = lines_[static_cast<size_t>(line)];
  if (!known.empty()) return known;
  const ir::SourceLine& at = t.lines[static_cast<size_t>(line)].source;
  Message m;
  argument(&m, "line", number_of(interned::annotation_text, fmt::format("{}:{}", at.file, at.line)));
  if (!at.text.empty()) argument(&m, "source", number_of(interned::annotation_text, at.text));
  return known = m.take();
}

const std::string& TraceWriter::point_argument(const interp::Timeline& t, int32_t point) {
  std::string& known = points_[static_cast<size_t>(point)];
  if (!known.empty()) return known;
  Message m;
  argument(&m, "grid point", number_of(interned::annotation_text, t.names[static_cast<size_t>(point)]));
  return known = m.take();
}

uint64_t TraceWriter::describe(const std::string& name, uint64_t parent, bool counter) {
  Message d, p;
  const uint64_t uuid = next_track_++;
  d.number(track::uuid, uuid);
  d.text(track::name, name);
  if (parent) d.number(track::parent, parent);
  if (counter) d.message(track::counter, Message());
  p.number(packet::sequence, kSequence);
  if (uuid == kFirstTrack) p.number(packet::flags, kCleared);
  p.message(packet::descriptor, d);
  out_.message(trace::packet, p);
  return uuid;
}

void TraceWriter::end(double time, uint64_t track) {
  Message& m = event_.again();
  m.number(event::type, kEnd);
  m.number(event::track, track);
  event(time, m);
}

void TraceWriter::begin(const interp::Timeline& t, const interp::Timeline::Slice& s, uint64_t track) {
  Message& m = event_.again();
  m.number(event::type, kBegin);
  m.number(event::track, track);
  m.number(event::name, number_of(t, s.name));
  if (s.line >= 0) m.fields(line_arguments(t, s.line));
  if (s.point >= 0) m.fields(point_argument(t, s.point));
  if (s.folded > 0)
    argument(&m, "stands for",
             number_of(interned::annotation_text, fmt::format("{} slices, the longest of this name", s.folded)));
  for (const auto& [field, arrow] : {std::pair(event::leaves, s.leaves), {event::arrives, s.arrives}})
    if (arrow >= 0) {
      last_arrow_ = std::max(last_arrow_, first_arrow_ + static_cast<uint64_t>(arrow));
      m.fixed(field, first_arrow_ + static_cast<uint64_t>(arrow));
    }
  event(s.begin, m);
}

std::vector<std::string> scopes_of(const std::string& scope) {
  std::vector<std::string> r;
  for (size_t at = 0; at < scope.size();) {
    const size_t end = std::min(scope.find('/', at), scope.size());
    r.push_back(scope.substr(at, end - at));
    at = end + 1;
  }
  return r;
}

// Named scopes lie around what follows each other within them.
void TraceWriter::lane(const interp::Timeline& t, const Lane& lane, uint64_t track) {
  static const std::vector<std::string> kNone;
  std::vector<std::string> open;
  double last = 0;
  const auto scopes_at = [&](int32_t line) -> const std::vector<std::string>& {
    if (line < 0) return kNone;
    const auto [it, fresh] = scopes_.try_emplace(line);
    if (fresh) it->second = scopes_of(t.lines[static_cast<size_t>(line)].scope);
    return it->second;
  };
  const bool thread = t.tracks[static_cast<size_t>(lane.track)].kind == interp::Timeline::Kind::Thread;
  for (const size_t i : lane.slices) {
    const interp::Timeline::Slice& s = t.slices[i];
    // A wait has no scope of its own: it belongs to what is around it.
    const bool keeps = s.line < 0 && !open.empty();
    const std::vector<std::string>& scopes = !keeps && thread ? scopes_at(s.line) : kNone;
    const size_t same =
        keeps ? open.size()
              : static_cast<size_t>(std::mismatch(open.begin(), open.end(), scopes.begin(), scopes.end()).first -
                                    open.begin());
    for (; open.size() > same; open.pop_back()) end(last, track);
    for (; open.size() < scopes.size(); open.push_back(scopes[open.size()])) {
      Message& m = event_.again();
      m.number(event::type, kBegin);
      m.number(event::track, track);
      m.number(event::name, number_of(interned::event_name, scopes[open.size()]));
      event(s.begin, m);
    }
    begin(t, s, track);
    end(s.end, track);
    last = s.end;
  }
  for (; !open.empty(); open.pop_back()) end(last, track);
}

void TraceWriter::counters(const interp::Timeline& t, const std::vector<uint64_t>& parents) {
  std::vector<uint64_t> uuids(t.tracks.size());
  for (const interp::Timeline::Count& c : t.counts) {
    const auto i = static_cast<size_t>(c.track);
    if (!uuids[i]) uuids[i] = describe(t.tracks[i].name, parents[i], true);
    Message& e = event_.again();
    e.number(event::type, kCounter);
    e.number(event::track, uuids[i]);
    e.real(event::counter, c.value);
    event(c.time, e);
  }
}

void TraceWriter::launch(const interp::Timeline& t, const std::string& title) {
  names_.assign(t.names.size(), 0);
  points_.assign(t.names.size(), ""), lines_.assign(t.lines.size(), "");
  scopes_.clear();
  const uint64_t root = title.empty() ? 0 : describe(title, 0, false);
  if (const std::string out = t.left_out(); !out.empty()) describe("left out: " + out, root, false);
  std::vector<uint64_t> groups(t.tracks.size()), parents(t.tracks.size());
  for (size_t i = 0; i < t.tracks.size(); ++i) {  // a parent comes before what is below it
    parents[i] = t.tracks[i].parent < 0 ? root : groups[static_cast<size_t>(t.tracks[i].parent)];
    if (t.tracks[i].kind == interp::Timeline::Kind::Group) groups[i] = describe(t.tracks[i].name, parents[i], false);
  }
  for (const Lane& l : lanes_of(t)) {
    const auto i = static_cast<size_t>(l.track);
    lane(t, l, describe(t.tracks[i].name, parents[i], false));
  }
  counters(t, parents);
  shift_ += t.end();
  first_arrow_ = last_arrow_ + 1;
}

}  // namespace

std::vector<Lane> lanes_of(const interp::Timeline& t) {
  std::vector<std::vector<size_t>> tracks(t.tracks.size());
  for (size_t i = 0; i < t.slices.size(); ++i) tracks[static_cast<size_t>(t.slices[i].track)].push_back(i);
  std::vector<Lane> all;
  for (size_t track = 0; track < tracks.size(); ++track) {
    std::vector<size_t>& own = tracks[track];
    const auto earlier = [&](size_t a, size_t b) { return t.slices[a].begin < t.slices[b].begin; };
    if (!std::is_sorted(own.begin(), own.end(), earlier)) std::stable_sort(own.begin(), own.end(), earlier);
    constexpr double kRounding = 1e-13;
    std::vector<Lane> lanes;
    std::vector<double> ends;
    for (const size_t i : own) {
      size_t l = 0;
      while (l < lanes.size() && ends[l] > t.slices[i].begin + kRounding) ++l;
      if (l == lanes.size()) {
        lanes.push_back({static_cast<int32_t>(track), {}});
        ends.push_back(0);
      }
      lanes[l].slices.push_back(i);
      ends[l] = t.slices[i].end;
    }
    std::move(lanes.begin(), lanes.end(), std::back_inserter(all));
  }
  return all;
}

std::string to_perfetto(const interp::Timeline& t) {
  TraceWriter w;
  w.launch(t, "");
  return w.take();
}

std::string to_perfetto(const std::vector<interp::Timeline>& all) {
  TraceWriter w;
  for (size_t i = 0; i < all.size(); ++i) w.launch(all[i], fmt::format("launch {}: {}", i + 1, all[i].kernel));
  return w.take();
}

}  // namespace pallasim::trace
