#include "run_log.h"

#include <algorithm>
#include <utility>

namespace pallasim::python {

void RunLog::Place::set(Run run) {
  moved_.reset();
  memory_.release();
  moved_.emplace(Moved{std::pmr::vector<std::pmr::string>(&memory_), std::pmr::vector<interp::Traffic>(&memory_)});
  std::vector<interp::Traffic> traffic = std::exchange(run.traffic, {});
  moved_->texts.reserve(4 + 2 * traffic.size());
  moved_->traffic.reserve(traffic.size());
  // What is left of a string or vector owns nothing.
  const auto move_text = [&](std::string& s) { moved_->texts.emplace_back(std::exchange(s, {})); };
  for (std::string* s : {&run.kernel, &run.chip, &run.token, &run.time}) move_text(*s);
  for (interp::Traffic& t : traffic) {
    move_text(t.name);
    move_text(t.space);
    moved_->traffic.push_back(std::move(t));
  }
  rest_ = std::move(run);
}

Run RunLog::Place::get() const {
  Run run = rest_;
  if (!moved_) return run;
  auto text = moved_->texts.begin();
  for (std::string* s : {&run.kernel, &run.chip, &run.token, &run.time}) *s = *text++;
  run.traffic.assign(moved_->traffic.begin(), moved_->traffic.end());
  for (interp::Traffic& t : run.traffic) {
    t.name = *text++;
    t.space = *text++;
  }
  return run;
}

void RunLog::keep(Run run) { places_[kept_++ % kMax].set(std::move(run)); }

std::vector<Run> RunLog::all() const {
  std::vector<Run> all;
  for (size_t i = kept_ - std::min(kept_, kMax); i < kept_; ++i) all.push_back(at(i).get());
  return all;
}

Run RunLog::last() const { return kept_ ? at(kept_ - 1).get() : Run{}; }

}  // namespace pallasim::python
