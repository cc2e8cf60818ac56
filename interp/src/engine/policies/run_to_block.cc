// Each thread goes on until it waits; an operation moves when no thread can go on. Fast runs do the same without asking
// a policy (Scheduler::turn).
#include <algorithm>

#include "choose.h"

namespace pallasim::interp::policies {
namespace {

class RunToBlock : public Policy {
 public:
  bool new_execution(std::vector<uint64_t>& state) override {
    state.assign(1, 0);
    state_ = &state;
    return true;
  }
  size_t next(const Choices& c) override {
    const size_t at = run_on(c, static_cast<int32_t>((*state_)[0]));
    if (at != Choices::kNone && c[at].what == Choice::What::Thread) (*state_)[0] = static_cast<uint64_t>(c[at].thread);
    return at;
  }
  uint64_t next_random() override { return 0; }

 private:
  std::vector<uint64_t>* state_ = nullptr;
};

}  // namespace

extern const PolicyRow run_to_block{
    "run-to-block", "each thread runs until it waits",
    [](const PolicyArguments&) -> std::unique_ptr<Policy> { return std::make_unique<RunToBlock>(); }, true};

}  // namespace pallasim::interp::policies
