#include "schedule_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "../engine/publish.h"
#include "../engine/token.h"
#include "partitioned_run.h"
#include "population.h"

namespace pallasim::interp {
namespace {

uint64_t mix(uint64_t h, std::span<const std::byte> bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    h = (h ^ word) * 0x9fb21c651e98df25u;
    h ^= h >> 32;
  }
  for (; i < bytes.size(); ++i) h = (h ^ static_cast<uint64_t>(bytes[i])) * 0x100000001b3u;
  return h;
}

// How keys of runs that end begin.
constexpr std::string_view kEnds = "ends ";

// What tells one finding from another: not who of several like ones it was told of.
std::string text_of(const ir::Diagnostic& d) { return fmt::format("{}|{}|{}\n", d.code.text(), d.message, d.site.loc); }

}  // namespace

std::string ScheduleEnd::key() const {
  if (stop) return text_of(*stop);
  std::vector<std::string> findings;
  for (const ir::Diagnostic& d : report.findings) findings.push_back(text_of(d));
  std::sort(findings.begin(), findings.end());
  std::vector<std::string> prints = report.prints;
  std::sort(prints.begin(), prints.end());
  std::string r = fmt::format("{}{:x}\n", kEnds, outputs);
  for (const std::string& f : findings) r += f;
  for (const std::string& p : prints) r += fmt::format("{}:{}", p.size(), p);
  return r;
}

std::optional<std::string_view> ScheduleEnd::beside_outputs(std::string_view key) {
  if (!key.starts_with(kEnds)) return std::nullopt;
  return key.substr(key.find('\n'));
}

Buffer ScheduleRunner::own(const Buffer& b) {
  Buffer r = b;
  int64_t bytes = ir::byte_size(b.dtype);
  for (const int64_t n : b.dims) bytes = memory::mul(bytes, n);
  auto a = std::make_unique<Array>();
  a->bytes.resize(static_cast<size_t>(bytes));
  if (b.data && bytes > 0) std::memcpy(a->bytes.data(), b.data, static_cast<size_t>(bytes));
  r.data = a->bytes.data();
  arrays_.push_back(std::move(a));
  return r;
}

ScheduleRunner::ScheduleRunner(const Plan& p, const ir::LocTable& locs, std::span<const DeviceCall> devices,
                               const Options& o)
    : plan_(p), locs_(locs), options_(o) {
  for (const DeviceCall& d : devices) {
    auto& args = args_.emplace_back();
    auto& results = results_.emplace_back();
    for (const Buffer& b : d.args) args.push_back(own(b));
    for (const Buffer& b : d.results) results.push_back(own(b));
  }
  for (size_t d = 0; d < devices.size(); ++d)
    calls_.push_back({devices[d].device, args_[d], results_[d], devices[d].run});
  bound_ = bind_launch(plan_, locs_, session_, calls_, options_, {});
  Call& call = bound_->call;
  for (const int o : std::exchange(call.deferred_init, {})) {
    const auto i = static_cast<size_t>(o);
    const ir::Type& t = *plan_.module.operands[i].array;
    poison(call.operands[0][i], t.num_elements(), t.dtype, options_.uninitialized);
  }
  // Programs exist at once wherever they do under some schedule, and not only where they must to end.
  Options any_schedule = options_;
  any_schedule.replay = kAnyChoices;
  call.who = population_of(plan_, any_schedule, call.grid);
  for (const std::vector<std::byte*>& device : call.operands)
    for (size_t i = 0; i < device.size(); ++i) {
      const ir::Operand& operand = plan_.module.operands[i];
      const auto& copied = plan_.memory.own_inputs;
      if (operand.kind != ir::Operand::Kind::Output &&
          std::find(copied.begin(), copied.end(), static_cast<int>(i)) == copied.end())
        continue;
      const int64_t bytes = device[i] ? operand.array->num_bytes() : 0;
      first_.emplace_back(device[i], std::vector<std::byte>(device[i], device[i] + bytes));
    }
  lease_ = std::make_unique<Lease>(plan_);
}

ScheduleRunner::~ScheduleRunner() = default;

void ScheduleRunner::reset(bool arrays) {
  for (const auto& [at, bytes] : first_)
    if (arrays) std::copy(bytes.begin(), bytes.end(), at);
  session_.state().counts.clear();
  session_.state().others.clear();
  session_.state().arrays.clear();
}

Touches& ScheduleRunner::touches_of_runs() {
  if (!touches_) {
    const Call& call = bound_->call;
    execution().bind(call.operands, call.grid, call.first_device, call.who);  // it asks how many owners there are
    touches_ = std::make_unique<Touches>(execution());
  }
  return *touches_;
}

ScheduleEnd ScheduleRunner::run(Policy& policy, bool touches, std::vector<Choice>* record, const std::string& token) {
  ScheduleEnd end;
  reset();
  const Call& call = bound_->call;
  Execution& ex = execution();
  if (record) record->clear();
  std::vector<Observer*> observers;
  if (touches) observers.push_back(&touches_of_runs());
  std::optional<Checks> checks;
  if (options_.checked) checks.emplace(plan_, options_, call.operands.size()).attach(ex, &observers);
  std::optional<Publisher> publisher;
  if (!observers.empty()) publisher.emplace(ex, observers);
  Guide::End became;
  const Guide guide{&policy, true,   Options::Copies::Scheduled, touches ? touches_.get() : nullptr, record,
                    token,   &became};
  const GridBox box{std::vector<int64_t>(call.grid.size(), 0), call.grid};
  ex.host.keeps_calls = false;
  try {
    run_part(ex, call, call.who, box, nullptr, guide);
  } catch (const ir::DiagnosticError& e) { end.stop = e.diagnostic(); }
  end.abandoned = became.abandoned;
  end.over = became.over;
  finish(&end, checks ? &*checks : nullptr);
  return end;
}

void ScheduleRunner::finish(ScheduleEnd* end, Checks* checks) {
  Execution& ex = execution();
  end->turns = ex.turn.taken;
  if (end->abandoned) return;
  end->report.steps = ex.steps;
  deliver(std::exchange(ex.log.prints, {}), bound_->call, ex.points > 0, &end->report);
  end->report.findings = ex.log.findings;
  if (checks) checks->finish(end->report.findings);
  if (!end->stop) end->outputs = hash_of_outputs();
}

uint64_t ScheduleRunner::hash_of_outputs() const {
  uint64_t h = 0xcbf29ce484222325u;
  for (const std::vector<Buffer>& device : results_)
    for (size_t o = 0; o < device.size(); ++o) {
      const size_t operand = plan_.module.operands.size() - device.size() + o;
      const auto bytes = static_cast<size_t>(plan_.module.operands[operand].array->num_bytes());
      h = mix(h, {static_cast<const std::byte*>(device[o].data), bytes});
    }
  return h;
}

std::vector<ExploredArray> ScheduleRunner::outputs() const {
  std::vector<ExploredArray> r;
  for (size_t d = 0; d < results_.size(); ++d)
    for (size_t o = 0; o < results_[d].size(); ++o) {
      const ir::Operand& operand = plan_.module.operands[plan_.module.operands.size() - results_[d].size() + o];
      const auto* at = static_cast<const std::byte*>(results_[d][o].data);
      r.push_back({operand.name,
                   calls_[d].device,
                   results_[d][o].dtype,
                   results_[d][o].dims,
                   {at, at + operand.array->num_bytes()}});
    }
  return r;
}

}  // namespace pallasim::interp
