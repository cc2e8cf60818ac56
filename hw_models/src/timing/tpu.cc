// A TensorCore: vector registers of (sublanes, lanes) 32-bit words, a bundle per cycle with slots for each unit.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "cost.h"
#include "mxus.h"
#include "spills.h"

namespace pallasim::hw {
namespace {

using ir::DType;

bool along(const ir::Op& op, int64_t dimension, std::string_view attribute) {
  const ir::Attr* a = op.attr(attribute);
  if (!a) return false;
  if (a->is_int()) return a->i == dimension;
  return std::any_of(a->items.begin(), a->items.end(), [&](const ir::Attr& x) { return x.i == dimension; });
}

bool goes_along_lanes(const ir::Op& op, const ir::Type& t, std::string_view attribute) {
  return along(op, static_cast<int64_t>(t.dims.size()) - 1, attribute);
}

// What compilers see of values: constants; and what is the same in all lanes of its registers, because it is what is
// left of rows, or computed from that alone: of such registers each is computed once.
class Facts {
 public:
  explicit Facts(const ir::Module& m) {
    for (const ir::Body& b : m.bodies) look(b.graph.region, b.graph, &of_[&b.graph]);
  }
  bool same_in_lanes(const ir::Graph& g, ir::ValueId v) const {
    return constant(g, v) || of(g).same.contains(v) || g.type(v)->is_scalar();
  }
  bool constant(const ir::Graph& g, ir::ValueId v) const { return of(g).constants.contains(v); }
  // The number of a constant that is one; `otherwise` of others.
  int64_t number(const ir::Graph& g, ir::ValueId v, int64_t otherwise) const {
    const auto it = of(g).constants.find(v);
    return it == of(g).constants.end() || !it->second ? otherwise : *it->second;
  }

 private:
  struct Values {
    std::unordered_set<ir::ValueId> same;
    std::unordered_map<ir::ValueId, std::optional<int64_t>> constants;
  };
  const Values& of(const ir::Graph& g) const {
    static const Values kNone;
    const auto it = of_.find(&g);
    return it == of_.end() ? kNone : it->second;
  }
  static void look(const ir::Region& r, const ir::Graph& g, Values* to) {
    for (const ir::Op& op : r.ops) {
      for (const ir::Region& x : op.regions) look(x, g, to);
      if (op.results.size() == 1) look(op, g, to);
    }
  }
  static void look(const ir::Op& op, const ir::Graph& g, Values* to) {
    const ir::ValueId v = op.results[0];
    const Sort sort = sort_of(op.code);
    const ir::Type* in = operand_type(op, g, 0);
    if (op.code == ir::OpCode::constant) {
      const ir::Attr* value = op.attr("value");
      const bool number = value && value->is(ir::Attr::Kind::Bits) && ir::is_int(value->dtype);
      to->constants[v] = number ? std::optional(value->i) : std::nullopt;
      return;
    }
    if (sort == Sort::Reduce && in && (goes_along_lanes(op, *in, "axes") || goes_along_lanes(op, *in, "axis")))
      to->same.insert(v);
    if (sort >= Sort::Reduce || sort == Sort::Move || op.operands.empty()) return;
    bool constants = true, same = true;
    for (const ir::ValueId o : op.operands) {
      if (g.type(o)->is_ref) return;
      constants = constants && to->constants.contains(o);
      same = same && (to->same.contains(o) || to->constants.contains(o) || g.type(o)->is_scalar());
    }
    if (constants) to->constants[v] = std::nullopt;
    else if (same && !g.type(v)->is_scalar()) to->same.insert(v);
  }
  std::unordered_map<const ir::Graph*, Values> of_;
};

class Tpu : public CostModel {
 public:
  Tpu(const ir::Module& m, const Profile& p, const TimingFigures& f)
      : p_(p),
        f_(f),
        facts_(m),
        mxus_(m, f),
        spills_(m, f, static_cast<double>(p.sublanes * p.lanes * 4),
                [this](const auto& op, const auto& g) { return kept_registers(op, g); }) {
    overlap = Overlap::Packed;
    cycle_ = 1 / f("clock");
    valus_ = f("valu_slots");
    cores_ = static_cast<double>(std::max<int64_t>(p.device_cores, 1));
  }

