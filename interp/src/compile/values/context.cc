#include "context.h"

#include <fmt/format.h>

#include "pallasim/hw/machine.h"

namespace pallasim::interp {

namespace {

// Every flag is named: a new one has to be handed on.
Semantics semantics_of(const hw::Arithmetic& a) {
  const auto& [nan_propagates_in_minmax, fp8_saturates, int_rem_zero_is_x, sign_of_nan_is_one] = a;
  return {nan_propagates_in_minmax, fp8_saturates, int_rem_zero_is_x, sign_of_nan_is_one};
}

}  // namespace

Context::Context(Plan& plan, Body& body)
    : plan_(plan),
      body_(body),
      m_(plan.module),
      ir_body_(m_.bodies[static_cast<size_t>(body.index)]),
      model_(*body.model),
      k_(plan.options.numerics == Options::Numerics::Reference ? reference_kernels() : interp::kernels()),
      semantics_(semantics_of(model_.arithmetic)) {}

std::vector<int64_t> ints(const ir::Attr* a) {
  std::vector<int64_t> r;
  if (a)
    for (const ir::Attr& x : a->items) r.push_back(x.i);
  return r;
}

std::vector<int64_t> dims_of(const ir::Type* t) {
  std::vector<int64_t> r;
  for (const ir::Dim& d : t->dims) r.push_back(d.size);
  return r;
}

void unsupported(const ir::Module& m, const std::string& what) {
  ir::Diagnostic("PS-UNSUP-001", "unsupported: " + what).of(m.name).hinted("nothing ran").raise();
}

void Context::unsupported(const Op& op, const std::string& what) const {
  ir::Diagnostic("PS-UNSUP-001", "unsupported: " + what)
      .of(m_.name)
      .at(ir::site_of(m_, op.loc))
      .with({fmt::format("operation {} on machine {}", ir::name(op.code), ir::name(m_.machine))})
      .hinted("nothing ran; `pallasim info` lists what a kernel needs")
      .raise();
}

void require_memory(const Context& c, int64_t bytes, const std::string& what) {
  if (bytes > c.options().max_memory) too_much_memory(c, bytes, what);
}

void too_much_memory(const Context& c, int64_t bytes, const std::string& what) {
  ir::Diagnostic("PS-SIZE-001",
                 fmt::format("too much memory: {}, {} bytes; the limit is {}", what, bytes, c.options().max_memory))
      .of(c.module().name)
      .at(ir::site_of(c.module(), c.loc()))
      .hinted("smaller blocks, or a higher max_memory")
      .raise();
}

}  // namespace pallasim::interp
