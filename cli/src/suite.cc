// pallasim suite: capsules as a regression suite.
#include <fmt/format.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "commands.h"
#include "io.h"
#include "junit.h"
#include "processes.h"

namespace pallasim::cli {
namespace {
namespace fs = std::filesystem;

// What became of a capsule.
struct Row {
  enum class Verdict : uint8_t { NotRun, Same, Differs, Refused, Died, OverTime };
  std::string file;
  Verdict verdict = Verdict::NotRun;
  std::string code, why, reports;  // of what is not as recorded: a code, one line, the reports
  double seconds = 0;
  int exit = kOk;
  Json outcome;  // null where there is none
  int64_t launches = 0, with_findings = 0, with_times = 0;
};

constexpr const char* kVerdicts[] = {"not run", "same", "different", "refused", "died", "over time"};
const char* name(Row::Verdict v) { return kVerdicts[static_cast<int>(v)]; }

void add_folder(const std::string& folder, std::vector<std::string>* files) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".capsule" && at->is_regular_file(error)) found.push_back(at->path().string());
  if (error) fail("PS-IO-001", fmt::format("cannot read {}", folder), {error.message()});
  if (found.empty()) fail("PS-IO-001", fmt::format("there is no capsule in {}", folder));
  std::sort(found.begin(), found.end());
  files->insert(files->end(), found.begin(), found.end());
}

// A pattern that the shell has left alone.
void add_pattern(const std::string& pattern, std::vector<std::string>* files) {
  glob_t found = {};
  const int code = ::glob(pattern.c_str(), 0, nullptr, &found);
  const std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + (code == 0 ? found.gl_pathc : 0));
  ::globfree(&found);
  if (paths.empty()) fail("PS-IO-001", fmt::format("there is no {}", pattern));
  for (const std::string& path : paths)
    if (fs::is_directory(path)) add_folder(path, files);
    else files->push_back(path);
}

std::vector<Row> rows_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) add_folder(path, &files);
    else if (fs::exists(path, error)) files.push_back(path);
    else add_pattern(path, &files);
  }
  std::vector<Row> rows;
  std::set<std::string> seen;
  for (const std::string& file : files) {
    std::error_code error;
    if (!seen.insert(fs::weakly_canonical(file, error).string()).second) continue;
    rows.emplace_back().file = file;
  }
  return rows;
}

// In a process of its own: what became of a capsule, as text for the first one.
std::string work(const Row& row, const SuiteCommand& c, int workers) {
  Json said;
  std::vector<ir::Diagnostic> wrong;
  try {
    ReplayOptions how;
    how.tolerance = {c.run.rtol, c.run.atol};
    how.compare_findings = how.compare_times = true;
    how.time_rtol = c.time_rtol;
    how.adapt = [&](interp::Options recorded) {
      if (workers > 0) recorded.workers = workers;
      return engine_options(c.run, std::move(recorded));
    };
    const Outcome o = run_capsule(row.file, engine_options(c.run).max_memory, how);
    said = {{"launches", o.launches}, {"findings", o.with_findings}, {"times", o.with_times}, {"outcome", o.json}};
    wrong = o.differences;
  } catch (const ir::DiagnosticError& e) { wrong = {e.diagnostic()}; } catch (const std::bad_alloc&) {
    wrong = {ir::Diagnostic("PS-SIZE-001", "out of memory")};
  }
  // Which difference it is says more than the failure that it comes from.
  const auto differs = [](const ir::Diagnostic& d) { return d.code.text().starts_with("PS-DIFF-"); };
  int exit = kOk;
  std::string reports;
  for (const ir::Diagnostic& d : wrong) exit = std::max<int>(exit, exit_code_of(d)), reports += ir::render(d);
  if (!wrong.empty()) {
    const auto first = std::find_if(wrong.begin(), wrong.end(), differs);
    const ir::Diagnostic& d = first == wrong.end() ? wrong[0] : *first;
    said["code"] = d.code.text();
    const std::string name = escaped(row.file) + ": ";
    said["why"] = d.message.starts_with(name) ? d.message.substr(name.size()) : d.message;
  }
  said["reports"] = reports;
  said["exit"] = exit;
  return said.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

void ended(const SuiteCommand& c, Ended e, Row* row) {
  row->seconds = e.seconds;
  if (e.how == Ended::How::Stopped) return;
  if (e.how == Ended::How::OverTime) {
    row->verdict = Row::Verdict::OverTime;
    row->exit = kFinding;
    row->why = fmt::format("no end after {:g} s", c.limit);
    return;
  }
  const Json said = e.how == Ended::How::Died ? Json() : Json::parse(e.said, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object()) {
    row->verdict = Row::Verdict::Died;
    row->exit = kInternal;
    row->why = e.why.empty() ? "its process said nothing" : "its process ended with " + e.why;
    return;
  }
  row->exit = said["exit"];
  row->reports = said["reports"];
  if (said.contains("code")) row->code = said["code"], row->why = said["why"];
  if (!said.contains("outcome")) {
    row->verdict = Row::Verdict::Refused;
    return;
  }
  row->outcome = said["outcome"];
  row->launches = said["launches"];
  row->with_findings = said["findings"];
  row->with_times = said["times"];
  row->verdict = row->code.empty() ? Row::Verdict::Same : Row::Verdict::Differs;
}

class ProgressOfSuite {
 public:
  ProgressOfSuite(bool wanted, size_t n) : shown_(wanted && ::isatty(STDERR_FILENO)), n_(n) {}
  ~ProgressOfSuite() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }
  void ended(const Row& row) {
    ++done_;
    wrong_ += row.verdict != Row::Verdict::Same;
    if (!shown_) return;
    fmt::print(stderr, "\r\x1b[K{} of {} capsules{}", done_, n_,
               wrong_ ? fmt::format(", {} not as recorded", wrong_) : "");
    std::fflush(stderr);
  }

 private:
  bool shown_;
  size_t n_, done_ = 0, wrong_ = 0;
};

