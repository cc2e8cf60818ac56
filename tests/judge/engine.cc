#include "engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace pallasim::judge {

using interp::Options;

// A GPU that holds six CTAs.
const hw::Profile& few_at_a_time() {
  static const hw::Profile chip = [] {
    hw::Profile p = hw::generic();
    p.device_cores = 1, p.blocks_per_sm = 6, p.warps_per_sm = 1 << 10;
    return p;
  }();
  return chip;
}

namespace {
constexpr int64_t kMostLookedAt = 1 << 18;
int64_t bytes_of(const ir::Module& m) {
  int64_t bytes = 0;
  for (const ir::Operand& o : m.operands)
    if (o.array) bytes += o.array->num_bytes();
  return bytes;
}

std::vector<Config> all_configurations(const ir::Module& m, uint64_t seed) {
  std::vector<Config> r;
  const auto add = [&](const char* name, auto change) {
    Config c{name, {}};
    c.options.workers = 1;
    change(c.options);
    r.push_back(std::move(c));
  };
  add("default", [](Options&) {});
  add("not fused", [](Options& o) { o.fuse = false; });
  add("checked", [](Options& o) { o.checked = true; });
  if (seed % 8 == 0 && bytes_of(m) <= kMostLookedAt) {  // slow: each step runs twice, and all memory is looked at
    add("footprints", [](Options& o) { o.verify_footprints = true; });
    add("footprints, not fused", [](Options& o) { o.verify_footprints = true, o.fuse = false; });
    add("footprints, looked at for NaNs",
        [](Options& o) { o.verify_footprints = true, o.nans = Options::Nans::Report; });
  }
  if (seed % 4 == 1)
    add("looked at for NaNs", [&](Options& o) { o.nans = Options::Nans::Report, o.checked = seed % 8 == 1; });
  add("reference", [](Options& o) { o.numerics = Options::Numerics::Reference; });
  const bool sparse = std::any_of(m.meshes.begin(), m.meshes.end(), [](const ir::Mesh& x) {
    return x.kind == "scalar_subcore" || x.kind == "vector_subcore";
  });
  if (!m.grid.empty() || !m.meshes.empty() || m.bodies.size() > 1) {
    add("2 workers", [](Options& o) { o.workers = 2; });
    add("8 workers", [](Options& o) { o.workers = 8; });
    add("parts from the last one on", [](Options& o) { o.verify_parts = 1; });
    add("parts in some order", [&](Options& o) { o.verify_parts = static_cast<int64_t>(seed % 1000) + 2; });
  }
  add("memory begins with zeros", [](Options& o) { o.uninitialized = Options::Fill::Zero; });
  if (!m.grid.empty() && m.grid[0].semantics == "parallel" && m.grid[0].size > 1) {
    add("first axis backwards", [&](Options& o) {
      o.grid_order.resize(m.grid.size());
      for (int64_t i = m.grid[0].size; i-- > 0;) o.grid_order[0].push_back(static_cast<int32_t>(i));
    });
    if (m.machine == ir::Machine::Tpu) add("2 cores share the grid", [](Options& o) { o.cores = 2; });
  }
  if (!m.grid.empty()) add("verify split", [](Options& o) { o.verify_split = true; });
  const bool tpu = m.machine == ir::Machine::Tpu,
             concurrent = tpu || m.machine == ir::Machine::Triton || !m.meshes.empty();
  if (concurrent) {
    add("random schedule, copies at wait",
        [&](Options& o) { o.random_seed = seed, o.copies = Options::Copies::AtWait; });
    add("random schedule, copies scheduled",
        [&](Options& o) { o.random_seed = seed + 1, o.copies = Options::Copies::Scheduled; });
  }
  if (sparse || m.bodies.size() > 1) {
    add("copies at wait", [](Options& o) { o.copies = Options::Copies::AtWait; });
    add("random schedule", [&](Options& o) { o.random_seed = seed + 11; });
    add("not fused, random schedule, copies at wait",
        [&](Options& o) { o.fuse = false, o.random_seed = seed + 12, o.copies = Options::Copies::AtWait; });
    add("restored, copies at wait",
        [&](Options& o) { o.random_seed = seed + 13, o.copies = Options::Copies::AtWait, o.verify_restore = 37; });
  }
  if (m.machine == ir::Machine::MosaicGpu && seed % 8 == 0 && bytes_of(m) <= kMostLookedAt)
    add("footprints, copies scheduled", [&](Options& o) {
      o.verify_footprints = true, o.random_seed = seed + 14, o.copies = Options::Copies::Scheduled;
    });
  if (m.machine == ir::Machine::MosaicGpu && !m.meshes.empty()) {
    const auto few = [&](Options& o) { o.chip = &few_at_a_time(); };
    add("few clusters at a time", few);
    add("few clusters at a time, random schedule, copies scheduled",
        [&](Options& o) { few(o), o.random_seed = seed + 15, o.copies = Options::Copies::Scheduled; });
  }
  if (!m.meshes.empty() || ir::find(m.attrs, "devices"))
    for (Config& c : race_configurations(seed + 3))
      if (c.options.random_seed) r.push_back(std::move(c));
  if (concurrent)
    add("restored",
        [&](Options& o) { o.random_seed = seed + 2, o.copies = Options::Copies::Scheduled, o.verify_restore = 61; });
  if (tpu && !m.grid.empty()) {
    add("modelled", [](Options& o) { o.pipeline = Options::Pipeline::Modelled; });
    add("modelled, copies scheduled", [&](Options& o) {
      o.pipeline = Options::Pipeline::Modelled, o.random_seed = seed, o.copies = Options::Copies::Scheduled;
    });
  }
  return r;
}
}  // namespace

