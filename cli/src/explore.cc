// pallasim explore: one launch under many schedules.
#include "pallasim/interp/explore.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "capsule.h"
#include "commands.h"
#include "io.h"
#include "verdict.h"

namespace pallasim::cli {
namespace {

Json site_object(const ir::Site& s) {
  return {{"file", s.source.file}, {"line", s.source.line}, {"text", s.source.text}};
}

Json outcome_object(const interp::ExploredOutcome& o) {
  Json j = {{"count", o.count},       {"token", o.token},          {"switches", o.switches},
            {"deadlock", o.deadlock}, {"prints", o.report.prints}, {"findings", Json::array()}};
  for (const ir::Diagnostic& d : o.report.findings) j["findings"].push_back(to_json_object(d));
  j["stop"] = o.stop ? to_json_object(*o.stop) : Json();
  j["outputs"] = Json::array();
  for (const interp::ExploredArray& a : o.outputs) {
    const Array values{a.dtype, a.dims, a.bytes};
    j["outputs"].push_back({{"name", a.name},
                            {"device", a.device},
                            {"dtype", ir::name(a.dtype)},
                            {"shape", a.dims},
                            {"fnv1a", fmt::format("{:016x}", summarize(values).hash)},
                            {"first", first_elements(values, 8)}});
  }
  j["differs"] = Json::array();
  for (const interp::OutputDifference& d : o.differs)
    j["differs"].push_back(
        {{"name", d.name}, {"device", d.device}, {"elements", d.elements}, {"first", d.first}, {"last", d.last}});
  j["order"] = o.order ? Json::array({site_object(o.order->first), site_object(o.order->second)}) : Json();
  return j;
}

// A launch, as one device or several have it.
struct Launch {
  std::shared_ptr<const interp::Plan> plan;
  interp::Options options;
  std::vector<std::vector<Argument>> in, to;
  std::vector<int64_t> devices;
};

class Explore {
 public:
  Explore(const ExploreCommand& c, Out& out) : command_(c), out_(out) {}

  int run() {
    const interp::Options options = engine_options(command_.run);
    const std::string text = read_program(command_.run.file, options.max_memory);
    if (looks_like_zip(text)) return capsule(text);
    if (command_.run.launch) fail("PS-CLI-001", "--launch is for capsules");
    ir::Module m = load_module(text, command_.run.file);
    Launch l;
    l.options = options;
    l.in.push_back(make_arguments(&m, command_.run));
    l.plan = placed(m, [&] { return interp::compile(std::move(m), options); });
    l.devices = {0};
    const auto n = static_cast<size_t>(interp::devices_of(*l.plan));
    for (size_t d = 1; d < n; ++d) l.in.push_back(l.in[0]), l.devices.push_back(static_cast<int64_t>(d));
    int64_t budget = options.max_memory;
    for (size_t d = 0; d < n; ++d) l.to.push_back(results(interp::module_of(*l.plan), &budget));
    launch(l);
    return code_;
  }

 private:
  static std::vector<Argument> results(const ir::Module& m, int64_t* budget) {
    std::vector<Argument> all;
    for (const ir::Operand& p : m.operands) {
      if (p.kind != ir::Operand::Kind::Output) continue;
      *budget -= p.array->num_bytes();
      if (*budget < 0)
        fail("PS-SIZE-001", fmt::format("output {} is too large", p.name), {},
             "raise --max-memory if the machine has more");
      Argument a{&p, p.name, {}, {}};
      a.array.dtype = p.array->dtype;
      for (const ir::Dim& d : p.array->dims) a.array.dims.push_back(d.size);
      a.array.data.resize(static_cast<size_t>(p.array->num_bytes()));
      all.push_back(std::move(a));
    }
    return all;
  }

  int capsule(const std::string& bytes) {
    int64_t budget = engine_options(command_.run).max_memory - static_cast<int64_t>(bytes.size());
    const Capsule c(bytes, shown(command_.run.file), budget);
    const auto& all = c.launches();
    if (command_.run.launch > static_cast<int64_t>(all.size()))
      fail("PS-CLI-001",
           fmt::format("--launch {}: the launches of the capsule are 1 to {}", command_.run.launch, all.size()));
    for (size_t i = 0, n = 1; i < all.size(); i += n) {
      Launch l;
      l.options = engine_options(command_.run, interp::parse_options(all[i].options));
      l.options.random_seed.reset();
      l.options.replay.clear();
      ir::Module m = ir::parse(c.module_text(all[i]), shown(command_.run.file) + "/" + all[i].module);
      l.plan = placed(m, [&] { return interp::compile(std::move(m), l.options); });
      n = std::min(all.size() - i, static_cast<size_t>(interp::devices_of(*l.plan)));
      const auto chosen = static_cast<size_t>(command_.run.launch);
      if (chosen && (chosen <= i || chosen > i + n)) continue;
      int64_t left = budget;
      for (size_t d = i; d < i + n; ++d) {
        l.devices.push_back(all[d].device);
        std::vector<Argument>& in = l.in.emplace_back();
        for (const CapsuleArray& a : all[d].arguments) in.push_back({nullptr, a.name, c.array(a, &left), {}});
        l.to.push_back(results(interp::module_of(*l.plan), &left));
      }
      if (all.size() > n) out_.text(fmt::format("launch {}\n", i + 1));
      launch(l);
    }
    return code_;
  }

  void launch(Launch& l) {
    std::vector<std::vector<interp::Buffer>> args, to;
    for (auto& a : l.in) args.push_back(buffers(a));
    for (auto& a : l.to) to.push_back(buffers(a));
    std::vector<interp::DeviceCall> calls;
    for (size_t d = 0; d < l.devices.size(); ++d) calls.push_back({static_cast<int32_t>(l.devices[d]), args[d], to[d]});
    interp::ExploreOptions how{command_.policy, command_.schedules, command_.depth, command_.run.seed, command_.jobs};
    const bool shown = command_.run.progress && ::isatty(STDERR_FILENO);
    if (shown) how.progress = [](int64_t n) { fmt::print(stderr, "\r{} schedules", n); };
    const ir::LocTable& locs = interp::module_of(*l.plan).locs;
    const interp::Exploration x =
        interp::explore({l.plan, std::shared_ptr<const ir::LocTable>(l.plan, &locs)}, calls, l.options, how);
    if (shown) fmt::print(stderr, "\r\x1b[K");
    out_.text(interp::to_text(x));
    Json j = {{"kernel", x.kernel},           {"policy", x.policy},       {"seed", x.seed},
              {"schedules", x.schedules},     {"given_up", x.given_up},   {"exhausted", x.exhausted},
              {"interrupted", x.interrupted}, {"uncounted", x.uncounted}, {"outcomes", Json::array()}};
    for (const interp::ExploredOutcome& o : x.outcomes) {
      j["outcomes"].push_back(outcome_object(o));
      for (const ir::Diagnostic& d : o.report.findings) code_ = std::max(code_, out_.finding(d));
      if (o.stop) code_ = std::max(code_, out_.finding(*o.stop));
    }
    // Which result there is must not be a question of the schedule.
    const auto ended = std::count_if(x.outcomes.begin(), x.outcomes.end(), [](const auto& o) { return !o.stop; });
    if (ended > 1) code_ = std::max<int>(code_, kFinding);
    out_.object["launches"].push_back(std::move(j));
  }

  const ExploreCommand& command_;
  Out& out_;
  int code_ = kOk;
};

}  // namespace

int explore(const ExploreCommand& c, Out& out) { return Explore(c, out).run(); }

}  // namespace pallasim::cli
