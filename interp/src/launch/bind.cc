#include "bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace pallasim::interp {

void bad_argument(const Plan& p, std::string message, std::vector<std::string> numbers, std::string hint) {
  ir::Diagnostic("PS-ARG-001", std::move(message))
      .of(p.module.name)
      .with(std::move(numbers))
      .hinted(std::move(hint))
      .raise();
}

namespace {

std::string type_text(const Buffer& b) {
  std::string s(ir::name(b.dtype));
  s += '[';
  for (size_t i = 0; i < b.dims.size(); ++i) s += (i ? "," : "") + std::to_string(b.dims[i]);
  return s + ']';
}

void check_buffer(const Plan& p, const Buffer& b, const ir::Operand& o) {
  const ir::Type& t = *o.array;
  bool same = b.dtype == t.dtype && b.dims.size() == t.dims.size();
  for (size_t d = 0; same && d < b.dims.size(); ++d) same = b.dims[d] == t.dims[d].size;
  if (!same)
    bad_argument(p, fmt::format("{} is {}, the kernel was compiled for {}", o.name, type_text(b), ir::to_string(t)), {},
                 "pass an array of the declared shape and dtype");
  if (!b.data && t.num_elements() > 0) bad_argument(p, o.name + " has no data", {}, "pass an array");
}

int64_t read_bound(const Plan& p, const Buffer& b, int index) {
  const bool wide = b.dtype == ir::DType::I64;
  const bool one = std::all_of(b.dims.begin(), b.dims.end(), [](int64_t n) { return n == 1; });
  if (!one || (!wide && b.dtype != ir::DType::I32) || !b.data)
    bad_argument(p, fmt::format("dynamic grid bound {} is {}", index, type_text(b)), {},
                 "grid bounds are one i32 or i64");
  return wide ? *static_cast<const int64_t*>(b.data) : *static_cast<const int32_t*>(b.data);
}

bool overlaps(const Buffer& a, const Buffer& b, int64_t a_bytes, int64_t b_bytes) {
  const auto* p = static_cast<const std::byte*>(a.data);
  const auto* q = static_cast<const std::byte*>(b.data);
  return a_bytes > 0 && b_bytes > 0 && p < q + b_bytes && q < p + a_bytes;
}

}  // namespace

void poison_output(const Plan& p, const Options& options, size_t operand, std::byte* at) {
  const ir::Type& t = *p.module.operands[operand].array;
  poison(at, t.num_elements(), t.dtype, options.uninitialized);
}

std::vector<std::byte*> bind_device(const Plan& p, Session& session, const DeviceCall& d, const Options& options,
                                    std::vector<int64_t>* grid, int64_t* points, std::vector<int>* deferred_init,
                                    bool values) {
  const ir::Module& m = p.module;
  const auto dynamic = static_cast<size_t>(m.num_dynamic);
  const size_t outputs = d.results.size(), inputs = m.operands.size() - outputs;
  std::vector<std::byte*> operands(m.operands.size());
  for (size_t i = 0; i < m.operands.size(); ++i) {
    const Buffer& b = i < inputs ? d.args[dynamic + i] : d.results[i - inputs];
    check_buffer(p, b, m.operands[i]);
    operands[i] = static_cast<std::byte*>(b.data);
  }
  *points = 1;
  grid->clear();
  for (const ir::GridAxis& a : m.grid) {
    const int64_t n = a.dynamic < 0 ? a.size : read_bound(p, d.args[static_cast<size_t>(a.dynamic)], a.dynamic);
    grid->push_back(std::max<int64_t>(n, 0));
    if (__builtin_mul_overflow(*points, grid->back(), points))
      bad_argument(p, "the grid has more than 2^63 points", {}, "");
  }
  // Aliased outputs are their inputs: one buffer, as on the device.
  std::vector<bool> aliased(outputs, false);
  for (const ir::Alias& a : m.aliases) {
    const auto in = static_cast<size_t>(a.input), out = static_cast<size_t>(a.output);
    aliased[out] = true;
    std::byte* to = operands[inputs + out];
    if (to && to != operands[in]) std::memcpy(to, operands[in], static_cast<size_t>(m.operands[in].array->num_bytes()));
    operands[in] = to;
  }
  for (size_t o = 0; o < outputs; ++o) {
    const int64_t bytes = m.operands[inputs + o].array->num_bytes();
    for (size_t i = 0; i < inputs; ++i) {
      bool declared = false;
      for (const ir::Alias& a : m.aliases)
        declared |= static_cast<size_t>(a.input) == i && static_cast<size_t>(a.output) == o;
      if (!declared && overlaps(d.results[o], d.args[dynamic + i], bytes, m.operands[i].array->num_bytes()))
        bad_argument(
            p, fmt::format("output {} shares memory with input {}", m.operands[inputs + o].name, m.operands[i].name),
            {}, "declare an input/output alias, or pass a buffer of its own");
    }
    for (size_t other = 0; other < o; ++other)
      if (overlaps(d.results[o], d.results[other], bytes, m.operands[inputs + other].array->num_bytes()))
        bad_argument(p,
                     fmt::format("output {} shares memory with output {}", m.operands[inputs + o].name,
                                 m.operands[inputs + other].name),
                     {}, "pass a buffer of its own");
    const Window& w = p.first().windows[inputs + o];
    if (ir::is_sync(w.dtype)) {
      if (!aliased[o]) make_semaphores(session.state(), p, m.operands[inputs + o], operands[inputs + o]);
      continue;
    }
    if (aliased[o] || (w.fully_written && *points != 0)) continue;
    if (!values && m.operands[inputs + o].space != ir::Space::Smem) continue;
    if (w.init_deferred && deferred_init && *points != 0) deferred_init->push_back(w.operand);
    else poison_output(p, options, inputs + o, operands[inputs + o]);
  }
  return operands;
}

}  // namespace pallasim::interp
