// Every event as a line, in order: what a launch does, for people and for tests.
#include <fmt/format.h>

#include "pallasim/trace/reporter.h"

namespace pallasim::trace {
namespace {

using interp::Access, interp::MemoryEvent, interp::OperationEvent, interp::SyncEvent, interp::ThreadEvent;

class EventLog : public Reporter {
 public:
  uint32_t wants() const override { return kAll; }
  std::string text() const override { return text_; }

  void on_launch(const interp::LaunchEvent& e) override {
    plan_ = &e.plan;
    locs_ = &e.locs;
    line("launch", fmt::format("grid [{}], devices {}, threads {}", fmt::join(e.grid, ", "), e.devices, e.threads));
  }
  void on_thread(const ThreadEvent& e) override {
    static constexpr const char* kWhat[] = {"begins", "blocks", "is woken", "ends"};
    line("thread", fmt::format("{} {}", e.thread, kWhat[static_cast<int>(e.what)]));
  }
  void on_point(const interp::PointEvent& e) override {
    line("point", fmt::format("({}) of thread {}", fmt::join(e.ids, ", "), e.thread));
  }
  void on_window(const interp::WindowEvent& e) override {
    line("window", fmt::format("of {} in thread {}",
                               interp::allocation_name(*plan_, interp::operand_buffer(e.operand), 0), e.thread));
  }
  void on_step(const interp::StepEvent& e) override {
    const ir::LocId loc = interp::step_line(*plan_, e.step);
    const ir::Site at = ir::site_of(*locs_, loc);
    std::string where = loc < 0 || at.source.file.empty() ? "" : fmt::format("  {}:{}", at.source.file, at.source.line);
    line("step", fmt::format("{} {} of thread {}{}", e.step, interp::step_kind(*plan_, e.step), e.thread, where));
  }
  void on_access(const Access& a) override {
    std::string name = interp::allocation_name(*plan_, a.buffer, a.offset);
    if (name.empty()) return;
    line(a.atomic  ? "atomic"
         : a.write ? "write"
                   : "read",
         fmt::format("{} at byte {}: [{}] of {} B{}{}", name, a.offset,
                     fmt::join(std::span(a.dims, static_cast<size_t>(a.rank)), ", "), a.element_bytes,
                     a.owner >= 0 && a.owner != a.thread ? fmt::format(", of thread {}", a.owner) : "",
                     a.unwritten ? ", of what nobody wrote" : ""));
  }
  void on_operation(const OperationEvent& e) override {
    static constexpr const char* kWhat[] = {"is issued", "has moved", "has told"};
    line(memory::row(e.operation.kind).word,
         fmt::format("{} of thread {} {}", e.operation.id, e.operation.thread, kWhat[static_cast<int>(e.what)]));
  }
  void on_sync(const SyncEvent& e) override {
    static constexpr const char* kWhat[] = {"signal", "taken",       "looked",         "arrive",   "phase ends",
                                            "passed", "commit",      "groups awaited", "fence",    "spawn",
                                            "join",   "trips begin", "next trip",      "trips end"};
    line("sync", fmt::format("{}{}: {}, {}", kWhat[static_cast<int>(e.what)],
                             e.thread < 0 ? "" : fmt::format(" by thread {}", e.thread), e.object, e.value));
  }
  void on_memory(const MemoryEvent& e) override {
    static constexpr const char* kWhat[] = {"is fresh", "is a scope's", "is given back", "is given"};
    line("memory", fmt::format("{} B of thread {} at byte {} of buffer {} {}", e.bytes, e.thread, e.offset, e.buffer,
                               kWhat[static_cast<int>(e.what)]));
  }
  void on_finding(const ir::Diagnostic& d) override { line("finding", std::string(d.code.text())); }
  void on_print(int32_t thread, const std::string& text) override {
    line("print", fmt::format("by thread {}: {}", thread, text));
  }

 private:
  void line(std::string_view what, const std::string& rest) { text_ += fmt::format("{:<9}{}\n", what, rest); }
  const interp::Plan* plan_ = nullptr;
  const ir::LocTable* locs_ = nullptr;
  std::string text_;
};

const Registered kEvents({"events", "every event, a line each, in order", [] { return std::make_unique<EventLog>(); }});

}  // namespace
}  // namespace pallasim::trace
