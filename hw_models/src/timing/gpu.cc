// A streaming multiprocessor: SIMT lanes, special function units, a tensor core per quarter, which one thread of the
// kernel (a warpgroup, a Triton program) uses with all its warps.
#include <algorithm>
#include <string>
#include <unordered_set>

#include "cost.h"
#include "pallasim/hw/machine.h"

namespace pallasim::hw {
namespace {

using ir::DType;
using ir::Space;

constexpr double kSimtLanes = 128;  // of an SM
constexpr int64_t kRowsOfAWarp = 16;

// Whether a product multiplies what another one made (attention). A region's values, and those of regions around it.
bool chained(const ir::Region& r, std::unordered_set<ir::ValueId>* made) {
  for (const ir::Op& op : r.ops) {
    const auto is_made = [&](ir::ValueId v) { return made->contains(v); };
    const bool product = op.code == ir::OpCode::dot_general,
               follows = std::any_of(op.operands.begin(), op.operands.end(), is_made);
    if (product && follows) return true;
    if (product || (follows && op.regions.empty())) made->insert(op.results.begin(), op.results.end());
    for (const ir::Region& inner : op.regions)
      if (chained(inner, made)) return true;
  }
  return false;
}

class Gpu : public CostModel {
 public:
  Gpu(const ir::Module& m, const Profile& p, const TimingFigures& f, int64_t warps) : m_(m), f_(f) {
    cycle_ = 1 / f("clock");
    // Each quarter of an SM issues for its own warps: fewer than four leave quarters idle.
    share_ = issue_share = std::min(1.0, static_cast<double>(std::max<int64_t>(warps, 1)) / 4);
    sms_ = static_cast<double>(std::max<int64_t>(p.device_cores, 1));
    hopper_ = f.find("wgmma_f16_rate") != nullptr;
    reads_operands = !p.compute_capability.starts_with("8.");
    behind_a_product = std::max(0.0, f("simt_fma") / f("simt_simple") - 1);
    if (model(m).programs != Programs::Concurrent) return;
    for (const ir::Body& b : m.bodies) {
      std::unordered_set<ir::ValueId> made;
      // Triton gives all warps rows of their own then (AccelerateMatmul.cpp, warpsPerTile).
      if (chained(b.graph.region, &made)) rows_of_warps_ = kRowsOfAWarp * warps;
    }
  }

  Work of(const ir::Op& op, const ir::Graph& g) const override {
    Work w = once(op, g);
    const ir::Type* t = op.results.empty() ? nullptr : result_type(op, g);
    if (!t || t->dims.size() < 2 || t->dims[0].size >= rows_of_warps_ || w.bytes > 0) return w;
    // Warps without rows of their own do what others do.
    const double times =
        static_cast<double>(rows_of_warps_) / static_cast<double>(std::max<int64_t>(t->dims[0].size, 1));
    for (double& busy : w.busy) busy *= times;
    return w;
  }

  Work product(const ProductShape& s) const override {
    Work w;
    w.flops = s.flops();
    const double clock = f_("tensor_clock");
    if (ir::bit_width(s.dtype) == 64 || (ir::bit_width(s.dtype) == 32 && (s.highest || !ir::is_float(s.dtype)))) {
      busy(w, Unit::Vector) = f_("simt_fma") * s.flops() / 2 / (kSimtLanes * share_) * cycle_;
      return w;
    }
    // An instruction has so many rows; of what gives its sum to tensor memory fewer take as long.
    const int64_t rows = s.asynchronous && !hopper_ ? 128 : 64;
    const auto m = static_cast<double>((s.m + rows - 1) / rows * rows), n = static_cast<double>((s.n + 7) / 8 * 8),
               k = static_cast<double>(s.k);
    double cycles = 2 * static_cast<double>(s.batch) * m * n * k / rate(s.dtype);
    if (hopper_ || s.asynchronous) {
      // Operands come from shared memory: the instruction's rows of 32 bytes of the one, N of the other, of which each
      // of several CTAs reads its part for all of them.
      const auto at_once = static_cast<double>(rows);
      const double steps = static_cast<double>(s.batch) * m / at_once * k * ir::bit_width(s.dtype) / 8 / 32;
      const double reads = steps * ((s.left_elsewhere ? 0.0 : 32 * at_once) + 32 * n / static_cast<double>(s.ctas)) /
                           f_("wgmma_smem_rate");
      if (s.asynchronous) busy(w, Unit::Access) = reads / clock;
      else cycles = std::max(cycles, reads);
    }
    if (!s.asynchronous) w.latency = f_("dot_latency");
    busy(w, Unit::Matrix) = cycles / clock;
    return w;
  }

