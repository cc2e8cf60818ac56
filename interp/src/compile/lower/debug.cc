// Printing, checks, calls of the host.
#include <algorithm>

#include "../../plan/payload/print.h"
#include "../../plan/steps.h"
#include "arrays.h"
#include "pallasim/hw/machine.h"

namespace pallasim::interp {
namespace {

struct Placeholder {
  size_t operand;
  std::string spec;  // what follows the colon
};

// The placeholders of a format: "{name}" takes an operand by its name, "{}" the next one, "{2}" by position; each may
// have a conversion (!r, !s) and a format specification. Where there are no placeholders, all operands in order.
std::vector<Placeholder> placeholders_of(const std::string& format, const std::vector<std::string>& names, size_t count,
                                         bool placeholders) {
  std::vector<Placeholder> order;
  size_t next = 0;
  for (size_t i = 0; placeholders && i < format.size(); ++i) {
    const char c = format[i];
    if ((c == '{' || c == '}') && i + 1 < format.size() && format[i + 1] == c) {
      ++i;
    } else if (c == '{') {
      const size_t end = format.find_first_of(":!}", i);
      const size_t close = format.find('}', i);
      if (end == std::string::npos || close == std::string::npos) break;
      const std::string key = format.substr(i + 1, end - i - 1);
      const size_t colon = format.find(':', i);
      const auto named = std::find(names.begin(), names.end(), key);
      const bool number = !key.empty() && key.size() < 4 && key.find_first_not_of("0123456789") == std::string::npos;
      const size_t at = key.empty() ? next++ : number ? std::stoul(key) : static_cast<size_t>(named - names.begin());
      if (at < count) order.push_back({at, colon < close ? format.substr(colon + 1, close - colon - 1) : ""});
      i = close;
    }
  }
  if (!placeholders)
    for (size_t i = 0; i < count; ++i) order.push_back({i, ""});
  return order;
}

}  // namespace

// An operand that a step keeps a look at.
static PrintPayload::Arg shown(Emitter& e, const Op& op, size_t i, std::vector<Val>* keep) {
  Val v = e.operand(op, i);
  PrintPayload::Arg arg{};
  arg.dtype = v.dtype;
  if (v.is_scalar()) {
    arg.scalar = true;
    arg.slot = v.scalar().slot;
  } else {
    v = dense(e, v);
    keep->push_back(v);
    arg.addr = v.memory().addr;
    arg.dims = v.dims;
  }
  return arg;
}

// A text with values of the operands from `first` on.
static PrintPayload printed(Emitter& e, const Op& op, const std::string& format, bool placeholders, size_t first,
                            std::vector<Val>* keep) {
  PrintPayload p;
  p.format = format;
  p.placeholders = placeholders;
  p.literals = e.model().prints == hw::PrintStyle::Literals && e.options().chip->family == e.model().family;
  const size_t count = op.operands.size() - first;
  std::vector<std::string> names(count);
  if (const Attr* a = op.attr("names"))
    for (size_t i = 0; i < a->items.size() && i < names.size(); ++i) names[i] = a->items[i].s;
  for (const Placeholder& h : placeholders_of(p.format, names, count, placeholders)) {
    PrintPayload::Arg arg = shown(e, op, first + h.operand, keep);
    if (!h.spec.empty() && !e.functions().parse_format(h.spec, arg.dtype, &arg.style))
      e.unsupported(op, "format \"" + h.spec + "\" of " + std::string(ir::name(arg.dtype)));
    if (!h.spec.empty() && !arg.scalar) e.unsupported(op, "format \"" + h.spec + "\" of an array");
    p.args.push_back(std::move(arg));
  }
  return p;
}

static void lower_print(Emitter& e, const Op& op) {
  const Attr* a = op.attr("placeholders");
  std::vector<Val> keep;  // until the step is emitted: their memory is not reused
  e.emit<Kind::print>(printed(e, op, op.attr("format")->s, !a || a->is_true(), 0, &keep));
}

static void lower_check(Emitter& e, const Op& op) {
  std::vector<Val> keep;
  const Val v = e.operand(op, 0);
  if (!v.is_scalar()) e.unsupported(op, "check on an array");
  e.emit<Kind::check>(CheckPayload{printed(e, op, op.attr("message")->s, true, 1, &keep)}).a = v.scalar().slot;
}

// The host is told after the launch.
static void lower_host_call(Emitter& e, const Op& op) {
  require(e, op, op.results.empty(), "results");
  PrintPayload p;
  std::vector<Val> keep;
  for (size_t i = 0; i < op.operands.size(); ++i) p.args.push_back(shown(e, op, i, &keep));
  const Attr* index = op.attr("index");
  e.emit<Kind::host_call>(std::move(p)).imm = index && index->is_int() ? index->i : 0;
}

// The compiler believes it; a checked run looks at the number.
static void lower_multiple_of(Emitter& e, const Op& op) {
  const Val v = e.operand(op, 0);
  const Attr* values = op.attr("values");
  if (e.options().checked && v.is_scalar() && ir::is_int(v.dtype) && values && !values->items.empty() &&
      values->items[0].is_int() && values->items[0].i > 1)
    e.emit<Kind::promise>(PromisePayload{values->items[0].i, is_wide(v.dtype)}).a = scalar_slot(e, v);
  e.define(op.results[0], v);
}

// Promises to a compiler.
static void lower_identity(Emitter& e, const Op& op) {
  for (size_t i = 0; i < op.results.size(); ++i) e.define(op.results[i], e.operand(op, i));
}

static void lower_nothing(Emitter&, const Op&) {}

Rows debug_rows() {
  static constexpr Row kRows[] = {{OpCode::debug_print, lower_print},
                                  {OpCode::check, lower_check},
                                  {OpCode::debug_callback, lower_host_call},
                                  {OpCode::multiple_of, lower_multiple_of},
                                  {OpCode::max_contiguous, lower_identity},
                                  {OpCode::optimization_barrier, lower_identity},
                                  {OpCode::layout_cast, lower_identity},
                                  {OpCode::memory_space_constraint, lower_identity},
                                  {OpCode::stop_gradient, lower_identity},
                                  {OpCode::touch, lower_nothing},
                                  {OpCode::trace_mark, lower_nothing},
                                  {OpCode::trace_value, lower_nothing},
                                  {OpCode::print_layout, lower_nothing},
                                  {OpCode::set_max_registers, lower_nothing},
                                  {OpCode::delay, lower_nothing},
                                  {OpCode::debug_barrier, lower_nothing}};
  return kRows;
}

}  // namespace pallasim::interp
