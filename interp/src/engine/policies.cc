#include <algorithm>
#include <array>

#include "pallasim/interp/policy.h"
#include "pallasim/ir/mix.h"
#include "policies/choose.h"

namespace pallasim::interp {
namespace policies {

// policies.inc, written by the build: a line for each file of policies/ that is one.
#define PALLASIM_POLICY(name) extern const PolicyRow name;
#include "policies.inc"
#undef PALLASIM_POLICY

size_t find(const Choices& c, const Choice& what) {
  for (size_t i = 0; i < c.size(); ++i)
    if (c[i] == what) return i;
  return Choices::kNone;
}

size_t run_on(const Choices& c, int32_t thread) {
  size_t next = Choices::kNone, first = Choices::kNone, operation = Choices::kNone, polling = Choices::kNone;
  for (size_t i = 0; i < c.size(); ++i) {
    const Choice x = c[i];
    if (x.what == Choice::What::Operation) {
      if (operation == Choices::kNone) operation = i;
      continue;
    }
    if (!c.can_go_on(i)) continue;
    if (c.polls(i)) {
      const auto distance = [&](size_t j) { return static_cast<uint32_t>(c[j].thread - thread - 1); };
      if (polling == Choices::kNone || distance(i) < distance(polling)) polling = i;
      continue;
    }
    if (x.thread == thread) return i;
    size_t& least = x.thread > thread ? next : first;
    if (least == Choices::kNone || x.thread < c[least].thread) least = i;
  }
  if (next != Choices::kNone) return next;
  if (first != Choices::kNone) return first;
  return operation != Choices::kNone ? operation : polling;
}

}  // namespace policies

namespace {
constexpr std::array kPolicies{
#define PALLASIM_POLICY(name) &policies::name,
#include "policies.inc"
#undef PALLASIM_POLICY
};
}  // namespace

std::span<const PolicyRow* const> policy_rows() { return kPolicies; }

const PolicyRow* find_policy(std::string_view name) {
  const auto it = std::find_if(kPolicies.begin(), kPolicies.end(), [&](const PolicyRow* p) { return p->name == name; });
  return it == kPolicies.end() ? nullptr : *it;
}

uint64_t next_random(uint64_t* state) { return ir::mix(*state += ir::kGolden); }

}  // namespace pallasim::interp
