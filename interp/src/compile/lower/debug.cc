// Printing, checks, calls of the host.
#include <algorithm>

#include "../../plan/steps.h"
#include "../compiler.h"
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
PrintPayload::Arg Compiler::shown(const Op& op, size_t i) {
  Val v = operand(op, i);
  PrintPayload::Arg arg{};
  arg.dtype = v.dtype;
  if (v.is_scalar()) {
    arg.scalar = true;
    arg.slot = v.slot;
  } else {
    v = dense(v);
    printed_.push_back(v);
    arg.addr = v.addr;
    arg.dims = v.dims;
  }
  return arg;
}

// A text with values of the operands from `first` on.
PrintPayload Compiler::printed(const Op& op, const std::string& format, bool placeholders, size_t first) {
  PrintPayload p;
  p.format = format;
  p.placeholders = placeholders;
  p.literals = model_.prints == hw::PrintStyle::Literals && plan_.options.chip->family == model_.family;
  const size_t count = op.operands.size() - first;
  std::vector<std::string> names(count);
  if (const Attr* a = op.attr("names"))
    for (size_t i = 0; i < a->items.size() && i < names.size(); ++i) names[i] = a->items[i].s;
  for (const Placeholder& h : placeholders_of(p.format, names, count, placeholders)) {
    PrintPayload::Arg arg = shown(op, first + h.operand);
    if (!h.spec.empty() && !ops::parse_format(h.spec, arg.dtype, &arg.style))
      unsupported(op, "format \"" + h.spec + "\" of " + std::string(ir::name(arg.dtype)));
    if (!h.spec.empty() && !arg.scalar) unsupported(op, "format \"" + h.spec + "\" of an array");
    p.args.push_back(std::move(arg));
  }
  return p;
}

void Compiler::op_print(const Op& op) {
  const Attr* a = op.attr("placeholders");
  emit(ops::print, plan_.own(printed(op, op.attr("format")->s, !a || a->is_true(), 0)));
  printed_.clear();
}

void Compiler::op_check(const Op& op) {
  const Val v = operand(op, 0);
  if (!v.is_scalar()) unsupported(op, "check on an array");
  emit(ops::check, plan_.own(ops::CheckPayload{printed(op, op.attr("message")->s, true, 1)})).a = v.slot;
  printed_.clear();
}

// The host is told after the launch.
void Compiler::op_host_call(const Op& op) {
  require(op, op.results.empty(), "results");
  PrintPayload p;
  for (size_t i = 0; i < op.operands.size(); ++i) p.args.push_back(shown(op, i));
  const Attr* index = op.attr("index");
  emit(ops::host_call, plan_.own(std::move(p))).imm = index && index->is_int() ? index->i : 0;
  printed_.clear();
}

}  // namespace pallasim::interp
