// What a program declares: machine, grid, operands with blocks and index maps, scratch.
#include <fmt/format.h>

#include <algorithm>

#include "frame.h"

namespace pallasim::judge {

void Frame::choose_grid() {
  const auto m = rng_.below(100);
  machine_ = m < 45 ? ir::Machine::Generic : m < 88 ? ir::Machine::Tpu : ir::Machine::Triton;
  body_.machine = machine_;
  body_.extents = rng_.chance(4)    ? std::vector<int64_t>{8, 128}
                  : rng_.chance(50) ? std::vector<int64_t>{4, 8}
                  : rng_.chance(50) ? std::vector<int64_t>{8, 16, 5}
                                    : std::vector<int64_t>{8, 3};
  if (machine_ == ir::Machine::Triton) body_.extents = {4, 8, 16};
  for (int64_t k = rng_.below(3); k > 0; --k)
    body_.dtypes.push_back(rng_.of(
        {DType::BF16, DType::F16, DType::I8, DType::U8, DType::I16, DType::U32, DType::F8E4M3FN, DType::F8E5M2}));
  if (rng_.chance(50)) std::swap(body_.dtypes[0], body_.dtypes[1]);  // the one that copies prefer
  if (machine_ == ir::Machine::Generic && rng_.chance(15)) body_.dtypes.push_back(rng_.of({DType::I64, DType::F64}));
  auto axes = rng_.of({0, 0, 0, 1, 1, 1, 2, 2, 3});
  body_.copies = machine_ == ir::Machine::Tpu && rng_.chance(70);
  if (machine_ == ir::Machine::Tpu && axes == 0) {
    const auto many = rng_.below(10);
    if (many < 3) devices_ = static_cast<int>(rng_.in(2, 3)), body_.copies = true;
    else if (many < 5) cores_ = static_cast<int>(rng_.in(2, 3));
  }
  c_.devices = devices_;
  units_ = machine_ != ir::Machine::Triton && axes > 0 && rng_.chance(30);
  if (units_) axes = std::max(axes, 2), body_.copies = false, ++c_.terms["units that look independent"];
  for (int a = 0; a < axes; ++a) grid_.push_back(rng_.in(1, axes == 1 ? 5 : 3));
  parallel_ = machine_ == ir::Machine::Triton             ? axes
              : axes > 0 && rng_.chance(units_ ? 15 : 50) ? static_cast<int>(rng_.in(1, axes))
                                                          : 0;
  dynamic_ = axes > 0 && rng_.chance(12);
  c_.wrong = rng_.below(1000) < 15;
}

Type Frame::block_type() {
  Type t{rng_.of(body_.dtypes), {}};
  if (rng_.chance(8)) t.dtype = DType::Bool;
  if (body_.copies && rng_.chance(60)) {  // pairs that copies can connect
    t = {body_.dtypes[0], {body_.extents[0]}};
    if (rng_.chance(50)) t.dims.push_back(body_.extents.back());
    return t;
  }
  for (int64_t k = rng_.chance(60) ? 1 : 2; k > 0; --k) t.dims.push_back(rng_.of(body_.extents));
  return t;
}

// One index of an index map, within the extent of the axis; injective ones hit every block once.
int Frame::axis_index(Writer& w, int axis, bool injective, bool* odd) {
  const int64_t n = grid_[static_cast<size_t>(axis)];
  const auto number = [&](int64_t v) {
    return w.op("constant {value = " + literal(DType::I32, static_cast<double>(v)) + "}", "i32[]");
  };
  const auto op = [&](const char* o, int a, int b) {
    return w.op(fmt::format("{} {}, {}", o, name(a), name(b)), "i32[]");
  };
  for (size_t k = 0; k < prefetch_.size(); ++k)
    if (prefetch_[k].permutation && prefetch_[k].array.dims[0] == n && rng_.chance(40)) {
      ++c_.terms["index map reads prefetch"];
      *odd = true;
      return w.op(
          fmt::format("get {}, {} {{view = [index($1)]}}", name(static_cast<int>(grid_.size() + k)), name(axis)),
          "i32[]");
    }
  const auto kind = rng_.below(injective ? 4 : 7);
  if (kind == 1 || kind == 5 || kind == 6) *odd = true;
  switch (kind) {
    case 0: return op("sub", number(n - 1), axis);
    case 1: return op("rem", op("add", axis, number(rng_.below(n + 1))), number(n));
    case 4: return number(rng_.below(n));
    case 5: return op("min", axis, number(rng_.below(n)));
    case 6: return op("rem", op("mul", axis, number(2)), number(n));
    default: return axis;
  }
}

std::string Frame::index_map(int depends, size_t rank, bool injective, bool plain, bool* odd) {
  Writer w;
  std::string args;
  for (size_t a = 0; a < grid_.size(); ++a) args += (args.empty() ? "" : ", ") + name(w.fresh()) + ": i32[]";
  for (const Operand& p : prefetch_)
    args += (args.empty() ? "" : ", ") + name(w.fresh()) + ": " + ref_type(p.array, p.space);
  std::vector<int> at;
  const int zero = w.op("constant {value = i32 0x0}", "i32[]");
  for (int a = 0; a < depends; ++a) at.push_back(plain ? a : axis_index(w, a, injective, odd));
  if (at.size() < rank && !plain && !grid_.empty() && rng_.chance(3)) {  // 0 after it has wrapped, whatever the axis is
    ++c_.terms["index that wraps"];
    *odd = true;
    const auto number = [&](int64_t v) {
      return w.op("constant {value = " + literal(DType::I32, static_cast<double>(v)) + "}", "i32[]");
    };
    const int axis = static_cast<int>(rng_.below(static_cast<int64_t>(grid_.size())));
    const int high = w.op("mul " + name(axis) + ", " + name(number(1 << 30)), "i32[]");
    at.push_back(w.op("mul " + name(high) + ", " + name(number(4)), "i32[]"));
  }
  while (at.size() < rank) at.push_back(zero);
  w.line("yield " + names(at));
  return " (" + args + ") {\n" + w.text() + "}";
}

// A block of type `seen` chosen by the first `depends` axes; the last of these may run along the block's own first
// dimension.
Frame::Operand Frame::operand(const std::string& kind, const std::string& name, Type seen, int depends, bool edge) {
  Operand o{kind, name, machine_ == ir::Machine::Triton ? "gmem" : "vmem", "", "", seen, seen};
  o.depends = depends, o.whole = false, o.edge = edge;
  const bool along = depends > 0 && !seen.dims.empty() && (edge || rng_.chance(50));
  std::string block;
  o.array.dims.clear();
  for (int a = 0; a < depends - (along ? 1 : 0); ++a) {
    o.array.dims.push_back(grid_[static_cast<size_t>(a)]);
    block += "squeezed, ";
  }
  for (size_t i = 0; i < seen.dims.size(); ++i) {
    o.array.dims.push_back(seen.dims[i] * (along && i == 0 ? grid_[static_cast<size_t>(depends - 1)] : 1));
    block += fmt::format("blocked({}), ", seen.dims[i]);
  }
  if (edge) o.array.dims[static_cast<size_t>(depends - 1)] -= rng_.in(1, seen.dims[0] - 1);
  block.resize(block.size() - 2);
  o.block = ", block = [" + block + "]";
  if (machine_ == ir::Machine::Tpu && rng_.chance(30))
    o.block += fmt::format(", pipeline = buffered({})", rng_.in(1, kind == "input" ? 3 : 2));
  o.odd = dynamic_;
  o.map = index_map(depends, o.array.dims.size(), kind == "output",
                    edge || (units_ && kind == "output" && rng_.chance(80)), &o.odd);
  return o;
}

// Cores share inputs and outputs and have scratch of their own: outputs have a row for each core.
void Frame::choose_operands_of_cores() {
  const auto whole = [&](const std::string& kind, const std::string& n, Type t) {
    return Operand{kind, n, "any", "", "", t, t};
  };
  const auto rows = [&](Type t) {
    t.dims.insert(t.dims.begin(), cores_);
    return t;
  };
  for (int64_t k = 0, n = rng_.in(1, 2); k < n; ++k)
    inputs_.push_back(whole("input", "x" + std::to_string(k), block_type()));
  for (int64_t k = 0, n = rng_.in(1, 2); k < n; ++k)
    outputs_.push_back(whole("output", "met" + std::to_string(k), rows(block_type())));
  for (int64_t k = 0, n = rng_.in(1, 3); k < n; ++k) {
    Operand s{"scratch", "s" + std::to_string(k), "vmem", "", "", {}, block_type()};
    scratch_.push_back(s);
    dumps_.push_back(outputs_.size());
    outputs_.push_back(whole("output", "end_" + s.name, rows(s.seen)));
  }
}

void Frame::choose_operands() {
  if (cores_ > 1) return choose_operands_of_cores();
  const auto axes = static_cast<int>(grid_.size());
  const bool triton = machine_ == ir::Machine::Triton;
  const std::string whole_space = triton                         ? "gmem"
                                  : machine_ == ir::Machine::Tpu ? rng_.of({"vmem", "any", "smem"})
                                                                 : "any";
  if (axes && !triton && rng_.chance(40)) {
    Operand p{"prefetch", "order", "smem", "", "", {DType::I32, {grid_[0]}}, {DType::I32, {grid_[0]}}};
    p.permutation = true;
    prefetch_.push_back(p);
  }
  if (!triton && rng_.chance(25))
    prefetch_.push_back({"prefetch", "flags", "smem", "", "", {DType::I32, {4}}, {DType::I32, {4}}});
  const auto whole = [&](const std::string& kind, const std::string& n, Type t) {
    Operand o{kind, n, whole_space, "", "", t, t};
    return o;
  };
  for (int64_t k = 0, n = rng_.in(1, 3); k < n; ++k) {
    const std::string nm = "x" + std::to_string(k);
    if (axes && rng_.chance(70))
      inputs_.push_back(operand("input", nm, block_type(), static_cast<int>(rng_.in(0, axes)), false));
    else inputs_.push_back(whole("input", nm, block_type()));
  }
  if (rng_.chance(25)) {
    inputs_.push_back(whole("input", "perm", {DType::I32, {rng_.of(body_.extents)}}));
    inputs_.back().permutation = true;
  }
  for (int64_t k = 0, n = rng_.in(1, 3); k < n; ++k) {
    const std::string nm = "o" + std::to_string(k);
    Type t = block_type();
    const bool permutation = rng_.chance(12);
    if (permutation) t = {DType::I32, {rng_.of(body_.extents)}};
    if (axes && (triton || parallel_ || units_ || rng_.chance(75)))
      outputs_.push_back(
          operand("output", nm, t,
                  triton ? axes : static_cast<int>(rng_.in(units_ ? std::max(1, parallel_) : parallel_, axes)), false));
    else outputs_.push_back(whole("output", nm, t));
    outputs_.back().permutation = permutation;
    Operand& o = outputs_.back();
    if (!permutation && rng_.chance(20)) {  // in place: an input of the same array and block
      Operand in = o;
      in.kind = "input", in.name = "a" + std::to_string(k);
      o.alias = static_cast<int>(inputs_.size());
      inputs_.push_back(in);
      ++c_.terms["alias"];
    }
  }
  if (axes == 1 && !triton && rng_.chance(20)) {  // what lies behind the edge of an array stays apart
    Type t = block_type();
    t.dims[0] = std::max<int64_t>(2, t.dims[0]);
    Operand x = operand("input", "edge_x", t, 1, true), o = x;
    o.kind = "output", o.name = "edge_o";
    if (o.block.find("buffered(3)") != std::string::npos)
      o.block.replace(o.block.find("buffered(3)"), 11, "buffered(2)");
    inputs_.push_back(x), outputs_.push_back(o);
    ++c_.terms["edge block"];
  }
  if (triton && rng_.chance(30)) {  // shared by all programs
    Operand h = whole("input", "shared_in", {DType::I32, {rng_.of(body_.extents)}}), o = h;
    o.kind = "output", o.name = "shared", o.alias = static_cast<int>(inputs_.size());
    shared_ = static_cast<int>(outputs_.size());
    inputs_.push_back(h), outputs_.push_back(o);
  }
  if (!triton)
    for (int64_t k = 0, n = units_ ? rng_.in(1, 2) : rng_.below(3); k < n; ++k) {
      Operand s{"scratch",   "s" + std::to_string(k), machine_ == ir::Machine::Tpu ? "vmem" : "any", "", "", {},
                block_type()};
      s.depends = units_ && rng_.chance(60) ? parallel_ : static_cast<int>(rng_.in(parallel_, axes));
      scratch_.push_back(s);
      Operand o =
          axes ? operand("output", "end_" + s.name, s.seen, axes, false) : whole("output", "end_" + s.name, s.seen);
      dumps_.push_back(outputs_.size());
      outputs_.push_back(o);
    }
}

}  // namespace pallasim::judge
