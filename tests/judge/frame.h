// The declarations around a body: grid, operands with blocks and index maps, prefetch, scratch, aliases; and the first
// writes.
#pragma once
#include "body.h"
#include "case.h"

namespace pallasim::judge {

class Frame {
 public:
  Frame(Rng& rng, Case& c) : rng_(rng), c_(c), body_(rng, w_, ir::Machine::Generic, c.terms) {}
  void make();

 private:
  struct Operand {
    std::string kind, name, space, block, map;  // block: the attributes after `space`; map: the graph of the index map
    Type array, seen;
    int id = -1;      // of the body's argument
    int depends = 0;  // outputs: leading grid axes that choose the block
    bool whole = true;
    int alias = -1;  // outputs: number of the input that shares the memory
    bool edge = false;
    bool odd = false;  // the index map is no affine function
    bool permutation = false;
  };

  void choose_grid();
  void choose_operands();
  void choose_operands_of_cores();
  void choose_chain();
  void chain_step();
  void choose_strips();
  void store_strips();
  Operand operand(const std::string& kind, const std::string& name, Type seen, int depends, bool edge);
  std::string index_map(int depends, size_t rank, bool injective, bool plain, bool* odd);
  int axis_index(Writer& w, int axis, bool injective, bool* odd);
  void begin_body();
  void first_writes();
  void edges();
  int when_first(int from, bool again);
  Value first_visit(int from);
  Value odd_first_visit();
  void odd_predicates();
  void results();
  void mistake();
  void exchange();
  void arguments();
  std::string text() const;
  Type block_type();

  Rng& rng_;
  Case& c_;
  Writer w_;
  Body body_;
  ir::Machine machine_ = ir::Machine::Generic;
  int devices_ = 1, cores_ = 1;
  int me_ = -1;  // number of the device or core
  Dims grid_;
  int parallel_ = 0;      // leading axes that are declared parallel
  bool units_ = false;    // points along the first axis look independent and may not be
  bool dynamic_ = false;  // the first extent is an operand
  std::vector<Operand> prefetch_, inputs_, outputs_, scratch_;
  std::vector<Value> ids_;
  int chain_ = -1;             // of outputs_
  int strips_ = -1;            // of outputs_
  Dims strip_;                 // what one program writes of it
  bool from_end_ = false;      // of indices below 0
  bool diagonal_ = false;      // programs of one diagonal write the same
  bool behind_ = false;        // and the first row behind it
  int shared_ = -1;            // output that programs of a GPU update together
  size_t met_ = 0;             // outputs through which cores have met
  std::vector<size_t> dumps_;  // outputs that take a scratch ref at the end of each point
};

}  // namespace pallasim::judge
