// What the op table (ops.def) says about an operation.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace pallasim::ir {

enum class OpCode : uint16_t {
#define OP(e, ...) e,
#include "pallasim/ir/ops.def"
#undef OP
};
inline constexpr int kNumOps = 0
#define OP(...) +1
#include "pallasim/ir/ops.def"
#undef OP
    ;

enum class Family : uint8_t { Elementwise, Shape, Reduction, Control, Memory, Async, Random, Debug };

// One checking function each (src/type_rules.cc). Declared: results are taken as written.
enum class TypeRule : uint8_t {
  Abs,
  ArgReduce,
  BitcastConvert,
  Broadcast,
  Call,
  Clamp,
  Compare,
  ComplexPart,
  Concat,
  Cond,
  Constant,
  Convert,
  Cumulative,
  Declared,
  Dot,
  DynamicSlice,
  DynamicUpdate,
  For,
  Get,
  Identity,
  Index,
  Iota,
  MaskedLoad,
  NoResult,
  Pad,
  Pow,
  Predicate,
  Reduce,
  RefResult,
  Reshape,
  Same,
  Scoped,
  Select,
  Slice,
  Store,
  Swap,
  Transpose,
  Variadic,
  While
};

enum Effect : uint16_t {
  kEffectNone = 0,
  kEffectRead = 1,
  kEffectWrite = 2,
  kEffectAtomic = 4,
  kEffectSync = 8,
  kEffectAsync = 16,
  kEffectControl = 32,
  kEffectAlloc = 64,
  kEffectPrint = 128,
  kEffectCheck = 256,
  kEffectRandom = 512
};
enum class Fidelity : uint8_t { Exact, Ulp, Contraction };

enum class AttrKind : uint8_t {
  Int,
  Ints,
  Bool,
  Sym,
  Str,
  Type,
  Literal,
  List,
  Dict,
  View,
  Transforms,
  Operand,
  ViewOrOperand,
  Any
};
std::string_view name(AttrKind);  // as ops.def has it
struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  bool optional;
};

struct OpInfo {
  OpCode code;
  std::string_view name;
  Family family;
  int min_operands, max_operands;  // max -1: any
  int regions;                     // -1: any
  TypeRule rule;
  std::vector<AttrSpec> attrs;
  bool open_attrs;  // `any:any?`: unlisted attributes are admitted
  uint16_t effects;
  Fidelity fidelity;
  std::string_view doc;
};

const OpInfo& info(OpCode);
inline std::string_view name(OpCode c) { return info(c).name; }
bool parse_op(std::string_view name, OpCode* out);

}  // namespace pallasim::ir
