// The timeline of a launch that has no model of time: a step of it is a nanosecond.
#include <fmt/format.h>

#include "../plan/steps.h"
#include "picture.h"

namespace pallasim::interp {
namespace {

class StepTimeline : public Observer {
 public:
  explicit StepTimeline(Timeline* to) : to_(to) {}
  uint32_t wants() const override { return kLaunch | kThread | kPoint | kStep | kOperation | kSync | kMemory; }

  void on_launch(const LaunchEvent& e) override {
    plan_ = &e.plan;
    to_->unit = "steps";
    if (to_->kernel.empty()) to_->kernel = e.plan.module.name;
    const auto units = std::make_shared<memory::Units>(e.plan.threads.units.meshes(), e.devices);
    const auto semaphores = std::make_shared<memory::SemaphoreLayout>(e.plan.memory.semaphores);
    semaphores->set_units(e.plan.threads.units);
    const auto barriers = std::make_shared<memory::BarrierLayout>(*units);
    for (const memory::BarrierBlock& b : e.plan.memory.barriers) barriers->add(b);
    const bool known = units->count(memory::Level::Thread) >= e.threads;
    const int64_t devices = e.devices, threads = e.threads;
    Picture::Launch launch{&e.plan, &e.locs, devices, {}, {}, {}, {}};
    launch.place = [units, known, threads](int32_t thread) {
      const bool own = known && thread < units->count(memory::Level::Thread);
      if (!own) return Picture::Place{0, 0, "programs", fmt::format("thread {}", thread)};
      const int64_t core = units->unit_of(memory::Level::Core, thread);
      const std::string name = threads == 1 ? "kernel" : units->name(memory::Level::Thread, thread);
      return Picture::Place{core, units->device_of(memory::Level::Core, core), units->name(memory::Level::Core, core),
                            name};
    };
    launch.semaphore = [semaphores, devices, known](int64_t id) {
      int block = -1;
      return known ? semaphores->name(id, devices, &block) : std::to_string(id);
    };
    launch.barrier = [barriers, known](int64_t id) {
      int block = -1;
      return known ? barriers->name(id, &block) : "barrier " + std::to_string(id);
    };
    if (known && devices > 1)
      launch.owner = [semaphores, devices](int64_t id) { return semaphores->first_thread(id, devices); };
    picture_ = std::make_unique<Picture>(to_, std::move(launch));
    blocked_.assign(static_cast<size_t>(e.threads), -1);
  }
  void on_thread(const ThreadEvent& e) override {
    now_ = at(e.time);
    if (static_cast<size_t>(e.thread) >= blocked_.size()) blocked_.resize(static_cast<size_t>(e.thread) + 1, -1);
    double& since = blocked_[static_cast<size_t>(e.thread)];
    if (e.what == ThreadEvent::What::Blocks) since = now_;
    if (e.what == ThreadEvent::What::Wakes && since >= 0) {
      if (now_ > since) picture_->slice(e.thread, since, now_, picture_->word("waits"), -1);
      since = -1;
    }
  }
  void on_point(const PointEvent& e) override { picture_->point(e.thread, now_, {e.ids.begin(), e.ids.end()}); }
  void on_step(const StepEvent& e) override {
    now_ = at(e.time);
    const int32_t word = picture_->word(row(plan_->steps[static_cast<size_t>(e.step)]).name);
    picture_->slice(e.thread, now_, now_ + 1e-9, word, line_of(e.step));
  }
  void on_operation(const OperationEvent& e) override {
    now_ = at(e.time);
    if (e.what == OperationEvent::What::Issued) picture_->issued(e.operation, now_, now_, line_of(e.operation.step));
    if (e.what == OperationEvent::What::Completed) picture_->completed(e.operation, now_);
  }
  void on_sync(const SyncEvent& e) override { picture_->sync(e, now_); }
  void on_memory(const MemoryEvent& e) override { picture_->memory(e, now_); }

  ~StepTimeline() override {
    if (picture_) picture_->ends(now_ + 1e-9);
  }

 private:
  ir::LocId line_of(int32_t step) const { return plan_->loc_of(plan_->steps[static_cast<size_t>(step)]); }
  static double at(int64_t steps) { return static_cast<double>(steps) * 1e-9; }
  Timeline* to_;
  const Plan* plan_ = nullptr;
  std::unique_ptr<Picture> picture_;
  std::vector<double> blocked_;  // by thread; -1: it goes on
  double now_ = 0;
};

}  // namespace

std::unique_ptr<Observer> step_timeline(Timeline* to) { return std::make_unique<StepTimeline>(to); }

}  // namespace pallasim::interp
