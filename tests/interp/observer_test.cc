// Events of a launch: each once, in order, to who wants them, and nothing about the run changes.
#include "pallasim/interp/observer.h"

#include <map>

#include "run.h"

namespace pallasim::interp::test {
namespace {

const std::string kDoubleBuffered = read_file("pass/double_buffer.psir");

class Counter : public Observer {
 public:
  explicit Counter(uint32_t wanted) : wanted_(wanted) {}
  uint32_t wants() const override { return wanted_; }
  void on_launch(const LaunchEvent& e) override { ++calls[kLaunch], plan = &e.plan; }
  void on_thread(const ThreadEvent& e) override { ++calls[kThread], ends += e.what == ThreadEvent::What::Ends; }
  void on_point(const PointEvent&) override { ++calls[kPoint]; }
  void on_window(const WindowEvent&) override { ++calls[kWindow]; }
  void on_step(const StepEvent& e) override {
    ++calls[kStep];
    EXPECT_EQ(e.time, steps++);
  }
  void on_access(const Access& a) override {
    ++calls[kAccess];
    if (a.internal) return;
    int64_t n = a.element_bytes;
    for (int d = 0; d < a.rank; ++d) n *= a.dims[d];
    if (plan) bytes[{allocation_name(*plan, a.buffer, a.offset), a.write}] += n;
  }
  void on_operation(const OperationEvent& e) override {
    ++calls[kOperation];
    // Issued, moved, completed: in this order, each once.
    EXPECT_EQ(stages[e.operation.id]++, static_cast<int>(e.what)) << e.operation.id;
    if (e.what != OperationEvent::What::Issued) return;
    const memory::AsyncRow& row = memory::row(e.operation.kind);
    ++kinds[row.name];
    // It completes what its kind says.
    for (const memory::Completion& c : e.operation.after_read) EXPECT_EQ(c.kind, row.after_read) << row.name;
    for (const memory::Completion& c : e.operation.after_write) EXPECT_EQ(c.kind, row.after_write) << row.name;
    EXPECT_FALSE(e.operation.after_write.empty()) << row.name;
    EXPECT_EQ(e.operation.stream >= 0, row.engine != memory::AsyncEngine::None) << row.name;
  }
  void on_sync(const SyncEvent& e) override { ++calls[kSync], taken += e.what == SyncEvent::What::Taken; }
  void on_memory(const MemoryEvent&) override { ++calls[kMemory]; }

  std::map<uint32_t, int> calls;
  std::map<std::pair<std::string, bool>, int64_t> bytes;
  std::map<int64_t, int> stages;
  std::map<std::string, int> kinds;
  int64_t steps = 0;
  int ends = 0, taken = 0;
  const Plan* plan = nullptr;

