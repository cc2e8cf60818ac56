// Attributes: a small tree of literals. Ref transforms, block mappings and dimension numbers are all
// written with it, so the grammar has one place to grow (docs/ir.md). Ref transforms are typed with the text (view.h).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pallasim/ir/dtype.h"
#include "pallasim/ir/type.h"

namespace pallasim::ir {

struct Viewed;

struct Attr {
  enum class Kind : uint8_t {
    Int,      // 42, -1
    String,   // "text"
    Symbol,   // a name: true, default, parallel
    Bits,     // f32 0x3f800000: one element, bits in `i`
    Dense,    // f32[4] 0x…: elements row-major, little endian, bytes in `s`
    Blob,     // blob(f32[4], "sha256"): an array of the capsule
    List,     // [a, b]
    Dict,     // {k = a}
    Call,     // slice(0, 8, 1): name in `s`, arguments in `items`
    Operand,  // $2: the operation's operand number 2, in `i`
    TypeOf,   // f32[8,128], or a bare dtype printed f32[]
    View      // [index(0), …] or view($2, […]), typed
  };
  Kind kind = Kind::Int;
  DType dtype = DType::I32;  // Bits
  int64_t i = 0;
  std::string s;
  const Type* type = nullptr;          // TypeOf, Dense, Blob
  std::vector<Attr> items;             // List, Call, Dict (values)
  std::vector<std::string> keys;       // Dict
  std::shared_ptr<const Viewed> view;  // View

  static Attr integer(int64_t v) {
    Attr a;
    a.i = v;
    return a;
  }
  static Attr boolean(bool v) { return symbol(v ? "true" : "false"); }
  static Attr string(std::string v) {
    Attr a;
    a.kind = Kind::String;
    a.s = std::move(v);
    return a;
  }
  static Attr symbol(std::string v) {
    Attr a;
    a.kind = Kind::Symbol;
    a.s = std::move(v);
    return a;
  }
  static Attr bits(DType t, uint64_t v) {
    Attr a;
    a.kind = Kind::Bits;
    a.dtype = t;
    a.i = static_cast<int64_t>(v);
    return a;
  }
  static Attr list(std::vector<Attr> v) {
    Attr a;
    a.kind = Kind::List;
    a.items = std::move(v);
    return a;
  }
  static Attr ints(const std::vector<int64_t>& v);
  static Attr call(std::string name, std::vector<Attr> v) {
    Attr a;
    a.kind = Kind::Call;
    a.s = std::move(name);
    a.items = std::move(v);
    return a;
  }
  static Attr operand(int index) {
    Attr a;
    a.kind = Kind::Operand;
    a.i = index;
    return a;
  }
  static Attr of_type(const Type* t) {
    Attr a;
    a.kind = Kind::TypeOf;
    a.type = t;
    return a;
  }
  static Attr of_view(Viewed);

  bool is(Kind k) const { return kind == k; }
  bool is_int() const { return kind == Kind::Int; }
  bool is_true() const { return kind == Kind::Symbol && s == "true"; }
  bool is_call(std::string_view name) const { return kind == Kind::Call && s == name; }
};

// Key order is part of the module: printing keeps it.
using AttrDict = std::vector<std::pair<std::string, Attr>>;
const Attr* find(const AttrDict&, std::string_view key);  // nullptr when absent

}  // namespace pallasim::ir
