// What `pallasim` takes: its commands and their options.
#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "commands.h"
#include "completion.h"
#include "help.h"
#include "pallasim/interp/policy.h"
#include "pallasim/ir/nearest.h"
#include "pallasim/trace/reporter.h"

#ifndef PALLASIM_VERSION
#define PALLASIM_VERSION "0.0.0"
#endif

namespace pallasim::cli {

constexpr const char* kReports = "Reports";

inline std::string observers() {
  std::string r;
  for (const trace::ReporterRow& row : trace::reporters())
    r += fmt::format("{}{} ({})", r.empty() ? "" : "; ", row.name, row.doc);
  return r;
}

struct CommandLine {
  CLI::App app{kDescription, "pallasim"};
  RunOptions run;
  SuiteCommand suite;
  ExploreCommand explore;
  PictureOptions trace, report;
  DebugCommand debug;
  DapCommand dap;
  CheckOptions check;
  FmtOptions fmt;
  InfoOptions info;
  ChipsOptions chips;
  ExplainOptions explain;
  std::string shell, color = "auto", sarif;
  CLI::App *run_app, *suite_app, *explore_app, *trace_app, *report_app, *debug_app, *dap_app, *check_app, *fmt_app,
      *info_app, *chips_app, *explain_app, *completion_app;
  std::string meant_value;  // instead of one that an option does not have
  bool json = false, error_on_warning = false;
  std::map<std::string, std::string> flags;

  CommandLine() {
    app.footer(kFooter);
    app.set_version_flag("--version", "pallasim " PALLASIM_VERSION);
    app.require_subcommand(1);
    run_app = command("run", "Run a kernel and show its outputs");
    run_app->footer(kRunFooter);
    run_app->add_option("FILE", run.file, "The kernel (.psir), or a capsule")->required()->type_name("");
    add_operands();
    add_engine_options(run_app, &run, "Machine");
    add_schedule(run_app, &run);
    add_checks();
    add_engine_options(run_app, &run, "Limits");
    add_capsules();
    add_suite();
    add_other_commands();
  }

  CLI::App* command(const char* name, const char* description) {
    CLI::App* c = app.add_subcommand(name, description);
    c->add_flag("--json", json, "One JSON object instead of text")->group(kReports);
    c->add_option("--color", color, "Of findings: auto (on a terminal), always or never")
        ->check(one_of({"auto", "always", "never"}))
        ->type_name("WHEN")
        ->group(kReports);
    return c;
  }
  void add_error_on_warning(CLI::App* c) {
    c->add_flag("--error-on-warning", error_on_warning, "A warning ends with exit code 1, as an error does")
        ->group(kReports);
  }

  void add_chips(CLI::App* c, std::vector<std::string>* chips) {
    c->add_option("--chip,--machine", *chips,
                  "Hold the kernel against the rules and sizes of this chip, and of further ones")
        ->allow_extra_args(false)
        ->type_name("NAME")
        ->check(CLI::Validator([this](std::string& text) { return refusal("machine", text); }, ""));
  }

  void add_passes(const char* option, std::vector<std::string>* names, const char* help) {
    std::vector<std::string_view> all;
    for (const interp::PassRow& pass : interp::pass_rows()) all.push_back(pass.name);
    info_app->add_option(option, *names, help)
        ->allow_extra_args(false)
        ->type_name("PASS")
        ->check(one_of(std::move(all)));
  }

  void add_sarif(CLI::App* c) {
    c->add_option("--sarif", sarif, "Write the findings to FILE as SARIF 2.1.0, for code hosts and editors")
        ->type_name("FILE")
        ->group(kReports);
  }

