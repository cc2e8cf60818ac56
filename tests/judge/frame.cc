#include "frame.h"

#include <fmt/format.h>

#include <algorithm>

namespace pallasim::judge {

namespace {
const char* machine_name(ir::Machine m) { return m == ir::Machine::Tpu ? "tpu" : m == ir::Machine::Triton ? "triton" : "generic"; }
}  // namespace

void Frame::choose_grid() {
  const auto m = rng_.below(100);
  machine_ = m < 45 ? ir::Machine::Generic : m < 88 ? ir::Machine::Tpu : ir::Machine::Triton;
  body_.machine = machine_;
  body_.extents = rng_.chance(4) ? std::vector<int64_t>{8, 128} : rng_.chance(50) ? std::vector<int64_t>{4, 8} : rng_.chance(50) ? std::vector<int64_t>{8, 16, 5} : std::vector<int64_t>{8, 3};
  if (machine_ == ir::Machine::Triton) body_.extents = {4, 8, 16};
  for (int64_t k = rng_.below(3); k > 0; --k)
    body_.dtypes.push_back(rng_.of({DType::BF16, DType::F16, DType::I8, DType::U8, DType::I16, DType::U32, DType::F8E4M3FN, DType::F8E5M2}));
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
  parallel_ = machine_ == ir::Machine::Triton ? axes : axes > 0 && rng_.chance(units_ ? 15 : 50) ? static_cast<int>(rng_.in(1, axes)) : 0;
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
  const auto number = [&](int64_t v) { return w.op("constant {value = " + literal(DType::I32, static_cast<double>(v)) + "}", "i32[]"); };
  const auto op = [&](const char* o, int a, int b) { return w.op(fmt::format("{} {}, {}", o, name(a), name(b)), "i32[]"); };
  for (size_t k = 0; k < prefetch_.size(); ++k)
    if (prefetch_[k].permutation && prefetch_[k].array.dims[0] == n && rng_.chance(40)) {
      ++c_.terms["index map reads prefetch"];
      *odd = true;
      return w.op(fmt::format("get {}, {} {{view = [index($1)]}}", name(static_cast<int>(grid_.size() + k)), name(axis)), "i32[]");
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
  for (const Operand& p : prefetch_) args += (args.empty() ? "" : ", ") + name(w.fresh()) + ": " + ref_type(p.array, p.space);
  std::vector<int> at;
  const int zero = w.op("constant {value = i32 0x0}", "i32[]");
  for (int a = 0; a < depends; ++a) at.push_back(plain ? a : axis_index(w, a, injective, odd));
  while (at.size() < rank) at.push_back(zero);
  w.line("yield " + names(at));
  return " (" + args + ") {\n" + w.text() + "}";
}

// A block of type `seen` chosen by the first `depends` axes; the last of these may run along the block's own first dimension.
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
  if (machine_ == ir::Machine::Tpu && rng_.chance(30)) o.block += fmt::format(", pipeline = buffered({})", rng_.in(1, kind == "input" ? 3 : 2));
  o.odd = dynamic_;
  o.map = index_map(depends, o.array.dims.size(), kind == "output", edge || (units_ && kind == "output" && rng_.chance(80)), &o.odd);
  return o;
}

// Cores share inputs and outputs and have scratch of their own: outputs have a row for each core.
void Frame::choose_operands_of_cores() {
  const auto whole = [&](const std::string& kind, const std::string& n, Type t) { return Operand{kind, n, "any", "", "", t, t}; };
  const auto rows = [&](Type t) {
    t.dims.insert(t.dims.begin(), cores_);
    return t;
  };
  for (int64_t k = 0, n = rng_.in(1, 2); k < n; ++k) inputs_.push_back(whole("input", "x" + std::to_string(k), block_type()));
  for (int64_t k = 0, n = rng_.in(1, 2); k < n; ++k) outputs_.push_back(whole("output", "met" + std::to_string(k), rows(block_type())));
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
  const std::string whole_space = triton ? "gmem" : machine_ == ir::Machine::Tpu ? rng_.of({"vmem", "any", "smem"}) : "any";
  if (axes && !triton && rng_.chance(40)) {
    Operand p{"prefetch", "order", "smem", "", "", {DType::I32, {grid_[0]}}, {DType::I32, {grid_[0]}}};
    p.permutation = true;
    prefetch_.push_back(p);
  }
  if (!triton && rng_.chance(25)) prefetch_.push_back({"prefetch", "flags", "smem", "", "", {DType::I32, {4}}, {DType::I32, {4}}});
  const auto whole = [&](const std::string& kind, const std::string& n, Type t) {
    Operand o{kind, n, whole_space, "", "", t, t};
    return o;
  };
  for (int64_t k = 0, n = rng_.in(1, 3); k < n; ++k) {
    const std::string nm = "x" + std::to_string(k);
    if (axes && rng_.chance(70)) inputs_.push_back(operand("input", nm, block_type(), static_cast<int>(rng_.in(0, axes)), false));
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
    if (axes && (triton || parallel_ || units_ || rng_.chance(75))) outputs_.push_back(operand("output", nm, t, triton ? axes : static_cast<int>(rng_.in(units_ ? std::max(1, parallel_) : parallel_, axes)), false));
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
    if (o.block.find("buffered(3)") != std::string::npos) o.block.replace(o.block.find("buffered(3)"), 11, "buffered(2)");
    inputs_.push_back(x), outputs_.push_back(o);
    ++c_.terms["edge block"];
  }
  if (!triton)
    for (int64_t k = 0, n = units_ ? rng_.in(1, 2) : rng_.below(3); k < n; ++k) {
      Operand s{"scratch", "s" + std::to_string(k), machine_ == ir::Machine::Tpu ? "vmem" : "any", "", "", {}, block_type()};
      s.depends = units_ && rng_.chance(60) ? parallel_ : static_cast<int>(rng_.in(parallel_, axes));
      scratch_.push_back(s);
      Operand o = axes ? operand("output", "end_" + s.name, s.seen, axes, false) : whole("output", "end_" + s.name, s.seen);
      dumps_.push_back(outputs_.size());
      outputs_.push_back(o);
    }
}

// Whether this is the first point with these coordinates on the axes before `from`: every later one is 0. In many spellings.
Value Frame::first_visit(int from) {
  const auto scalar = [&](const std::string& op, DType t) { return Value{w_.op(op, str(Type{t, {}})), {t, {}}}; };
  Value all;
  for (size_t a = static_cast<size_t>(from); a < ids_.size(); ++a) {
    const std::string k = name(ids_[a].id), zero = name(body_.number(0)), one = name(body_.number(1));
    Value p;
    switch (rng_.below(6)) {
      case 0: p = scalar("not " + name(scalar("ne " + k + ", " + zero, DType::Bool).id), DType::Bool); break;
      case 1: p = scalar("lt " + k + ", " + one, DType::Bool); break;
      case 2: p = scalar("not " + name(scalar("convert " + k, DType::Bool).id), DType::Bool); break;
      case 3: p = scalar("ne " + name(scalar("convert " + name(scalar("eq " + zero + ", " + k, DType::Bool).id), DType::I32).id) + ", " + zero, DType::Bool); break;
      default: p = scalar("eq " + k + ", " + zero, DType::Bool);
    }
    all = all.id < 0 ? p : scalar("and " + name(all.id) + ", " + name(p.id), DType::Bool);
  }
  return all;
}

// True at the very first point, and at others too, though not at the start of every run along the last axes.
Value Frame::odd_first_visit() {
  ++c_.terms["odd first visit"];
  const auto scalar = [&](const std::string& op) { return w_.op(op, "bool[]"); };
  const auto n = static_cast<int64_t>(ids_.size());
  int64_t a = rng_.below(n), b = (a + 1 + rng_.below(n - 1)) % n;
  if (units_ && rng_.chance(70)) a = n - 1, b = rng_.below(n - 1);
  const std::string k = name(ids_[static_cast<size_t>(a)].id), i = name(ids_[static_cast<size_t>(b)].id), zero = name(body_.number(0));
  const int start = scalar("eq " + k + ", " + zero);
  int flag = -1;
  switch (rng_.below(4)) {
    case 0: flag = scalar("gt " + i + ", " + zero); break;
    case 1: flag = scalar("convert " + i); break;
    case 2: flag = body_.constant(DType::Bool, 0).id; break;
    default: flag = scalar("ne " + i + ", " + zero);
  }
  const std::string s = name(start), f = name(flag);
  switch (rng_.below(4)) {
    case 0: return {scalar("xor " + s + ", " + f), {DType::Bool, {}}};
    case 1: return {scalar("eq " + s + ", " + name(scalar("not " + f))), {DType::Bool, {}}};
    default: return {scalar("ne " + s + ", " + f), {DType::Bool, {}}};
  }
}

// Opens a region that runs at the first visit and, where `again` allows it, perhaps at later ones; 0 where nothing needs to be opened. Returns what closes it.
int Frame::when_first(int from, bool again) {
  if (from >= static_cast<int>(grid_.size())) return 0;
  const Value p = again && from == 0 && parallel_ == 0 && ids_.size() > 1 && rng_.chance(50) ? odd_first_visit() : first_visit(from);
  if (rng_.chance(30)) {
    const int n = w_.op("not " + name(p.id), "bool[]");
    w_.open("cond " + name(n) + " () {");
    return 1;
  }
  int predicate = p.id;
  if (rng_.chance(30)) predicate = w_.op("convert " + name(p.id), "i32[]");
  w_.open("cond " + name(predicate) + " () {");
  w_.line("yield");
  w_.between("} () {");
  return 2;
}

// Values of predicates that look like the start of a run of points and are not.
void Frame::odd_predicates() {
  if (ids_.empty()) return;
  ++c_.terms["odd predicate"];
  const auto scalar = [&](const std::string& op, DType t) { return body_.keep(w_.op(op, str(Type{t, {}})), {t, {}}); };
  const Value& k = ids_[static_cast<size_t>(rng_.below(static_cast<int64_t>(ids_.size())))];
  const std::string zero = name(body_.number(0));
  const Value first = scalar(fmt::format("{} {}, {}", rng_.of({"eq", "ne"}), name(k.id), zero), DType::Bool);
  Value flag = body_.constant(DType::Bool, static_cast<double>(rng_.below(2)));
  if (rng_.chance(70)) flag = body_.some({DType::Bool, {}});
  const Value p = scalar(fmt::format("{} {}, {}", rng_.of({"ne", "ne", "eq", "xor", "or", "and"}), name(first.id), name(flag.id)), DType::Bool);
  if (!rng_.chance(75)) return;
  const Ref* r = body_.writable();
  if (!r) return;
  const Ref to = *r;
  w_.open("cond " + name(p.id) + " () {");
  w_.line("yield");
  w_.between("} () {");
  const Body::Mark m = body_.enter();
  body_.fill(to);
  w_.line("yield");
  body_.leave(m);
  w_.close("}");
}

void Frame::begin_body() {
  for (auto* list : {&prefetch_, &inputs_, &outputs_, &scratch_})
    for (Operand& o : *list) o.id = w_.fresh();
  for (size_t a = 0; a < grid_.size(); ++a) {
    Value v{w_.op(fmt::format("program_id {{axis = {}}}", a), "i32[]"), {DType::I32, {}}, 0, grid_[a] - 1, 4};
    ids_.push_back(v);
    body_.values.push_back(v);
  }
  if (devices_ > 1 || cores_ > 1) {
    me_ = w_.op(fmt::format("axis_index {{axis = \"{}\"}}", devices_ > 1 ? "x" : "core"), "i32[]");
    body_.values.push_back({me_, {DType::I32, {}}, 0, std::max(devices_, cores_) - 1, 4});
  }
  std::vector<bool> aliased(inputs_.size(), false);
  for (const Operand& o : outputs_)
    if (o.alias >= 0) aliased[static_cast<size_t>(o.alias)] = true;
  const auto add = [&](const Operand& o, bool writable) {
    body_.refs.push_back({o.id, o.seen, static_cast<int>(body_.roots.size()), o.space, o.odd});
    body_.roots.push_back({writable, o.permutation});
  };
  for (const Operand& o : prefetch_) add(o, false);
  for (size_t k = 0; k < inputs_.size(); ++k)
    if (!aliased[k] && !inputs_[k].edge) add(inputs_[k], false);
  for (int64_t k = rng_.below(3); k > 0; --k) body_.elementwise(body_.any_type());
  first_writes();
}

// All memory that is read has been written: at every point, or at the first of those that share it.
void Frame::first_writes() {
  const auto first = [&](const Operand& o, int from) {
    const Ref r{o.id, o.seen, static_cast<int>(body_.roots.size()), o.space, o.odd};
    const int opened = when_first(from, o.alias < 0);
    const Body::Mark m = body_.enter();
    if (o.alias >= 0) {
      Value x = body_.keep(w_.op("get " + name(inputs_[static_cast<size_t>(o.alias)].id), str(o.seen)), o.seen);
      if (rng_.chance(60)) x = body_.derived(x);
      w_.line("store " + name(o.id) + ", " + name(x.id));
    } else if (o.permutation) {
      w_.line("store " + name(o.id) + ", " + name(body_.permutation(o.seen.dims[0]).id));
    } else {
      body_.fill(r);
    }
    if (opened) {
      w_.line("yield");
      body_.leave(m);
      if (opened == 1) w_.between("} () {"), w_.line("yield");
      w_.close("}");
    } else {
      --body_.nesting;
    }
    body_.refs.push_back(r);
    body_.roots.push_back({true, o.permutation});
  };
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const Operand& o = outputs_[k];
    if (o.edge || cores_ > 1 || std::find(dumps_.begin(), dumps_.end(), k) != dumps_.end()) continue;
    first(o, o.whole ? 0 : o.depends);
  }
  for (const Operand& s : scratch_) first(s, rng_.chance(units_ ? 10 : 30) ? static_cast<int>(grid_.size()) : s.depends);
}