  Work of(const ir::Op& op, const ir::Graph& g) const override {
    Work w = of_itself(op, g);
    const Spills::Moved moved = spills_.of(op);
    if (moved.stored > 0) {
      busy(w, Unit::Write) += moved.stored * cycle_ / f_("store_slots");
      busy(w, Unit::Access) += moved.fetched * cycle_ / f_("load_slots");
    }
    if (moved.waits > 0)
      for (size_t i = 0; i < static_cast<size_t>(f_("mxus")); ++i) w.mxus[i] += moved.waits * f_("spill_wait") * cycle_;
    return w;
  }

  Spilled spilled() const override { return spills_.most(); }

  Work of_itself(const ir::Op& op, const ir::Graph& g) const {
    Work w;
    const Sort sort = sort_of(op.code);
    const ir::Type* out = result_type(op, g);
    if ((ir::info(op.code).effects & ir::kEffectAsync) != 0) return w;
    if (sort == Sort::Product) {
      ProductShape s = product_shape(op, g);
      s.shares = mxus_.of(op);
      return product(s);
    }
    if (sort == Sort::Load || sort == Sort::Store) return access(op, g, sort);
    if (op.code == ir::OpCode::broadcast_in_dim) return broadcast(op, g);
    if (sort == Sort::Free) return w;
    if (sort == Sort::Reduce || sort == Sort::Scan) return reduce(op, g, sort);
    if (sort == Sort::Control || !out || out->is_scalar()) {
      busy(w, Unit::Scalar) = cycle_;
      return w;
    }
    w.flops = static_cast<double>(out->num_elements());
    const ir::Type* in = operand_type(op, g, 0);
    const double n = std::max(registers(out), op.code == ir::OpCode::convert && in ? registers(in) : 0);
    if (sort == Sort::Move) return move(op, g, n);
    const auto same = [&](ir::ValueId v) { return facts_.same_in_lanes(g, v); };
    const bool once = std::all_of(op.operands.begin(), op.operands.end(), same);
    const double rows = n / static_cast<double>(ceil_div(std::max<int64_t>(lanes_of(out), 1), p_.lanes));
    if (op.code == ir::OpCode::div && ir::is_float(out->dtype)) {
      // By a constant, or by what is left of rows: of that the reciprocal once.
      const bool constant = facts_.constant(g, op.operands[1]);
      if (constant || (!once && same(op.operands[1]))) {
        charge(w, instructions(ir::OpCode::mul, op, g, Sort::Simple), once ? rows : n);
        if (!constant) charge(w, instructions(op.code, op, g, sort), rows);
        return w;
      }
    }
    charge(w, instructions(op.code, op, g, sort), once ? rows : n);
    return w;
  }

  Work product(const ProductShape& s) const override {
    Work w;
    w.flops = s.flops();
    const int64_t size = static_cast<int64_t>(f_("mxu_size"));
    const auto whole = [](int64_t n, int64_t unit) { return static_cast<double>(ceil_div(n, unit) * unit); };
    double passes = 1;
    std::string rate = "bf16_rate";
    if (ir::is_int(s.dtype) && ir::bit_width(s.dtype) == 8 && f_.find("int8_rate")) rate = "int8_rate";
    if (ir::is_int(s.dtype) && ir::bit_width(s.dtype) == 4 && f_.find("int4_rate")) rate = "int4_rate";
    if (ir::is_float(s.dtype) && ir::bit_width(s.dtype) == 8 && f_.find("fp8_rate")) rate = "fp8_rate";
    if (ir::bit_width(s.dtype) == 32) passes = s.highest ? f_("highest_dot_passes") : f_("f32_dot_passes");
    passes *= s.passes;
    // Tiles of the right operand are pushed into the units, and the rows of the left one go through; the next tile is
    // pushed meanwhile. Where there are fewer tiles than units, units share the rows of one.
    const double tiles = passes * static_cast<double>(s.batch * ceil_div(s.n, size) * ceil_div(s.k, size)),
                 units = f_("mxus"), square = static_cast<double>(size * size);
    const double rows = 2 * units * square * whole(s.m, p_.sublanes) / (f_(rate) / cores_);
    const bool narrow = ir::bit_width(s.dtype) <= 8 && rate != "bf16_rate";
    const double push = f_(narrow ? "mxu_push_narrow" : "mxu_push") * cycle_ *
                        std::min(std::min(whole(s.k, p_.lanes), whole(s.n, p_.lanes)) / static_cast<double>(size), 1.0);
    const double most = *std::max_element(s.shares.begin(), s.shares.end());
    const bool dealt = most > 0;
    for (size_t i = 0; i < static_cast<size_t>(units); ++i) {
      const double share = dealt ? s.shares[i] : 1 / units;
      w.mxus[i] = std::max(rows * tiles * share, push * std::ceil(tiles * share - 1e-6));
      busy(w, Unit::Matrix) += w.mxus[i] / units;
    }
    const double share = dealt ? most : 1 / units, stream = rows * tiles * share,
                 rounds = std::ceil(tiles * share - 1e-6);
    // Of each unit's first tile the push comes before its rows.
    w.ahead = std::max(stream, push * rounds) - std::max(stream, push * (rounds - 1) + stream / rounds);
    // What is transposed on its way goes through the units' other side first.
    w.before = s.right_k_last ? push * (1 + f_("mxu_transpose")) : push;
    const double deep = std::ceil(passes * static_cast<double>(ceil_div(s.k, size)) * share - 1e-6);
    w.first = stream * std::min(1.0, (deep - 1) / rounds);
    w.first_row = stream * (rounds - 1) / rounds;
    w.latency = f_("mxu_latency") * cycle_;
    return w;
  }

