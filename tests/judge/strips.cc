// An output that all programs see as a whole, and that each writes a strip of: where it lies is arithmetic on grid
// coordinates in the body.
#include <fmt/format.h>

#include "frame.h"

namespace pallasim::judge {

void Frame::choose_strips() {
  if (grid_.empty() || cores_ > 1 || devices_ > 1 || chain_ >= 0 || !rng_.chance(25)) return;
  Type t{rng_.of(body_.dtypes), {grid_.begin(), grid_.end()}};
  const bool ordered = machine_ != ir::Machine::Triton && parallel_ == 0;
  // By the sum of the last two coordinates: programs of a diagonal write one strip.
  diagonal_ = ordered && grid_.size() > 1 && rng_.chance(25);
  if (diagonal_) {
    ++c_.terms["strips by a sum of coordinates"];
    t.dims.pop_back();
    t.dims.back() += grid_.back() - 1;
  }
  // The first one's strip is the last of the array, which another one writes, too.
  from_end_ = ordered && !diagonal_ && machine_ == ir::Machine::Generic && grid_.back() > 1 && rng_.chance(25);
  if (from_end_) --t.dims.back(), ++c_.terms["strips counted from the end"];
  const size_t along = t.dims.size() - 1;
  strip_ = {rng_.of(body_.extents)};
  t.dims.back() *= strip_[0];
  if (rng_.chance(50)) {
    strip_.push_back(rng_.of(body_.extents));
    t.dims.push_back(strip_[1]);
  }
  // One row more, so that each may write the first one behind its strip, too: the next one's.
  behind_ = ordered && !diagonal_ && !from_end_ && rng_.chance(25);
  if (behind_) ++t.dims[along], ++c_.terms["strips and the row behind"];
  strips_ = static_cast<int>(outputs_.size());
  outputs_.push_back({"output", "strips", machine_ == ir::Machine::Triton ? "gmem" : "any", "", "", t, t});
  ++c_.terms["strips by grid coordinates"];
}

// The strip of the program, and perhaps a part of another one's.
void Frame::store_strips() {
  if (strips_ < 0) return;
  const Operand& o = outputs_[static_cast<size_t>(strips_)];
  const Type t{o.seen.dtype, strip_};
  const auto op = [&](const std::string& text) { return w_.op(text, "i32[]"); };
  const int64_t n = grid_.back();
  int at = ids_.back().id;
  if (diagonal_) at = op(fmt::format("add {}, {}", name(at), name(ids_[ids_.size() - 2].id)));
  else if (rng_.chance(30)) at = op(fmt::format("sub {}, {}", name(body_.number(n - 1)), name(at)));
  if (from_end_) at = op(fmt::format("sub {}, {}", name(ids_.back().id), name(body_.number(1))));
  const int rows = body_.number(strip_[0]), start = op(fmt::format("mul {}, {}", name(at), name(rows)));
  const auto store = [&](int first, const Value& v) {
    std::vector<int> operands{o.id, v.id};
    std::string index;
    for (size_t a = 0; a + (diagonal_ ? 2 : 1) < ids_.size(); ++a) {
      index += fmt::format("${}, ", operands.size());
      operands.push_back(ids_[a].id);
    }
    const int64_t taken = v.type.dims[0];
    const Type lanes{DType::I32, {taken}};
    const bool arrays = from_end_ || rng_.chance(50);
    if (arrays)
      first =
          w_.op(fmt::format("add {}, {}", name(w_.op("broadcast_in_dim " + name(first) + " {dims = []}", str(lanes))),
                            name(w_.op("iota {axis = 0}", str(lanes)))),
                str(lanes));
    index += fmt::format(fmt::runtime(arrays ? "array(${})" : "slice(${}, {})"), operands.size(), taken);
    operands.push_back(first);
    if (strip_.size() > 1) index += fmt::format(", slice(0, {})", strip_[1]);
    w_.line(fmt::format("{} {} {{view = [index({})]}}", arrays ? "masked_store" : "store", names(operands), index));
  };
  store(start, body_.some(t));
  if (behind_) {
    Type row = t;
    row.dims[0] = 1;
    store(op(fmt::format("add {}, {}", name(start), name(rows))), body_.some(row));
    return;
  }
  if (diagonal_ || from_end_ || machine_ == ir::Machine::Triton || parallel_ > 0 || !rng_.chance(30)) return;
  // The same strip for all programs, or that of the next one: the last who writes it counts.
  ++c_.terms["strips that meet"];
  const int next = op(fmt::format("rem {}, {}", name(op(fmt::format("add {}, {}", name(at), name(body_.number(1))))),
                                  name(body_.number(n))));
  store(rng_.chance(50) ? body_.number(0) : op(fmt::format("mul {}, {}", name(next), name(rows))), body_.some(t));
}

}  // namespace pallasim::judge