// Elementwise on a block that reaches beyond its array, and its part inside the array made into an ordinary value.
void Frame::edges() {
  for (const Operand& x : inputs_) {
    if (!x.edge) continue;
    const Operand& o = *std::find_if(outputs_.begin(), outputs_.end(), [](const Operand& p) { return p.edge; });
    const std::string t = str(x.seen);
    int v = w_.op("get " + name(x.id), t);
    const int read = v;
    if (x.seen.dtype == DType::Bool) v = w_.op("not " + name(v), t);
    else {
      const Value c = body_.fresh({x.seen.dtype, {}});
      v = w_.op(fmt::format("{} {}, {}", rng_.of({"add", "max", "sub"}), name(v), name(c.id)), t);
    }
    w_.line("store " + name(o.id) + ", " + name(v));
    const Type index{DType::I32, x.seen.dims}, inside{DType::Bool, x.seen.dims};
    const int i = w_.op("iota {axis = 0}", str(index)), n = body_.number(x.seen.dims[0]), end = body_.number(x.array.dims[0]);
    const int start = w_.op("mul " + name(ids_[0].id) + ", " + name(n), "i32[]"), row = w_.op("add " + name(i) + ", " + name(start), str(index));
    const int ok = w_.op("lt " + name(row) + ", " + name(end), str(inside));
    const Value zero = body_.fresh(x.seen);
    body_.keep(w_.op("select_n " + name(ok) + ", " + name(zero.id) + ", " + name(read), t), x.seen);
  }
}

