// Who makes NaN and infinity, in words.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "../ops/elements.h"
#include "report.h"
#include "words.h"

namespace pallasim::interp {
namespace {

using ops::NanSource, ops::NonFinite;

std::string number(double v, ir::DType t) {
  if (std::isnan(v)) return "nan";
  if (!ir::is_float(t) && !ir::is_complex(t)) return fmt::format("{:.0f}", v);
  const CType c = compute_type(t);
  return c == CType::F64 || c == CType::C128 ? fmt::format("{}", v) : fmt::format("{}", static_cast<float>(v));
}

std::string text_of(const ops::NanSource& s) {
  if (ir::is_complex(s.dtype))
    return s.count == 1 ? fmt::format("{}+{}j", number(s.least, s.dtype), number(s.greatest, s.dtype))
                        : fmt::format("{} numbers", s.count);
  if (s.count == 1) return number(s.least, s.dtype);
  return fmt::format("{} numbers from {} to {}", s.count, number(s.least, s.dtype), number(s.greatest, s.dtype));
}

// The greatest finite number of a type; empty where only wide types have it.
std::string greatest(ir::DType t) {
  switch (t) {
    case ir::DType::F16: return "65504";
    case ir::DType::BF16: return "3.3895e+38";
    case ir::DType::F32: return "3.4028e+38";
    case ir::DType::F64: return "1.7977e+308";
    case ir::DType::F8E3M4: return "15.5";
    case ir::DType::F8E4M3:
    case ir::DType::F8E4M3FNUZ: return "240";
    case ir::DType::F8E4M3FN: return "448";
    case ir::DType::F8E4M3B11FNUZ: return "30";
    case ir::DType::F8E5M2:
    case ir::DType::F8E5M2FNUZ: return "57344";
    case ir::DType::F4E2M1FN: return "6";
    default: return {};
  }
}

std::string too_large(ir::DType t) {
  const std::string most = greatest(t);
  return most.empty() ? "the result does not fit its type"
                      : fmt::format("the greatest finite {} is {}", ir::name(t), most);
}

std::string hint_of(const NanPayload& p, const ops::NonFinite& f) {
  if (f.of_infinities)
    return "no operation of this launch made these infinities of finite numbers: they are constants, such as a mask's, "
           "or came with the operands; a row that is masked everywhere has -inf for its maximum: use a large finite "
           "number, or jnp.where(m == -jnp.inf, 0, m)";
  switch (p.op) {
    case ir::OpCode::exp:
    case ir::OpCode::exp2:
    case ir::OpCode::expm1:
    case ir::OpCode::sinh:
    case ir::OpCode::cosh: return too_large(p.result.dtype) + ": subtract the maximum from what it is given";
    case ir::OpCode::div:
    case ir::OpCode::rem:
    case ir::OpCode::reciprocal:
    case ir::OpCode::rsqrt:
    case ir::OpCode::sqrt:
    case ir::OpCode::log:
    case ir::OpCode::log2:
    case ir::OpCode::log1p:
    case ir::OpCode::pow:
    case ir::OpCode::integer_pow:
      return "keep its operand where the result is finite, jnp.maximum(x, eps) or jnp.where(x > 0, x, 1), before the "
             "operation; a jnp.where behind it hides the value and not its gradient";
    case ir::OpCode::convert:
    case ir::OpCode::reduce_precision:
    case ir::OpCode::stochastic_round: return too_large(p.result.dtype) + ": scale or clip before the conversion";
    case ir::OpCode::gather: return "indices outside of the array give NaN where mode is \"fill\"";
    default: return too_large(p.result.dtype) + ": scale the operands, or compute in a wider type";
  }
}

std::string element_text(const NanPayload& p, const std::vector<int64_t>& element, int64_t elements) {
  return fmt::format("element {} of its {}[{}]", ops::shape_text(element), ir::name(p.result.dtype),
                     fmt::join(p.result.dims, ", ")) +
         (elements > 1 ? fmt::format(", the first of {} such elements", elements) : "");
}

}  // namespace

void Words::overflowed(const Thread& t, const Step* s, const NanPayload& p, const ops::Overflow& f) const {
  Execution& ex = *t.exec;
  if (!ex.log.noted.emplace(s, ex.log.findings.size()).second) return;
  std::vector<std::string> args;
  for (const ops::NanSource& o : f.sources) args.push_back(text_of(o));
  ir::Diagnostic d =
      diagnostic_at(t, s, "PS-NAN-004",
                    fmt::format("{} leaves {}: {}({}) = {:.0f}", ir::name(p.op), ir::name(p.result.dtype),
                                ir::name(p.op), fmt::join(args, ", "), f.exact));
  if (!p.result.dims.empty()) d.numbers.push_back(element_text(p, f.element, f.elements));
  d.numbers.push_back(fmt::format("the greatest {} is {:.0f}; what does not fit loses its upper bits",
                                  ir::name(p.result.dtype), std::exp2(ir::bit_width(p.result.dtype) - 1) - 1));
  d.hint =
      "compute in a wider type, or add up less before the sum is scaled; where integers are to wrap, unsigned ones do";
  ex.add_finding(std::move(d));
}

void Words::not_finite(const Thread& t, const Step* s, const NanPayload& p, const ops::NonFinite& f) const {
  Execution& ex = *t.exec;
  if (!ex.log.noted.emplace(s, ex.log.findings.size()).second) return;
  std::vector<std::string> args;
  for (const ops::NanSource& o : f.sources) args.push_back(text_of(o));
  const std::string what = f.nan ? "NaN" : f.negative ? "-inf" : "inf";
  std::string name(ir::name(p.op));
  if (p.op == ir::OpCode::convert) name = fmt::format("convert to {}", ir::name(p.result.dtype));
  const ir::Code code = f.of_infinities ? ir::Code("PS-NAN-003")
                        : f.nan         ? ir::Code("PS-NAN-001")
                                        : ir::Code("PS-NAN-002");
  ir::Diagnostic d = diagnostic_at(
      t, s, code,
      fmt::format("{} makes {} of {}: {}({}) = {}", name, what, f.of_infinities ? "infinities" : "finite numbers",
                  ir::name(p.op), fmt::join(args, ", "), f.nan ? "nan" : what));
  if (!p.result.dims.empty()) d.numbers.push_back(element_text(p, f.element, f.elements));
  d.hint = hint_of(p, f);
  ex.add_finding(std::move(d));
}

void drop_followers(std::vector<ir::Diagnostic>* findings) {
  const auto is = [](ir::Code code) { return [code](const ir::Diagnostic& d) { return d.code == code; }; };
  if (std::any_of(findings->begin(), findings->end(), is("PS-NAN-002"))) std::erase_if(*findings, is("PS-NAN-003"));
}

}  // namespace pallasim::interp
