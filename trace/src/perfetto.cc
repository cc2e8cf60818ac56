#include "pallasim/trace/perfetto.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "pallasim/memory/async.h"

namespace pallasim::trace {
namespace {

// A message of protobuf: fields behind each other, each with its number and how it is written.
class Message {
 public:
  void number(int field, uint64_t v) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(v);
  }
  void fixed(int field, uint64_t v) {
    varint(static_cast<uint64_t>(field) << 3 | 1);
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(v >> (8 * i));
  }
  void real(int field, double v) { fixed(field, std::bit_cast<uint64_t>(v)); }
  void text(int field, const std::string& s) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(s.size());
    bytes_ += s;
  }
  void message(int field, const Message& m) { text(field, m.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) bytes_ += static_cast<char>(v | 0x80);
    bytes_ += static_cast<char>(v);
  }
  std::string bytes_;
};

// Numbers of fields, by message.
namespace trace {
constexpr int packet = 1;
}
namespace packet {
constexpr int timestamp = 8, sequence = 10, event = 11, flags = 13, descriptor = 60;
}
namespace track {
constexpr int uuid = 1, name = 2, counter = 8;
}
namespace event {
constexpr int annotation = 4, type = 9, track = 11, name = 23, counter = 44, leaves = 47, arrives = 48;
}
namespace annotation {
constexpr int integer = 4, text = 6, name = 10;
}
enum EventType : uint64_t { kBegin = 1, kEnd = 2, kCounter = 4 };
constexpr uint64_t kCleared = 1;  // of `flags`: nothing of what came before is referred to

constexpr uint64_t kSequence = 1, kFirstTrack = 100, kFirstCounter = 1'000'000;

uint64_t nanoseconds(double seconds) { return static_cast<uint64_t>(std::llround(std::max(seconds, 0.0) * 1e9)); }

void argument(Message* e, const char* name, const std::string& text) {
  Message a;
  a.text(annotation::name, name);
  a.text(annotation::text, text);
  e->message(event::annotation, a);
}

void write(std::string* out, double time, const Message& e) {
  Message p, t;
  p.number(packet::timestamp, nanoseconds(time));
  p.number(packet::sequence, kSequence);
  p.message(packet::event, e);
  t.message(trace::packet, p);
  *out += t.bytes();
}

void describe(std::string* out, uint64_t uuid, const std::string& name, bool counter, bool first) {
  Message d, p, t;
  d.number(track::uuid, uuid);
  d.text(track::name, name);
  if (counter) d.message(track::counter, Message());
  p.number(packet::sequence, kSequence);
  if (first) p.number(packet::flags, kCleared);
  p.message(packet::descriptor, d);
  t.message(trace::packet, p);
  *out += t.bytes();
}

std::string point_text(const std::vector<int64_t>& ids) { return fmt::format("({})", fmt::join(ids, ", ")); }

}  // namespace

std::string to_perfetto(const interp::Timeline& t) {
  std::string out;
  for (size_t i = 0; i < t.tracks.size(); ++i) describe(&out, kFirstTrack + i, t.tracks[i], false, i == 0);
  std::vector<bool> counted(t.tracks.size());
  for (const interp::Timeline::Count& c : t.counts) {
    const auto i = static_cast<size_t>(c.track);
    if (!counted[i]) describe(&out, kFirstCounter + i, t.tracks[i], true, false);
    counted[i] = true;
    Message e;
    e.number(event::type, kCounter);
    e.number(event::track, kFirstCounter + i);
    e.real(event::counter, c.value);
    write(&out, c.time, e);
  }
  for (const interp::Timeline::Slice& s : t.slices) {
    Message begin, end;
    begin.number(event::type, kBegin);
    begin.number(event::track, kFirstTrack + static_cast<uint64_t>(s.track));
    begin.text(event::name, t.names[static_cast<size_t>(s.name)]);
    if (s.line >= 0) {
      const ir::SourceLine& at = t.lines[static_cast<size_t>(s.line)];
      argument(&begin, "line", fmt::format("{}:{}", at.file, at.line));
      if (!at.text.empty()) argument(&begin, "source", at.text);
    }
    if (!s.point.empty()) argument(&begin, "grid point", point_text(s.point));
    if (s.leaves >= 0) begin.fixed(event::leaves, static_cast<uint64_t>(s.leaves) + 1);
    if (s.arrives >= 0) begin.fixed(event::arrives, static_cast<uint64_t>(s.arrives) + 1);
    write(&out, s.begin, begin);
    end.number(event::type, kEnd);
    end.number(event::track, kFirstTrack + static_cast<uint64_t>(s.track));
    write(&out, s.end, end);
  }
  return out;
}

// -- without a model of time: a step is a nanosecond --

void StepTimeline::on_launch(const interp::LaunchEvent& e) {
  plan_ = &e.plan;
  locs_ = &e.locs;
  threads_ = e.threads;
  to_->unit = "steps";
}

int32_t StepTimeline::track_of(int32_t thread) {
  return to_->track(threads_ == 1 ? "kernel" : fmt::format("thread {}", thread));
}

void StepTimeline::on_thread(const interp::ThreadEvent& e) {
  constexpr const char* kWhat[] = {"begins", "blocks", "wakes", "ends"};
  const double at = static_cast<double>(e.time) * 1e-9;
  to_->add({at, at, track_of(e.thread), to_->name(kWhat[static_cast<size_t>(e.what)])});
}

void StepTimeline::on_point(const interp::PointEvent& e) {
  const auto i = static_cast<size_t>(e.thread);
  if (i >= points_.size()) points_.resize(i + 1);
  points_[i].assign(e.ids.begin(), e.ids.end());
}

void StepTimeline::on_step(const interp::StepEvent& e) {
  const double at = static_cast<double>(e.time) * 1e-9;
  const ir::LocId loc = interp::step_line(*plan_, e.step);
  int32_t line = -1;
  if (loc >= 0) {
    if (to_->lines.size() < locs_->size()) {
      to_->lines.clear();
      for (const ir::Loc& l : *locs_) to_->lines.push_back(l.source);
    }
    line = loc;
  }
  const auto i = static_cast<size_t>(e.thread);
  to_->add({at, at + 1e-9, track_of(e.thread), to_->name(std::string(interp::step_kind(*plan_, e.step))), line, -1, -1,
            i < points_.size() ? points_[i] : std::vector<int64_t>{}});
}

void StepTimeline::on_operation(const interp::OperationEvent& e) {
  const double at = static_cast<double>(e.time) * 1e-9;
  if (e.what == interp::OperationEvent::What::Issued) {
    flights_.push_back({e.operation.id, at, to_->new_arrow()});
    if (!to_->slices.empty()) to_->slices.back().leaves = flights_.back().arrow;
  } else if (e.what == interp::OperationEvent::What::Completed) {
    const auto it =
        std::find_if(flights_.begin(), flights_.end(), [&](const Flight& f) { return f.id == e.operation.id; });
    if (it == flights_.end()) return;
    const std::string word = memory::row(e.operation.kind).name;
    to_->add({it->issued, at, to_->track(word + " in flight"), to_->name(word), -1, -1, it->arrow});
    flights_.erase(it);
  } else {
    return;
  }
  to_->count(at, to_->track("operations in flight"), static_cast<double>(flights_.size()));
}

}  // namespace pallasim::trace
