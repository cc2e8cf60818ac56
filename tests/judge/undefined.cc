// Programs with undefined data: generated ones from which some stores are taken out. What the evaluator makes of them
// is looked at with several fillings of memory that nobody wrote: an element that differs depends on it, and a checked
// run has to say that it is undefined. No mask is computed here.
#include <fmt/format.h>

#include <algorithm>

#include "judge.h"

namespace pallasim::judge {
namespace {

using ir::OpCode;

// Where clusters ask for the next one but one already, the order of their requests says who writes what: no store can
// be left out without another one of the same element in another order.
bool asks_ahead(const ir::Region& r) {
  return std::count_if(r.ops.begin(), r.ops.end(),
                       [](const ir::Op& op) { return op.code == OpCode::try_cluster_cancel; }) > 1;
}

void find_stores(ir::Region& r, std::vector<std::pair<ir::Region*, size_t>>* out) {
  if (asks_ahead(r)) return;
  for (size_t i = 0; i < r.ops.size(); ++i) {
    const OpCode c = r.ops[i].code;
    if (c == OpCode::store || c == OpCode::masked_store || c == OpCode::addupdate) out->emplace_back(&r, i);
    for (ir::Region& inner : r.ops[i].regions) find_stores(inner, out);
  }
}

// Elements that are not the same bytes in both; NaNs are equal.
void mark_differences(const std::vector<oracle::Array>& a, const std::vector<oracle::Array>& b,
                      std::vector<std::vector<bool>>* marks) {
  for (size_t k = 0; k < a.size(); ++k) {
    const auto size = static_cast<size_t>(ir::byte_size(a[k].dtype));
    oracle::Array x{a[k].dtype, {}, std::vector<std::byte>(size)}, y = x;
    for (size_t i = 0; i < (*marks)[k].size(); ++i) {
      if (std::equal(a[k].bytes.begin() + i * size, a[k].bytes.begin() + (i + 1) * size, b[k].bytes.begin() + i * size))
        continue;
      std::copy_n(a[k].bytes.begin() + i * size, size, x.bytes.begin());
      std::copy_n(b[k].bytes.begin() + i * size, size, y.bytes.begin());
      if (!difference({x}, {y}).empty()) (*marks)[k][i] = true;
    }
  }
}

}  // namespace

Case without_some_stores(Case c) {
  ir::Module m = ir::parse(c.text);
  Rng rng(c.seed ^ 0x5eed);
  for (int n = 1 + static_cast<int>(c.seed % 3); n > 0; --n) {
    std::vector<std::pair<ir::Region*, size_t>> stores;
    for (ir::Body& b : m.bodies) find_stores(b.graph.region, &stores);
    if (stores.empty()) break;
    const auto [region, at] = stores[rng.below(stores.size())];
    region->ops.erase(region->ops.begin() + static_cast<std::ptrdiff_t>(at));
  }
  c.text = ir::print(m);
  c.undefined = true;
  return c;
}

namespace {

// The first element of a result that only one of two runs has undefined; a result without any may be left out.
std::string difference(const std::vector<std::vector<bool>>& a, const std::vector<std::vector<bool>>& b) {
  for (size_t k = 0; k < std::max(a.size(), b.size()); ++k) {
    const auto at = [k](const std::vector<std::vector<bool>>& of, size_t i) {
      return k < of.size() && i < of[k].size() && of[k][i];
    };
    const size_t n = std::max(k < a.size() ? a[k].size() : 0, k < b.size() ? b[k].size() : 0);
    for (size_t i = 0; i < n; ++i)
      if (at(a, i) != at(b, i))
        return fmt::format("element {} of result {} is undefined in the {} alone", i, k, at(a, i) ? "first" : "other");
  }
  return "";
}

}  // namespace

Verdict judge_undefined(const Case& c, const std::string& only) {
  using Kind = Verdict::Kind;
  Verdict v;
  const auto say = [&](Kind k, std::string text, std::string config = "") {
    v.kind = k, v.text = std::move(text), v.config = std::move(config);
    return v;
  };
  const ir::Module m = ir::parse(c.text);
  std::vector<oracle::Outcome> want;
  bool decides = false;
  for (uint64_t noise = 1; noise <= 4; ++noise) {
    oracle::Setting s;
    s.fuzzy_uninitialized = true;
    s.noise = noise * 0x9e3779b97f4a7c15u;
    s.reads_outside = m.machine == ir::Machine::Tpu;  // of pointers it does not know how far an allocation goes
    want.push_back(oracle::evaluate(m, c.args, s));
    if (want.back().end == oracle::End::Missing) return say(Kind::Missing, want.back().what);
    decides |= want.back().end != oracle::End::Done;
  }
  std::vector<std::vector<bool>> depends;
  if (!decides) {
    for (const oracle::Array& a : want[0].results)
      depends.emplace_back(a.bytes.size() / static_cast<size_t>(ir::byte_size(a.dtype)));
    for (size_t i = 1; i < want.size(); ++i) mark_differences(want[0].results, want[i].results, &depends);
  }
  Engine engine(c);
  std::vector<std::vector<bool>> first;
  for (Config config : configurations(m, c)) {
    if (m.machine != ir::Machine::Tpu) config.options.out_of_bounds = interp::Options::Oob::Error;
    if (!config.options.checked || (!only.empty() && config.name != only)) continue;
    const EngineOutcome got = engine.run(config);
    ++v.runs;
    if (!got.done) {
      // Who stops says that something undefined decides; whether it does the evaluator does not know.
      if (got.code == "PS-UNINIT-004" || decides) continue;
      return say(Kind::Refused, fmt::format("{}: {} {}", config.name, got.code, got.message), config.name);
    }
    if (decides) return say(Kind::Missed, config.name + ": what nobody wrote stops the evaluator", config.name);
    for (size_t k = 0; k < depends.size(); ++k)
      for (size_t i = 0; i < depends[k].size(); ++i) {
        const bool told = k < got.undefined.size() && i < got.undefined[k].size() && got.undefined[k][i];
        v.operations["(undefined elements)"] += told;
        v.operations["(undefined elements that no filling shows)"] += told && !depends[k][i];
        if (depends[k][i] && !told)
          return say(Kind::Missed,
                     fmt::format("{}: element {} of result {} depends on what nobody wrote", config.name, i, k),
                     config.name);
      }
    if (first.empty()) first = got.undefined;
    else if (const std::string where = difference(first, got.undefined); !where.empty())
      return say(Kind::Different, config.name + ": other elements are undefined than in the first run: " + where,
                 config.name);
  }
  return v;
}

}  // namespace pallasim::judge
