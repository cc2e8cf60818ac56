// Behaviour of the engine as golden text: the cases of this folder's topics. PALLASIM_REBASE=1 writes the outputs that
// came; read the diff.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <set>

#include "../ir/files.h"
#include "../oracle/evaluate.h"
#include "case.h"
#include "pallasim/interp/passes.h"
#include "pallasim/interp/rewrites.h"

namespace pallasim::interp::test {
namespace {
namespace fs = std::filesystem;

using What = Expectation::What;
using Arrays = std::map<std::string, Array>;  // by name
constexpr size_t kWidth = 120;

// What came of one run.
struct Came {
  std::string plan;
  std::map<std::string_view, int64_t> passes, rewrites;
  Arrays outputs;
  Report report;
  std::optional<ir::Diagnostic> stop;
};

void count_rewrites(Came* came, int64_t sign) {
#define PALLASIM_REWRITE(name, what) came->rewrites[#name] += sign * hits(Rewrite::name);
  PALLASIM_REWRITES(PALLASIM_REWRITE)
#undef PALLASIM_REWRITE
}

void run_into(Came* came, const EngineCase& c, const Options& o) {
  PassObserver watch;
  const auto plan = compile(ir::parse(c.text), o, watch);
  for (const PassObserver::Run& r : watch.runs) came->passes[r.name] += r.changes;
  came->plan = dump(*plan);
  std::vector<Array> args = c.args;
  std::vector<Buffer> in, out;
  for (Array& a : args) in.push_back(a.buffer());
  for (const ir::Operand& operand : module_of(*plan).operands) {
    if (operand.kind != ir::Operand::Kind::Output) continue;
    const ir::Type& t = *operand.array;
    Array a{t.dtype, {}, std::vector<std::byte>(static_cast<size_t>(t.num_bytes()), std::byte{0xA5})};
    for (const ir::Dim& d : t.dims) a.dims.push_back(d.size);
    out.push_back((came->outputs[operand.name] = std::move(a)).buffer());
  }
  Session session;
  const DeviceCall call{0, in, out, 0};
  interp::Outcome outcome = try_launch(*plan, session, std::span(&call, 1), o);
  came->report = std::move(outcome.report);
  came->stop = std::move(outcome.stop);
}

Came run_case(const EngineCase& c, const Options& o) {
  Came came;
  count_rewrites(&came, -1);
  try {
    run_into(&came, c, o);
  } catch (const ir::DiagnosticError& e) { came.stop = e.diagnostic(); }
  count_rewrites(&came, 1);
  return came;
}

// The kinds of a plan's steps: lines that begin with a number.
std::set<std::string> kinds_of(const std::string& plan) {
  std::set<std::string> r;
  std::istringstream lines(plan);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int64_t number = 0;
    std::string kind;
    if (words >> number >> kind) r.insert(kind.substr(0, kind.find('.')));
  }
  return r;
}

std::string line_of(const std::string& code, int64_t line) {
  return code + " at " + (line > 0 ? std::to_string(line) : "no line");
}
std::string line_of(const ir::Diagnostic& d) { return line_of(std::string(d.code.text()), d.site.source.line); }

// All of a kind at once: what nobody expected is as wrong as what did not come.
void compare_lists(const Section& s, const Came& came) {
  std::vector<std::string> prints, errors;
  std::multiset<std::string> findings, found;
  for (const Expectation& e : s.expectations) {
    prints.insert(prints.end(), e.prints.begin(), e.prints.end());
    if (e.what == What::Finding) findings.insert(line_of(e.name, e.number));
    if (e.what == What::Error) errors.push_back(line_of(e.name, e.number));
  }
  for (const ir::Diagnostic& d : came.report.findings) found.insert(line_of(d));
  EXPECT_EQ(came.report.prints, prints);
  EXPECT_EQ(found, findings);
  EXPECT_EQ(came.stop ? line_of(*came.stop) : "", errors.empty() ? "" : errors[0])
      << (came.stop ? ir::render(*came.stop) : "");
}

void compare(const Expectation& e, const Came& came, const Arrays& evaluated) {
  const auto holds = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  switch (e.what) {
    case What::Output: {
      const Array* want = e.want ? &*e.want : &evaluated.at(e.name);
      EXPECT_FALSE(untouched(*want)) << e.name << " is what a run that did nothing would leave";
      EXPECT_EQ(difference(*want, came.outputs.at(e.name)), "") << "output " << e.name;
      break;
    }
    case What::Error:
      if (!came.stop) break;  // compare_lists says so
      EXPECT_TRUE(holds(ir::render(*came.stop), e.text)) << e.text << "\n" << ir::render(*came.stop);
      break;
    case What::Finding:
      EXPECT_TRUE(std::any_of(came.report.findings.begin(), came.report.findings.end(),
                              [&](const ir::Diagnostic& d) {
                                return line_of(d) == line_of(e.name, e.number) && holds(ir::render(d), e.text);
                              }))
          << "no finding " << e.name << " says " << e.text;
      break;
    case What::Print:
    case What::Steps: break;
    case What::PlanContains: EXPECT_TRUE(kinds_of(came.plan).contains(e.name)) << e.name << "\n" << came.plan; break;
    case What::PlanLacks: EXPECT_FALSE(kinds_of(came.plan).contains(e.name)) << e.name << "\n" << came.plan; break;
    case What::Rewrites: EXPECT_EQ(came.rewrites.at(e.name), e.number) << e.name << "\n" << came.plan; break;
    case What::Pass: {
      const auto found = came.passes.find(e.name);
      EXPECT_EQ(found == came.passes.end() ? 0 : found->second, e.number) << e.name;
      break;
    }
    case What::Units:
      EXPECT_TRUE(e.number < 0 ? came.report.units > 1 : came.report.units == e.number)
          << came.report.units << " units, " << came.report.sequential_because;
      break;
    case What::Sequential:
      EXPECT_TRUE(holds(came.report.sequential_because, e.text)) << '"' << came.report.sequential_because << '"';
  }
}

// What the eager evaluator says of the outputs.
Arrays evaluate(const EngineCase& c) {
  const ir::Module m = ir::parse(c.text);
  std::vector<oracle::Array> args;
  for (const Array& a : c.args) args.push_back({a.dtype, a.dims, a.bytes});
  const oracle::Outcome outcome = oracle::evaluate(m, args);
  EXPECT_EQ(outcome.end, oracle::End::Done) << outcome.what;
  Arrays r;
  size_t k = 0;
  for (const ir::Operand& o : m.operands) {
    if (o.kind != ir::Operand::Kind::Output || k == outcome.results.size()) continue;
    const oracle::Array& a = outcome.results[k++];
    r[o.name] = {a.dtype, a.dims, a.bytes};
  }
  return r;
}

std::vector<std::string> directive(const Expectation& e, const Array& got) {
  std::vector<std::string> r{"// EXPECT output " + e.name + " ="};
  std::istringstream terms(list_of(got));
  for (std::string term; terms >> term;) {
    if (r.back().size() + 1 + term.size() > kWidth) r.emplace_back("//  ");
    r.back() += " " + term;
  }
  return r;
}

// Writes what came of the first run of each section where outputs are written out.
void rebase(const fs::path& file, const EngineCase& c) {
  std::vector<std::string> lines;
  std::istringstream in(c.text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::map<size_t, std::pair<size_t, std::vector<std::string>>> by_line;
  for (const Section& s : c.sections) {
    const Came came = run_case(c, s.runs[0].options);
    for (const Expectation& e : s.expectations)
      if (e.want && !came.stop) by_line.try_emplace(e.first, e.last, directive(e, came.outputs.at(e.name)));
  }
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto found = by_line.find(i);
    if (found == by_line.end()) text += lines[i] + "\n";
    else {
      for (const std::string& line : found->second.second) text += line + "\n";
      i = found->second.first;
    }
  }
  if (text != c.text) std::ofstream(file, std::ios::binary) << text;
}

class Engine : public testing::Test {
 public:
  explicit Engine(fs::path file) : file_(std::move(file)) {}
  void TestBody() override {
    EngineCase c;
    try {
      c = parse_case(ir::read(file_));
    } catch (const std::exception& e) { FAIL() << file_ << ": " << e.what(); }
    if (std::getenv("PALLASIM_REBASE")) return rebase(file_, c);
    Arrays evaluated;
    for (const Section& s : c.sections)
      for (const Expectation& e : s.expectations)
        if (e.what == What::Output && !e.want && evaluated.empty()) evaluated = evaluate(c);
    std::optional<int64_t> steps;  // of the first run that has as many as others
    for (const Section& s : c.sections)
      for (const Configuration& run : s.runs) {
        SCOPED_TRACE(file_.string() + ", RUN " + run.name);
        const Came came = run_case(c, run.options);
        compare_lists(s, came);
        if (HasFatalFailure()) return;
        for (const Expectation& e : s.expectations) {
          if (e.what == What::Steps && !steps) steps = came.report.steps;
          if (e.what == What::Steps) EXPECT_EQ(came.report.steps, *steps) << "steps";
          else compare(e, came, evaluated);
        }
      }
  }

