// Which memory steps touch, as data.
#pragma once
#include "../plan/kinds.h"
#include "execution.h"

namespace pallasim::interp::ops {

// Receives the boxes of a step, one after the other, in the order in which it reads and writes them.
class Boxes {
 public:
  explicit Boxes(const Thread& t, const Step& s) : t_(t), s_(s) {}
  virtual ~Boxes() = default;
  Boxes(const Boxes&) = delete;
  Boxes& operator=(const Boxes&) = delete;

  using Dims = std::vector<int64_t>;  // elements
  void read(const Addr& a, const Dims& dims, const Dims& strides, int bytes) { add(a, dims, strides, bytes, false); }
  void write(const Addr& a, const Dims& dims, const Dims& strides, int bytes) { add(a, dims, strides, bytes, true); }
  // Of the compiler's own: results of reductions, what is printed.
  void temporary(const Addr& a, const Dims& dims, const Dims& strides, int bytes, bool write) {
    add(a, dims, strides, bytes, write, true);
  }

 protected:
  virtual void box(const Access&, bool temporary) = 0;

 private:
  void add(const Addr&, const Dims& dims, const Dims& strides, int bytes, bool write, bool temporary = false);
  const Thread& t_;
  const Step& s_;
};

// The boxes of a step whose row says Footprint::Static; of others none.
void footprint(const Thread&, const Step&, Boxes&);
// Of an elementwise program by itself.
void footprint(const EltProgram&, Boxes&);
// Tells listeners what the step is about to do, as far as its row knows. The engine asks before each step of a run that
// somebody watches.
void tell(Thread&, const Step*);
// The same of a program that a step is made of.
void tell(Thread&, const Step*, const EltProgram&);

}  // namespace pallasim::interp::ops