std::vector<Config> configurations(const ir::Module& m, const Case& of) {
  std::vector<Config> r = all_configurations(m, of.seed);
  // Other orders have other results, and checked runs say so.
  if (of.all_at_once) std::erase_if(r, [](const Config& c) { return c.options.chip == &few_at_a_time(); });
  if (of.in_order) std::erase_if(r, [](const Config& c) { return c.options.random_seed || c.options.checked; });
  return r;
}

std::vector<Config> race_configurations(uint64_t seed) {
  std::vector<Config> r;
  const auto add = [&](const char* name, bool random, Options::Copies copies) {
    Config c{name, {}};
    c.options.workers = 1;
    c.options.checked = true;
    if (random) c.options.random_seed = seed++;
    c.options.copies = copies;
    r.push_back(std::move(c));
  };
  add("checked", false, Options::Copies::AtIssue);
  add("checked, copies at wait", false, Options::Copies::AtWait);
  add("checked, random schedule", true, Options::Copies::AtIssue);
  add("checked, random schedule, copies at wait", true, Options::Copies::AtWait);
  add("checked, random schedule, copies scheduled", true, Options::Copies::Scheduled);
  add("checked, restored, copies scheduled", true, Options::Copies::Scheduled);
  r.back().options.verify_restore = seed % 4 == 0 ? 41 : 997;  // what detectors know is much to copy
  return r;
}

namespace {

// What a plan is made of; everything else belongs to the launch.
bool same_plan(const Options& a, const Options& b) {
  return a.chip == b.chip && a.checked == b.checked && a.fuse == b.fuse && a.numerics == b.numerics &&
         a.pipeline == b.pipeline && a.cores == b.cores && a.uninitialized == b.uninitialized &&
         a.verify_split == b.verify_split && a.out_of_bounds == b.out_of_bounds;
}

oracle::Array empty_like(const ir::Type& t) {
  oracle::Array a{t.dtype, {}, std::vector<std::byte>(static_cast<size_t>(t.num_bytes()), std::byte{0xA5})};
  for (const ir::Dim& d : t.dims) a.dims.push_back(d.size);
  return a;
}

interp::Buffer buffer(oracle::Array& a) { return {a.bytes.data(), a.dtype, a.dims}; }

bool is_nan(ir::DType t, const std::byte* p) {
  uint64_t v = 0;
  std::memcpy(&v, p, static_cast<size_t>(ir::byte_size(t)));
  switch (t) {
    case ir::DType::F32: return (v & 0x7FFFFFFF) > 0x7F800000;
    case ir::DType::F64: return (v & ~(1ull << 63)) > 0x7FF0000000000000ull;
    case ir::DType::BF16: return (v & 0x7FFF) > 0x7F80;
    case ir::DType::F16: return (v & 0x7FFF) > 0x7C00;
    case ir::DType::F8E5M2: return (v & 0x7F) > 0x7C;
    case ir::DType::F8E4M3FN: return (v & 0x7F) == 0x7F;
    default: return false;
  }
}

}  // namespace

EngineOutcome Engine::run(const Config& config) {
  EngineOutcome out;
  try {
    std::shared_ptr<const interp::Plan> plan;
    for (const Compiled& c : plans_)
      if (same_plan(c.options, config.options)) plan = c.plan;
    if (!plan) {
      plan = interp::compile(ir::parse(case_.text), config.options);
      plans_.push_back({config.options, plan});
    }
    std::vector<oracle::Array> args = case_.args;
    const auto devices = static_cast<size_t>(case_.devices);
    const auto types = interp::result_types(*plan);
    for (size_t d = 0; d < devices; ++d)
      for (const ir::Type* t : types) out.results.push_back(empty_like(*t));
    std::vector<std::vector<interp::Buffer>> in(devices), res(devices);
    for (size_t k = 0; k < args.size(); ++k) in[k / (args.size() / devices)].push_back(buffer(args[k]));
    for (size_t k = 0; k < out.results.size(); ++k) res[k / types.size()].push_back(buffer(out.results[k]));
    std::vector<interp::DeviceCall> calls;
    for (size_t d = 0; d < devices; ++d) calls.push_back({static_cast<int32_t>(d), in[d], res[d], 0});
    interp::Session session;
    const interp::Report report = interp::launch(*plan, session, calls, config.options);
    out.prints = report.prints;
    out.units = report.units;
    out.reports = report.findings;
    out.undefined = report.undefined;
    for (const ir::Diagnostic& f : report.findings)
      out.findings.push_back(std::string(f.code.text()) + " " + f.message);
    out.done = true;
  } catch (const ir::DiagnosticError& e) {
    out.code = e.diagnostic().code.text();
    out.message = e.diagnostic().message;
  }
  return out;
}

std::string difference(const std::vector<oracle::Array>& want, const std::vector<oracle::Array>& got) {
  if (want.size() != got.size()) return fmt::format("{} results instead of {}", got.size(), want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    const oracle::Array &a = want[k], &b = got[k];
    if (a.bytes == b.bytes) continue;
    const auto w = static_cast<size_t>(ir::byte_size(a.dtype));
    for (size_t i = 0; i * w < a.bytes.size(); ++i) {
      const std::byte *x = a.bytes.data() + i * w, *y = b.bytes.data() + i * w;
      if (std::memcmp(x, y, w) == 0 || (is_nan(a.dtype, x) && is_nan(a.dtype, y))) continue;
      uint64_t p = 0, q = 0;
      std::memcpy(&p, x, w), std::memcpy(&q, y, w);
      return fmt::format("result {} ({}) element {}: expected 0x{:x}, got 0x{:x}", k, ir::name(a.dtype), i, p, q);
    }
  }
  return "";
}

}  // namespace pallasim::judge
