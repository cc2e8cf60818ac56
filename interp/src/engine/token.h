// Schedules as texts: "ps2:" policy ["+copies=" when], where the policy is run-to-block, random:SEED, or
// choices:KEY:LIST.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "../plan/plan.h"
#include "pallasim/interp/policy.h"

namespace pallasim::interp {

inline constexpr const char* kRunToBlockToken = "ps2:run-to-block";
inline constexpr const char* kAnyChoices = "ps2:choices:";  // how tokens of choices begin

struct Schedule {
  std::unique_ptr<Policy> policy;  // null: each thread until it waits
  bool exact = false;
  Options::Copies copies = Options::Copies::AtIssue;
  std::string token;
};
// What the options say. Throws PS-TOK-001 for a token that is none, of another version, or of another kernel.
Schedule schedule_of(const RunOptions&, const Plan&);

// Of the kernel, wherever its lines are, and of the steps that it was compiled to: 16 hexadecimal digits.
std::string plan_token_key(const Plan&);

// Where a run leaves what run_on would do (policies/choose.h): before which turn, and who goes on there.
struct Deviation {
  int64_t turn = 0;
  Choice choice;
  bool operator==(const Deviation&) const = default;
};
std::string choices_text(std::span<const Deviation>);
// Throws std::invalid_argument.
std::vector<Deviation> read_choices(std::string_view);
std::string choices_token(const Plan&, std::span<const Deviation>);
// Those of a recorded run are found while it is run again.
std::unique_ptr<Policy> follow_choices(std::vector<Choice> recorded, std::vector<Deviation>* found);
// These, one after the other, but for those who cannot go on when it is their turn; then as run_on says.
std::unique_ptr<Policy> go_through(std::vector<Choice>);
// `lenient`: a choice that is not there is left out.
std::unique_ptr<Policy> replay_choices(std::vector<Deviation>, bool lenient);

}  // namespace pallasim::interp
