// Small programs of threads that share cells, semaphores and copies, and all of their schedules without any reduction.
#pragma once
#include <functional>

#include "engine/policies/exhaustive.h"
#include "launch/schedule_runner.h"
#include "run.h"

namespace pallasim::interp::test {

// What a thread does, a word each: "w0=3" stores 3 in cell 0, "r0" reads cell 0, "+0" adds 1 to it in two steps, "s1"
// signals semaphore 1, "p1" takes 1 from it, "c0>1.0" starts a copy of cell 0 to cell 1 that completes copy semaphore
// 0, "d0" waits for it.
using Program = std::vector<std::vector<std::string>>;
inline constexpr int kCells = 4, kSemaphores = 6, kReads = 4;

inline std::string text_of(const Program& p) {
  const int threads = static_cast<int>(p.size());
  std::string s =
      "pallasim-ir 1\nmodule \"litmus\" {machine = generic}\nmesh \"m\" {kind = generic, axes = [axis(\"i\", " +
      std::to_string(threads) + ")]}\noutput \"o_ref\" : i32[" + std::to_string(threads * kReads + kCells) +
      "] {space = smem}\nscratch \"cells\" : ref<i32[4], smem, grid>\nscratch \"sems\" : ref<sem[6], semaphore, "
      "grid>\nscratch \"copies\" : ref<dma_sem[6], semaphore, grid>\nbody \"m\" (%0 \"o_ref\": ref<i32[" +
      std::to_string(threads * kReads + kCells) +
      "], smem>, %1 \"cells\": ref<i32[4], smem, grid>,\n    %2 \"sems\": ref<sem[6], semaphore, grid>, %3 "
      "\"copies\": ref<dma_sem[6], semaphore, grid>) {\n  %4 = axis_index {axis = \"i\"} : i32[]\n";
  int next = 5;
  const auto constant = [&](int v) {
    char line[96];
    std::snprintf(line, sizeof line, "  %%%d = constant {value = i32 0x%x} : i32[]\n", next, static_cast<unsigned>(v));
    s += line;
    return "%" + std::to_string(next++);
  };
  const auto at = [](char c) { return "[index(" + std::string(1, c) + ")]"; };
  const auto slice = [](char c) { return "[index(slice(" + std::string(1, c) + ", 1))]"; };
  const std::string one = constant(1);
  for (int t = 0; t < threads; ++t) {
    const std::string me = constant(t);
    s += "  %" + std::to_string(next) + " = eq %4, " + me + " : bool[]\n  cond %" + std::to_string(next) +
         " () {\n    yield\n  } () {\n";
    ++next;
    int reads = 0;
    for (const std::string& w : p[static_cast<size_t>(t)]) {
      const char k = w[1];
      if (w[0] == 'w') {
        const std::string v = constant(std::stoi(w.substr(3)));
        s += "  store %1, " + v + " {view = " + at(k) + "}\n";
      } else if (w[0] == 'r' || w[0] == '+') {
        const std::string v = "%" + std::to_string(next++);
        s += "  " + v + " = get %1 {view = " + at(k) + "} : i32[]\n";
        if (w[0] == 'r') {
          s += "  store %0, " + v + " {view = [index(" + std::to_string(t * kReads + reads++) + ")]}\n";
        } else {
          const std::string sum = "%" + std::to_string(next++);
          s += "  " + sum + " = add " + v + ", " + one + " : i32[]\n  store %1, " + sum + " {view = " + at(k) + "}\n";
        }
      } else if (w[0] == 's') {
        s += "  sem_signal %2, " + one + " {view = " + at(k) + ", inc = $1}\n";
      } else if (w[0] == 'p') {
        s += "  sem_wait %2, " + one + " {view = " + at(k) + ", value = $1}\n";
      } else if (w[0] == 'c') {
        s += "  dma_start %1, %1, %3 {src = view($0, " + slice(k) + "), dst = view($1, " + slice(w[3]) +
             "), dst_sem = view($2, " + at(w[5]) + ")}\n";
      } else {
        s += "  dma_wait %1, %1, %3 {src = view($0, [index(slice(0, 1))]), dst = view($1, [index(slice(1, 1))]), "
             "dst_sem = "
             "view($2, " +
             at(k) + ")}\n";
      }
    }
    s += "    yield\n  }\n";
  }
  return s + "  yield\n}\n";
}

struct Searched {
  std::set<std::string> outcomes;
  std::set<std::string> traces;  // brute force alone
  int64_t runs = 0, given_up = 0;
  bool ended = false;  // within the limit
};

// Every choice at every moment.
class BruteForce : public Policy {
 public:
  explicit BruteForce(ScheduleRunner& r) : runner_(r) {}
  bool new_execution(std::vector<uint64_t>&) override {
    turns.clear();
    if (!begun_) return begun_ = true;
    while (!path_.empty() && path_.back().first + 1 == path_.back().second) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().first;
    return true;
  }
  size_t next(const Choices& c) override {
    if (c.turns > 0 && static_cast<size_t>(c.turns) == turns.size()) touched(c.touched);
    std::vector<size_t> can;
    for (size_t i = 0; i < c.size(); ++i)
      if (c.can_go_on(i)) can.push_back(i);
    const auto turn = static_cast<size_t>(c.turns);
    if (turn == path_.size()) path_.emplace_back(0, can.size());
    const size_t at = can[path_[turn].first];
    turns.push_back({c[at], {}});
    return at;
  }
  uint64_t next_random() override { return 0; }
  void touched(std::span<const Touch> t) { turns.back().second.assign(t.begin(), t.end()); }
  // Which of two turns that depend on each other came first: equal for runs of one trace.
  std::string trace() const {
    std::vector<std::string> names, pairs;
    std::map<std::string, int> count;
    for (const auto& [who, touches] : turns) {
      const std::string w =
          std::to_string(who.thread) + (who.what == Choice::What::Thread ? "t" : "c" + std::to_string(who.number));
      names.push_back(w + "." + std::to_string(count[w]++));
    }
    for (size_t j = 0; j < turns.size(); ++j)
      for (size_t i = 0; i < j; ++i)
        if (depend(turns[i].second, turns[j].second)) pairs.push_back(names[i] + "<" + names[j]);
    std::sort(pairs.begin(), pairs.end());
    std::sort(names.begin(), names.end());
    std::string r;
    for (const auto& list : {names, pairs})
      for (const std::string& x : list) r += x + " ";
    return r;
  }
  std::vector<std::pair<Choice, std::vector<Touch>>> turns;