 private:
  static double& busy(Work& w, Unit u) { return w.busy[static_cast<size_t>(u)]; }

  // Instructions for one register.
  struct Counted {
    bool known = false;
    double vector = 0, special = 0, cross = 0, latency = 0;
  };
  void charge(Work& w, const Counted& c, double registers) const {
    busy(w, Unit::Vector) += registers * c.vector * cycle_ / valus_;
    if (c.special > 0) busy(w, Unit::Special) += registers * c.special * cycle_;
    if (c.cross > 0) busy(w, Unit::Cross) += registers * c.cross * cycle_ / f_("xlu_slots");
    w.latency += c.latency * cycle_;
  }

  static std::string suffix_of(DType t) {
    const int bits = ir::bit_width(t);
    if (ir::is_float(t)) return bits == 16 ? "_bf16" : bits == 8 ? "_f8" : "";
    return bits == 32 ? "_i32" : bits == 16 ? "_i16" : bits == 8 ? "_i8" : "";
  }
  static std::string suffix_of(const ir::Op& op, const ir::Graph& g) {
    if (op.code == ir::OpCode::convert) {
      const ir::Type *from = operand_type(op, g, 0), *to = result_type(op, g);
      const auto word = [](const ir::Type* t) { return t->dtype == DType::F32 ? "_f32" : suffix_of(t->dtype); };
      return from && to ? word(from) + word(to) : "";
    }
    const ir::Type* t = operand_type(op, g, op.code == ir::OpCode::select_n ? 1 : 0);
    if (!t) t = result_type(op, g);
    return t ? suffix_of(t->dtype) : "";
  }

  // Whether whole registers change places, which takes nothing but other names.
  bool keeps_registers(const ir::Op& op, const ir::Graph& g, bool lanes) const {
    using enum ir::OpCode;
    const auto whole = [&](size_t i) {
      const ir::Type* t = operand_type(op, g, i);
      return t && lanes_of(t) % p_.lanes == 0;
    };
    bool all = true;
    for (size_t i = 0; i < op.operands.size(); ++i) all = all && whole(i);
    switch (op.code) {
      case concatenate:
      case stack: return !lanes || all;
      case tile:
      case repeat: return whole(0);
      case transpose: return keeps_tiles(op);
      case roll: return lanes && facts_.number(g, op.operands[1], 1) % p_.lanes == 0;
      default: return false;
    }
  }

  static bool keeps_tiles(const ir::Op& transpose) {
    const ir::Attr* perm = transpose.attr("perm");
    const auto rank = perm ? static_cast<int64_t>(perm->items.size()) : 0;
    return rank > 2 && perm->items[static_cast<size_t>(rank) - 1].i == rank - 1 &&
           perm->items[static_cast<size_t>(rank) - 2].i == rank - 2;
  }

  // What was counted of an operation (hw_models/timing/tpu_instructions.csv).
  Counted counted(const std::string& name, const std::string& suffix) const {
    const std::string key = f_.find("valu_" + name + suffix) || suffix != "_i32" ? name + suffix : name;
    if (!f_.find("valu_" + key)) return {};
    return {true, f_("valu_" + key), f_.value_or("eup_" + key, 0), f_.value_or("xlu_" + key, 0),
            f_.value_or("latency_" + key, 0)};
  }

