// Holds every configuration of the engine against the eager evaluator, on generated programs.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "judge.h"
#include "pallasim/interp/rewrites.h"

namespace pallasim::judge {
namespace {

constexpr uint64_t kBetweenLooks = 1000;  // programs, until it is asked whether they are enough
constexpr int kRewrites = static_cast<int>(interp::Rewrite::Count);

struct Arguments {
  int64_t modules = 1000;
  uint64_t seed = 1;
  int jobs = 1;
  std::string dump, file;
  bool only = false, stats = false, shrink = false, text = false, first = false;
  bool races = false;      // programs whose races are known
  bool clusters = false;   // of thread blocks
  bool subcores = false;   // of SparseCores, with several bodies
  bool undefined = false;  // without some of their stores
  int64_t rewrites = 0;    // how often the compiler has to have used each of its rewrites
  std::string terms;       // a file with a term in each line: programs are enough as soon as there were so many of each
  int64_t each = 1;

  Case generate(uint64_t s) const {
    if (undefined) return without_some_stores(of_kind(s));
    return of_kind(s);
  }
  Case of_kind(uint64_t s) const {
    if (races) return generate_with_races(s);
    return clusters ? generate_clusters(s) : subcores ? generate_subcores(s) : judge::generate(s);
  }
};

void save(const Arguments& a, const Case& c, const std::string& why) {
  if (a.dump.empty()) return;
  std::filesystem::create_directories(a.dump);
  const std::string base = fmt::format("{}/{}", a.dump, c.seed);
  std::ofstream(base + ".psir") << c.text;
  std::ofstream(base + ".txt") << why << "\n" << describe(c);
}

// The next seed, which all workers share.
using Seeds = std::atomic<uint64_t>;

// One worker. A line per event goes to `out`: what the parent counts.
void work(const Arguments& a, Seeds& next, uint64_t end, FILE* out) {
  for (uint64_t s = next++; s < end; s = next++) {
    fprintf(out, "S %llu\n", static_cast<unsigned long long>(s));
    fflush(out);
    limit_time(kSecondsPerModule);
    const Case c = a.generate(s);
    const Verdict v = judge(c);
    limit_time(0);
    for (const auto& [k, n] : c.terms) fprintf(out, "T %d %s\n", n, k.c_str());
    for (const auto& [k, n] : v.operations) fprintf(out, "O %d %s\n", n, k.c_str());
    fprintf(out, "V %d %d %s\n", static_cast<int>(v.kind), v.runs, v.text.c_str());
    if (v.kind == Verdict::Kind::Same || v.kind == Verdict::Kind::Missing) continue;
    save(a, c, v.text);
    if (a.first) break;
  }
  for (int r = 0; r < kRewrites; ++r)
    fprintf(out, "R %d %lld\n", r, static_cast<long long>(interp::hits(static_cast<interp::Rewrite>(r))));
  fprintf(out, "E\n");
  fflush(out);
}

struct Totals {
  int64_t modules = 0, runs = 0, failures = 0;
  std::map<std::string, int64_t> terms, operations, missing, kinds;
  std::map<uint64_t, std::string> failed;  // seed: what differs
  int64_t rewrites[kRewrites] = {};
  void fail(uint64_t seed, std::string what, bool tell) {
    ++failures;
    if (tell) fmt::print("seed {}: {}\n", seed, what);
    failed.emplace(seed, std::move(what));
  }
};

struct Job {
  pid_t pid = -1;
  int in = -1;       // -1: it has ended, or broken off
  std::string line;  // begun, not at its end yet
  uint64_t at = 0;
  bool ended = false;
};

Job start(const Arguments& a, Seeds& next, uint64_t end) {
  int fd[2];
  if (pipe(fd) != 0) throw std::runtime_error("pipe");
  Job j;
  j.pid = fork();
  if (j.pid == 0) {
    close(fd[0]);
    work(a, next, end, fdopen(fd[1], "w"));
    _exit(0);
  }
  close(fd[1]);
  j.in = fd[0];
  return j;
}

void count(const Arguments& a, Job& j, const std::string& line, Totals& t) {
  int n = 0, runs = 0, at = 0;
  const char* const rest = line.c_str() + std::min<size_t>(2, line.size());
  switch (line.empty() ? ' ' : line[0]) {
    case 'S': j.at = strtoull(rest, nullptr, 10); break;
    case 'T': sscanf(rest, "%d %n", &n, &at), t.terms[rest + at] += n; break;
    case 'O': sscanf(rest, "%d %n", &n, &at), t.operations[rest + at] += n; break;
    case 'E': j.ended = true; break;
    case 'R': {
      long long hits = 0;
      if (sscanf(rest, "%d %lld", &n, &hits) == 2 && n >= 0 && n < kRewrites) t.rewrites[n] += hits;
      break;
    }
    default: {
      sscanf(rest, "%d %d %n", &n, &runs, &at);
      ++t.modules, t.runs += runs;
      const auto kind = static_cast<Verdict::Kind>(n);
      const std::string what = rest + at;
      ++t.kinds[name_of(kind)];
      if (kind == Verdict::Kind::Missing) ++t.missing[what];
      else if (kind != Verdict::Kind::Same) t.fail(j.at, fmt::format("{}: {}", name_of(kind), what), !a.first);
    }
  }
}

// A job whose pipe is at its end: it is through, or broke off.
void finish(const Arguments& a, Job& j, Totals& t) {
  close(j.in);
  j.in = -1;
  int status = 0;
  waitpid(j.pid, &status, 0);
  if (j.ended) return;
  const std::string how = was_limited(status)   ? "hangs"
                          : WIFSIGNALED(status) ? fmt::format("crashes (signal {})", WTERMSIG(status))
                                                : fmt::format("exits ({})", status);
  ++t.kinds["crash or hang"];
  t.fail(j.at, how, !a.first);
  save(a, a.generate(j.at), how);
}

// What there is to read of a job; a pipe that nobody reads would stop it.
void follow(const Arguments& a, Job& j, Totals& t) {
  char bytes[1 << 16];
  const ssize_t n = read(j.in, bytes, sizeof bytes);
  if (n <= 0) return finish(a, j, t);
  for (ssize_t i = 0; i < n; ++i) {
    if (bytes[i] != '\n') {
      j.line += bytes[i];
      continue;
    }
    count(a, j, j.line, t);
    j.line.clear();
  }
}

// Seeds begin, begin + 1, … Each worker runs in a process of its own; where one breaks off, its seed is named and
// another one goes on, unless the first failure is all that is asked for.
void pass(const Arguments& a, uint64_t begin, uint64_t end, Totals& t) {
  void* const shared = mmap(nullptr, sizeof(Seeds), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::runtime_error("mmap");
  Seeds& next = *new (shared) Seeds(begin);
  std::vector<Job> jobs;
  for (int i = 0; i < a.jobs; ++i) jobs.push_back(start(a, next, end));
  for (;;) {
    std::vector<pollfd> open;
    for (const Job& job : jobs) open.push_back({job.in, POLLIN, 0});
    if (std::all_of(open.begin(), open.end(), [](const pollfd& p) { return p.fd < 0; })) break;
    if (poll(open.data(), open.size(), -1) < 0) continue;
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (open[i].fd < 0 || open[i].revents == 0) continue;
      follow(a, jobs[i], t);
      if (jobs[i].in < 0 && !jobs[i].ended && !a.first && next < end) jobs[i] = start(a, next, end);
    }
  }
  munmap(shared, sizeof(Seeds));
}

// What has not been there often enough yet, and which terms the file does not have.
std::vector<std::string> uncovered(const Arguments& a, const Totals& t) {
  std::vector<std::string> r;
  for (int i = 0; i < kRewrites; ++i)
    if (t.rewrites[i] < a.rewrites)
      r.push_back(fmt::format("rewrite used {} times, not {}: {}", t.rewrites[i], a.rewrites,
                              interp::describe(static_cast<interp::Rewrite>(i))));
  if (a.terms.empty()) return r;
  std::set<std::string> listed;
  std::ifstream file(a.terms);
  for (std::string line; std::getline(file, line);) listed.insert(line);
  if (listed.empty()) r.push_back("there are no terms in " + a.terms);
  for (const std::string& term : listed) {
    const auto found = t.terms.find(term);
    const int64_t n = found == t.terms.end() ? 0 : found->second;
    if (n < a.each) r.push_back(fmt::format("term generated {} times, not {}: {}", n, a.each, term));
  }
  for (const auto& [term, n] : t.terms)
    if (!listed.contains(term)) r.push_back(fmt::format("term that {} lacks: {}", a.terms, term));
  return r;
}

int run(const Arguments& a) {
  const auto begin = std::chrono::steady_clock::now();
  Totals t;
  const uint64_t end = a.seed + static_cast<uint64_t>(a.modules);
  // Pieces that grow: the smallest seed that fails is the same one for any number of jobs.
  uint64_t piece = 50;
  for (uint64_t at = a.seed; at < end && !(a.first && t.failures); at += piece) {
    if (!a.terms.empty() && at > a.seed && uncovered(a, t).empty()) break;
    piece = a.first ? std::min<uint64_t>(2 * piece, 2000) : a.terms.empty() ? end - at : kBetweenLooks;
    pass(a, at, std::min(end, at + piece), t);
  }
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{} modules, {} runs of the engine, {:.1f} s ({:.0f} modules/s/core)\n", t.modules, t.runs, s,
             static_cast<double>(t.modules) / s / a.jobs);
  for (const auto& [k, n] : t.kinds) fmt::print("  {}: {}\n", k, n);
  for (const auto& [k, n] : t.missing) fmt::print("  missing: {} ({})\n", k, n);
  if (a.first && t.failures)
    fmt::print("first: {} programs, seed {}: {}\n", t.failed.begin()->first - a.seed + 1, t.failed.begin()->first,
               t.failed.begin()->second);
  if (a.stats) {
    for (const auto& [k, n] : t.terms) fmt::print("term {:>8}  {}\n", n, k);
    for (const auto& [k, n] : t.operations) fmt::print("op   {:>8}  {}\n", n, k);
  }
  if (a.stats)
    for (int r = 0; r < kRewrites; ++r)
      fmt::print("rewrite {:>8}  {}\n", t.rewrites[r], interp::describe(static_cast<interp::Rewrite>(r)));
  const std::vector<std::string> rare = uncovered(a, t);
  for (const std::string& what : rare) fmt::print("{}\n", what);
  return t.failures || !rare.empty() ? 1 : 0;
}

int one(const Arguments& a) {
  const Case c = a.file.empty() ? a.generate(a.seed) : read_case(a.file);
  if (a.text) return fmt::print("{}", c.text), 0;
  const Verdict v = judge_apart(c);
  fmt::print("seed {}: {} {}\n", c.seed, name_of(v.kind), v.text);
  const bool failed = v.kind != Verdict::Kind::Same && v.kind != Verdict::Kind::Missing;
  if (failed) {
    Case small = c;
    if (a.shrink) small = shrink(c, v);
    save(a, small, judge_apart(small).text);
    fmt::print("{}\n{}", small.text, describe(small));
  }
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace pallasim::judge

int main(int argc, char** argv) {
  using namespace pallasim::judge;
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    8);  // as many as a configuration asks for
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string k = argv[i];
    const bool more = i + 1 < argc;
    if (k == "--modules" && more) a.modules = std::atoll(argv[++i]);
    else if (k == "--seed" && more) a.seed = std::strtoull(argv[++i], nullptr, 10);
    else if (k == "--rewrites" && more) a.rewrites = std::atoll(argv[++i]);
    else if (k == "--terms" && more) a.terms = argv[++i];
    else if (k == "--each" && more) a.each = std::atoll(argv[++i]);
    else if (k == "--jobs" && more) a.jobs = std::max(1, std::atoi(argv[++i]));
    else if (k == "--dump" && more) a.dump = argv[++i];
    else if (k == "--only" && more) a.only = true, a.seed = std::strtoull(argv[++i], nullptr, 10);
    else if (k == "--file" && more) a.only = true, a.file = argv[++i];
    else if (k == "--first") a.first = true;
    else if (k == "--races") a.races = true;
    else if (k == "--clusters") a.clusters = true;
    else if (k == "--subcores") a.subcores = true;
    else if (k == "--undefined") a.undefined = true;
    else if (k == "--stats") a.stats = true;
    else if (k == "--shrink") a.shrink = true;
    else if (k == "--text") a.text = true;
    else
      return fmt::print(stderr,
                        "usage: pallasim_judge [--modules N] [--seed S] [--jobs J] [--dump DIR] [--stats] [--first] "
                        "[--rewrites N] [--terms FILE --each N] "
                        "[--races | "
                        "--clusters | --subcores] [--undefined] "
                        "[--only SEED | --file NAME.psir [--shrink] [--text]]\n"),
             2;
  }
  return a.only ? one(a) : run(a);
}
