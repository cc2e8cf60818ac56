#include <fmt/format.h>

#include <cmath>

#include "../plan/payload/print.h"
#include "bodies.h"
#include "findings.h"

namespace pallasim::interp::ops {
namespace {

// A float as Python writes it: "2.0" alone, "2." inside an array.
template <typename T>
std::string float_text(T v, bool inside) {
  if (!std::isfinite(v) || v != std::floor(v) || std::fabs(v) >= static_cast<T>(1e16)) return fmt::format("{}", v);
  return inside ? fmt::format("{:.0f}.", v) : fmt::format("{:.1f}", v);
}

// One element, from its register form.
std::string element_text(const std::byte* at, ir::DType t, bool inside = false) {
  switch (compute_type(t)) {
    case CType::Bool: return *reinterpret_cast<const uint8_t*>(at) ? "True" : "False";
    case CType::I32: return std::to_string(*reinterpret_cast<const int32_t*>(at));
    case CType::U32: return std::to_string(*reinterpret_cast<const uint32_t*>(at));
    case CType::I64: return std::to_string(*reinterpret_cast<const int64_t*>(at));
    case CType::U64: return std::to_string(*reinterpret_cast<const uint64_t*>(at));
    case CType::F32: return float_text(*reinterpret_cast<const float*>(at), inside);
    case CType::F64: return float_text(*reinterpret_cast<const double*>(at), inside);
    case CType::C64: {
      const float* v = reinterpret_cast<const float*>(at);
      return fmt::format("({}{:+}j)", v[0], v[1]);
    }
    default: {
      const double* v = reinterpret_cast<const double*>(at);
      return fmt::format("({}{:+}j)", v[0], v[1]);
    }
  }
}

std::string array_text(const std::byte*& at, const PrintPayload::Arg& a, size_t d) {
  if (d == a.dims.size()) {
    alignas(16) std::byte reg[16];
    kernels().load(a.dtype)(reg, at, 1, 1);
    at += ir::byte_size(a.dtype);
    return element_text(reg, a.dtype, !a.dims.empty());
  }
  std::string r = "[";
  const std::string gap = d + 1 == a.dims.size() ? " " : "\n" + std::string(d + 1, ' ');
  for (int64_t i = 0; i < a.dims[d]; ++i) r += (i ? gap : "") + array_text(at, a, d + 1);
  return r + "]";
}

// XLA's name of an element type.
std::string literal_type(const PrintPayload::Arg& a) {
  std::string name(ir::name(a.dtype));
  if (a.dtype == ir::DType::Bool) name = "pred";
  else if (name[0] == 'i') name[0] = 's';
  return fmt::format("{}[{}]", name, fmt::join(a.dims, ","));
}

std::string literal_element(const std::byte* at, ir::DType t) {
  if (compute_type(t) == CType::F32) return fmt::format("{}", *reinterpret_cast<const float*>(at));
  if (t == ir::DType::Bool) return *reinterpret_cast<const uint8_t*>(at) ? "true" : "false";
  return element_text(at, t);
}

// The innermost dimension is a line, the others open and close on lines of their own.
std::string literal_rows(const std::byte*& at, const PrintPayload::Arg& a, size_t d) {
  const bool row = d + 1 == a.dims.size();
  std::string r = row && d > 0 ? "  {" : "{";
  for (int64_t i = 0; i < a.dims[d]; ++i) {
    if (!row) {
      r += (i ? ",\n" : "\n") + literal_rows(at, a, d + 1);
      continue;
    }
    alignas(16) std::byte reg[16];
    kernels().load(a.dtype)(reg, at, 1, 1);
    at += ir::byte_size(a.dtype);
    r += (i ? ", " : "") + literal_element(reg, a.dtype);
  }
  return r + (row ? "}" : "\n}");
}

std::string literal_text(const Thread& t, const PrintPayload& p, const PrintPayload::Arg& a) {
  if (a.scalar) return (p.placeholders ? "" : literal_type(a) + " ") + literal_element(t.arena + a.slot, a.dtype);
  const std::byte* at = t.resolve(a.addr);
  return literal_type(a) + " " + literal_rows(at, a, 0);
}

std::string text_of(const Thread& t, const PrintPayload& p) {
  std::vector<std::string> values;
  for (const PrintPayload::Arg& a : p.args) {
    if (p.literals) {
      values.push_back(literal_text(t, p, a));
    } else if (a.scalar) {
      const std::byte* at = t.arena + a.slot;
      const bool plain =
          a.style.type == 0 && a.style.width == 0 && a.style.precision < 0 && !a.style.sign && !a.style.grouping;
      values.push_back(plain ? element_text(at, a.dtype) : formatted(at, a.dtype, a.style));
    } else {
      const std::byte* at = t.resolve(a.addr);
      values.push_back(array_text(at, a, 0));
    }
  }
  std::string text;
  size_t next = 0;
  if (p.placeholders) {
    // "{}" and "{name}" take the next value; "{{" and "}}" are braces. Never a format string of ours.
    for (size_t i = 0; i < p.format.size(); ++i) {
      const char c = p.format[i];
      if ((c == '{' || c == '}') && i + 1 < p.format.size() && p.format[i + 1] == c) {
        text += c;
        ++i;
      } else if (c == '{') {
        const size_t end = p.format.find('}', i);
        if (end == std::string::npos) {
          text += c;
          continue;
        }
        text += next < values.size() ? values[next++] : std::string("{}");
        i = end;
      } else {
        text += c;
      }
    }
  } else {
    text = p.format;
    for (const std::string& v : values) text += (text.empty() || text.back() == ' ' ? "" : " ") + v;
  }
  return text;
}

}  // namespace

const Step* print(Thread& t, const Step* s) {
  const PrintPayload& p = payload<Kind::print>(s);
  t.exec->log.prints.push_back({t.exec->linear_point(t), text_of(t, p), nullptr});
  t.exec->events->print(t, t.exec->log.prints.back().text);
  return s + 1;
}

const Step* host_call(Thread& t, const Step* s) {
  Execution& ex = *t.exec;
  const bool stops = ex.host.breakpoints && ex.host.breakpoints->has(s->imm);
  if (!stops && !ex.host.keeps_calls) return s + 1;
  const PrintPayload& p = payload<Kind::host_call>(s);
  auto call = std::make_shared<HostCall>();
  call->callback = s->imm;
  for (const PrintPayload::Arg& a : p.args) {
    int64_t n = 1;
    for (int64_t d : a.dims) n *= d;
    HostCall::Array array{a.dtype, a.dims, std::vector<std::byte>(static_cast<size_t>(n * ir::byte_size(a.dtype)))};
    if (a.scalar) kernels().store(a.dtype)(array.bytes.data(), t.arena + a.slot, 1, 1);
    else std::memcpy(array.bytes.data(), t.resolve(a.addr), array.bytes.size());
    call->arguments.push_back(std::move(array));
  }
  if (stops) diagnose(t).at_breakpoint(t, s, *call);
  else ex.log.prints.push_back({ex.linear_point(t), {}, std::move(call)});
  return s + 1;
}

const Step* promise(Thread& t, const Step* s) {
  const auto& p = payload<Kind::promise>(s);
  const int64_t value = p.wide ? t.slot<int64_t>(s->a) : t.slot<int32_t>(s->a);
  if (value % p.by != 0) diagnose(t).broken_promise(t, s, value, p.by);
  return s + 1;
}

const Step* check(Thread& t, const Step* s) {
  if (!t.slot<uint8_t>(s->a)) diagnose(t).check_failed(t, s, text_of(t, payload<Kind::check>(s).message));
  return s + 1;
}

}  // namespace pallasim::interp::ops