  static std::string counted_as(ir::OpCode code, const ir::Op& op) {
    using enum ir::OpCode;
    switch (code) {
      case eq:
      case ne:
      case lt:
      case le:
      case gt:
      case ge:
      case select_n: return "select";
      case reduce_prod:
      case reduce_and:
      case reduce_or:
      case reduce_xor: return "reduce_max";
      case reciprocal: return op.attr("approx") && op.attr("approx")->s == "true" ? "reciprocal" : "div";
      case integer_pow: return "mul";
      default: return std::string(ir::name(code));
    }
  }

  // `code`: as which operation it is done.
  Counted instructions(ir::OpCode code, const ir::Op& op, const ir::Graph& g, Sort sort) const {
    const std::string name = counted_as(code, op), suffix = suffix_of(op, g);
    const bool narrow = suffix != "" && suffix != "_i32" && op.code != ir::OpCode::convert;
    // Narrow elements are taken apart to whole words and put together again, where the unit has no instructions of
    // theirs.
    const double parts = narrow && !f_("bf16_valu") ? 2 : 1, around = parts > 1 ? 5 : 0;
    Counted c = counted(name, suffix);
    if (!c.known) {
      c = op.code == ir::OpCode::convert ? Counted{} : counted(name, "");
      if (!c.known) {
        const std::string figure(figure_of(sort));
        c = {true, f_("valu_" + figure), f_.value_or("eup_" + figure, 0), 0, 2 * f_("valu_" + figure)};
      }
      c = {true, parts * c.vector + around, parts * c.special, parts * c.cross, c.latency + 2 * around};
    }
    // What is a constant, or taken apart already, is not taken apart.
    if (parts > 1 && op.operands.size() == 2 &&
        (op.operands[0] == op.operands[1] || facts_.constant(g, op.operands[0]) || facts_.constant(g, op.operands[1])))
      c.vector -= parts;
    return c;
  }

  Work move(const ir::Op& op, const ir::Graph& g, double registers) const {
    Work w;
    const ir::Type* out = result_type(op, g);
    const bool lanes = goes_along_lanes(op, *out, "axis");
    const std::string name(ir::name(op.code));
    if (keeps_registers(op, g, lanes)) return w;
    const Counted c = counted(name + (lanes ? "_lanes" : ""), suffix_of(op, g));
    w.at_once = op.code == ir::OpCode::transpose;
    if (c.known) charge(w, c, registers);
    else busy(w, Unit::Cross) = registers * cycle_ / f_("xlu_slots");
    return w;
  }

  // Along lanes what memory holds goes through a cross-lane unit; what is left of rows lies in all lanes as it is.
  Work broadcast(const ir::Op& op, const ir::Graph& g) const {
    Work w;
    const ir::Type *in = operand_type(op, g, 0), *out = result_type(op, g);
    if (!in || !out || in->is_scalar() || out->dims.empty() || out->dims.back().size == 1) return w;
    const auto last = static_cast<int64_t>(out->dims.size()) - 1;
    const ir::Attr* dims = op.attr("dims");
    const bool has_lanes = dims && !dims->items.empty() && dims->items.back().i == last && in->dims.back().size != 1;
    if (has_lanes || facts_.same_in_lanes(g, op.operands[0])) return w;
    const double rows = registers(out) / static_cast<double>(ceil_div(out->dims.back().size, p_.lanes));
    const Counted c = counted("broadcast_lanes", suffix_of(op, g));
    if (c.known) charge(w, c, std::max(rows, 1.0));
    return w;
  }

  static int64_t lanes_of(const ir::Type* t) { return t->dims.empty() ? 1 : t->dims.back().size; }

  // Of an array: its last two dimensions lie in whole tiles, narrow elements packed along sublanes.
  double registers(const ir::Type* t) const {
    const int64_t bits = std::max(ir::bit_width(t->dtype), 4),
                  packing = std::max<int64_t>(32 / std::min<int64_t>(bits, 32), 1);
    const size_t r = t->dims.size();
    if (r == 0) return 0;
    const int64_t lanes = t->dims[r - 1].size, rows = r > 1 ? t->dims[r - 2].size : 1;
    int64_t n = 1;
    for (size_t d = 0; d + 2 < r; ++d) n *= t->dims[d].size;
    if (r == 1) return static_cast<double>(std::max<int64_t>(ceil_div(lanes, p_.lanes * p_.sublanes * packing), 1));
    return static_cast<double>(n * ceil_div(rows, p_.sublanes * packing) * ceil_div(lanes, p_.lanes) *
                               std::max<int64_t>(bits / 32, 1));
  }