  Work staged(double bytes) const override {
    Work w;
    busy(w, Unit::Access) = bytes / f_("smem_read_rate") * cycle_;
    w.latency = 2 * f_("barrier_latency");
    return w;
  }

 private:
  Work once(const ir::Op& op, const ir::Graph& g) const {
    if ((ir::info(op.code).effects & ir::kEffectAsync) != 0) return {};
    const Sort sort = sort_of(op.code);
    if (sort == Sort::Product) return product(product_shape(op, g));
    if (sort == Sort::Load || sort == Sort::Store) return access(op, g, sort);
    Work w;
    if (sort == Sort::Free) return w;
    const ir::Type* t = sort == Sort::Reduce || sort == Sort::Scan ? operand_type(op, g, 0) : result_type(op, g);
    if (sort == Sort::Control || !t || t->is_scalar()) {
      busy(w, Unit::Scalar) = f_("scalar_cycles") * cycle_;
      return w;
    }
    const auto n = static_cast<double>(t->num_elements());
    w.flops = n;
    std::string figure(figure_of(sort));
    if (sort == Sort::Convert && (t->dtype == DType::BF16 || ir::bit_width(t->dtype) == 8)) figure = "convert_bf16";
    if (sort == Sort::Divide && !ir::is_float(t->dtype)) figure = "integer";
    const double packed = sort == Sort::Simple && ir::is_float(t->dtype) && ir::bit_width(t->dtype) == 16 ? 2 : 1;
    const double wide = ir::bit_width(t->dtype) == 64 && ir::is_float(t->dtype) ? 2 : 1;
    const double special = f_.value_or("sfu_" + figure, 0);
    busy(w, Unit::Special) = special * n / f_("mufu_rate") * cycle_;
    busy(w, sort == Sort::Move || sort == Sort::Scan ? Unit::Access : Unit::Vector) =
        f_("simt_" + figure) * wide * n / packed / (kSimtLanes * share_) * cycle_;
    if (sort == Sort::Reduce) {
      // One thread waits for each of its operations; others take the lanes meanwhile.
      const double issued = std::min(1.0, f_("simt_reduce_issue") / f_("simt_reduce"));
      w.latency = (1 - issued) * busy(w, Unit::Vector);
      busy(w, Unit::Vector) *= issued;
    }
    return w;
  }

  static double& busy(Work& w, Unit u) { return w.busy[static_cast<size_t>(u)]; }

  // Operations per cycle of an SM.
  double rate(DType t) const {
    const int bits = ir::bit_width(t);
    if (hopper_) {
      if (bits == 8) return f_("wgmma_fp8_rate");
      return f_(bits == 32 ? "wgmma_tf32_rate" : "wgmma_f16_rate");
    }
    const std::string figure = bits == 8    ? (ir::is_float(t) && f_.find("fp8_rate") ? "fp8_rate" : "int8_rate")
                               : bits == 4  ? "fp4_rate"
                               : bits == 32 ? "tf32_rate"
                                            : "f16_rate";
    return f_(f_.find(figure) ? figure : "f16_rate") / sms_ / f_("tensor_clock");
  }

  Work access(const ir::Op& op, const ir::Graph& g, Sort sort) const {
    Work w;
    const ir::Type* t = moved_type(op, g);
    if (!t) return w;
    const double bytes = static_cast<double>(t->num_elements()) * ir::bit_width(t->dtype) / 8;
    const Space space = space_of(op, g);
    if (space == Space::Regs) return w;
    if (space == Space::GpuSmem || space == Space::Smem) {
      busy(w, Unit::Access) = bytes / f_("smem_read_rate") * cycle_;
      return w;
    }
    if (space == Space::Tmem) {
      busy(w, Unit::Access) = bytes / f_("tmem_rate") * cycle_;
      return w;
    }
    w.bytes = bytes;
    w.writes = sort == Sort::Store;
    w.reads = !w.writes;
    const bool atomic = (ir::info(op.code).effects & ir::kEffectAtomic) != 0 ||
                        (op.code == ir::OpCode::addupdate && model(m_).programs == Programs::Concurrent);
    if (atomic) busy(w, Unit::Access) = static_cast<double>(t->num_elements()) * sms_ / f_("atomic_rate");
    busy(w, Unit::Vector) = f_("simt_access") * std::max(bytes / 16, 1.0) / (kSimtLanes * share_) * cycle_;
    return w;
  }

  const ir::Module& m_;
  const TimingFigures& f_;
  double cycle_, share_, sms_;
  bool hopper_;
  int64_t rows_of_warps_ = 0;
};

}  // namespace

std::unique_ptr<CostModel> gpu_cost_model(const ir::Module& m, const Profile& p, const TimingFigures& f,
                                          int64_t warps) {
  return std::make_unique<Gpu>(m, p, f, warps);
}

}  // namespace pallasim::hw
