// A TensorCore: vector registers of (sublanes, lanes) 32-bit words, a bundle per cycle with slots for each unit.
#include <algorithm>
#include <string>

#include "cost.h"

namespace pallasim::hw {
namespace {

using ir::DType;

int64_t ceil_div(int64_t a, int64_t b) { return b > 0 ? (a + b - 1) / b : a; }

class Tpu : public CostModel {
 public:
  Tpu(const Profile& p, const TimingFigures& f) : p_(p), f_(f) {
    overlap = Overlap::Packed;
    cycle_ = 1 / f("clock");
    valus_ = f("valu_slots");
    cores_ = static_cast<double>(std::max<int64_t>(p.device_cores, 1));
  }

  Work of(const ir::Op& op, const ir::Graph& g) const override {
    Work w;
    const Sort sort = sort_of(op.code);
    const ir::Type* out = result_type(op, g);
    if ((ir::info(op.code).effects & ir::kEffectAsync) != 0) return w;
    if (sort == Sort::Product) return product(product_shape(op, g));
    if (sort == Sort::Load || sort == Sort::Store) return access(op, g, sort);
    if (sort == Sort::Free) return w;
    if (sort == Sort::Control || !out || out->is_scalar()) {
      if (sort == Sort::Reduce || sort == Sort::Scan) return reduce(op, g, sort);
      busy(w, Unit::Scalar) = cycle_;
      return w;
    }
    if (sort == Sort::Reduce || sort == Sort::Scan) return reduce(op, g, sort);
    const double n = registers(out);
    w.flops = static_cast<double>(out->num_elements());
    if (sort == Sort::Move) {
      busy(w, Unit::Cross) = n * cycle_ / f_("xlu_slots");
      return w;
    }
    const double wide = is_narrow_float(out->dtype) && !f_("bf16_valu") ? 2 : 1;
    const std::string figure(figure_of(sort));
    busy(w, Unit::Vector) = n * wide * f_("valu_" + figure) * cycle_ / valus_;
    if (const double special = f_.value_or("eup_" + figure, 0); special > 0)
      busy(w, Unit::Special) = n * wide * special * cycle_;
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
    const double work =
        2.0 * static_cast<double>(s.batch) * whole(s.m, p_.sublanes) * whole(s.n, size) * whole(s.k, size);
    busy(w, Unit::Matrix) = passes * work / (f_(rate) / cores_);
    return w;
  }

 private:
  static double& busy(Work& w, Unit u) { return w.busy[static_cast<size_t>(u)]; }
  static bool is_narrow_float(DType t) { return ir::is_float(t) && ir::bit_width(t) == 16; }

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

  Work access(const ir::Op& op, const ir::Graph& g, Sort sort) const {
    Work w;
    const ir::Type* t = moved_type(op, g);
    if (!t) return w;
    if (t->is_scalar() || space_of(op, g) == ir::Space::Smem) {
      busy(w, Unit::Scalar) = cycle_ * static_cast<double>(std::max<int64_t>(t->num_elements(), 1));
      return w;
    }
    const double n = registers(t);
    busy(w, Unit::Access) = n * cycle_ / f_(sort == Sort::Load ? "load_slots" : "store_slots");
    if (op.code == ir::OpCode::addupdate) busy(w, Unit::Vector) = n * cycle_ / valus_;
    return w;
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
    busy(w, Unit::Vector) = n * f_("valu_" + std::string(figure_of(sort))) * cycle_ / valus_;
    // Along lanes what is left of each row of registers goes through a cross-lane unit.
    bool lanes = false;
    const auto last = static_cast<int64_t>(in->dims.size()) - 1;
    if (const ir::Attr* axes = op.attr("axes"))
      for (const ir::Attr& a : axes->items) lanes = lanes || a.i == last;
    if (const ir::Attr* axis = op.attr("axis")) lanes = lanes || axis->i == last;
    if (lanes) {
      const double rows = n / static_cast<double>(ceil_div(in->dims.back().size, p_.lanes));
      busy(w, Unit::Cross) = std::max(rows, 1.0) * f_("xlu_reduce") * cycle_ / f_("xlu_slots");
    }
    return w;
  }

  const Profile& p_;
  const TimingFigures& f_;
  double cycle_, valus_, cores_;
};

}  // namespace

std::unique_ptr<CostModel> tpu_cost_model(const ir::Module&, const Profile& p, const TimingFigures& f) {
  return std::make_unique<Tpu>(p, f);
}

}  // namespace pallasim::hw