JUnitCase junit_case(const Row& row) {
  using Verdict = JUnitCase::Verdict;
  const bool failed = row.verdict == Row::Verdict::Differs || row.verdict == Row::Verdict::OverTime;
  const Verdict v = row.verdict == Row::Verdict::Same     ? Verdict::Passed
                    : row.verdict == Row::Verdict::NotRun ? Verdict::Skipped
                    : failed                              ? Verdict::Failed
                                                          : Verdict::Error;
  return {row.file,
          v,
          row.code.empty() ? name(row.verdict) : row.code,
          row.why.empty() ? name(row.verdict) : row.why,
          row.reports,
          row.seconds};
}

Json row_json(const Row& row) {
  Json j = {{"capsule", row.file}, {"verdict", name(row.verdict)}, {"seconds", row.seconds}, {"exit", row.exit}};
  j["code"] = row.code.empty() ? Json() : Json(row.code);
  j["why"] = row.why.empty() ? Json() : Json(row.why);
  j["outcome"] = row.outcome;
  return j;
}

void show(const std::vector<Row>& rows, Out& out) {
  std::map<Row::Verdict, int64_t> counts;
  int64_t launches = 0, with_findings = 0, with_times = 0;
  out.object["capsules"] = Json::array();
  for (const Row& row : rows) {
    ++counts[row.verdict];
    launches += row.launches, with_findings += row.with_findings, with_times += row.with_times;
    out.object["capsules"].push_back(row_json(row));
    if (row.verdict == Row::Verdict::Same || row.verdict == Row::Verdict::NotRun) continue;
    out.text(fmt::format("{:<10} {}: {}\n", name(row.verdict), escaped(shown(row.file)), escaped(row.why)));
    if (!row.reports.empty()) out.report(fmt::format("{}\n{}", escaped(shown(row.file)), row.reports));
  }
  std::string all;
  Json& j = out.object["counts"] = Json::object();
  for (const auto& [verdict, n] : counts) {
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", n, name(verdict));
    j[name(verdict)] = n;
  }
  out.text(fmt::format("suite      {} {}: {}\n", rows.size(), rows.size() == 1 ? "capsule" : "capsules", all));
  out.text(fmt::format("compared   {} {}; findings of {}, predicted times of {}\n", launches,
                       launches == 1 ? "launch" : "launches", with_findings, with_times));
  out.object["launches"] = launches;
  out.object["findings_compared"] = with_findings;
  out.object["times_compared"] = with_times;
}

}  // namespace

int suite(const SuiteCommand& c, Out& out) {
  std::vector<Row> rows = rows_of(c.paths);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int jobs = std::min(c.jobs > 0 ? c.jobs : cores, static_cast<int>(rows.size()));
  // The largest first: none of them is the last one to begin.
  std::vector<size_t> order(rows.size());
  std::vector<uintmax_t> sizes;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::error_code error;
    order[i] = i;
    sizes.push_back(fs::file_size(rows[i].file, error));
    if (error) sizes.back() = 0;
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t epoch = interp::interrupt_epoch();
  bool complete = false;
  {
    ProgressOfSuite progress(c.run.progress, rows.size());
    complete = run_apart(
        order.size(), {jobs, c.limit, c.memory},
        [&](size_t i) { return work(rows[order[i]], c, std::max(1, cores / jobs)); },
        [&](size_t i, Ended e) {
          ended(c, std::move(e), &rows[order[i]]);
          progress.ended(rows[order[i]]);
        },
        [&] { return interp::interrupt_epoch() != epoch; });
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  show(rows, out);
  out.object["seconds"] = seconds;
  if (!c.junit.empty()) {
    std::vector<JUnitCase> cases;
    for (const Row& row : rows) cases.push_back(junit_case(row));
    write_file(c.junit, junit("pallasim suite", cases, seconds));
  }
  int code = complete ? kOk : kInterrupted;
  for (const Row& row : rows) code = std::max(code, row.exit);
  return code;
}

}  // namespace pallasim::cli
