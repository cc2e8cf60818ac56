// The texts of `pallasim --help`: examples are those of the command that is asked about.
#pragma once

namespace pallasim::cli {

constexpr const char* kDescription =
    "Pallasim runs JAX Pallas kernels without the hardware they were written for, and says what is wrong with them.";

constexpr const char* kFooter = R"(Examples:
  pallasim run tests/pass/add_vectors.psir                   random inputs from seed 0
  pallasim run matmul.psir --arg x.npy --arg y.npy --out d   arrays in, d/<output>.npy out
  pallasim run kernel.psir --arg n_ref=4 --fill iota         numbers and patterns instead of files
  pallasim check *.psir --chip tpu-v5e                       find mistakes without running
  pallasim info kernel.psir                                  operands, blocks, bytes, and whether it runs here
  pallasim run kernel.psir --checked --error-on-warning      for scripts: a race is exit code 1
  pallasim run bug.capsule                                   repeat a recorded program and compare its outputs
  pallasim explain PS-OOB-001                                what a code means, and what to do
A file name of - is standard input. `pallasim COMMAND --help` explains a command.
A kernel that a program wrote is judged by `python -m pallasim eval KERNEL.py`, of the Python package.

Exit codes:
  0   fine
  1   the kernel is wrong: out of bounds, deadlock, ... (for fmt --check: not in canonical form);
      with --error-on-warning also where a run only warned
  2   the command line is wrong
  3   the input is wrong: a file, the IR text, an array, or a size that is refused
  4   the kernel needs an operation that this version cannot run
  70  Pallasim is wrong: please report it
  130 interrupted
Each finding has a code: `pallasim explain PS-OOB-001` says what it means.)";

constexpr const char* kRunFooter =
    R"(Operands are given in the kernel's order: bounds of a dynamic grid, prefetched scalars, inputs; or by name as
NAME=VALUE. A value is an .npy file, a number, or zeros, iota, random. Operands without a value are random (floats in
[-1, 1), integers in [0, 8)), prefetched ones zeros; equal seeds give equal arrays on every machine.

Examples:
  pallasim run add.psir --fill iota                     0, 1, 2, ... in every input
  pallasim run add.psir --arg y_ref=1 --arg x.npy       y is all ones, x comes from the file
  pallasim run grid.psir --arg 4                        a dynamic grid of 4 points
  pallasim run ring.psir --schedule random --seed 7     another interleaving of the threads
  pallasim run matmul.psir --repeat 20 --time           how long a launch takes
  pallasim run bug.capsule --launch 3 --rtol 1e-5       one launch of a recording, compared with a tolerance)";

constexpr const char* kExploreFooter =
    R"(Operands are those of `pallasim run`; a capsule has its own. Copies in flight move at any moment.

Examples:
  pallasim explore ring.psir                            1,000 schedules, half a second
  pallasim explore ring.psir --policy exhaustive        all that differ, as far as 100,000 reach
  pallasim explore bug.capsule --launch 2 --jobs 8      one launch of a recording, on 8 OS threads
  pallasim run ring.psir --replay TOKEN                 one of the schedules again)";

constexpr const char* kTraceFooter =
    R"(Examples:
  pallasim trace kernel.psir -o run.perfetto-trace                          the order of steps
  pallasim trace kernel.psir -o run.perfetto-trace --predict --chip tpu-v5e   in the chip's time
  pallasim trace bug.capsule -o run.perfetto-trace --launch 2               one launch of a recording)";

constexpr const char* kReportFooter =
    R"(Where the chip has figures, times are predicted (docs/time.md); else the page shows the order of steps.

Examples:
  pallasim report kernel.psir -o kernel.html --chip gpu-h100
  pallasim report bug.capsule -o bug.html               all launches of a recording
  pallasim report big.capsule -o big.html --unchecked   without computing values)";

constexpr const char* kSuiteFooter =
    R"(Each capsule is repeated in a process of its own: outputs, ends, findings and predicted times are held against
what was recorded. Options of a run replace those of the recordings.

Examples:
  pallasim suite capsules                               all capsules of a folder
  pallasim suite 'kernels/*.capsule' --rtol 1e-5        contractions of another CPU
  pallasim suite capsules --junit suite.xml             for continuous integration)";

constexpr const char* kDebugFooter =
    R"(Operands and options are those of `pallasim run`; a capsule has its own. `help` shows the commands: those of gdb
and pdb, also backwards.

Examples:
  pallasim debug bug.capsule                            stand at the first line of the launch that failed
  pallasim debug kernel.psir --checked                  also show what nobody has written
  pallasim debug bug.capsule --batch -x commands.txt    a session as a test)";

constexpr const char* kDapFooter =
    R"(docs/debugger.md has the five lines of launch.json.

Examples:
  pallasim dap                                          what an editor starts
  pallasim dap --port 4711                              for one that connects)";

constexpr const char* kCheckFooter = R"(Examples:
  pallasim check *.psir                                 form, types, operations that cannot run here
  pallasim check kernel.psir --chip tpu-v5e             also what the chip's compiler and its memories refuse
  pallasim check kernel.psir --chip tpu-v5e --chip tpu-7x --json   an answer for each chip
  pallasim check bug.capsule                            its manifest, arrays and kernels
  pallasim check *.psir --sarif findings.sarif          for code hosts and editors)";

constexpr const char* kInfoFooter = R"(Examples:
  pallasim info kernel.psir                             operands, blocks, bytes, which chips take it
  pallasim info kernel.psir --chip tpu-v5e              all that one chip refuses, and what its memories have left
  pallasim info kernel.psir --dim n=128                 a kernel with shape parameters
  pallasim info kernel.psir --plan                      the steps that it is compiled to
  pallasim info kernel.psir --print-after merge_equal   the kernel as a pass of the compiler leaves it
  pallasim info bug.capsule                             its launches, arrays and options)";

constexpr const char* kFmtFooter = R"(The canonical form has no comments: they are not kept.

Examples:
  pallasim fmt kernel.psir                              on standard output
  pallasim fmt kernel.psir --in-place                   in the file
  pallasim fmt kernel.psir --check                      for scripts: exit code 1 if the form differs
  pallasim fmt kernel.psir --literals                   0x3f800000 and what that is)";

constexpr const char* kChipsFooter = R"(Examples:
  pallasim chips                                        names, and the device kinds that JAX reports
  pallasim chips tpu-v5e                                every figure with its source
  pallasim chips tpu-v5e --json                         the same for programs)";

constexpr const char* kExplainFooter = R"(Examples:
  pallasim explain PS-RACE-001   what the finding is, a report, what to do
  pallasim explain race          the codes of a family
  pallasim explain               all codes)";

constexpr const char* kCompletionFooter = R"~(Examples:
  bash  eval "$(pallasim completion bash)"
  zsh   eval "$(pallasim completion zsh)"
  fish  pallasim completion fish | source)~";

}  // namespace pallasim::cli
