// As run-to-block, but for the turns that a list names: what tokens of exploration replay.
#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

#include "../token.h"
#include "choose.h"

namespace pallasim::interp {
namespace {

// `state`: the thread that went on last, then how much of a list is behind.
class Remembers : public Policy {
 public:
  bool new_execution(std::vector<uint64_t>& state) override {
    state.assign(2, 0);
    state_ = &state;
    return true;
  }
  uint64_t next_random() override { return 0; }

 protected:
  uint64_t& behind() { return (*state_)[1]; }
  size_t run_on(const Choices& c) const { return policies::run_on(c, static_cast<int32_t>((*state_)[0])); }
  size_t went_on(const Choices& c, size_t at) {
    if (at != Choices::kNone && c[at].what == Choice::What::Thread) (*state_)[0] = static_cast<uint64_t>(c[at].thread);
    return at;
  }

 private:
  std::vector<uint64_t>* state_ = nullptr;
};

class Replayed : public Remembers {
 public:
  Replayed(std::vector<Deviation> list, bool lenient) : list_(std::move(list)), lenient_(lenient) {}
  size_t next(const Choices& c) override {
    uint64_t& behind = this->behind();
    size_t at = Choices::kNone;
    while (behind < list_.size() && list_[behind].turn < c.turns) ++behind;
    if (behind < list_.size() && list_[behind].turn == c.turns) {
      at = policies::find(c, list_[behind].choice);
      if (at != Choices::kNone && !c.can_go_on(at)) at = Choices::kNone;
      if (at == Choices::kNone && !lenient_) does_not_fit(list_[behind]);
    }
    if (at == Choices::kNone) at = run_on(c);
    return went_on(c, at);
  }

 private:
  [[noreturn]] static void does_not_fit(const Deviation& d) {
    ir::Diagnostic("PS-TOK-001", "the schedule token cannot be replayed: what it chooses cannot go on there")
        .with({fmt::format("turn {}: {} {}", d.turn,
                           d.choice.what == Choice::What::Thread ? "thread" : "an asynchronous operation of thread",
                           d.choice.thread)})
        .hinted("the token was made with other inputs, or is not whole")
        .raise();
  }
  std::vector<Deviation> list_;
  bool lenient_;
};

// Repeats a recorded run and says where it does what run_on would not.
class Followed : public Policy {
 public:
  Followed(std::vector<Choice> recorded, std::vector<Deviation>* found)
      : recorded_(std::move(recorded)), found_(found) {}
  bool new_execution(std::vector<uint64_t>&) override {
    found_->clear();
    thread_ = 0;
    return true;
  }
  size_t next(const Choices& c) override {
    const size_t usual = policies::run_on(c, thread_);
    const auto turn = static_cast<size_t>(c.turns);
    const size_t at = turn < recorded_.size() ? policies::find(c, recorded_[turn]) : usual;
    if (at == Choices::kNone) return at;
    if (at != usual && (found_->empty() || found_->back().turn != c.turns)) found_->push_back({c.turns, c[at]});
    if (c[at].what == Choice::What::Thread) thread_ = c[at].thread;
    return at;
  }
  uint64_t next_random() override { return 0; }

 private:
  std::vector<Choice> recorded_;
  std::vector<Deviation>* found_;
  int32_t thread_ = 0;
};

// Goes through a list; who cannot go on is left out.
class Listed : public Remembers {
 public:
  explicit Listed(std::vector<Choice> list) : list_(std::move(list)) {}
  size_t next(const Choices& c) override {
    uint64_t& behind = this->behind();
    size_t at = Choices::kNone;
    while (at == Choices::kNone && behind < list_.size()) {
      at = policies::find(c, list_[behind++]);
      if (at != Choices::kNone && !c.can_go_on(at)) at = Choices::kNone;
    }
    if (at == Choices::kNone) at = run_on(c);
    return went_on(c, at);
  }

 private:
  std::vector<Choice> list_;
};

template <typename T>
T number(std::string_view* text) {
  T r = 0;
  const auto [p, ec] = std::from_chars(text->data(), text->data() + text->size(), r);
  if (ec != std::errc() || r < 0) throw std::invalid_argument("a choice is no number");
  text->remove_prefix(static_cast<size_t>(p - text->data()));
  return r;
}

bool take(std::string_view* text, char c) {
  if (text->empty() || text->front() != c) return false;
  text->remove_prefix(1);
  return true;
}

}  // namespace

std::unique_ptr<Policy> replay_choices(std::vector<Deviation> list, bool lenient) {
  return std::make_unique<Replayed>(std::move(list), lenient);
}
std::unique_ptr<Policy> go_through(std::vector<Choice> list) { return std::make_unique<Listed>(std::move(list)); }
std::unique_ptr<Policy> follow_choices(std::vector<Choice> recorded, std::vector<Deviation>* found) {
  return std::make_unique<Followed>(std::move(recorded), found);
}

// "3t1.0c2-5": three turns later thread 1, at the next turn the operation that thread 2 issued after 5 others.
std::string choices_text(std::span<const Deviation> list) {
  std::string r;
  int64_t last = 0;
  for (const Deviation& d : list) {
    if (!r.empty()) r += '.';
    if (d.choice.what == Choice::What::Thread) r += fmt::format("{}t{}", d.turn - last, d.choice.thread);
    else r += fmt::format("{}c{}-{}", d.turn - last, d.choice.thread, d.choice.number);
    last = d.turn + 1;
  }
  return r;
}

std::vector<Deviation> read_choices(std::string_view text) {
  std::vector<Deviation> r;
  int64_t turn = 0;
  while (!text.empty()) {
    if (!r.empty() && !take(&text, '.')) throw std::invalid_argument("choices are not apart");
    Deviation d;
    if (__builtin_add_overflow(turn, number<int64_t>(&text), &d.turn))
      throw std::invalid_argument("it has too many turns");
    if (take(&text, 't')) {
      d.choice.thread = number<int32_t>(&text);
    } else if (take(&text, 'c')) {
      d.choice.what = Choice::What::Operation;
      d.choice.thread = number<int32_t>(&text);
      if (!take(&text, '-')) throw std::invalid_argument("an operation has no number");
      d.choice.number = number<int64_t>(&text);
    } else {
      throw std::invalid_argument("a choice is neither a thread nor an operation");
    }
    if (d.turn == INT64_MAX) throw std::invalid_argument("it has too many turns");
    turn = d.turn + 1;
    r.push_back(d);
  }
  return r;
}

namespace policies {

extern const PolicyRow choices{
    "choices",
    "as a token says",
    [](const PolicyArguments&) -> std::unique_ptr<Policy> { return replay_choices({}, false); },
    true,
    false,
    [](std::string_view text) { return replay_choices(read_choices(text), false); }};

}  // namespace policies
}  // namespace pallasim::interp