 private:
  fs::path file_;
};

// What is said to be absent has to be seen in another run of the topic: else nobody knows that it is ever there.
class Twins : public testing::Test {
 public:
  explicit Twins(std::vector<fs::path> files) : files_(std::move(files)) {}
  void TestBody() override {
    std::set<std::string> seen;
    std::map<std::string, fs::path> absent;
    for (const fs::path& file : files_) try {
        for (const Section& s : parse_case(ir::read(file)).sections)
          for (const Expectation& e : s.expectations) {
            const bool counts = e.what == What::Rewrites || e.what == What::Pass;
            if (e.what == What::PlanContains || (counts && e.number > 0)) seen.insert(e.name);
            if (e.what == What::PlanLacks || (counts && e.number == 0)) absent.emplace(e.name, file);
          }
      } catch (const std::exception&) {
        // its own test says so
      }
    for (const auto& [name, file] : absent)
      EXPECT_TRUE(seen.contains(name)) << name << " is only ever absent: " << file;
  }

 private:
  std::vector<fs::path> files_;
};

void register_all() {
  std::map<std::string, std::vector<fs::path>> topics;
  for (const auto& e : fs::recursive_directory_iterator(fs::path(PALLASIM_TESTS_DIR) / "engine"))
    if (e.path().extension() == ".psir") topics[e.path().parent_path().filename().string()].push_back(e.path());
  for (auto& [topic, files] : topics) {
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files)
      testing::RegisterTest(topic.c_str(), file.stem().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [file]() -> testing::Test* { return new Engine(file); });
    testing::RegisterTest("WhatIsAbsentIsSeenElsewhere", topic.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [files]() -> testing::Test* { return new Twins(files); });
  }
}

}  // namespace
}  // namespace pallasim::interp::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  pallasim::interp::test::register_all();
  return RUN_ALL_TESTS();
}
