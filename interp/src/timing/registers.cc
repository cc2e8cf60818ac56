#include "registers.h"

#include "step_costs.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "pallasim/ir/op_table.h"

namespace pallasim::interp {
namespace {

using ir::OpCode;
using ir::ValueId;

// One body, from its end to its beginning.
class Liveness {
 public:
  Liveness(const ir::Graph& g, double threads) : g_(g), threads_(threads) {}

  Pressure of_body() {
    same_ = same_values(g_);
    count_uses(g_.region);
    settle(g_.region);
    walk(g_.region, {});
    most_.outside = taken_[0] / 4 / threads_;
    most_.inside = taken_[1] / 4 / threads_;
    if (most_depth_ > 0) tell_out();
    most_.products = !products_.empty();
    most_.loops = loops_;
    return most_;
  }

 private:
  using Live = std::set<ValueId>;

  bool in_registers(ValueId v) const {
    const ir::Type* t = g_.type(v);
    return t->is_ref && t->space == ir::Space::Regs && t->is_static() && !t->is_scalar();
  }

  // Bytes of registers; 0: it is no array, or costs none.
  double bytes(ValueId v) const {
    const ir::Type* t = g_.type(v);
    if (in_registers(v)) return static_cast<double>(t->num_bytes());
    if (t->is_ref || !t->is_static() || t->is_scalar() || free_.contains(v)) return 0;
    const auto n = static_cast<double>(t->num_elements());
    return n < threads_ || t->dtype == ir::DType::Bool ? 0 : n * ir::bit_width(t->dtype) / 8;
  }

  void count_uses(const ir::Region& r) {
    for (const ir::Op& op : r.ops) {
      for (const ValueId v : op.operands) ++uses_[v];
      for (const ir::Region& x : op.regions) count_uses(x);
    }
  }

  static bool reduces(const ir::Op& op) {
    return op.code == OpCode::reduce_sum || op.code == OpCode::reduce_max || op.code == OpCode::reduce_min ||
           op.code == OpCode::reduce_prod;
  }

  // Which values lie where another one was, and which take no registers.
  void settle(const ir::Region& r) {
    for (const ir::Op& op : r.ops) {
      for (const ir::Region& x : op.regions) {
        settle(x);
        for (size_t i = 0; !x.ops.empty() && i < op.results.size() && i < x.ops.back().operands.size(); ++i)
          if (bytes(x.ops.back().operands[i]) > 0) lies_where(op.results[i], x.ops.back().operands[i]);
      }
      if (op.code == OpCode::store && in_registers(op.operands[0]) && bytes(op.operands[1]) > 0)
        lies_where(op.operands[0], op.operands[1]);
      if (op.results.empty() || !op.regions.empty()) continue;
      if (const auto it = same_.find(op.results[0]); it != same_.end()) {
        lies_where(op.results[0], it->second);
        for (std::set<ValueId>* of : {&loaded_, &products_})
          if (of->contains(it->second)) of->insert(op.results[0]);
        continue;
      }
      switch (op.code) {
        case OpCode::constant:
        case OpCode::iota:
        case OpCode::broadcast_in_dim: free_.insert(op.results[0]); continue;
        case OpCode::optimization_barrier:
        case OpCode::layout_cast:
          for (size_t i = 0; i < op.results.size(); ++i) lies_where(op.results[i], op.operands[i]);
          continue;
        case OpCode::slice:  // a part of what is there
        case OpCode::reshape:
          if (bytes(op.operands[0]) > 0) lies_where(op.results[0], op.operands[0]);
          continue;
        case OpCode::dot_general:
          products_.insert(op.results[0]);
          for (const ValueId v : op.operands)
            if (loaded_.contains(v)) {
              free_.insert(v);
              if (const auto it = same_.find(v); it != same_.end()) free_.insert(it->second);
            }
          continue;
        case OpCode::get:
        case OpCode::masked_load:
        case OpCode::wgmma_accumulator_deref:
          if (in_registers(op.operands[0])) lies_where(op.results[0], op.operands[0]);
          else loaded_.insert(op.results[0]);
          continue;
        default: break;
      }
      // Elements are added as they come where nothing else wants them.
      if (reduces(op) && loaded_.contains(op.operands[0]) && uses_[op.operands[0]] == 1) free_.insert(op.operands[0]);
      // A tensor core adds a product to what is there.
      if (op.code == OpCode::add)
        for (const size_t i : {0, 1})
          if (products_.contains(op.operands[i])) added_to(op.operands[1 - i], op.operands[i]);
      if (ir::info(op.code).family != ir::Family::Elementwise && op.code != OpCode::convert) continue;
      const auto largest = std::max_element(op.operands.begin(), op.operands.end(),
                                            [&](ValueId a, ValueId b) { return bytes(a) < bytes(b); });
      if (largest != op.operands.end() && bytes(*largest) > 0) place_[op.results[0]] = place_of(*largest);
    }
  }

