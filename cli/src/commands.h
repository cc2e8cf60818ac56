// The commands of `pallasim`. Each returns an exit code, writes its result to Out, and throws DiagnosticError.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "io.h"
#include "pallasim/capsule/launches.h"
#include "pallasim/capsule/replay.h"
#include "pallasim/capsule/values.h"
#include "pallasim/interp/launch.h"
#include "pallasim/interp/passes.h"
#include "pallasim/ir/diagnostic.h"
#include "pallasim/ir/module.h"
#include "sarif.h"

namespace pallasim::cli {

// One result per command: text for people, or one JSON object.
class Out {
 public:
  bool json = false;
  bool error_on_warning = false;  // a warning is as bad as an error
  bool colours = false;           // of findings on standard error
  Sarif sarif;                    // findings go there as well
  Json object = Json::object();

  void text(const std::string& s) {
    if (!json) text_ += s;
  }
  // For standard error, as it is.
  void report(const std::string& s) {
    if (!json) errors_ += s;
  }
  // Findings go to standard error, or into the object's list. The exit code that one asks for.
  int finding(const ir::Diagnostic&);
  // Writes everything; throws PS-IO-002 when standard output cannot take it.
  void flush(int exit_code);

 private:
  std::string text_, errors_;
};

struct RunOptions {
  std::string file;
  std::vector<std::string> args, dims;
  std::string out, fill, schedule;
  uint64_t seed = 0;
  int repeat = 1;
  bool time = false, oob_as_machine = false;
  bool predict = false;              // what it would take, instead of running it
  std::string trace;                 // a time line goes there
  std::vector<std::string> observe;  // names of trace::reporters()
  bool progress = true;              // of a long launch, on a terminal
  GivenOptions options;              // of interp::option_rows(): name and text, as given
  // Capsules only.
  int64_t launch = 0;         // 1-based; 0: all
  double rtol = 0, atol = 0;  // both 0: exact bytes
};
int run(const RunOptions&, Out&);
// The same for a capsule: `bytes` is its content.
int replay(const RunOptions&, const std::string& bytes, Out&);
// Throws where operands are given to a capsule.
void refuse_operands(const RunOptions&);
// What the command line says about a launch; whatever it leaves open is that of `base`. Throws PS-OPT-001.
interp::Options engine_options(const RunOptions&, interp::Options base = {});

// Capsules as a regression suite.
struct SuiteCommand {
  std::vector<std::string> paths;  // files, folders, patterns
  RunOptions run;                  // rtol, atol, options, progress
  double time_rtol = 0.01, limit = 60;
  int64_t memory = 0;  // of one capsule's process; 0: no limit
  int jobs = 0;        // 0: one per core
  std::string junit;   // file that is written
};
int suite(const SuiteCommand&, Out&);

struct ExploreCommand {
  RunOptions run;  // file, operands, launch, options
  std::string policy = "pct";
  int64_t schedules = 1000;
  int depth = 3, jobs = 0;
  double tolerance = 0;
};
int explore(const ExploreCommand&, Out&);

// Launches as a time line for Perfetto, and as a page.
struct PictureOptions {
  RunOptions run;          // file, operands, launch, options, predict
  std::string to;          // file that is written
  bool unchecked = false;  // report: nothing is run beside the prediction
  bool steps = false;      // report: no prediction
};
int trace_launches(const PictureOptions&, Out&);
int report_launches(const PictureOptions&, Out&);

struct DebugCommand {
  RunOptions run;                     // file, operands, launch, options
  std::vector<std::string> commands;  // files with commands
  bool batch = false;                 // and nobody who types further ones
};
int debug(const DebugCommand&, Out&);

struct DapCommand {
  int port = 0;  // 0: standard input and output
};
int dap(const DapCommand&, Out&);

struct CheckOptions {
  std::vector<std::string> files, chips;  // chips: whose rules are looked at
};
int check(const CheckOptions&, Out&);

struct FmtOptions {
  std::string file;
  bool in_place = false, check = false, literals = false, drop_comments = false;
};
int format(const FmtOptions&, Out&);

struct InfoOptions {
  std::string file;
  std::vector<std::string> dims, chips;
  bool plan = false, passes = false;
  std::vector<std::string> print_before, print_after, without;  // passes
};
int info(const InfoOptions&, Out&);

struct ChipsOptions {
  std::string name;  // empty: all
};
int chips(const ChipsOptions&, Out&);

struct ExplainOptions {
  std::string code;  // or a family, PS-OOB; empty: all
};
int explain(const ExplainOptions&, Out&);

// check and info of a capsule. Throws for a capsule that cannot be read; findings of its modules go to `out`.
int check_capsule(const std::string& file, const std::string& bytes, const CheckOptions&, Out&, Json* result);
int info_capsule(const std::string& file, const std::string& bytes, const InfoOptions&, Out&);
// A module's text on the chips of `check --chip`, a line for each; what refuses it goes to `out`. The exit code.
int check_on_chips(const std::string& text, const std::string& file, const CheckOptions&, Out&, Json* result);
// Lines `chip …` of `info --chip`.
void show_verdicts(const std::string& text, const std::string& file, const InfoOptions&, Out&);

// Shared: IR text or a capsule ("-": standard input); the parsed and verified module of IR text.
std::string read_program(const std::string& file, int64_t max_capsule_bytes = 8LL << 30);
ir::Module load_module(const std::string& text, const std::string& file);
std::string shown(const std::string& file);
// n=128 of --dim.
std::vector<std::pair<std::string, int64_t>> parse_dims(const std::vector<std::string>&);
std::string kernel_name(const ir::Module&);                                         // for people: escaped, never empty
std::string grid_text(const ir::Module&, const std::vector<int64_t>& bounds = {});  // "2 x 2", "of 1 point"

void show_prints(const interp::Report&, Out&);
// Values for the call's operands, in its order; binds the module's shape parameters on the way.
std::vector<Argument> make_arguments(ir::Module*, const RunOptions&);
// Memory for the outputs. `budget`: bytes that are left. Throws PS-SIZE-001.
std::vector<Argument> make_results(const ir::Module&, int64_t* budget);

}  // namespace pallasim::cli