  // Of a result that lies in registers until it is used: not of what a load brings again, nor of what is the same in
  // all lanes.
  double kept_registers(const ir::Op& op, const ir::Graph& g) const {
    const Sort sort = sort_of(op.code);
    const ir::Type* t = result_type(op, g);
    if (!t || t->is_scalar() || t->is_ref || sort == Sort::Load || sort == Sort::Store || sort == Sort::Control ||
        sort == Sort::Free || facts_.same_in_lanes(g, op.results[0]))
      return 0;
    return registers(t);
  }

  Work access(const ir::Op& op, const ir::Graph& g, Sort sort) const {
    Work w;
    const ir::Type* t = moved_type(op, g);
    if (!t) return w;
    if (t->is_scalar() || space_of(op, g) == ir::Space::Smem) {
      busy(w, Unit::Scalar) = cycle_ * static_cast<double>(std::max<int64_t>(t->num_elements(), 1));
      return w;
    }
    const double n = registers(t);
    // What is swapped or added to is loaded as well.
    const bool both =
        op.code == ir::OpCode::swap || op.code == ir::OpCode::masked_swap || op.code == ir::OpCode::addupdate;
    if (sort == Sort::Load || both) busy(w, Unit::Access) = n * cycle_ / f_("load_slots");
    if (sort == Sort::Store) busy(w, Unit::Write) = n * cycle_ / f_("store_slots");
    if (op.code == ir::OpCode::addupdate) busy(w, Unit::Vector) = n * cycle_ / valus_;
    return w;
  }

  // Registers of n that come together in one, each waiting for the one before.
  double chained(const ir::Op& op, const ir::Graph& g, const ir::Type& in, double n) const {
    const ir::Type* out = result_type(op, g);
    const double columns = static_cast<double>(ceil_div(in.dims.back().size, p_.lanes));
    if (goes_along_lanes(op, in, "axes") || goes_along_lanes(op, in, "axis")) return columns;
    const double rows = out ? static_cast<double>(out->num_elements()) / static_cast<double>(in.dims.back().size) : 1;
    const auto second = static_cast<int64_t>(in.dims.size()) - 2;
    const bool sublanes = along(op, second, "axes") || along(op, second, "axis");
    return std::max(1.0, n / columns / (sublanes ? rows : std::max(rows / static_cast<double>(p_.sublanes), 1.0)));
  }

  Work reduce(const ir::Op& op, const ir::Graph& g, Sort sort) const {
    Work w;
    const ir::Type* in = operand_type(op, g, 0);
    if (!in || in->is_scalar()) {
      busy(w, Unit::Scalar) = cycle_;
      return w;
    }
    const double n = registers(in);
    w.flops = static_cast<double>(in->num_elements());
    const std::string name = counted_as(op.code, op), suffix = suffix_of(op, g);
    const Counted each = counted(name, suffix);
    charge(w, each.known ? each : Counted{true, f_("valu_" + std::string(figure_of(sort))), 0, 0}, n);
    // Along lanes what is left of each row of registers goes through a cross-lane unit.
    w.at_once = !goes_along_lanes(op, *in, "axes") && !goes_along_lanes(op, *in, "axis");
    const double chain = (chained(op, g, *in, n) - 1) * f_("reduce_chain") * cycle_;
    if (w.at_once) {
      w.latency += chain;
      return w;
    }
    const double rows = std::max(n / static_cast<double>(ceil_div(in->dims.back().size, p_.lanes)), 1.0);
    Counted lanes = counted(name + "_lanes", suffix);
    if (!lanes.known) lanes = counted("reduce_max_lanes", suffix);
    w.latency = lanes.latency * cycle_ + chain;
    w.by_rows = true;
    busy(w, Unit::Cross) += rows * (lanes.known ? lanes.cross : f_("xlu_reduce")) * cycle_ / f_("xlu_slots");
    return w;
  }

  const Profile& p_;
  const TimingFigures& f_;
  const Facts facts_;
  const Mxus mxus_;
  const Spills spills_;
  double cycle_, valus_, cores_;
};

}  // namespace

std::unique_ptr<CostModel> tpu_cost_model(const ir::Module& m, const Profile& p, const TimingFigures& f) {
  return std::make_unique<Tpu>(m, p, f);
}

}  // namespace pallasim::hw