// What is left goes where it is seen: live values into outputs, scratch into outputs of its own.
void Frame::results() {
  body_.budget = 12;
  for (int k = 0; k < 4 && !body_.values.empty(); ++k) {
    const Value v = body_.values[body_.values.size() - 1 - static_cast<size_t>(rng_.below(std::min<int64_t>(10, static_cast<int64_t>(body_.values.size()))))];
    body_.late_use({v});
  }
  for (size_t k = 0; k < dumps_.size(); ++k) {
    const Operand& o = outputs_[dumps_[k]];
    const int v = w_.op("get " + name(scratch_[k].id), str(scratch_[k].seen));
    std::string row;
    for (int64_t n : scratch_[k].seen.dims) row += fmt::format(", slice(0, {})", n);
    if (cores_ > 1) w_.line(fmt::format("store {}, {}, {} {{view = [index($2{})]}}", name(o.id), name(v), name(me_), row));
    else w_.line("store " + name(o.id) + ", " + name(v));
  }
}

void Frame::arguments() {
  const auto add = [&](const Type& t, std::vector<double> v) { c_.args.push_back({t.dtype, t.dims, encode(t.dtype, v)}); };
  if (dynamic_) add({DType::I32, {}}, {static_cast<double>(grid_[0])});
  for (int d = 0; d < devices_; ++d)
   for (const auto* list : {&prefetch_, &inputs_})
    for (const Operand& o : *list) {
      std::vector<double> v;
      if (o.permutation) {
        for (int64_t x : rng_.permutation(o.array.dims[0])) v.push_back(static_cast<double>(x));
      } else {
        for (int64_t k = o.array.size(); k > 0; --k)
          v.push_back(o.array.dtype == DType::Bool ? static_cast<double>(rng_.below(2)) : ir::is_float(o.array.dtype) ? static_cast<double>(rng_.in(-16, 16)) / 4 : static_cast<double>(rng_.in(ir::is_unsigned_int(o.array.dtype) ? 0 : -3, 12)));
      }
      add(o.array, v);
    }
}

