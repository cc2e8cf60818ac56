#include "pallasim/interp/options.h"

#include <charconv>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>

namespace pallasim::interp {
namespace {

[[noreturn]] void refuse(std::string_view key, std::string_view value) {
  ir::Diagnostic d;
  d.code = "PS-OPT-001";
  d.message = fmt::format("option '{}' has no value '{}'", key, value);
  throw ir::DiagnosticError(std::move(d));
}

template <typename T>
T number(std::string_view key, std::string_view value) {
  T n{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc() || end != value.data() + value.size()) refuse(key, value);
  return n;
}

bool flag(std::string_view key, std::string_view value) {
  if (value == "1") return true;
  if (value != "0") refuse(key, value);
  return false;
}

template <typename T>
void choose(std::string_view key, std::string_view value, T* field,
            std::initializer_list<std::pair<std::string_view, T>> names) {
  for (const auto& [name, meaning] : names)
    if (name == value) {
      *field = meaning;
      return;
    }
  refuse(key, value);
}

// "2,3,0,1||1,0": axes 0 and 2 permuted, axis 1 ascending.
std::vector<std::vector<int32_t>> orders(std::string_view key, std::string_view value) {
  std::vector<std::vector<int32_t>> r(1);
  while (!value.empty()) {
    if (value.front() == '|') {
      r.emplace_back();
      value.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(value.find_first_of(",|"), value.size());
    r.back().push_back(number<int32_t>(key, value.substr(0, end)));
    value.remove_prefix(end < value.size() && value[end] == ',' ? end + 1 : end);
  }
  return r;
}

void set(Options& o, std::string_view key, std::string_view value) {
  if (key == "policy") {
    using P = Options::Policy;
    choose(key, value, &o.policy, {{"run_to_block", P::RunToBlock}, {"random", P::Random}, {"replay", P::Replay}});
  } else if (key == "seed") {
    o.seed = number<uint64_t>(key, value);
  } else if (key == "replay") {
    o.replay = value;
    o.policy = Options::Policy::Replay;
  } else if (key == "chip") {
    o.chip = hw::find_profile(value);
    if (!o.chip) refuse(key, value);
  } else if (key == "numerics") {
    using N = Options::Numerics;
    choose(key, value, &o.numerics,
           {{"ieee", N::Ieee}, {"reference", N::Reference}, {"device", N::Device}, {"oracle", N::Oracle}});
  } else if (key == "rules") {
    using R = Options::Rules;
    choose(key, value, &o.rules, {{"0", R::Off}, {"warn", R::Warn}, {"1", R::Error}});
  } else if (key == "workers") {
    o.workers = number<int>(key, value);
  } else if (key == "checked") {
    o.checked = flag(key, value);
  } else if (key == "fuse") {
    o.fuse = flag(key, value);
  } else if (key == "grid_order") {
    o.grid_order = orders(key, value);
  } else if (key == "record_grid") {
    o.record_grid = number<int64_t>(key, value);
  } else if (key == "record_calls") {
    o.record_calls = number<int64_t>(key, value);
  } else if (key == "max_steps") {
    o.max_steps = number<int64_t>(key, value);
  } else if (key == "livelock_steps") {
    o.livelock_steps = number<int64_t>(key, value);
  } else if (key == "max_memory") {
    o.max_memory = number<int64_t>(key, value);
  } else if (key == "out_of_bounds") {
    using O = Options::Oob;
    choose(key, value, &o.out_of_bounds,
           {{"error", O::Error}, {"machine", O::Machine}, {"uninitialized", O::Uninitialized}});
  } else if (key == "padding") {
    using P = Options::Padding;
    choose(key, value, &o.padding, {{"copies", P::Copies}, {"nobody", P::Nobody}, {"all", P::All}});
  } else if (key == "pipeline") {
    using P = Options::Pipeline;
    choose(key, value, &o.pipeline, {{"elided", P::Elided}, {"modelled", P::Modelled}});
  } else if (key == "revisits") {
    choose(key, value, &o.revisit_is_error, {{"note", false}, {"error", true}});
  } else if (key == "verify_split") {
    o.verify_split = flag(key, value);
  } else if (key == "verify_restore") {
    o.verify_restore = number<int64_t>(key, value);
    if (o.verify_restore < 0) refuse(key, value);
  } else if (key == "cores") {
    o.cores = number<int>(key, value);
    if (o.cores < 0 || o.cores > 1024) refuse(key, value);
  } else if (key == "copies") {
    using C = Options::Copies;
    choose(key, value, &o.copies, {{"eager", C::AtIssue}, {"on_wait", C::AtWait}, {"scheduled", C::Scheduled}});
  } else if (key == "uninitialized") {
    using F = Options::Fill;
    choose(key, value, &o.uninitialized, {{"nan", F::Nan}, {"zero", F::Zero}, {"most", F::Most}});
  } else {
    refuse(key, value);
  }
}

}  // namespace

Options parse_options(std::string_view text) {
  Options o;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view item = text.substr(0, end);
    const size_t eq = item.find('=');
    if (eq == std::string_view::npos) refuse(item, "");
    set(o, item.substr(0, eq), item.substr(eq + 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return o;
}

}  // namespace pallasim::interp
