#include "token.h"

#include <fmt/format.h>

#include <stdexcept>

#include "../plan/kinds.h"

namespace pallasim::interp {
namespace {

constexpr size_t kLongest = 1 << 16;
constexpr std::string_view kVersion = "ps2:", kChoices = "choices:", kCopies = "+copies=";

[[noreturn]] void bad_token(const std::string& token, const std::string& why) {
  ir::Diagnostic("PS-TOK-001", "the schedule token cannot be replayed: " + why)
      .with({"token " + token.substr(0, 80)})
      .hinted("copy the whole token of a report of this version, e.g. ps2:random:7")
      .raise();
}

uint64_t mix(uint64_t h, std::string_view bytes) {  // FNV-1a
  for (const char c : bytes) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return h;
}
constexpr uint64_t kBasis = 0xcbf29ce484222325u;
std::string digits(uint64_t h) { return fmt::format("{:08x}", static_cast<uint32_t>(h ^ h >> 32)); }

// Values are numbered as whoever reads the text numbers them: a module that lost operations has gaps, its text read
// back has none, and both are one kernel.
std::string kernel_digits(const Plan& p) {
  const auto text = [](const ir::Module& m) { return ir::print(m, {.locations = false}); };
  return digits(mix(kBasis, text(ir::parse(text(p.given ? *p.given : p.module)))));
}
std::string steps_digits(const Plan& p) {
  uint64_t h = kBasis;
  for (const Step& s : p.steps) h = mix(h, row(s).name);
  return digits(h);
}

// The list of a token of choices, whose key is the plan's.
std::string_view checked_key(const std::string& token, std::string_view text, const Plan& p) {
  const size_t colon = text.find(':');
  if (colon != 16) bad_token(token, "it does not say of which kernel it is");
  if (text.substr(0, 8) != kernel_digits(p)) bad_token(token, "it is of another kernel");
  if (text.substr(8, 8) != steps_digits(p))
    bad_token(token, "it is of this kernel, but of other options, or of another version of Pallasim");
  return text.substr(17);
}

Schedule replayed(const std::string& token, const Plan& p) {
  if (token.size() > kLongest) bad_token(token, fmt::format("it is longer than {} characters", kLongest));
  if (token.starts_with("ps1:")) bad_token(token, "it is of version 1, whose turns were others");
  if (!token.starts_with(kVersion)) bad_token(token, "it does not start with ps2:");
  Schedule r;
  r.token = token;
  std::string_view rest = std::string_view(token).substr(kVersion.size());
  if (const size_t plus = rest.find('+'); plus != std::string_view::npos) {
    const std::string_view option = rest.substr(plus);
    if (option == "+copies=on_wait") r.copies = Options::Copies::AtWait;
    else if (option == "+copies=scheduled") r.copies = Options::Copies::Scheduled;
    else bad_token(token, "unknown option");
    rest = rest.substr(0, plus);
  }
  if (rest == "run-to-block") return r;
  const size_t colon = rest.find(':');
  const PolicyRow* row = find_policy(rest.substr(0, colon));
  if (!row || !row->read || colon == std::string_view::npos) bad_token(token, "unknown policy");
  std::string_view what = rest.substr(colon + 1);
  if (rest.starts_with(kChoices)) what = checked_key(token, what, p);
  try {
    r.policy = row->read(what);
  } catch (const std::invalid_argument& e) { bad_token(token, e.what()); }
  r.exact = row->exact;
  return r;
}

}  // namespace

Schedule schedule_of(const RunOptions& o, const Plan& p) {
  if (o.policy() == Options::Policy::Replay) return replayed(o.replay, p);
  static constexpr const char* kWhen[] = {"", "+copies=on_wait", "+copies=scheduled"};
  Schedule r;
  r.copies = o.copies;
  r.token = kRunToBlockToken;
  if (o.random_seed) {
    r.policy = find_policy("random")->make({*o.random_seed});
    r.token = fmt::format("ps2:random:{}", *o.random_seed);
  }
  r.token += kWhen[static_cast<int>(o.copies)];
  return r;
}

std::string plan_token_key(const Plan& p) { return kernel_digits(p) + steps_digits(p); }

std::string choices_token(const Plan& p, std::span<const Deviation> list) {
  return fmt::format("ps2:choices:{}:{}+copies=scheduled", plan_token_key(p), choices_text(list));
}

}  // namespace pallasim::interp