  // A product, under all its names.
  void added_to(ValueId sum, ValueId product) {
    const auto it = same_.find(product);
    const ValueId first = it == same_.end() ? product : it->second;
    lies_where(first, sum);
    for (const auto& [name, of] : same_)
      if (of == first) lies_where(name, sum);
  }

  void lies_where(ValueId v, ValueId other) {
    place_[v] = place_of(other);
    own_[v] = own_place_of(other);
  }

  ValueId place_of(ValueId v) const {
    const auto it = place_.find(v);
    return it == place_.end() ? v : it->second;
  }

  // Where a value lies if what arithmetic makes lies beside what it is made of.
  ValueId own_place_of(ValueId v) const {
    const auto it = own_.find(v);
    return it == own_.end() ? v : it->second;
  }

  // As bytes(), and what rows of products have: four lanes one of them.
  double taken_bytes(ValueId v) const {
    const ir::Type* t = g_.type(v);
    const bool row = !products_.empty() && !t->is_ref && t->is_static() && t->dims.size() == 1 &&
                     static_cast<double>(t->num_elements()) <= threads_ && t->dtype != ir::DType::Bool;
    return row && !free_.contains(v) ? 4.0 * static_cast<double>(t->num_bytes()) : bytes(v);
  }

  void look_taken(const ir::Op& op, const Live& live) {
    std::map<ValueId, double> places;
    const auto is_carried = [&](ValueId v) {  // into a loop whose results are counted
      return std::any_of(op.regions.begin(), op.regions.end(), [&](const ir::Region& r) {
        return std::find(r.args.begin(), r.args.end(), v) != r.args.end();
      });
    };
    for (const ValueId v : live) {
      if (later_.contains(v) || is_carried(v)) continue;
      double& b = places[own_place_of(v)];
      b = std::max(b, taken_bytes(v));
    }
    double all = 0;
    for (const auto& [at, b] : places) all += b;
    double& most = taken_[depth_ > 0];
    most = std::max(most, all);
  }

  void look(const ir::Op& op, const Live& live) {
    // Behind loops arithmetic goes element by element: what it makes of one need not lie beside all the others.
    const bool elementwise = ir::info(op.code).family == ir::Family::Elementwise || op.code == OpCode::convert;
    if (depth_ > 0 || !elementwise) look_taken(op, live);
    std::map<ValueId, double> places;
    for (const ValueId v : live) {
      double& b = places[place_of(v)];
      b = std::max(b, bytes(v));
    }
    Pressure p;
    for (const auto& [at, b] : places) {
      p.bytes += b;
      p.largest = std::max(p.largest, b);
    }
    p.threads = threads_;
    p.registers = registers_;
    p.at = &op;
    // What a loop keeps too much of goes out and comes back at each trip.
    const int depth = p.spills() ? depth_ : 0;
    if (depth > 0) make_room(op, places, p);
    if (depth > most_depth_ || (depth == most_depth_ && p.over() > most_.over())) most_ = p, most_depth_ = depth;
  }

  // What the loop carries, and the operation does not want, goes out for it: what is out for another one, then the
  // largest.
  void make_room(const ir::Op& op, const std::map<ValueId, double>& places, const Pressure& p) {
    Room& room = rooms_[region_];
    if (!room.at) room = {body_, &op, {}};
    std::map<ValueId, double>& out = room.out;
    std::set<ValueId> own;
    for (const auto* list : {&op.operands, &op.results})
      for (const ValueId v : *list) own.insert(place_of(v));
    std::vector<std::pair<ValueId, double>> others;
    for (const auto& [place, bytes] : places)
      if (bytes > 0 && !own.contains(place) && carried_[loop_].contains(place)) others.emplace_back(place, bytes);
    std::stable_sort(others.begin(), others.end(), [&](const auto& a, const auto& b) {
      const bool first = out.contains(a.first), second = out.contains(b.first);
      return first != second ? first : a.second > b.second;
    });
    double over = p.over();
    for (const auto& [place, bytes] : others) {
      if (over <= 0) break;
      double& goes = out[place];
      goes = std::max(goes, bytes * Pressure::part(over));
      over -= bytes / 4 / threads_;
    }
  }