std::string Frame::text() const {
  std::string t = fmt::format("pallasim-ir 1\nmodule \"judged_{}\" {{machine = {}", c_.seed, machine_name(machine_));
  if (devices_ > 1) t += fmt::format(", devices = [axis(\"x\", {})], communicates = true", devices_);
  t += "}\n";
  if (cores_ > 1) t += fmt::format("mesh \"cores\" {{kind = tensorcore, axes = [axis(\"core\", {})]}}\n", cores_);
  for (size_t a = 0; a < grid_.size(); ++a) {
    const std::string size = a == 0 && dynamic_ ? "dynamic(0)" : std::to_string(grid_[a]);
    const bool says = machine_ != ir::Machine::Triton;
    t += "grid {size = " + size + (says ? static_cast<int>(a) < parallel_ ? ", semantics = parallel" : ", semantics = arbitrary" : "") + "}\n";
  }
  std::string args;
  for (const auto* list : {&prefetch_, &inputs_, &outputs_, &scratch_})
    for (const Operand& o : *list) {
      args += (args.empty() ? "" : ", ") + name(o.id) + " \"" + o.name + "\": " + ref_type(o.seen, o.space);
      if (o.kind == "scratch") t += "scratch \"" + o.name + "\" : " + ref_type(o.seen, o.space) + "\n";
      else t += o.kind + " \"" + o.name + "\" : " + str(o.array) + " {space = " + o.space + o.block + "}" + o.map + "\n";
    }
  for (size_t k = 0; k < outputs_.size(); ++k)
    if (outputs_[k].alias >= 0) t += fmt::format("alias {{input = {}, output = {}}}\n", static_cast<size_t>(outputs_[k].alias) + prefetch_.size(), k);
  return t + "body " + (cores_ > 1 ? "\"cores\" (" : "(") + args + ") {\n" + w_.text() + "  yield\n}\n";
}

