// Directives of a case.
#include "case.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "pallasim/interp/passes.h"
#include "pallasim/interp/rewrites.h"
#include "plan/kinds.h"

namespace pallasim::interp::test {
namespace {

using What = Expectation::What;

bool is_step(std::string_view name) {
#define STEP(kind, ...) \
  if (name == #kind) return true;
#include "plan/steps.def"
  return false;
}
bool is_rewrite(std::string_view name) {
#define PALLASIM_REWRITE(rewrite, what) \
  if (name == #rewrite) return true;
  PALLASIM_REWRITES(PALLASIM_REWRITE)
#undef PALLASIM_REWRITE
  return false;
}
bool is_pass(std::string_view name) {
  for (const PassRow& row : pass_rows())
    if (row.name == name) return true;
  return false;
}

std::string word(std::string* rest) {
  const size_t from = rest->find_first_not_of(' ');
  if (from == std::string::npos) {
    rest->clear();
    return "";
  }
  const size_t to = std::min(rest->find(' ', from), rest->size());
  std::string r = rest->substr(from, to - from);
  *rest = rest->substr(to);
  return r;
}

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

void nothing_behind(std::string rest) {
  if (const std::string more = word(&rest); !more.empty()) refuse("\"" + more + "\" behind the directive");
}
int64_t count_in(std::string* rest) {
  const std::string text = word(rest);
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 9)
    refuse("\"" + text + "\" is no number");
  return std::stoll(text);
}
// What stands in double quotes, which holds something.
std::string quoted(std::string* rest) {
  const size_t from = rest->find_first_not_of(' '), to = from == std::string::npos ? from : rest->find('"', from + 1);
  if (to == std::string::npos || (*rest)[from] != '"' || to == from + 1)
    refuse("a text in double quotes that is not empty is missing");
  std::string r = rest->substr(from + 1, to - from - 1);
  *rest = rest->substr(to + 1);
  return r;
}

std::vector<int64_t> dims_of(const ir::Type& t) {
  std::vector<int64_t> r;
  for (const ir::Dim& d : t.dims) r.push_back(d.size);
  return r;
}

// One directive with the lines that go on with it.
struct Directive {
  std::string name, rest;
  size_t first, last;
};

// Lines that begin with `//` and a word in capitals; behind them those that begin with `//   `.
std::vector<Directive> directives_of(const std::string& text) {
  std::vector<Directive> r;
  std::istringstream lines(text);
  size_t at = 0;
  bool open = false;
  for (std::string line; std::getline(lines, line); ++at) {
    if (!line.starts_with("//")) {
      open = false;
      continue;
    }
    std::string rest = line.substr(2);
    if (open && rest.starts_with("   ")) {
      r.back().rest += rest;
      r.back().last = at;
      continue;
    }
    const std::string name = word(&rest);
    open = name.size() > 1 && name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ:") == std::string::npos;
    if (open) r.push_back({name, rest, at, at});
  }
  return r;
}

class Parser {
 public:
  explicit Parser(const std::string& text) : module_(ir::parse(text)) { case_.text = text; }

  EngineCase parse() {
    for (Directive& d : directives_of(case_.text)) try {
        take(d);
      } catch (const std::runtime_error& e) { refuse(fmt::format("line {}: {}", d.first + 1, e.what())); }
    finish();
    return std::move(case_);
  }

 private:
  void take(Directive& d) {
    if (d.name == "ARG") argument(d);
    else if (d.name == "RUN") case_.sections.push_back({runs(d.rest), {}});
    else if (d.name == "EXPECT")
      (case_.sections.empty() ? everywhere_ : case_.sections.back().expectations).push_back(expectation(d));
    else refuse("no directive is called " + d.name + "; there are ARG, RUN and EXPECT");
  }

  const ir::Operand& operand(const std::string& name, bool output) const {
    for (const ir::Operand& o : module_.operands)
      if (o.name == name && (o.kind == ir::Operand::Kind::Output) == output) return o;
    refuse(fmt::format("the module has no {} \"{}\"", output ? "output" : "operand", name));
  }

  // ARG NAME = VALUES, noise SEED or whole SEED
  void argument(Directive& d) {
    const std::string name = word(&d.rest);
    const ir::Type& t = *operand(name, false).array;
    if (word(&d.rest) != "=") refuse("ARG NAME = VALUES");
    std::string rest = d.rest;
    const std::string first = word(&rest);
    Array a{t.dtype, dims_of(t), {}};
    if (first == "noise" || first == "whole") {
      const auto seed = static_cast<uint32_t>(count_in(&rest));
      if (t.dtype != ir::DType::F32) refuse(first + " is of f32");
      a = first == "noise" ? noise(a.dims, seed) : interp::test::whole(a.dims, seed);
      nothing_behind(rest);
    } else {
      a = values_of(t.dtype, a.dims, d.rest);
    }
    if (!args_.emplace(name, std::move(a)).second) refuse("a second ARG " + name);
  }

  // RUN OPTION=VALUE/VALUE ..., every combination; `without` names passes that are left out.
  static std::vector<Configuration> runs(std::string rest) {
    std::vector<Configuration> r{{"", {}}};
    r[0].options.workers = 1;
    for (std::string option; !(option = word(&rest)).empty();) {
      const size_t equals = option.find('=');
      if (equals == std::string::npos) refuse("RUN OPTION=VALUE ...");
      const std::string name = option.substr(0, equals);
      std::vector<Configuration> more;
      std::istringstream values(option.substr(equals + 1));
      for (std::string value; std::getline(values, value, '/');)
        for (Configuration run : r) {
          set(run.options, name, value);
          run.name += (run.name.empty() ? "" : " ") + name + "=" + value;
          more.push_back(std::move(run));
        }
      r = std::move(more);
    }
    return r;
  }
  static void set(Options& o, const std::string& name, const std::string& value) {
    if (name == "without") {
      if (!is_pass(value)) refuse("no pass is called " + value);
      o.without.push_back(value);
      return;
    }
    try {
      set_option(o, name, value);
    } catch (const ir::DiagnosticError& e) { refuse(e.diagnostic().message); }
  }

  Expectation expectation(Directive& d) const {
    Expectation e;
    e.first = d.first, e.last = d.last;
    std::string rest = d.rest;
    const std::string what = word(&rest);
    if (what == "error" || what == "finding") finding(what == "error", &e, &rest);
    else if (what == "print") {
      e.what = What::Print;
      do e.prints.push_back(quoted(&rest));
      while (rest.find('"') != std::string::npos);
    } else if (what == "plan") plan(&e, &rest);
    else if (what == "rewrites") {
      e.what = What::Rewrites, e.name = word(&rest), e.number = count_in(&rest);
      if (!is_rewrite(e.name)) refuse("no rewrite is called " + e.name);
    } else if (what == "pass") {
      e.what = What::Pass, e.name = word(&rest), e.number = count_in(&rest);
      if (!is_pass(e.name)) refuse("no pass is called " + e.name);
    } else if (what == "units") e.what = What::Units, e.number = several(&rest) ? -1 : count_in(&rest);
    else if (what == "steps") {
      if (word(&rest) != "equal") refuse("steps equal");
      e.what = What::Steps;
    } else if (what == "sequential") e.what = What::Sequential, e.text = quoted(&rest);
    else if (what == "output") rest = output(&e, rest);
    else refuse("nothing called \"" + what + "\" can be expected");
    nothing_behind(rest);
    return e;
  }

  // error or finding CODE LINE ["PART OF THE REPORT"]; - where it has no line
  static void finding(bool error, Expectation* e, std::string* rest) {
    e->what = error ? What::Error : What::Finding;
    e->name = word(rest);
    if (!e->name.starts_with("PS-")) refuse("a code is missing");
    if (e->name.starts_with("PS-BUG")) refuse("nobody expects a bug");
    std::string after = *rest;
    if (word(&after) == "-") *rest = after;
    else e->number = count_in(rest);
    if (rest->find('"') != std::string::npos) e->text = quoted(rest);
  }
  static bool several(std::string* rest) {
    std::string after = *rest;
    if (word(&after) != "several") return false;
    *rest = after;
    return true;
  }
  static void plan(Expectation* e, std::string* rest) {
    const std::string how = word(rest);
    if (how != "contains" && how != "lacks") refuse("plan contains STEP or plan lacks STEP");
    e->what = how == "contains" ? What::PlanContains : What::PlanLacks;
    e->name = word(rest);
    if (!is_step(e->name)) refuse("no step is called " + e->name);
  }
  // output NAME = VALUES or evaluated
  std::string output(Expectation* e, std::string rest) const {
    e->name = word(&rest);
    const ir::Type& t = *operand(e->name, true).array;
    if (word(&rest) != "=") refuse("output NAME = VALUES");
    std::string after = rest;
    if (const std::string first = word(&after); first == "evaluated") return after;
    if (word(&(after = rest)).empty() && rebasing()) {
      e->want = Array{t.dtype, dims_of(t), std::vector<std::byte>(static_cast<size_t>(t.num_bytes()), std::byte{1})};
      return "";
    }
    e->want = values_of(t.dtype, dims_of(t), rest);
    if (untouched(*e->want) && !rebasing()) refuse("that is what a run that did nothing would leave");
    return "";
  }
  static bool rebasing() { return std::getenv("PALLASIM_REBASE") != nullptr; }

  void finish() {
    if (case_.sections.empty()) refuse("there is no RUN");
    for (const ir::Operand& o : module_.operands) {
      if (o.kind == ir::Operand::Kind::Output) continue;
      const auto found = args_.find(o.name);
      if (found == args_.end()) refuse("there is no ARG " + o.name);
      case_.args.push_back(std::move(found->second));
    }
    size_t equal = 0;
    bool compared = false;
    for (Section& s : case_.sections) {
      s.expectations.insert(s.expectations.begin(), everywhere_.begin(), everywhere_.end());
      check(s);
      if (std::none_of(s.expectations.begin(), s.expectations.end(),
                       [](const auto& e) { return e.what == What::Steps; }))
        continue;
      compared = true, equal += s.runs.size();
    }
    if (compared && equal < 2) refuse("the steps of one run are equal to nothing");
  }
  // A run either stops, or everything that it leaves is compared, once.
  void check(const Section& s) const {
    if (s.expectations.empty()) refuse("there is no EXPECT");
    std::map<std::string, int> compared;
    int errors = 0;
    for (const Expectation& e : s.expectations) {
      if (e.what == What::Output) ++compared[e.name];
      errors += e.what == What::Error;
    }
    if (errors > 1) refuse("a run stops once");
    for (const ir::Operand& o : module_.operands)
      if (o.kind == ir::Operand::Kind::Output && errors == 0 && compared[o.name] != 1)
        refuse(fmt::format("output \"{}\" is compared {} times", o.name, compared[o.name]));
    if (errors && !compared.empty()) refuse("a run that stops leaves no outputs");
  }

  ir::Module module_;
  EngineCase case_;
  std::map<std::string, Array> args_;
  std::vector<Expectation> everywhere_;  // before the first RUN
};

}  // namespace

EngineCase parse_case(const std::string& text) { return Parser(text).parse(); }

}  // namespace pallasim::interp::test
