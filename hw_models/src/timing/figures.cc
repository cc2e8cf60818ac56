// Figures that time depends on: those of a chip's own file, and those of its file in hw_models/timing.
#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <stdexcept>

#include "../csv.h"
#include "data.h"
#include "pallasim/hw/timing.h"

namespace pallasim::hw {

std::string_view name(FigureStatus s) {
  constexpr std::string_view kNames[] = {"measured", "published", "guessed"};
  return kNames[static_cast<size_t>(s)];
}

std::vector<TimingFigure> parse_timing(std::string_view chip, std::string_view csv) {
  std::vector<TimingFigure> r;
  const auto malformed = [&](size_t line, const std::string& what) {
    throw std::runtime_error("timing of " + std::string(chip) + ", line " + std::to_string(line) + ": " + what);
  };
  if (take_csv_line(&csv) != std::vector<std::string>{"name", "value", "unit", "status", "source", "note"})
    malformed(1, "the header is not name,value,unit,status,source,note");
  for (size_t line = 2; !csv.empty(); ++line) {
    const std::vector<std::string> c = take_csv_line(&csv);
    if (c.size() != 6) malformed(line, std::to_string(c.size()) + " cells instead of 6");
    TimingFigure f{c[0], 0, c[2], FigureStatus::Guessed, c[4], c[5]};
    const auto [end, error] = std::from_chars(c[1].data(), c[1].data() + c[1].size(), f.value);
    if (error != std::errc() || end != c[1].data() + c[1].size() || f.value < 0)
      malformed(line, c[0] + " is no number");
    if (c[3] == "measured") f.status = FigureStatus::Measured;
    else if (c[3] == "published") f.status = FigureStatus::Published;
    else if (c[3] != "guessed") malformed(line, "status is measured, published or guessed, not " + c[3]);
    if (f.source.empty()) malformed(line, "a figure needs a source");
    for (const TimingFigure& x : r)
      if (x.name == f.name) malformed(line, f.name + " is given twice");
    r.push_back(std::move(f));
  }
  return r;
}

TimingFigures::TimingFigures(std::vector<TimingFigure> all) {
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  used_.resize(all.size());
  all_ = std::make_shared<const std::vector<TimingFigure>>(std::move(all));
}

const TimingFigure* TimingFigures::find(std::string_view name) const {
  const auto it = std::lower_bound(all_->begin(), all_->end(), name,
                                   [](const TimingFigure& f, std::string_view n) { return f.name < n; });
  return it == all_->end() || it->name != name ? nullptr : &*it;
}

double TimingFigures::operator()(std::string_view name) const {
  const TimingFigure* f = find(name);
  if (!f) throw std::out_of_range("no figure " + std::string(name));
  used_[static_cast<size_t>(f - all_->data())] = true;
  return f->value;
}

double TimingFigures::value_or(std::string_view name, double otherwise) const {
  return find(name) ? (*this)(name) : otherwise;
}

TimingFigures TimingFigures::scaled(std::string_view name, double factor) const {
  std::vector<TimingFigure> all = *all_;
  for (TimingFigure& f : all)
    if (f.name == name) f.value *= factor;
  return TimingFigures(std::move(all));
}

TimingFigures TimingFigures::clocked(double factor) const {
  constexpr std::string_view kOthers[] = {"hbm", "nvlink", "ici", "kernel_", "launch_"};
  constexpr std::string_view kRates[] = {"Hz", "B/s", "op/s", "blocks/s"};
  std::vector<TimingFigure> all = *all_;
  for (TimingFigure& f : all) {
    if (std::any_of(std::begin(kOthers), std::end(kOthers),
                    [&](std::string_view o) { return f.name.find(o) != std::string::npos; }))
      continue;
    if (f.unit == "s") f.value /= factor;
    else if (std::find(std::begin(kRates), std::end(kRates), f.unit) != std::end(kRates)) f.value *= factor;
  }
  return TimingFigures(std::move(all));
}

std::vector<const TimingFigure*> TimingFigures::used() const {
  std::vector<const TimingFigure*> r;
  for (size_t i = 0; i < all_->size(); ++i)
    if (used_[i]) r.push_back(&(*all_)[i]);
  return r;
}

// The column of a chip in tpu_instructions.csv; nothing for others. Throws std::runtime_error naming a malformed line:
// guesses would take its place without a word.
static void add_instructions(std::string_view chip, std::vector<TimingFigure>* to) {
  std::string_view csv = kTpuInstructions;
  const std::vector<std::string> head = take_csv_line(&csv);
  const auto column = static_cast<size_t>(std::find(head.begin(), head.end(), chip) - head.begin());
  if (column == head.size()) return;
  for (size_t line = 2; !csv.empty(); ++line) {
    const std::vector<std::string> c = take_csv_line(&csv);
    const auto malformed = [&] {
      throw std::runtime_error("tpu_instructions.csv, line " + std::to_string(line) + " is no row of numbers");
    };
    if (c.size() != head.size()) malformed();
    if (c[column].empty()) continue;
    const char* const unit = c[2] == "latency" ? "cycles" : "instructions/register";
    TimingFigure f{c[2] + "_" + c[0] + (c[1].empty() ? "" : "_" + c[1]),           0, unit, FigureStatus::Measured,
                   "what libtpu 0.0.42 schedules (tests/tpu_compiler/bundles.py)", ""};
    const char* const last = c[column].data() + c[column].size();
    const auto [end, error] = std::from_chars(c[column].data(), last, f.value);
    if (error != std::errc() || end != last) malformed();
    to->push_back(std::move(f));
  }
}

static std::vector<TimingFigure> figures_of(const Chip& chip, const ChipData& data) {
  std::vector<TimingFigure> all = parse_timing(data.name, data.csv);
  add_instructions(data.name, &all);
  for (const Figure& f : chip.figures) {
    const bool own = std::any_of(all.begin(), all.end(), [&](const TimingFigure& t) { return t.name == f.field; });
    if (own || !f.known || f.value <= 0) continue;
    const bool measured = f.source.find("measured") != std::string::npos;
    all.push_back(
        {f.field, f.value, f.unit, measured ? FigureStatus::Measured : FigureStatus::Published, f.source, f.note});
  }
  return all;
}

std::unique_ptr<TimingFigures> timing_figures(const Profile& profile) {
  const Chip* chip = find_chip(profile.name);
  const auto* data = std::find_if(std::begin(kTimingData), std::end(kTimingData),
                                  [&](const ChipData& d) { return profile.name == d.name; });
  if (!chip || data == std::end(kTimingData)) return nullptr;
  // Every prediction asks, and reading takes as long as a small launch in time.
  static std::mutex mutex;
  static std::map<std::string, TimingFigures, std::less<>> read;
  const std::lock_guard lock(mutex);
  auto at = read.find(data->name);
  if (at == read.end()) at = read.emplace(data->name, TimingFigures(figures_of(*chip, *data))).first;
  return std::make_unique<TimingFigures>(at->second);
}

}  // namespace pallasim::hw