 private:
  ScheduleRunner& runner_;
  std::vector<std::pair<size_t, size_t>> path_;  // the choice, and of how many
  bool begun_ = false;
};

class Litmus {
 public:
  explicit Litmus(const std::string& text) : plan_(compile(ir::parse(text))) {
    for (const ir::Type* t : result_types(*plan_)) {
      out_.push_back({t->dtype, {}, std::vector<std::byte>(static_cast<size_t>(t->num_bytes()))});
      for (const ir::Dim& d : t->dims) out_.back().dims.push_back(d.size);
    }
    for (Array& a : out_) results_.push_back(a.buffer());
    call_.push_back({0, {}, results_, 0});
    Options o;
    o.livelock_steps = 100'000;
    runner_ = runner(o);
  }
  std::unique_ptr<ScheduleRunner> runner(const Options& o) {
    return std::make_unique<ScheduleRunner>(*plan_, module_of(*plan_).locs, call_, o);
  }
  Searched brute_force(int64_t most) {
    Searched r;
    BruteForce policy(*runner_);
    while (r.runs < most) {
      const ScheduleEnd end = runner_->run(policy, true);
      if (end.over) {
        r.ended = true;
        break;
      }
      policy.touched(runner_->touches().all());
      ++r.runs;
      r.outcomes.insert(end.key());
      r.traces.insert(policy.trace());
    }
    return r;
  }
  Exploration explored(const ExploreOptions& e) {
    return explore({plan_, std::shared_ptr<const ir::LocTable>(plan_, &module_of(*plan_).locs)}, call_, {}, e);
  }
  ScheduleRunner& runner() { return *runner_; }
  const Plan& plan() { return *plan_; }
  std::span<const DeviceCall> call() { return call_; }

 private:
  std::shared_ptr<const Plan> plan_;
  std::vector<Array> out_;
  std::vector<Buffer> results_;
  std::vector<DeviceCall> call_;
  std::unique_ptr<ScheduleRunner> runner_;
};

}  // namespace pallasim::interp::test
