// Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): threads and operations have priorities, drawn
// once, and who has the greatest goes on; at depth - 1 turns, drawn too, the one that would goes below all others. A
// bug that needs `depth` orders of n threads in k turns shows with a probability of at least 1 / (n * k^(depth - 1)).
#include <algorithm>

#include "choose.h"

namespace pallasim::interp::policies {
namespace {

class Pct : public Policy {
 public:
  explicit Pct(const PolicyArguments& a) : seed_(a.seed) {
    uint64_t stream = ~a.seed;
    const auto turns = static_cast<uint64_t>(std::max<int64_t>(a.turns, 1));
    for (int i = 1; i < a.depth; ++i) changes_.push_back(static_cast<int64_t>(interp::next_random(&stream) % turns));
    std::sort(changes_.begin(), changes_.end());
  }
  // `state`: how many changes were made, then who was lowered, the last one last.
  bool new_execution(std::vector<uint64_t>& state) override {
    state.assign(1, 0);
    state_ = &state;
    return true;
  }
  size_t next(const Choices& c) override {
    for (size_t lowered = 0;;) {
      size_t best = Choices::kNone, able = 0;
      uint64_t greatest = 0;
      for (size_t i = 0; i < c.size(); ++i) {
        if (!c.can_go_on(i)) continue;
        ++able;
        const uint64_t p = priority(key(c[i]));
        if (best == Choices::kNone || p > greatest) best = i, greatest = p;
      }
      if (best == Choices::kNone) return best;
      uint64_t& made = (*state_)[0];
      if (made < changes_.size() && c.turns >= changes_[made]) {
        ++made;
        lower(key(c[best]));
      } else if (c.polls(best) && c.size() > 1 && lowered + 1 < able && !is_lowest(key(c[best]))) {
        lower(key(c[best]));  // it waits for others; where all do, they take turns
        ++lowered;
      } else {
        return best;
      }
    }
  }
  uint64_t next_random() override { return 0; }

 private:
  static uint64_t key(const Choice& c) {
    return (static_cast<uint64_t>(c.thread) + 1) << 32 |
           (c.what == Choice::What::Thread ? 0 : static_cast<uint64_t>(c.number) + 1);
  }
  uint64_t priority(uint64_t key) const {
    const auto lowered = std::find(state_->begin() + 1, state_->end(), key);
    if (lowered != state_->end()) return static_cast<uint64_t>(state_->end() - lowered);
    uint64_t stream = seed_ ^ key * 0x9e3779b97f4a7c15u;
    return interp::next_random(&stream) | uint64_t{1} << 63;
  }
  bool is_lowest(uint64_t key) const { return state_->back() == key && state_->size() > 1; }
  void lower(uint64_t key) {
    state_->erase(std::remove(state_->begin() + 1, state_->end(), key), state_->end());
    state_->push_back(key);
  }
  uint64_t seed_;
  std::vector<int64_t> changes_;  // before which turns a priority changes
  std::vector<uint64_t>* state_ = nullptr;
};

}  // namespace

extern const PolicyRow pct{"pct", "priorities that change depth - 1 times",
                           [](const PolicyArguments& a) -> std::unique_ptr<Policy> { return std::make_unique<Pct>(a); },
                           true};

}  // namespace pallasim::interp::policies
