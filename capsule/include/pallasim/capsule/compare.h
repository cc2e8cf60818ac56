// Arrays held against recorded ones.
#pragma once
#include <cstdint>
#include <string>

#include "pallasim/capsule/values.h"
#include "pallasim/ir/diagnostic.h"

namespace pallasim::capsule {

struct Tolerance {
  double rtol = 0, atol = 0;  // of elements of floats: atol + rtol * |recorded|. Both 0: every byte counts
  bool exact() const { return rtol == 0 && atol == 0; }
};

struct Difference {
  int64_t count = 0, first = 0, worst = 0;  // elements in row-major order
  double greatest = 0;                      // among those that differ and are numbers
};
// Of arrays of one type and shape.
Difference compare(const Array& got, const Array& want, const Tolerance&);
// Which elements differ and how, as numbers of a report; where no tolerance was given, a hint at one.
void describe(const Difference&, const Array& got, const Array& want, const Tolerance&, ir::Diagnostic*);

}  // namespace pallasim::capsule
