#include <fmt/format.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "judge.h"

namespace pallasim::judge {

const char* name_of(Verdict::Kind k) {
  static constexpr const char* kNames[] = {"same",    "missing", "different", "finding", "refused", "accepted",
                                           "stopped", "missed",  "invented",  "crash",   "invalid"};
  return kNames[static_cast<size_t>(k)];
}

namespace {

void count(const ir::Region& r, std::map<std::string, int>& operations) {
  for (const ir::Op& op : r.ops) {
    ++operations[std::string(ir::name(op.code))];
    for (const ir::Region& inner : op.regions) count(inner, operations);
  }
}

// Threads print when they please: only the order within one is the program's.
std::string print_difference(std::vector<std::string> want, std::vector<std::string> got, bool threads) {
  if (threads) std::sort(want.begin(), want.end()), std::sort(got.begin(), got.end());
  for (size_t i = 0; i < std::min(want.size(), got.size()); ++i)
    if (want[i] != got[i]) return fmt::format("print {}: expected \"{}\", got \"{}\"", i, want[i], got[i]);
  return want.size() == got.size() ? "" : fmt::format("{} prints instead of {}", got.size(), want.size());
}

// Every run reports a race, and none that is not there, with both sides.
Verdict judge_races(const Case& c, const std::string& only, Verdict v) {
  using Kind = Verdict::Kind;
  Engine engine(c);
  for (const Config& config : race_configurations(c.seed)) {
    if (!only.empty() && config.name != only) continue;
    const auto say = [&](Kind k, const std::string& text) {
      v.kind = k, v.text = config.name + ": " + text, v.config = config.name;
      return v;
    };
    const EngineOutcome got = engine.run(config);
    ++v.runs;
    if (!got.done) return say(Kind::Refused, got.code + " " + got.message);
    int races = 0;
    for (const ir::Diagnostic& d : got.reports) {
      if (!d.code.text().starts_with("PS-RACE-")) continue;
      ++races;
      if (d.also.empty()) return say(Kind::Invented, d.message + ", without another side");
      const auto pair = std::minmax(d.site.source.line, d.also[0].source.line);
      if (!c.races.count({pair.first, pair.second}))
        return say(Kind::Invented, fmt::format("{} {}: lines {} and {} are ordered", d.code.text(), d.message,
                                               pair.first, pair.second));
    }
    if (races == 0)
      return say(Kind::Missed,
                 fmt::format("lines {} and {} are not ordered", c.races.begin()->first, c.races.begin()->second));
  }
  return v;
}

// A finding that the program does not deserve. Boxes lie where they like. Trips of a parallel_loop meet where the
// evaluator saw them meet.
std::string unexpected(const oracle::Outcome& want, const EngineOutcome& got, bool missing) {
  for (const std::string& f : got.findings)
    if (!f.starts_with("PS-OOB-003") &&
        (f.find("one trip of a parallel_loop") == std::string::npos || (!want.trips_meet && !missing)))
      return f;
  return "";
}

}  // namespace

// A wrong program of which loads outside of a TPU's refs are all that is wrong: in the chip's mode it runs, and gives
// what the evaluator gives.
std::string outside_difference(const ir::Module& m, const Case& c, Engine& engine) {
  if (m.machine != ir::Machine::Tpu) return "";  // of pointers the evaluator does not know how far an allocation goes
  oracle::Setting goes_on;
  goes_on.reads_outside = true;
  const oracle::Outcome want = oracle::evaluate(m, c.args, goes_on);
  if (want.end == oracle::End::Missing) return "";
  Config config = configurations(m, c).front();
  config.options.out_of_bounds = interp::Options::Oob::Chip;
  const EngineOutcome got = engine.run(config);
  if (got.done != (want.end == oracle::End::Done))
    return got.done ? "it runs to the end, the evaluator says " + want.what : got.code + " " + got.message;
  return got.done ? difference(want.results, got.results) : "";
}

Verdict judge(const Case& c, const std::string& only) {
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
    return say(Kind::Invalid, std::string(e.diagnostic().code.text()) + " " + e.diagnostic().message);
  }
  for (const ir::Body& b : m.bodies) count(b.graph.region, v.operations);
  if (!c.races.empty()) return judge_races(c, only, v);
  if (c.undefined) return judge_undefined(c, only);
  oracle::Outcome want = oracle::evaluate(m, c.args);
  const bool missing = want.end == oracle::End::Missing;
  if (want.end == oracle::End::Stopped && !c.wrong) return say(Kind::Stopped, want.what);
  if (want.end == oracle::End::Done && c.wrong) return say(Kind::Stopped, "the evaluator accepts a wrong program");
  if (want.end == oracle::End::Done) {
    oracle::Setting fuzzy;
    fuzzy.fuzzy_uninitialized = true;
    const oracle::Outcome other = oracle::evaluate(m, c.args, fuzzy);
    if (const std::string d = difference(want.results, other.results); !d.empty())
      return say(Kind::Invalid, "depends on memory that nobody wrote: " + d);
  }
  Engine engine(c);
  bool first = missing;
  for (Config config : configurations(m, c)) {
    if (!only.empty() && config.name != only && !first) continue;
    if (c.wrong) config.options.out_of_bounds = interp::Options::Oob::Error;
    const EngineOutcome got = engine.run(config);
    ++v.runs;
    v.operations["(runs in several units)"] += got.units > 1;
    if (c.wrong) {
      if (got.done) return say(Kind::Accepted, config.name + " runs to the end", config.name);
      continue;
    }
    if (!got.done) return say(Kind::Refused, fmt::format("{}: {} {}", config.name, got.code, got.message), config.name);
    if (const std::string d = unexpected(want, got, missing); !d.empty())
      return say(Kind::Finding, config.name + ": " + d, config.name);
    // Copies and signals count as behind the trips before theirs; refs without a scope are values that change, and
    // so are blocks of inputs that share an output's array.
    if (want.trips_write && config.options.checked && got.findings.empty() && !v.operations.count("dma_start") &&
        !v.operations.count("sem_signal") && !v.operations.count("new_ref") && m.aliases.empty())
      return say(Kind::Missed, config.name + ": two trips of a parallel_loop write a byte", config.name);
    if (first) {
      want.results = got.results, want.prints = got.prints, first = false;
      continue;
    }
    std::string d = difference(want.results, got.results);
    if (d.empty())
      d = print_difference(
          want.prints, got.prints,
          c.devices > 1 || !m.meshes.empty() || !config.options.grid_order.empty() || config.options.cores > 1);
    if (!d.empty()) return say(Kind::Different, config.name + ": " + d, config.name);
  }
  if (c.wrong)
    if (const std::string d = outside_difference(m, c, engine); !d.empty())
      return say(Kind::Accepted, "loads outside go on: " + d);
  if (missing) return say(Kind::Missing, want.what);
  return v;
}

