// A streaming multiprocessor: SIMT lanes, special function units, a tensor core per quarter, which one thread of the
// kernel (a warpgroup, a Triton program) uses with all its warps.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "cost.h"
#include "pallasim/hw/machine.h"
#include "triton.h"

namespace pallasim::hw {
namespace {

using ir::DType;
using ir::Space;

constexpr double kSimtLanes = 128;  // of an SM

class Gpu : public CostModel {
 public:
  Gpu(const ir::Module& m, const Profile& p, const TimingFigures& f, int64_t warps) : m_(m), f_(f) {
    cycle_ = 1 / f("clock");
    // Each quarter of an SM issues for its own warps: fewer than four leave quarters idle.
    share_ = issue_share = std::min(1.0, static_cast<double>(std::max<int64_t>(warps, 1)) / 4);
    sms_ = static_cast<double>(std::max<int64_t>(p.device_cores, 1));
    hopper_ = f.find("wgmma_f16_rate") != nullptr;
    behind_a_product = std::max(0.0, f("simt_fma") / f("simt_simple") - 1);
    operands_in_shared_memory = !p.compute_capability.starts_with("8.");
    warps_ = static_cast<double>(std::max<int64_t>(warps, 1));
    if (model(m).programs == Programs::Concurrent) triton_.emplace(m, warps, hopper_);
    spreads_last = triton_ && triton_->has_chain();
    end_together = spreads_last && warps <= 4;
    const double blocks = triton_ ? static_cast<double>(triton_->blocks_of_chain()) : 1;
    latency_ = exposed(blocks);
    if (end_together && latency_ > 0) together_latency = exposed(2 * blocks) / latency_ / 2;
  }

  // Of an operation's latency, what so many blocks of 64 rows leave of it that a quarter of an SM works on beside each
  // other: four hide it.
  static double exposed(double blocks) { return std::clamp((4 - blocks) / 3, 0.0, 1.0); }

  Work of(const ir::Op& op, const ir::Graph& g) const override {
    Work w = once(op, g);
    w.latency *= spreads_last && triton_->is_added(op) ? 0 : latency_;
    const ir::Type* t = op.results.empty() ? nullptr : result_type(op, g);
    const int64_t rows = triton_ ? triton_->rows_of_warps() : 0;
    if (!t || t->dims.size() < 2 || t->dims[0].size >= rows || w.bytes > 0) return w;
    // Warps without rows of their own do what others do.
    const double times = static_cast<double>(rows) / static_cast<double>(std::max<int64_t>(t->dims[0].size, 1));
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
    if (triton_ && !s.asynchronous && !triton_->by_warpgroups(s)) return product_of_warps(s);
    // An instruction has so many rows; of what gives its sum to tensor memory fewer take as long.
    const int64_t rows = s.asynchronous && !hopper_ ? 128 : 64;
    const auto m = static_cast<double>((s.m + rows - 1) / rows * rows), n = static_cast<double>((s.n + 7) / 8 * 8),
               k = static_cast<double>(s.k);
    double cycles = s.passes * 2 * static_cast<double>(s.batch) * m * n * k / rate(s.dtype);
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
    // What is summed over must lie side by side in shared memory: where it does not in the array, lanes fetch it to
    // their registers when it is wanted, take it apart and store it byte by byte; rows that lie so far apart share the
    // banks.
    if (triton_ && !s.asynchronous && ir::bit_width(s.dtype) == 8 && !s.right_k_last) {
      const double stored = static_cast<double>(s.batch) * k * n / 32;
      busy(w, Unit::Access) += stored * (f_("byte_cycles") + std::clamp(n / 16, 1.0, 16.0)) * cycle_;
      w.latency += f_("load_latency") + 2 * f_("barrier_latency");
    }
    return w;
  }

  double side_by_side(const ir::Op& op, const ir::Graph& g) const override {
    const ir::Type* t = operand_type(op, g, 1);
    if (!triton_ || !t || t->is_scalar()) return 1;
    return static_cast<double>(triton_->side_by_side(*t, triton_->is_of_a_product(op.operands[1], g)));
  }

