// Affine expressions: a constant and multiples of symbols, each of which lies in an interval.
#pragma once
#include <cstdint>
#include <vector>

#include "pallasim/ir/dtype.h"

namespace pallasim::interp::analysis {

struct Interval {
  int64_t least = 0, greatest = 0;
  bool is_one() const { return least == greatest; }
  bool operator==(const Interval&) const = default;
};
Interval operator+(Interval, Interval);
Interval operator*(Interval, int64_t);
Interval hull(Interval, Interval);

struct Symbol {
  enum class Kind : uint8_t {
    Axis,    // a coordinate of the grid
    Trip,    // how often the body of a loop has run
    Dim,     // the position along a dimension of an array, or of what an access takes
    Number,  // a scalar of which the interval is known
    Element  // elements of an array of which it is
  } kind;
  int id = 0;  // of a kind; equal ones are one number wherever they meet
  Interval values;
  bool is(Kind k, size_t n) const { return kind == k && id == static_cast<int>(n); }
};

struct Term {
  Symbol symbol;
  int64_t by = 0;
  bool operator==(const Term& o) const {
    return symbol.kind == o.symbol.kind && symbol.id == o.symbol.id && by == o.by;
  }
};

struct AffineExpr {
  int64_t constant = 0;
  std::vector<Term> terms;  // ascending by kind and id, none by 0

  AffineExpr() = default;
  explicit AffineExpr(int64_t n) : constant(n) {}
  explicit AffineExpr(Symbol s, int64_t by = 1) : terms{{s, by}} {}

  bool is_constant() const { return terms.empty(); }
  bool has_only(Symbol::Kind) const;
  int64_t along(size_t axis) const;           // the multiple of a coordinate of the grid
  bool moves_alone_along(size_t axis) const;  // by this coordinate, and by no other one
  AffineExpr without(Symbol::Kind) const;
  Interval range() const;  // whatever the symbols are
  bool operator==(const AffineExpr&) const = default;
};
// Sums and products stick at the ends of i64, which no expression of a value reaches (fits).
AffineExpr operator+(const AffineExpr&, const AffineExpr&);
AffineExpr operator-(const AffineExpr&, const AffineExpr&);
AffineExpr operator*(const AffineExpr&, int64_t);

// Whether an integer type holds the expression whatever its symbols are, so that nothing wraps around; false also for
// numbers that are so large that differences of two expressions could leave i64.
bool fits(const AffineExpr&, ir::DType);

}  // namespace pallasim::interp::analysis