bool order_shows(const Case& c) {
  const ir::Module m = ir::parse(c.text);
  std::vector<int> descending, odd;
  for (int i = 64; i-- > 0;) descending.push_back(i);
  for (int i = 1; i < 64; i += 2) odd.push_back(i);
  const oracle::Outcome first = oracle::evaluate(m, c.args);
  if (first.end != oracle::End::Done) return false;
  for (const std::vector<int>& order : {descending, odd}) {
    const oracle::Outcome other = oracle::evaluate(m, c.args, {order});
    if (other.end != oracle::End::Done || !difference(first.results, other.results).empty()) return true;
  }
  return false;
}

void limit_time(unsigned seconds) {
  const itimerval taken{{}, {static_cast<time_t>(seconds), 0}};
  setitimer(ITIMER_PROF, &taken, nullptr);
  alarm(3 * seconds);
}

bool was_limited(int status) {
  return WIFSIGNALED(status) && (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGPROF);
}

Verdict judge_apart(const Case& c, const std::string& only) {
  int fd[2];
  if (pipe(fd) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    limit_time(kSecondsPerModule);
    const Verdict v = judge(c, only);
    const std::string line = fmt::format("{}\n{}\n{}\n", static_cast<int>(v.kind), v.config, v.text);
    _exit(write(fd[1], line.data(), line.size()) == static_cast<ssize_t>(line.size()) ? 0 : 1);
  }
  close(fd[1]);
  std::string all;
  char part[4096];
  for (ssize_t n; (n = read(fd[0], part, sizeof part)) > 0;) all.append(part, static_cast<size_t>(n));
  close(fd[0]);
  int status = 0;
  waitpid(child, &status, 0);
  Verdict v;
  const size_t first = all.find('\n'), second = all.find('\n', first + 1);
  if (status != 0 || second == std::string::npos) {
    v.kind = Verdict::Kind::Crash;
    v.text = was_limited(status) ? "hangs" : fmt::format("breaks off (status {})", status);
    return v;
  }
  v.kind = static_cast<Verdict::Kind>(std::stoi(all));
  v.config = all.substr(first + 1, second - first - 1);
  v.text = all.substr(second + 1, all.size() - second - 2);
  return v;
}

std::string describe(const Case& c) {
  std::string r = fmt::format("devices {}\n", c.devices);
  for (const auto& [a, b] : c.races) r += fmt::format("race {} {}\n", a, b);
  for (const oracle::Array& a : c.args) {
    r += fmt::format("{}[{}] 0x", ir::name(a.dtype), fmt::join(a.dims, ","));
    for (std::byte b : a.bytes) r += fmt::format("{:02x}", static_cast<int>(b));
    r += "\n";
  }
  return r;
}

Case read_case(const std::string& psir) {
  const auto whole = [](const std::string& name) {
    std::ifstream f(name);
    if (!f) throw std::runtime_error("cannot read " + name);
    std::stringstream s;
    s << f.rdbuf();
    return s.str();
  };
  Case c;
  c.text = whole(psir);
  std::ifstream f(psir.substr(0, psir.rfind('.')) + ".txt");
  for (std::string line; std::getline(f, line);) {
    if (line.rfind("devices ", 0) == 0) c.devices = std::stoi(line.substr(8));
    if (int a = 0, b = 0; sscanf(line.c_str(), "race %d %d", &a, &b) == 2) c.races.insert({a, b});
    const size_t open = line.find('['), close = line.find("] 0x");
    ir::DType t;
    if (close == std::string::npos || open > close || !ir::parse_dtype(line.substr(0, open), &t)) continue;
    oracle::Array a{t, {}, {}};
    std::stringstream dims(line.substr(open + 1, close - open - 1));
    for (std::string d; std::getline(dims, d, ',');) a.dims.push_back(std::stoll(d));
    for (size_t i = close + 4; i + 1 < line.size(); i += 2)
      a.bytes.push_back(static_cast<std::byte>(std::stoi(line.substr(i, 2), nullptr, 16)));
    c.args.push_back(std::move(a));
  }
  return c;
}

}  // namespace pallasim::judge