  // What goes out in each trip is out in its branches, too.
  void tell_out() {
    for (const auto& [region, room] : rooms_) {
      const auto trip = room.trip == region ? rooms_.end() : rooms_.find(room.trip);
      double bytes = 0;
      for (const auto& [place, n] : room.out) {
        double before = 0;
        if (trip != rooms_.end())
          if (const auto it = trip->second.out.find(place); it != trip->second.out.end()) before = it->second;
        bytes += std::max(n - before, 0.0);
      }
      if (bytes > 0) most_.out.push_back({room.at, bytes});
    }
  }

  static bool is_loop(const ir::Op& op) {
    return op.code == OpCode::for_ || op.code == OpCode::parallel_loop || op.code == OpCode::while_;
  }

  // `live`: behind the region, which is `around`'s; returns what is before it.
  Live walk(const ir::Region& r, Live live, const ir::Op* around = nullptr) {
    const ir::Region *const around_region = region_, *const around_body = body_;
    // What a scope runs within a trip runs as often as what is around it.
    if (around && (is_loop(*around) || around->code == OpCode::cond)) region_ = &r;
    if (around && is_loop(*around)) body_ = &r;
    const int64_t registers = registers_;
    for (const ir::Op& op : r.ops) limit(op);
    for (size_t i = r.ops.size(); i-- > 0;) {
      const ir::Op& op = r.ops[i];
      Live inner = live, held = live;
      for (const ir::Region& x : op.regions)
        for (const ValueId v : x.args)
          if (in_registers(v)) held.insert(v);
      const bool loop = is_loop(op);
      const ir::Op* const loop_around = loop_;
      depth_ += loop;
      if (loop) {
        loop_ = &op;
        for (const ValueId v : held) carried_[loop_].insert(place_of(v));
        for (const ir::Region& x : op.regions)
          for (const ValueId v : x.args) carried_[loop_].insert(place_of(v));
      }
      loops_ = loops_ || loop;
      if (loop) later_.insert(op.results.begin(), op.results.end());
      for (const ir::Region& x : op.regions) {
        const Live first = walk(x, held, &op);
        inner.insert(first.begin(), first.end());
      }
      depth_ -= loop;
      loop_ = loop_around;
      for (const ValueId v : op.results) later_.erase(v);
      live = std::move(inner);
      for (const ValueId v : op.results) live.insert(v);
      look(op, live);
      for (const ValueId v : op.results) live.erase(v);
      for (const ir::Region& x : op.regions)
        for (const ValueId v : x.args) live.erase(v);
      for (const ValueId v : op.operands)
        if (taken_bytes(v) > 0) live.insert(v);
    }
    registers_ = registers;
    region_ = around_region;
    body_ = around_body;
    return live;
  }

  void limit(const ir::Op& op) {
    if (op.code != OpCode::set_max_registers) return;
    if (const ir::Attr* n = op.attr("n"); n && n->is_int()) registers_ = n->i;
  }

  const ir::Graph& g_;
  double threads_;
  std::set<ValueId> free_, loaded_, products_;
  std::set<ValueId> later_;  // results of the loops around: what they carry from trip to trip is counted in their place
  bool loops_ = false;
  double taken_[2] = {};  // bytes, outside of loops and within
  std::unordered_map<ValueId, ValueId> place_, own_, same_;
  std::unordered_map<ValueId, int> uses_;
  int64_t registers_ = 255;
  int depth_ = 0, most_depth_ = 0;  // of loops
  const ir::Op* loop_ = nullptr;
  const ir::Region *region_ = nullptr, *body_ = nullptr;  // the latter of the innermost loop
  struct Room {
    const ir::Region* trip = nullptr;  // the loop's body
    const ir::Op* at = nullptr;
    std::map<ValueId, double> out;  // bytes by place
  };
  std::map<const ir::Region*, Room> rooms_;
  std::unordered_map<const ir::Op*, std::set<ValueId>> carried_;  // by loop: what lies there from trip to trip
  Pressure most_;
};

}  // namespace

Pressure register_pressure(const Plan& p, int64_t warps) {
  Pressure most;
  for (const ir::Body& b : p.module.bodies) {
    const Pressure one = Liveness(b.graph, 32.0 * static_cast<double>(std::max<int64_t>(warps, 1))).of_body();
    if (one.at && (!most.at || one.over() > most.over())) most = one;
  }
  return most;
}

}  // namespace pallasim::interp
