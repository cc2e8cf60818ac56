// Random modules from the op table: well-formed as text, mostly ill-typed.
#pragma once
#include <cstdint>
#include <random>

#include "pallasim/ir/module.h"

namespace pallasim::ir {

class RandomModule {
 public:
  explicit RandomModule(uint64_t seed) : rng_(seed) {}
  Module make();

 private:
  int below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  std::string word();
  std::string text();
  Dim dim();
  const Type* tensor(bool is_static = false);
  const Type* ref(int depth = 0);
  const Type* type() { return chance(30) ? ref() : tensor(); }
  Attr literal();
  Attr attr(int depth, int operands);
  Attr number(int operands);
  Attr views(int operands);
  Attr attr_of(AttrKind kind, int operands);
  AttrDict attrs(int operands);
  Graph graph();
  void region(Graph& g, Region& r, int depth);
  void op(Graph& g, Op& o, int depth);
  ValueId define(Graph& g, const Type* t, std::string name = {});

  std::mt19937_64 rng_;
  Module m_;
};

}  // namespace pallasim::ir
