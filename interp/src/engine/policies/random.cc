// Any choice is as likely as any other one.
#include <charconv>
#include <stdexcept>

#include "choose.h"

namespace pallasim::interp::policies {
namespace {

class Random : public Policy {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  bool new_execution(std::vector<uint64_t>& state) override {
    state.assign(1, seed_);
    state_ = &state;
    return true;
  }
  // Who waits in vain is passed over, but for one who is found again and again.
  size_t next(const Choices& c) override {
    size_t at = 0;
    for (int tries = 0; tries < 64; ++tries)
      if (c.can_go_on(at = next_random() % c.size())) return at;
    for (size_t i = 0; i < c.size(); ++i)
      if (c.can_go_on(i)) return i;
    return at;
  }
  uint64_t next_random() override { return interp::next_random(state_->data()); }

 private:
  uint64_t seed_;
  std::vector<uint64_t>* state_ = nullptr;
};

std::unique_ptr<Policy> read(std::string_view text) {
  uint64_t seed = 0;
  const auto [p, ec] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (ec != std::errc() || p != text.data() + text.size() || text.empty())
    throw std::invalid_argument("the seed is not a number");
  return std::make_unique<Random>(seed);
}

}  // namespace

extern const PolicyRow random{
    "random",
    "any choice is as likely as any other one",
    [](const PolicyArguments& a) -> std::unique_ptr<Policy> { return std::make_unique<Random>(a.seed); },
    false,
    false,
    &read};

}  // namespace pallasim::interp::policies