  // A tile from memory lies in registers as it is loaded, a product as its instruction gives it: one becomes the other
  // through shared memory, while lanes wait.
  Work rearranged(const ir::Op& op, const ir::Graph& g) const override {
    Work w;
    const int bits = triton_ ? triton_->moved_bits(op) : 0;
    // A row: each warp fetches two elements of every eight columns at a time.
    if (const auto row = static_cast<double>(triton_ ? triton_->moved_row(op) : 0); row > 0) {
      busy(w, Unit::Access) = row / 8 * warps_ * cycle_;
      w.latency = 2 * f_("barrier_latency") * latency_;
    }
    if (bits == 0) return w;
    const auto n = static_cast<double>(result_type(op, g)->num_elements());
    busy(w, Unit::Vector) += f_("simt_tile") * bits / 32 * n / (kSimtLanes * share_) * cycle_;
    w.latency = 2 * f_("barrier_latency") * latency_;
    return w;
  }

  double waits_for_registers() const override {
    return triton_ && triton_->waits_for_each() ? triton_->in_flight() : 0;
  }

  // What the instructions of other warpgroups do not fill.
  double waits(const ir::Op& op, const ir::Graph& g, double programs) const override {
    if (!triton_ || !triton_->waits_for_each() || op.code != ir::OpCode::dot_general) return 0;
    const ProductShape s = product_shape(op, g);
    if (!triton_->by_warpgroups(s)) return 0;
    const double groups = warps_ / 4, bytes = static_cast<double>(ir::bit_width(s.dtype)) / 8;
    const double instructions =
        static_cast<double>(s.batch * s.m) / 64 / groups * static_cast<double>(s.k) * bytes / 32;
    const double one = 64 * 2 * static_cast<double>(s.n) * 32 / bytes / rate(s.dtype) / f_("tensor_clock");
    return instructions * std::max(0.0, f_("wgmma_drain") - (groups * programs - 1) * one);
  }

  bool spread(ir::ValueId v, const ir::Graph& g) const override { return triton_ && triton_->is_spread(v, g); }

  ir::ValueId fetched_by(const ir::Op& product) const override { return triton_ ? triton_->fetched_by(product) : -1; }

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
    if (sort == Sort::Product) return product_of(op, g);
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
    // Triton's compiler converts what is made of a product to bf16 as it does to f16, two at a time.
    const bool two = triton_ && sort == Sort::Convert && triton_->is_of_a_product(op.operands[0], g);
    if (sort == Sort::Convert && ((t->dtype == DType::BF16 && !two) || ir::bit_width(t->dtype) == 8))
      figure = "convert_bf16";
    if (sort == Sort::Divide && !ir::is_float(t->dtype)) figure = "integer";
    const auto divisors = sort == Sort::Divide && triton_ ? triton_->divisors(op) : std::nullopt;
    if (divisors) figure = "divide_alike";
    const double packed = sort == Sort::Simple && ir::is_float(t->dtype) && ir::bit_width(t->dtype) == 16 ? 2 : 1;
    const double wide = sort == Sort::Move ? std::max(8, ir::bit_width(t->dtype)) / 32.0
                        : ir::bit_width(t->dtype) == 64 && ir::is_float(t->dtype) ? 2
                                                                                  : 1;
    const double special = f_.value_or("sfu_" + figure, 0);
    busy(w, Unit::Special) = special * n / f_("mufu_rate") * cycle_;
    busy(w, sort == Sort::Move || sort == Sort::Scan ? Unit::Access : Unit::Vector) =
        (f_("simt_" + figure) + f_("simt_reciprocal") * divisors.value_or(0)) * wide * n / packed /
        (kSimtLanes * share_) * cycle_;
    if (triton_ && sort != Sort::Exp) overlap(w);
    const auto spread = sort == Sort::Reduce && triton_ ? triton_->reduction(op, g) : std::nullopt;
    if (spread) return reduced(w, n, *spread);
    if (sort == Sort::Reduce) {
      // One thread waits for each of its operations; others take the lanes meanwhile.
      const double issued = std::min(1.0, f_("simt_reduce_issue") / f_("simt_reduce"));
      w.latency = (1 - issued) * busy(w, Unit::Vector);
      busy(w, Unit::Vector) *= issued;
    }
    return w;
  }