void Frame::make() {
  choose_grid();
  choose_operands();
  body_.budget = static_cast<int>(rng_.in(12, 45));
  const int whole = body_.budget;
  begin_body();
  edges();
  body_.budget = whole;
  while (body_.budget > 0) {
    if (rng_.chance(15)) odd_predicates();
    if (rng_.chance(20)) exchange();
    body_.step();
    --body_.budget;
  }
  do exchange();
  while (cores_ > 1 && met_ < outputs_.size() - dumps_.size());
  if (c_.wrong) mistake();
  results();
  arguments();
  c_.text = text();
}

void Frame::exchange() {
  if (devices_ > 1) body_.exchange_step(me_, devices_);
  if (cores_ == 1 || met_ == outputs_.size() - dumps_.size()) return;
  const Operand& o = outputs_[met_++];  // each once: nobody knows when the others have read it
  body_.meeting_step(me_, cores_, {o.id, o.seen, -1, o.space});
}

// One mistake whose outcome is known: an index behind the end, a device that does not exist, a wait for nobody.
void Frame::mistake() {
  const auto kind = machine_ == ir::Machine::Tpu ? rng_.below(4) : 0;
  const int one = body_.number(1);
  if (kind >= 2) {
    const int sem = w_.fresh();
    w_.open(fmt::format("run_scoped ({}: ref<sem[], semaphore>) {{", name(sem)));
    if (kind == 2) w_.line(fmt::format("sem_wait {}, {} {{value = $1}}", name(sem), name(one)));
    else w_.line(fmt::format("sem_signal {}, {}, {} {{inc = $1, device_id = $2, device_id_type = logical}}", name(sem), name(one), name(body_.number(devices_ + rng_.below(3)))));
    w_.line("yield");
    w_.close("}");
    ++c_.terms[kind == 2 ? "wrong: deadlock" : "wrong: no such device"];
    return;
  }
  for (const Ref& r : body_.refs) {
    if (r.type.scalar() || !body_.can_read(r)) continue;
    std::string rest;
    for (size_t i = 1; i < r.type.dims.size(); ++i) rest += fmt::format(", slice(0, {})", r.type.dims[i]);
    const Type row{r.type.dtype, {r.type.dims.begin() + 1, r.type.dims.end()}};
    const int at = rng_.chance(50) ? body_.number(r.type.dims[0] + rng_.below(3)) : body_.number(-1 - rng_.below(2));
    body_.keep(w_.op(fmt::format("get {}, {} {{view = [index($1{})]}}", name(r.id), name(at), rest), str(row)), row);
    body_.late_use({body_.values.back(), body_.values.back(), body_.values.back()});
    ++c_.terms["wrong: out of bounds"];
    return;
  }
  c_.wrong = false;
}

Case generate(uint64_t seed) {
  Case c;
  c.seed = seed;
  Rng rng(seed);
  Frame(rng, c).make();
  return c;
}

}  // namespace pallasim::judge