 private:
  uint32_t wanted_;
};

struct Seen {
  std::vector<Array> results;
  Report report;
};
Seen observed(const std::string& text, std::vector<Array> args, const Options& o, std::vector<Observer*> observers) {
  const auto plan = compile(ir::parse(text), o);
  Seen out;
  std::vector<Buffer> in, to;
  for (Array& a : args) in.push_back(a.buffer());
  for (const ir::Type* t : result_types(*plan)) {
    Array a{t->dtype, {}, std::vector<std::byte>(static_cast<size_t>(t->num_bytes()))};
    for (const ir::Dim& d : t->dims) a.dims.push_back(d.size);
    out.results.push_back(std::move(a));
  }
  for (Array& a : out.results) to.push_back(a.buffer());
  Session session;
  Watch watch;
  watch.observers = observers;
  out.report = launch(*plan, session, in, to, o, watch);
  return out;
}

TEST(Observer, SeesEachEventOnceWheneverCopiesMove) {
  const Array x = noise({4, 128});
  const auto plain = run(kDoubleBuffered, {x});
  for (const Options::Copies copies : {Options::Copies::AtIssue, Options::Copies::AtWait}) {
    Options o;
    o.copies = copies;
    Counter all(Observer::kAll);
    const Seen r = observed(kDoubleBuffered, {x}, o, {&all});
    EXPECT_EQ(r.results[0].bytes, plain.results[0].bytes);
    EXPECT_EQ(all.calls[Observer::kLaunch], 1);
    EXPECT_EQ(all.ends, 1);
    EXPECT_EQ(all.steps, r.report.steps);
    EXPECT_EQ(all.stages.size(), 8u);  // four rows, there and back
    for (const auto& [id, stages] : all.stages) EXPECT_EQ(stages, 3) << id;
    EXPECT_EQ(all.taken, 8);
    // Each row of x is copied once, and each row of o written once.
    EXPECT_EQ((all.bytes[{"x", false}]), 4 * 128 * 4);
    EXPECT_EQ((all.bytes[{"o", true}]), 4 * 128 * 4);
  }
}

// Programs may be speculated on, and their scalar steps go through runs: not where somebody wants each step.
TEST(Observer, SeesTheScalarStepsOfPrograms) {
  Counter all(Observer::kAll);
  const Seen r = observed(read_file("interp/programs.psir"), {}, {}, {&all});
  EXPECT_EQ(all.steps, r.report.steps);
  EXPECT_EQ((all.bytes[{"s", true}]), 40 * 4);
  EXPECT_EQ((all.bytes[{"s", false}]), 40 * 4);
  EXPECT_EQ((all.bytes[{"o", true}]), 40 * 4);
}

TEST(Observer, SeesOperationsOfEveryKindWheneverTheyMove) {
  using Kinds = std::map<std::string, int>;
  struct Case {
    const char* file;
    bool modelled;
    Kinds kinds;
  };
  for (const Case& c :
       {Case{"fail/run/wgmma_in_flight.psir", false, {{"tma_load", 2}, {"wgmma", 1}}},
        Case{"fail/run/proxy_without_commit.psir", false, {{"tma_store", 1}}},
        Case{"pass/double_buffer.psir", false, {{"dma", 8}}}, Case{"fail/run/running_sum.psir", true, {{"block", 4}}}})
    for (const Options::Copies copies :
         {Options::Copies::AtIssue, Options::Copies::AtWait, Options::Copies::Scheduled}) {
      const std::string text = read_file(c.file);
      std::vector<Array> args;
      for (const ir::Operand& operand : ir::parse(text).operands)
        if (operand.kind != ir::Operand::Kind::Output) {
          Array a{operand.array->dtype, {}, std::vector<std::byte>(static_cast<size_t>(operand.array->num_bytes()))};
          for (const ir::Dim& d : operand.array->dims) a.dims.push_back(d.size);
          args.push_back(std::move(a));
        }
      Options o;
      o.copies = copies;
      if (copies == Options::Copies::Scheduled) o.random_seed = 5;
      if (c.modelled) o.pipeline = Options::Pipeline::Modelled;
      Counter all(Observer::kOperation);
      observed(text, std::move(args), o, {&all});
      EXPECT_EQ(all.kinds, c.kinds) << c.file;
      for (const auto& [id, stages] : all.stages) EXPECT_EQ(stages, 3) << c.file << " " << id;
    }
}

TEST(Observer, IsToldOfWhatItWantsAlone) {
  for (uint32_t bit = 1; bit < Observer::kAll; bit <<= 1) {
    Counter one(bit), none(0);
    observed(kDoubleBuffered, {noise({4, 128})}, {}, {&one, &none});
    EXPECT_TRUE(none.calls.empty());
    for (const auto& [what, n] : one.calls) EXPECT_EQ(what, bit) << n;
  }
}

TEST(Observer, SeesTheSameWithRewritesAndWithoutAndInCheckedRuns) {
  const Array x = noise({4, 128});
  std::map<std::pair<std::string, bool>, int64_t> first;
  for (const int how : {0, 1, 2}) {
    Options o;
    o.fuse = how != 1;
    o.checked = how == 2;
    Counter all(Observer::kLaunch | Observer::kAccess);
    observed(kDoubleBuffered, {x}, o, {&all});
    std::map<std::pair<std::string, bool>, int64_t> operands;
    for (const auto& [of, n] : all.bytes)
      if (of.first == "x" || of.first == "o") operands[of] = n;
    if (first.empty()) first = operands;
    EXPECT_EQ(operands.size(), 2u);
    EXPECT_EQ(operands, first) << how;
  }
}

}  // namespace
}  // namespace pallasim::interp::test
