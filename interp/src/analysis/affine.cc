#include "affine.h"

#include <algorithm>
#include <tuple>

#include "pallasim/memory/saturate.h"

namespace pallasim::interp::analysis {
namespace {

constexpr int64_t kMost = int64_t{1} << 56;

auto key(const Term& t) { return std::tuple(t.symbol.kind, t.symbol.id); }

}  // namespace

Interval operator+(Interval a, Interval b) {
  return {memory::add(a.least, b.least), memory::add(a.greatest, b.greatest)};
}

Interval operator*(Interval a, int64_t by) {
  const int64_t x = memory::mul(a.least, by), y = memory::mul(a.greatest, by);
  return {std::min(x, y), std::max(x, y)};
}

Interval hull(Interval a, Interval b) { return {std::min(a.least, b.least), std::max(a.greatest, b.greatest)}; }

AffineExpr operator+(const AffineExpr& a, const AffineExpr& b) {
  AffineExpr r(memory::add(a.constant, b.constant));
  r.terms.reserve(a.terms.size() + b.terms.size());
  std::merge(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(), std::back_inserter(r.terms),
             [](const Term& x, const Term& y) { return key(x) < key(y); });
  for (size_t i = 1; i < r.terms.size(); ++i)
    if (key(r.terms[i]) == key(r.terms[i - 1]))
      r.terms[i].by = memory::add(r.terms[i].by, r.terms[i - 1].by), r.terms[i - 1].by = 0;
  std::erase_if(r.terms, [](const Term& t) { return t.by == 0; });
  return r;
}

AffineExpr operator*(const AffineExpr& a, int64_t by) {
  if (by == 0) return AffineExpr(0);
  AffineExpr r = a;
  r.constant = memory::mul(r.constant, by);
  for (Term& t : r.terms) t.by = memory::mul(t.by, by);
  return r;
}

AffineExpr operator-(const AffineExpr& a, const AffineExpr& b) { return a + b * -1; }

bool AffineExpr::has_only(Symbol::Kind kind) const {
  return std::all_of(terms.begin(), terms.end(), [&](const Term& t) { return t.symbol.kind == kind; });
}

int64_t AffineExpr::along(size_t axis) const {
  const auto t =
      std::find_if(terms.begin(), terms.end(), [&](const Term& x) { return x.symbol.is(Symbol::Kind::Axis, axis); });
  return t == terms.end() ? 0 : t->by;
}

bool AffineExpr::moves_alone_along(size_t axis) const {
  const auto coordinates =
      std::count_if(terms.begin(), terms.end(), [](const Term& t) { return t.symbol.kind == Symbol::Kind::Axis; });
  return coordinates == 1 && along(axis) != 0;
}

AffineExpr AffineExpr::without(Symbol::Kind kind) const {
  AffineExpr r = *this;
  std::erase_if(r.terms, [&](const Term& t) { return t.symbol.kind == kind; });
  return r;
}

Interval AffineExpr::range() const {
  Interval r{constant, constant};
  for (const Term& t : terms) r = r + t.symbol.values * t.by;
  return r;
}

bool fits(const AffineExpr& e, ir::DType type) {
  constexpr size_t kMostTerms = 16;
  if (e.terms.size() > kMostTerms || std::abs(e.constant) > kMost) return false;
  for (const Term& t : e.terms) {
    const Interval r = t.symbol.values * t.by;
    if (r.least < -kMost || r.greatest > kMost || t.by < -kMost || t.by > kMost) return false;
  }
  const Interval r = e.range();
  const bool is_signed = ir::is_signed_int(type);
  const int bits = ir::bit_width(type) - (is_signed ? 1 : 0);
  const int64_t most = bits >= 63 ? kMost : (int64_t{1} << bits) - 1;
  return r.least >= (is_signed ? -most - 1 : 0) && r.greatest <= most;
}

}  // namespace pallasim::interp::analysis
