#include "pallasim/interp/options.h"

#include <charconv>

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
    if (value == "run_to_block") o.policy = Options::Policy::RunToBlock;
    else if (value == "random") o.policy = Options::Policy::Random;
    else if (value == "replay") o.policy = Options::Policy::Replay;
    else refuse(key, value);
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
    if (value == "ieee") o.numerics = N::Ieee;
    else if (value == "reference") o.numerics = N::Reference;
    else if (value == "device") o.numerics = N::Device;
    else if (value == "oracle") o.numerics = N::Oracle;
    else refuse(key, value);
  } else if (key == "rules") {
    using R = Options::Rules;
    if (value == "0") o.rules = R::Off;
    else if (value == "warn") o.rules = R::Warn;
    else if (value == "1") o.rules = R::Error;
    else refuse(key, value);
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
    if (value == "error") o.out_of_bounds = O::Error;
    else if (value == "machine") o.out_of_bounds = O::Machine;
    else if (value == "uninitialized") o.out_of_bounds = O::Uninitialized;
    else refuse(key, value);
  } else if (key == "padding") {
    using P = Options::Padding;
    if (value == "copies") o.padding = P::Copies;
    else if (value == "nobody") o.padding = P::Nobody;
    else if (value == "all") o.padding = P::All;
    else refuse(key, value);
  } else if (key == "pipeline") {
    if (value != "elided" && value != "modelled") refuse(key, value);
    o.pipeline = value == "elided" ? Options::Pipeline::Elided : Options::Pipeline::Modelled;
  } else if (key == "revisits") {
    if (value != "note" && value != "error") refuse(key, value);
    o.revisit_is_error = value == "error";
  } else if (key == "cores") {
    o.cores = number<int>(key, value);
    if (o.cores < 0 || o.cores > 1024) refuse(key, value);
  } else if (key == "copies") {
    if (value == "eager") o.copies = Options::Copies::AtIssue;
    else if (value == "on_wait") o.copies = Options::Copies::AtWait;
    else if (value == "scheduled") o.copies = Options::Copies::Scheduled;
    else refuse(key, value);
  } else if (key == "uninitialized") {
    if (value == "nan") o.uninitialized = Options::Fill::Nan;
    else if (value == "zero") o.uninitialized = Options::Fill::Zero;
    else if (value == "most") o.uninitialized = Options::Fill::Most;
    else refuse(key, value);
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
