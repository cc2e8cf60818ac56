// Of a schedule and its outcome: one with few switches that ends alike, and which order it is that decides.
#pragma once
#include <string>

#include "../engine/token.h"
#include "schedule_runner.h"

namespace pallasim::interp {

class SmallestSchedule {
 public:
  SmallestSchedule(ScheduleRunner& r, const Plan& p, const ir::LocTable& l, std::string key)
      : runner_(r), plan_(p), locs_(l), key_(std::move(key)) {}
  void find(std::vector<Choice> recorded, int64_t runs);  // at most so many to make it smaller
  ExploredOutcome outcome();                              // with its token

 private:
  struct Turn {
    Choice who;
    int64_t number = 0;  // among those of who
    int32_t step = -1;
    std::vector<Touch> touches;
  };
  std::vector<Deviation> deviations_of(std::vector<Choice> choices);
  bool keeps(Policy&, std::vector<Choice>* choices);
  bool improve(Policy&, std::vector<Choice>* choices);  // where it ends alike with fewer switches
  void join_turns(std::vector<Choice>* choices);
  void leave_out(std::vector<Choice>* choices);
  std::vector<Turn> turns_of(const std::vector<Deviation>&);
  std::optional<std::pair<ir::Site, ir::Site>> deciding();
  ScheduleRunner& runner_;
  const Plan& plan_;
  const ir::LocTable& locs_;
  std::string key_;
  std::vector<Deviation> list_;
  int64_t left_ = 0;  // runs
};

}  // namespace pallasim::interp
