// Inline assembly of one PTX instruction that is an operation of ours: `tanh.approx.f32 $0, $1;`. All else is refused.
#include <algorithm>
#include <sstream>

#include "../values/elementwise.h"
#include "lowering.h"

namespace pallasim::interp {
namespace {

// What an instruction computes; `approx` and rounding to nearest are what the operation does anyway.
struct Instruction {
  const char* name;
  ir::OpCode op;
  size_t args;
  const char* types;  // that it exists for
};
constexpr Instruction kInstructions[] = {
    {"tanh.approx", ir::OpCode::tanh, 1, "f32 f16 bf16"},
    {"ex2.approx", ir::OpCode::exp2, 1, "f32 f16 bf16"},
    {"sin.approx", ir::OpCode::sin, 1, "f32"},
    {"cos.approx", ir::OpCode::cos, 1, "f32"},
    {"rsqrt.approx", ir::OpCode::rsqrt, 1, "f32 f64"},
    {"sqrt.approx", ir::OpCode::sqrt, 1, "f32"},
    {"sqrt.rn", ir::OpCode::sqrt, 1, "f32 f64"},
    {"abs", ir::OpCode::abs, 1, "f32 f64 f16 bf16 s32 s64"},
    {"neg", ir::OpCode::neg, 1, "f32 f64 f16 bf16 s32 s64"},
    {"add", ir::OpCode::add, 2, "f32 f64 f16 bf16 s32 u32 s64 u64"},
    {"add.rn", ir::OpCode::add, 2, "f32 f64 f16 bf16"},
    {"sub", ir::OpCode::sub, 2, "f32 f64 f16 bf16 s32 u32 s64 u64"},
    {"sub.rn", ir::OpCode::sub, 2, "f32 f64 f16 bf16"},
    {"mul", ir::OpCode::mul, 2, "f32 f64 f16 bf16"},
    {"mul.rn", ir::OpCode::mul, 2, "f32 f64 f16 bf16"},
    {"mul.lo", ir::OpCode::mul, 2, "s32 u32 s64 u64"},
    {"div.rn", ir::OpCode::div, 2, "f32 f64"},
    {"max", ir::OpCode::max, 2, "f32 f64 f16 bf16 s32 u32 s64 u64"},
    {"min", ir::OpCode::min, 2, "f32 f64 f16 bf16 s32 u32 s64 u64"},
    {"and", ir::OpCode::and_, 2, "b32 b64"},
    {"or", ir::OpCode::or_, 2, "b32 b64"},
    {"xor", ir::OpCode::xor_, 2, "b32 b64"},
    {"not", ir::OpCode::not_, 1, "b32 b64"},
    {"popc", ir::OpCode::population_count, 1, "b32"},
    {"clz", ir::OpCode::clz, 1, "b32"},
};

bool has_word(const std::string& words, const std::string& word) {
  std::istringstream in(words);
  for (std::string w; in >> w;)
    if (w == word) return true;
  return false;
}

bool is_type(const std::string& suffix, ir::DType t) {
  switch (t) {
    case ir::DType::F16: return suffix == "f16";
    case ir::DType::BF16: return suffix == "bf16";
    case ir::DType::F32: return suffix == "f32";
    case ir::DType::F64: return suffix == "f64";
    case ir::DType::I32: return suffix == "s32" || suffix == "b32";
    case ir::DType::U32: return suffix == "u32" || suffix == "b32";
    case ir::DType::I64: return suffix == "s64" || suffix == "b64";
    case ir::DType::U64: return suffix == "u64" || suffix == "b64";
    default: return false;
  }
}

std::string without(std::string s, const std::string& part) {
  if (const size_t at = s.find(part); at != s.npos) s.erase(at, part.size());
  return s;
}

// "add.f32 $0, $1, $2;" -> {"add.f32", "0", "1", "2"}; empty for anything else.
std::vector<std::string> words_of(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == ',' || c == '\n' || c == '\t'; }, ' ');
  while (!text.empty() && (text.back() == ' ' || text.back() == ';')) text.pop_back();
  if (text.find_first_of(";{}%") != text.npos) return {};
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string w; in >> w;) {
    if (!words.empty()) {
      if (w.size() != 2 || w[0] != '$' || w[1] < '0' || w[1] > '9') return {};
      w.erase(0, 1);
    }
    words.push_back(w);
  }
  return words;
}

}  // namespace

static void lower_inline_asm(Emitter& e, const Op& op) {
  const std::string text = op.attr("asm")->s;
  auto refuse = [&](const std::string& why) { e.unsupported(op, "inline assembly \"" + text + "\": " + why); };
  const std::vector<std::string> words = words_of(text);
  if (op.results.size() != 1 || words.size() < 3 || words[1] != "0")
    refuse("only one instruction on $0, $1, … with one result has a meaning");
  const size_t dot = words[0].rfind('.');
  std::string suffix = dot == std::string::npos ? "" : words[0].substr(dot + 1);
  std::string name = words[0].substr(0, dot);
  // Packed halves: two neighbours of the array in one register.
  const Attr* pack = op.attr("pack");
  const bool packed = suffix.size() > 2 && suffix.compare(suffix.size() - 2, 2, "x2") == 0;
  if (packed != (pack && pack->is_int() && pack->i == 2)) refuse("the packing is not that of the instruction");
  if (packed) suffix.resize(suffix.size() - 2);
  const bool flush = name.find(".ftz") != name.npos;
  name = without(name, ".ftz");
  const Instruction* found = nullptr;
  for (const Instruction& i : kInstructions)
    if (name == i.name && has_word(i.types, suffix)) found = &i;
  if (!found) refuse("instruction " + words[0] + " has no meaning here");
  if (words.size() != found->args + 2)
    refuse("instruction " + words[0] + " takes " + std::to_string(found->args) + " operands");
  const ir::Type& result = *e.type(op.results[0]);
  StripParams params;
  params.dtype = result.dtype;
  params.semantics = e.semantics();
  auto flushed = [&](Val v) {
    if (!flush || result.dtype != ir::DType::F32) return v;
    using C = ir::OpCode;
    ir::Type predicate = result;
    predicate.dtype = ir::DType::Bool;
    if (v.is_pending()) v = strided(e, v);
    const Val normal = e.const_scalar(result.dtype, 0x00800000), zero = e.const_scalar(result.dtype, 0);
    const Val small =
        elementwise_value(e, C::lt, result.dtype, predicate,
                          {elementwise_value(e, C::abs, result.dtype, result, {v}, params), normal}, params);
    const Val signed_zero = elementwise_value(e, C::mul, result.dtype, result, {v, zero}, params);
    return elementwise_value(e, C::select_n, result.dtype, result, {small, v, signed_zero}, params);
  };
  std::vector<Val> args;
  for (size_t i = 2; i < words.size(); ++i) {
    const size_t k = static_cast<size_t>(words[i][0] - '1');
    if (words[i] == "0" || k >= op.operands.size()) refuse("$" + words[i] + " is no operand");
    const Val& v = e.operand(op, k);
    if (!is_type(suffix, v.dtype) || v.dtype != result.dtype)
      refuse("the instruction's type is not that of the arrays");
    args.push_back(flushed(v));
  }
  if (!e.kernels().strip(found->op, result.dtype))
    refuse("the operation has no meaning for " + std::string(ir::name(result.dtype)));
  e.define(op.results[0], flushed(elementwise_value(e, found->op, result.dtype, result, std::move(args), params)));
}

Rows asm_rows() {
  static constexpr Row kRows[] = {{OpCode::inline_asm, lower_inline_asm}};
  return kRows;
}

}  // namespace pallasim::interp