  void add_values(CLI::App* c, RunOptions* o, const char* group = "Options") {
    c->add_option("--arg", o->args, "Value of the next operand, or NAME=VALUE")
        ->allow_extra_args(false)
        ->type_name("VALUE")
        ->group(group);
    c->add_option("--dim", o->dims, "Value of a shape parameter")
        ->allow_extra_args(false)
        ->type_name("NAME=SIZE")
        ->group(group);
    c->add_option("--fill", o->fill, "For operands without a value: zeros, iota or random")
        ->check(one_of({"zeros", "iota", "random"}))
        ->type_name("WHAT")
        ->group(group);
  }
  void add_chip(CLI::App* c, RunOptions* o, const char* help) {
    c->add_option_function<std::string>(
         "--chip,--machine", [o](const std::string& t) { o->options.emplace_back("machine", t); }, help)
        ->type_name("NAME")
        ->check(CLI::Validator([this](std::string& text) { return refusal("machine", text); }, ""));
    c->add_flag_callback(
        "--no-progress", [o] { o->progress = false; }, "Do not show on a terminal how far it is");
  }

  void add_operands() {
    constexpr const char* kGroup = "Operands and results";
    add_values(run_app, &run, kGroup);
    run_app->add_option("--seed", run.seed, "Of random inputs, and of --schedule random")
        ->type_name("N")
        ->capture_default_str()
        ->group(kGroup);
    run_app->add_option("--out", run.out, "Write every output to DIR/<name>.npy")->type_name("DIR")->group(kGroup);
    run_app->add_option("--repeat", run.repeat, "Launch so many times")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000).description(""))
        ->capture_default_str()
        ->group(kGroup);
    run_app->add_option("--observe", run.observe, "Show what an observer of the events of the run says: " + observers())
        ->type_name("NAME")
        ->group(kReports);
    run_app->add_flag("--time", run.time, "Show how long launches took")->group(kGroup);
    run_app->add_flag("--predict", run.predict, "Say what it would take on --chip, and why, instead of running it")
        ->group(kGroup);
    run_app
        ->add_option("--trace", run.trace,
                     "Write a time line for ui.perfetto.dev: of steps, with --predict of the chip's time")
        ->type_name("FILE")
        ->group(kReports);
    run_app
        ->add_flag_callback(
            "--no-progress", [this] { run.progress = false; },
            "Do not show on a terminal how far a launch of more than 2 s is")
        ->group(kReports);
  }

  // A row of the table of options: its name and spellings with dashes, its values in the help.
  void add_engine_option(CLI::App* app, RunOptions* to, const interp::OptionRow& row) {
    std::string names, help(row.help), name(row.name);
    const auto dashed = [&](std::string_view n) {
      std::string s(n);
      std::replace(s.begin(), s.end(), '_', '-');
      names += fmt::format("{}--{}", names.empty() ? "" : ",", s);
    };
    dashed(row.name);
    for (std::string_view s : row.spellings) dashed(s);
    const auto set = [to, name](const std::string& text) { to->options.emplace_back(name, text); };
    CLI::Option* option = nullptr;
    if (row.kind == interp::OptionRow::Kind::Flag) {
      option = app->add_flag(names, flags[app->get_name() + name], help)->each(set);  // --name and --name=false
    } else {
      if (!row.values.empty())
        help += fmt::format(": {} or {}", fmt::join(row.values.begin(), row.values.end() - 1, ", "), row.values.back());
      option = app->add_option_function<std::string>(names, set, help)->type_name(std::string(row.placeholder));
      if (row.kind == interp::OptionRow::Kind::Number) option->default_str(row.default_text);
    }
    option->check(CLI::Validator([this, name](std::string& text) { return refusal(name, text); }, ""));
    option->group(std::string(row.group));
  }
  // Why the option has no such value, "" where it has.
  std::string refusal(const std::string& name, const std::string& text) {
    try {
      interp::Options unused;
      interp::set_option(unused, name, text);
    } catch (const ir::DiagnosticError&) {
      const interp::OptionRow& row = *interp::find_option(name);
      meant_value = interp::nearest_value(row, text);
      return fmt::format("{} is not {}", text, interp::allowed(row));
    }
    return {};
  }
  // Of options that are none of a run's.
  CLI::Validator one_of(std::vector<std::string_view> words) {
    return CLI::Validator(
        [this, words](std::string& text) {
          if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
          meant_value = ir::nearest(text, words);
          return fmt::format("{} is not {} or {}", text, fmt::join(words.begin(), words.end() - 1, ", "), words.back());
        },
        "");
  }
  void add_engine_options(CLI::App* app, RunOptions* to, std::string_view group) {
    for (const interp::OptionRow& row : interp::option_rows())
      if (row.group == group) add_engine_option(app, to, row);
  }

  void add_schedule(CLI::App* app, RunOptions* to) {
    app->add_option("--schedule", to->schedule,
                    "How threads interleave: run-to-block, or random, from --seed or --random-seed")
        ->check(one_of({"run-to-block", "random"}))
        ->type_name("HOW")
        ->group("Schedule");
    add_engine_options(app, to, "Schedule");
  }

  void add_checks() {
    add_engine_options(run_app, &run, "Checks");
    run_app->add_flag("--oob-as-machine", run.oob_as_machine, "The same as --out-of-bounds machine")->group("Checks");
    add_error_on_warning(run_app);
    add_sarif(run_app);
  }

  void add_capsules() {
    constexpr const char* kGroup = "Capsules";
    run_app->add_option("--launch", run.launch, "Only this launch, the first being 1")
        ->type_name("N")
        ->check(CLI::Validator(CLI::PositiveNumber).description(""))
        ->group(kGroup);
    run_app->add_option("--rtol", run.rtol, "Outputs may differ by R x the recorded value")
        ->type_name("R")
        ->check(CLI::Validator(CLI::NonNegativeNumber).description(""))
        ->group(kGroup);
    run_app->add_option("--atol", run.atol, "Outputs may differ by A")
        ->type_name("A")
        ->check(CLI::Validator(CLI::NonNegativeNumber).description(""))
        ->group(kGroup);
  }

  void add_debug() {
    debug_app = command("debug", "Stop a kernel at its lines, look into every memory, and go back in time");
    debug_app->footer(kDebugFooter);
    RunOptions& o = debug.run;
    debug_app->add_option("FILE", o.file, "The kernel (.psir), or a capsule")->required()->type_name("");
    debug_app->add_option("-x,--command", debug.commands, "Run the commands of this file first")
        ->allow_extra_args(false)
        ->type_name("FILE");
    debug_app->add_flag("--batch", debug.batch, "End behind them");
    debug_app
        ->add_option("--launch", o.launch, "Of a capsule: the launch; without it the one that failed, or the first")
        ->type_name("N")
        ->check(CLI::Validator(CLI::PositiveNumber).description(""));
    add_values(debug_app, &o);
    debug_app->add_option("--seed", o.seed, "Of random inputs, and of --schedule random")->type_name("N");
    add_engine_options(debug_app, &o, "Machine");
    add_schedule(debug_app, &o);
    add_engine_options(debug_app, &o, "Checks");
    add_engine_options(debug_app, &o, "Limits");

    dap_app = command("dap", "The same for editors, over the Debug Adapter Protocol");
    dap_app->footer(kDapFooter);
    dap_app->add_option("--port", dap.port, "Listen there, on this machine alone, instead of standard input and output")
        ->type_name("N")
        ->check(CLI::Range(1, 65535).description(""));
  }

  void add_suite() {
    suite_app = command("suite", "Repeat many capsules and say which are not as they were recorded");
    suite_app->footer(kSuiteFooter);
    suite_app->add_option("PATH", suite.paths, "Capsules, folders of them, patterns")->required()->type_name("");
    const auto number = [&](const char* name, double& to, const char* help, const char* unit) {
      suite_app->add_option(name, to, help)
          ->type_name(unit)
          ->check(CLI::Validator(CLI::NonNegativeNumber).description(""))
          ->capture_default_str();
    };
    number("--rtol", suite.run.rtol, "Outputs may differ by R x the recorded value", "R");
    number("--atol", suite.run.atol, "Outputs may differ by A", "A");
    number("--time-rtol", suite.time_rtol, "Predicted times may differ by R x the recorded one", "R");
    number("--limit", suite.limit, "Seconds that a capsule may take; 0: no limit", "S");
    suite_app->add_option("--memory", suite.memory, "Bytes that the process of a capsule may take; 0: no limit")
        ->type_name("N")
        ->check(CLI::Range(int64_t{0}, INT64_MAX).description(""))
        ->capture_default_str();
    suite_app->add_option("--jobs", suite.jobs, "Capsules at a time; 0: one per core")
        ->type_name("N")
        ->check(CLI::Range(0, 1024).description(""))
        ->capture_default_str();
    suite_app->add_option("--junit", suite.junit, "Write what was found to FILE, as JUnit's XML")
        ->type_name("FILE")
        ->group(kReports);
    suite_app->add_flag_callback(
        "--no-progress", [this] { suite.run.progress = false; }, "Do not show on a terminal how far it is");
    for (const char* group : {"Machine", "Schedule", "Checks", "Limits"})
      add_engine_options(suite_app, &suite.run, group);
  }

  void add_explore() {
    explore_app = command("explore", "Run a kernel under many schedules and show what may come of it");
    explore_app->footer(kExploreFooter);
    RunOptions& o = explore.run;
    explore_app->add_option("FILE", o.file, "The kernel (.psir), or a capsule")->required()->type_name("");
    std::vector<std::string_view> policies;
    for (const interp::PolicyRow* row : interp::policy_rows())
      if (row->name != std::string_view("choices")) policies.push_back(row->name);
    explore_app
        ->add_option("--policy", explore.policy, fmt::format("How schedules are chosen: {}", fmt::join(policies, ", ")))
        ->check(one_of(policies))
        ->type_name("HOW")
        ->capture_default_str();
    const auto number = [&](const char* name, auto& to, const char* help, int64_t least) {
      explore_app->add_option(name, to, help)
          ->type_name("N")
          ->check(CLI::Range(least, int64_t{1} << 40).description(""))
          ->capture_default_str();
    };
    number("--schedules", explore.schedules, "At most so many", 1);
    number("--depth", explore.depth, "Of bugs that pct looks for: orders that must come together", 1);
    number("--jobs", explore.jobs, "OS threads; 0: one per core. What is found does not depend on it", 0);
    number("--seed", o.seed, "Of schedules and of random inputs", 0);
    explore_app
        ->add_option("--tolerance", explore.tolerance,
                     "Results whose floats differ by at most N * max(1, |a|, |b|) are one")
        ->type_name("N")
        ->check(CLI::NonNegativeNumber.description(""))
        ->capture_default_str();
    number("--launch", o.launch, "Of a capsule: the launch, the first being 1", 1);
    add_values(explore_app, &o);
    add_chip(explore_app, &o, "The chip whose sizes and rules hold");
    explore_app->add_flag_callback(
        "--checked", [this] { explore.run.options.emplace_back("detect_races", "true"); },
        "Look at every access of every schedule; slower");
    add_error_on_warning(explore_app);
    add_sarif(explore_app);
  }

  CLI::App* picture(const char* name, const char* description, const char* footer, const char* writes,
                    PictureOptions* o) {
    CLI::App* c = command(name, description);
    c->footer(footer);
    c->add_option("FILE", o->run.file, "The kernel (.psir), or a capsule")->required()->type_name("");
    c->add_option("-o,--out", o->to, writes)->required()->type_name("FILE");
    c->add_option("--launch", o->run.launch, "Of a capsule: only this launch, the first being 1")
        ->type_name("N")
        ->check(CLI::Validator(CLI::PositiveNumber).description(""));
    add_values(c, &o->run);
    c->add_option("--seed", o->run.seed, "Of random inputs")->type_name("N")->capture_default_str();
    add_chip(c, &o->run, "The chip whose sizes, rules and figures hold");
    return c;
  }
  void add_pictures() {
    trace_app = picture("trace", "Write a time line of a kernel, or of every launch of a capsule", kTraceFooter,
                        "The time line, for ui.perfetto.dev", &trace);
    trace_app->add_flag("--predict", trace.run.predict, "In the chip's time, as predicted; else step after step");
    report_app = picture("report", "Write a page that shows a kernel, or every launch of a capsule", kReportFooter,
                         "The page: HTML, which needs nothing else", &report);
    report_app->add_flag("--steps", report.steps, "Step after step, though the chip's time could be predicted");
    report_app->add_flag("--unchecked", report.unchecked,
                         "Leave out the checked run that findings and traffic come from");
  }

  void add_other_commands() {
    add_explore();
    add_pictures();
    add_debug();
    check_app = command("check", "Find mistakes without running");
    check_app->footer(kCheckFooter);
    check_app->add_option("FILE", check.files, "Kernels (.psir) and capsules")->required()->type_name("");
    add_chips(check_app, &check.chips);
    add_sarif(check_app);

    fmt_app = command("fmt", "Print a kernel in canonical form");
    fmt_app->footer(kFmtFooter);
    fmt_app->add_option("FILE", fmt.file, "The kernel (.psir)")->required()->type_name("");
    auto* in_place = fmt_app->add_flag("--in-place", fmt.in_place, "Rewrite the file");
    fmt_app->add_flag("--check", fmt.check, "Print nothing; exit code 1 if the form differs")->excludes(in_place);
    fmt_app->add_flag("--literals", fmt.literals, "Decimal values of literals as comments");
    fmt_app->add_flag("--drop-comments", fmt.drop_comments, "With --in-place: also where comments are lost");

    info_app = command("info", "Show operands, blocks, bytes, operations, and whether the kernel runs here");
    info_app->footer(kInfoFooter);
    info_app->add_option("FILE", info.file, "The kernel (.psir), or a capsule")->required()->type_name("");
    info_app->add_option("--dim", info.dims, "Value of a shape parameter")
        ->allow_extra_args(false)
        ->type_name("NAME=SIZE");
    add_chips(info_app, &info.chips);
    info_app->add_flag("--plan", info.plan, "Also the steps that the kernel is compiled to");
    info_app->add_flag("--passes", info.passes, "Also the passes over the kernel, and how much each changed");
    add_passes("--print-before", &info.print_before, "Also the kernel, or its steps, before that pass");
    add_passes("--print-after", &info.print_after, "Also the kernel, or its steps, after that pass");
    add_passes("--without", &info.without, "Leave that pass out");

    chips_app = command("chips", "Show the chips that are known, or one chip's figures with their sources");
    chips_app->footer(kChipsFooter);
    chips_app->add_option("NAME", chips.name, "A chip")->type_name("");

    explain_app = command("explain", "Say what a code such as PS-OOB-001 means, and what to do about it");
    explain_app->footer(kExplainFooter);
    explain_app->add_option("CODE", explain.code, "A code, or a family of them; without it they are listed")
        ->type_name("");

    completion_app = command("completion", "Print a script that completes commands and options in a shell");
    completion_app->footer(kCompletionFooter);
    completion_app->add_option("SHELL", shell, "bash, zsh or fish")
        ->required()
        ->check(one_of({"bash", "zsh", "fish"}))
        ->type_name("");
  }

  int execute(Out& out) {
    if (run_app->parsed()) return cli::run(run, out);
    if (suite_app->parsed()) return cli::suite(suite, out);
    if (explore_app->parsed()) return cli::explore(explore, out);
    if (trace_app->parsed()) return trace_launches(trace, out);
    if (report_app->parsed()) return report_launches(report, out);
    if (debug_app->parsed()) return cli::debug(debug, out);
    if (dap_app->parsed()) return cli::dap(dap, out);
    if (check_app->parsed()) return cli::check(check, out);
    if (fmt_app->parsed()) return cli::format(fmt, out);
    if (chips_app->parsed()) return cli::chips(chips, out);
    if (explain_app->parsed()) return cli::explain(explain, out);
    if (completion_app->parsed()) {
      const std::string script = completion(app, shell);
      out.text(script);
      out.object["script"] = script;
      return kOk;
    }
    return cli::info(info, out);
  }
};

}  // namespace pallasim::cli
