// What a launch would take on a chip: the same engine in virtual time. A model, labelled as such: which figures a
// prediction rests on, and how well they are known, is part of it (docs/time.md).
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pallasim/hw/timing.h"
#include "pallasim/interp/launch.h"
#include "pallasim/interp/timeline.h"

namespace pallasim::interp {

struct PredictOptions {
  // Values are computed, too. Where control depends on them they are in any case.
  bool values = false;
  // The launch is predicted again with each guessed figure multiplied by 1.25, and with what advice would change.
  bool sensitivity = true;
  // Programs of a grid beyond so many waves are not run where programs do the same; what they take follows from those
  // that are; so do trips in the middle of long loops. 0: all are run, of programs and of trips.
  int waves = 3;
  // Of a GPU's programs that are alike, and share nothing but a cache that holds the arrays, some are run, on as many
  // SMs with their share of it. What is counted, flops and bytes, follows from theirs: it may be a tenth off.
  bool sample = false;
  int64_t most_steps = 400'000'000;
  bool cold = false;  // caches are empty; else they hold the launch's arrays where those fit, as when it is repeated
  // Arguments whose contents nobody gave (by number, bounds of the grid first): zeros stand for them, so that what they
  // lead to is no finding.
  std::vector<bool> made_up = {};
  bool timeline = false;    // keep one
  bool every_trip = false;  // it has all trips of loops; else those that are run, and marks where others would be
  Timeline picture = {};    // an empty one: its limits
};

struct Prediction {
  std::string kernel, chip;
  double seconds = 0;
  // The critical path by what it was spent on, the largest first: a unit, a memory, "latency of memory",
  // "synchronisation", "steps" (of a grid), "launch".
  struct Share {
    std::string name;
    double seconds = 0;
  };
  std::vector<Share> critical;
  // What each unit and each memory would take alone, the longest first: bounds from below.
  struct Bound {
    std::string name;
    double seconds = 0;  // busy, as if nothing else was in its way
    double busy = 0;     // part of the whole time
  };
  std::vector<Bound> bounds;
  std::string bound, next;  // what bounds it, and what would if that were gone
  struct Line {
    ir::Site site;
    double seconds = 0;  // of the critical path
    double busy = 0;     // of all threads, summed
  };
  std::vector<Line> lines;  // the largest first
  struct Wait {
    ir::Site site;
    std::string what;  // step and cause
    double seconds = 0, longest = 0;
    int64_t count = 0;
  };
  std::vector<Wait> waits;  // of threads, the longest first
  double flops = 0, bytes_read = 0, bytes_written = 0, bytes_cached = 0;
  double peak_flops = 0, peak_bandwidth = 0;  // of all devices, per second
  double peak_seconds = 0;  // of the roofline: the larger of flops at the peak rate and bytes at the bandwidth
  int64_t programs = 0, programs_run = 0, resident = 0;  // of a grid on a GPU
  double waves = 0;
  bool with_values = false;
  bool reads_inputs = false;  // it depends on what arrays hold, or may: values, prefetched scalars, bounds of the grid
  // What to change, as the numbers say, the largest gain first.
  struct Advice {
    std::string text;
    double seconds = 0;               // at stake, at most; of a change that was predicted, its gain
    std::optional<double> predicted;  // seconds of the launch with the change
    ir::Site site;
    std::vector<std::pair<std::string, double>> numbers;  // it comes from
  };
  std::vector<Advice> advice;
  std::vector<std::string> notes;  // what was approximated, in words
  struct Figure {
    hw::TimingFigure figure;
    std::optional<double> change;  // of seconds, where the figure is 1.25 times as large
  };
  std::vector<Figure> figures;  // it rests on
  Timeline timeline;            // PredictOptions::timeline
};

// Of one launch. `devices` as for try_launch; results are written to where values are made, else left as they are.
// Throws DiagnosticError: PS-ARG-001, PS-OPT-001 where the chip has no figures, and what the launch stops with.
Prediction predict(const CachedPlan&, std::span<const DeviceCall> devices, const Options&, const PredictOptions& = {});
// Options of a plan whose launches are predicted: those given, without what rewrites operations, and with the pipeline
// of a grid as the machine has it.
PlanOptions predicted_options(const PlanOptions&);

std::string to_text(const Prediction&);
std::string to_json(const Prediction&);

}  // namespace pallasim::interp
