#include "mxus.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "cost.h"

namespace pallasim::hw {
namespace {

struct Piece {
  const ir::Op* op;
  double work;  // rows times tiles
};

double sum(const std::vector<Piece>& pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), 0.0, [](double s, const Piece& p) { return s + p.work; });
}

// Of the unit that has most what is too much goes to the one that has least, from its largest piece.
void even_out(std::vector<std::vector<Piece>>* units) {
  double all = 0;
  for (const auto& u : *units) all += sum(u);
  const double even = all / static_cast<double>(units->size());
  const auto less = [](const auto& a, const auto& b) { return sum(a) < sum(b); };
  for (size_t moves = 0; moves < 64; ++moves) {
    const auto [least, most] = std::minmax_element(units->begin(), units->end(), less);
    const double over = sum(*most) - even;
    if (over <= 1e-6 * even) return;
    const auto from =
        std::max_element(most->begin(), most->end(), [](const Piece& a, const Piece& b) { return a.work < b.work; });
    const double moved = std::min({over, even - sum(*least), from->work});
    from->work -= moved;
    least->push_back({from->op, moved});
  }
}

}  // namespace

Mxus::Mxus(const ir::Module& m, const TimingFigures& f) : units_(static_cast<size_t>(f("mxus"))) {
  if (units_ < 1 || units_ > kMxus) throw std::logic_error("mxus: more of them than a product's shares tell");
  for (const ir::Body& b : m.bodies) deal(b.graph.region, b.graph, f);
}

Mxus::Shares Mxus::of(const ir::Op& op) const {
  const auto it = shares_.find(&op);
  if (it != shares_.end()) return it->second;
  Shares even{};
  std::fill_n(even.begin(), units_, 1.0 / static_cast<double>(units_));
  return even;
}

void Mxus::deal(const ir::Region& r, const ir::Graph& g, const TimingFigures& f) {
  const auto size = static_cast<int64_t>(f("mxu_size"));
  std::vector<Piece> pieces;
  for (const ir::Op& op : r.ops) {
    for (const ir::Region& x : op.regions) deal(x, g, f);
    if (sort_of(op.code) != Sort::Product) continue;
    const ProductShape s = product_shape(op, g);
    const int64_t columns = s.batch * ceil_div(s.n, size), deep = ceil_div(s.k, size);
    const double chain = f("mxu_chain_rows");
    const bool chained = chain > 0 && static_cast<double>(s.m) > chain;
    const double tile = static_cast<double>(s.m);
    // Where there are many nothing hangs on where each of them goes.
    if (columns * deep > 4096 || columns * deep * s.m < 1) continue;
    for (int64_t i = 0; i < columns * (chained ? 1 : deep); ++i)
      pieces.push_back({&op, tile * static_cast<double>(chained ? deep : 1)});
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.work > b.work; });
  std::vector<std::vector<Piece>> units(units_);
  std::vector<double> load(units_);
  for (const Piece& p : pieces) {
    const auto least = static_cast<size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    load[least] += p.work;
    units[least].push_back(p);
  }
  even_out(&units);
  std::unordered_map<const ir::Op*, double> all;
  for (size_t u = 0; u < units.size(); ++u)
    for (const Piece& p : units[u]) shares_[p.op][u] += p.work, all[p.op] += p.work;
  for (const auto& [op, work] : all)
    for (double& share : shares_[op]) share /= work;
}

}  // namespace pallasim::hw
