#include <fmt/format.h>

#include "judge.h"

namespace pallasim::judge {

const char* name_of(Verdict::Kind k) {
  static constexpr const char* kNames[] = {"same", "missing", "different", "finding", "refused", "accepted", "stopped", "invalid"};
  return kNames[static_cast<size_t>(k)];
}

namespace {

void count(const ir::Region& r, std::map<std::string, int>& operations) {
  for (const ir::Op& op : r.ops) {
    ++operations[std::string(ir::name(op.code))];
    for (const ir::Region& inner : op.regions) count(inner, operations);
  }
}

std::string print_difference(const std::vector<std::string>& want, const std::vector<std::string>& got) {
  for (size_t i = 0; i < std::min(want.size(), got.size()); ++i)
    if (want[i] != got[i]) return fmt::format("print {}: expected \"{}\", got \"{}\"", i, want[i], got[i]);
  return want.size() == got.size() ? "" : fmt::format("{} prints instead of {}", got.size(), want.size());
}

}  // namespace

Verdict judge(const Case& c) {
  using Kind = Verdict::Kind;
  Verdict v;
  const auto say = [&](Kind k, std::string text, std::string config = "") {
    v.kind = k, v.text = std::move(text), v.config = std::move(config);
    return v;
  };
  ir::Module m;
  try {
    m = ir::parse(c.text);
    ir::verify(m);
  } catch (const ir::DiagnosticError& e) {
    return say(Kind::Invalid, e.diagnostic().code + " " + e.diagnostic().message);
  }
  for (const ir::Body& b : m.bodies) count(b.graph.region, v.operations);
  oracle::Outcome want = oracle::evaluate(m, c.args);
  const bool missing = want.end == oracle::End::Missing;
  if (want.end == oracle::End::Stopped && !c.wrong) return say(Kind::Stopped, want.what);
  if (want.end == oracle::End::Done && c.wrong) return say(Kind::Stopped, "the evaluator accepts a wrong program");
  if (want.end == oracle::End::Done) {
    oracle::Setting fuzzy;
    fuzzy.fuzzy_uninitialized = true;
    const oracle::Outcome other = oracle::evaluate(m, c.args, fuzzy);
    if (const std::string d = difference(want.results, other.results); !d.empty()) return say(Kind::Invalid, "depends on memory that nobody wrote: " + d);
  }
  Engine engine(c);
  bool first = missing;
  for (const Config& config : configurations(m, c.seed)) {
    const EngineOutcome got = engine.run(config);
    ++v.runs;
    if (c.wrong) {
      if (got.done) return say(Kind::Accepted, config.name + " runs to the end", config.name);
      continue;
    }
    if (!got.done) return say(Kind::Refused, fmt::format("{}: {} {}", config.name, got.code, got.message), config.name);
    if (!got.findings.empty()) return say(Kind::Finding, fmt::format("{}: {}", config.name, got.findings[0]), config.name);
    if (first) {
      want.results = got.results, want.prints = got.prints, first = false;
      continue;
    }
    std::string d = difference(want.results, got.results);
    if (d.empty()) d = print_difference(want.prints, got.prints);
    if (!d.empty()) return say(Kind::Different, config.name + ": " + d, config.name);
  }
  if (missing) return say(Kind::Missing, want.what);
  return v;
}

std::string describe(const Case& c) {
  std::string r = fmt::format("devices {}\n", c.devices);
  for (const oracle::Array& a : c.args) {
    r += fmt::format("{}[{}] 0x", ir::name(a.dtype), fmt::join(a.dims, ","));
    for (std::byte b : a.bytes) r += fmt::format("{:02x}", static_cast<int>(b));
    r += "\n";
  }
  return r;
}

}  // namespace pallasim::judge