  // Triton's lanes and special function units work on different elements of one operation at the same time. Those that
  // make an argument of exp2 of one of exp come out apart: measured, `exp` in place of `exp2` (docs/time.md).
  static void overlap(Work& w) {
    double &vector = busy(w, Unit::Vector), &special = busy(w, Unit::Special);
    (vector < special ? vector : special) = 0;
  }

  // An instruction for each element; then lanes of a warp pass parts to each other, and warps through shared memory.
  Work reduced(Work w, double n, const TritonLayouts::Reduction& r) const {
    const auto results = static_cast<double>(r.results), across = static_cast<double>(r.warps);
    const double meet = r.warps > 1 ? f_("warps_meet_cycles") : 0;
    const double issued =
        f_("simt_reduce_issue") * n / kSimtLanes + warps_ * results * (r.steps * f_("shuffle_cycles") + meet);
    const double waited = r.steps * f_("shuffle_latency") +
                          (r.warps > 1 ? f_("warps_meet_latency") + std::log2(across) * f_("shuffle_latency") : 0);
    busy(w, Unit::Vector) = issued / share_ * cycle_;
    w.latency = waited * cycle_;
    return w;
  }

  Work product_of(const ir::Op& op, const ir::Graph& g) const {
    ProductShape s = product_shape(op, g);
    const auto left = triton_ ? triton_->left_of(op) : TritonLayouts::Left::Shared;
    s.left_elsewhere = left != TritonLayouts::Left::Shared;
    Work w = product(s);
    if (left == TritonLayouts::Left::Fetched) {
      const double bytes = static_cast<double>(s.batch * s.m * s.k) * ir::bit_width(s.dtype) / 8;
      busy(w, Unit::Access) += bytes / f_("smem_read_rate") * cycle_;
    }
    return w;
  }

  // Each warp multiplies by itself, 16 rows by 8 columns at a time, with operands that it takes to its registers.
  Work product_of_warps(const ProductShape& s) const {
    Work w;
    w.flops = s.flops();
    const auto up = [](int64_t n, int64_t of) { return static_cast<double>((n + of - 1) / of * of); };
    const auto batch = static_cast<double>(s.batch);
    const int64_t bits = ir::bit_width(s.dtype);
    const double m = up(s.m, 16), n = up(s.n, 8), k = up(s.k, 256 / bits);
    const TritonLayouts::Warps of = triton_->warps_of(s);
    const double clock = f_("tensor_clock"), chain = k * static_cast<double>(bits) / 256 * f_("mma_latency") / clock;
    busy(w, Unit::Matrix) = s.passes * 2 * batch * m * n * k / (rate(s.dtype) * f_("mma_share")) / clock;
    // What is summed over must lie side by side in registers: where it does not in shared memory, a lane takes its
    // bytes one by one, and rows that lie so far apart share the banks.
    if (bits == 8 && !s.right_k_last) {
      const double taken = batch * k * n * static_cast<double>(of.rows) / 32;
      busy(w, Unit::Access) += taken * std::clamp(n / 16, 1.0, 16.0) * cycle_;
    }
    const double bytes = batch * k * static_cast<double>(bits) / 8 *
                         (m * static_cast<double>(of.columns) + n * static_cast<double>(of.rows));
    busy(w, Unit::Access) += bytes / f_("smem_read_rate") * cycle_;
    w.latency = std::max(0.0, chain + f_("mma_latency") / clock - busy(w, Unit::Matrix));
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
    busy(w, Unit::Vector) = f_("simt_access") * std::max(bytes / 16, 1.0) / (kSimtLanes * share_) * cycle_;
    return w;
  }

  const ir::Module& m_;
  const TimingFigures& f_;
  double cycle_, share_, sms_;
  double warps_ = 1, latency_ = 1;
  bool hopper_;
  std::optional<TritonLayouts> triton_;
};

}  // namespace

std::unique_ptr<CostModel> gpu_cost_model(const ir::Module& m, const Profile& p, const TimingFigures& f,
                                          int64_t warps) {
  return std::make_unique<Gpu>(m, p, f, warps);
}

}  // namespace pallasim::hw
