#include "frame.h"

#include <fmt/format.h>

#include <algorithm>

namespace pallasim::judge {

namespace {
const char* machine_name(ir::Machine m) {
  return m == ir::Machine::Tpu ? "tpu" : m == ir::Machine::Triton ? "triton" : "generic";
}
}  // namespace

// Whether this is the first point with these coordinates on the axes before `from`: every later one is 0. In many
// spellings.
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
      case 3:
        p = scalar("ne " +
                       name(scalar("convert " + name(scalar("eq " + zero + ", " + k, DType::Bool).id), DType::I32).id) +
                       ", " + zero,
                   DType::Bool);
        break;
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
  const std::string k = name(ids_[static_cast<size_t>(a)].id), i = name(ids_[static_cast<size_t>(b)].id),
                    zero = name(body_.number(0));
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

// Opens a region that runs at the first visit and, where `again` allows it, perhaps at later ones; 0 where nothing
// needs to be opened. Returns what closes it.
int Frame::when_first(int from, bool again) {
  if (from >= static_cast<int>(grid_.size())) return 0;
  const Value p = again && from == 0 && parallel_ == 0 && ids_.size() > 1 && rng_.chance(50) ? odd_first_visit()
                                                                                             : first_visit(from);
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
  const Value k = ids_[static_cast<size_t>(rng_.below(static_cast<int64_t>(ids_.size())))];
  const std::string zero = name(body_.number(0));
  const Value first = scalar(fmt::format("{} {}, {}", rng_.of({"eq", "ne"}), name(k.id), zero), DType::Bool);
  Value flag = body_.constant(DType::Bool, static_cast<double>(rng_.below(2)));
  if (rng_.chance(70)) flag = body_.some({DType::Bool, {}});
  const Value p =
      scalar(fmt::format("{} {}, {}", rng_.of({"ne", "ne", "eq", "xor", "or", "and"}), name(first.id), name(flag.id)),
             DType::Bool);
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
    if (!aliased[k] && !inputs_[k].edge) {
      // The core has its own copy of a block, which stays as the kernel leaves it until another one comes in.
      const bool own = machine_ == ir::Machine::Tpu && parallel_ == 0 && !inputs_[k].block.empty() && rng_.chance(25);
      if (own) ++c_.terms["block of an input is written"];
      add(inputs_[k], own);
    }
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
    if (o.edge || cores_ > 1 || static_cast<int>(k) == shared_ || static_cast<int>(k) == chain_ ||
        static_cast<int>(k) == strips_ || std::find(dumps_.begin(), dumps_.end(), k) != dumps_.end())
      continue;
    first(o, o.whole ? 0 : o.depends);
  }
  for (const Operand& s : scratch_)
    first(s, rng_.chance(units_ ? 10 : 30) ? static_cast<int>(grid_.size()) : s.depends);
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
    const int i = w_.op("iota {axis = 0}", str(index)), n = body_.number(x.seen.dims[0]),
              end = body_.number(x.array.dims[0]);
    const int start = w_.op("mul " + name(ids_[0].id) + ", " + name(n), "i32[]"),
              row = w_.op("add " + name(i) + ", " + name(start), str(index));
    const int ok = w_.op("lt " + name(row) + ", " + name(end), str(inside));
    const Value zero = body_.fresh(x.seen);
    body_.keep(w_.op("select_n " + name(ok) + ", " + name(zero.id) + ", " + name(read), t), x.seen);
  }
}

// What is left goes where it is seen: live values into outputs, scratch into outputs of its own.
void Frame::results() {
  body_.budget = 12;
  for (int k = 0; k < 4 && !body_.values.empty(); ++k) {
    const Value v =
        body_.values[body_.values.size() - 1 -
                     static_cast<size_t>(rng_.below(std::min<int64_t>(10, static_cast<int64_t>(body_.values.size()))))];
    body_.late_use({v});
  }
  store_strips();
  for (size_t k = 0; k < dumps_.size(); ++k) {
    const Operand& o = outputs_[dumps_[k]];
    const int v = w_.op("get " + name(scratch_[k].id), str(scratch_[k].seen));
    std::string row;
    for (int64_t n : scratch_[k].seen.dims) row += fmt::format(", slice(0, {})", n);
    if (cores_ > 1)
      w_.line(fmt::format("store {}, {}, {} {{view = [index($2{})]}}", name(o.id), name(v), name(me_), row));
    else w_.line("store " + name(o.id) + ", " + name(v));
  }
}

void Frame::arguments() {
  const auto add = [&](const Type& t, std::vector<double> v) {
    c_.args.push_back({t.dtype, t.dims, encode(t.dtype, v)});
  };
  if (dynamic_) add({DType::I32, {}}, {static_cast<double>(grid_[0])});
  for (int d = 0; d < devices_; ++d)
    for (const auto* list : {&prefetch_, &inputs_})
      for (const Operand& o : *list) {
        std::vector<double> v;
        if (o.permutation) {
          for (int64_t x : rng_.permutation(o.array.dims[0])) v.push_back(static_cast<double>(x));
        } else {
          for (int64_t k = o.array.size(); k > 0; --k)
            v.push_back(o.array.dtype == DType::Bool ? static_cast<double>(rng_.below(2))
                        : ir::is_float(o.array.dtype)
                            ? static_cast<double>(rng_.in(-16, 16)) / 4
                            : static_cast<double>(rng_.in(ir::is_unsigned_int(o.array.dtype) ? 0 : -3, 12)));
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
    t += "grid {size = " + size +
         (says ? static_cast<int>(a) < parallel_ ? ", semantics = parallel" : ", semantics = arbitrary" : "") + "}\n";
  }
  std::string args;
  for (const auto* list : {&prefetch_, &inputs_, &outputs_, &scratch_})
    for (const Operand& o : *list) {
      args += (args.empty() ? "" : ", ") + name(o.id) + " \"" + o.name + "\": " + ref_type(o.seen, o.space);
      if (o.kind == "scratch") t += "scratch \"" + o.name + "\" : " + ref_type(o.seen, o.space) + "\n";
      else
        t += o.kind + " \"" + o.name + "\" : " + str(o.array) + " {space = " + o.space + o.block + "}" + o.map + "\n";
    }
  for (size_t k = 0; k < outputs_.size(); ++k)
    if (outputs_[k].alias >= 0)
      t += fmt::format("alias {{input = {}, output = {}}}\n", static_cast<size_t>(outputs_[k].alias) + prefetch_.size(),
                       k);
  return t + "body " + (cores_ > 1 ? "\"cores\" (" : "(") + args + ") {\n" + w_.text() + "  yield\n}\n";
}

// Blocks of an array that is changed in place: each is what an earlier step left there, changed once more.
void Frame::choose_chain() {
  if (machine_ != ir::Machine::Tpu || grid_.empty() || parallel_ || devices_ > 1 || dynamic_ || !rng_.chance(25))
    return;
  ++c_.terms["blocks written by earlier steps"];
  const size_t axis = grid_.size() - 1;
  const int64_t shift = rng_.below(2), n = rng_.of(body_.extents);
  const Type array{DType::I32, {grid_[axis] + 1, n}}, seen{DType::I32, {n}};
  const auto map = [&](int64_t by) {
    Writer w;
    std::string args;
    for (size_t a = 0; a < grid_.size(); ++a) args += (args.empty() ? "" : ", ") + name(w.fresh()) + ": i32[]";
    for (const Operand& p : prefetch_) args += ", " + name(w.fresh()) + ": " + ref_type(p.array, p.space);
    const int zero = w.op("constant {value = i32 0x0}", "i32[]");
    const int step = w.op("constant {value = " + literal(DType::I32, static_cast<double>(by)) + "}", "i32[]");
    const int at = w.op("add " + name(static_cast<int>(axis)) + ", " + name(step), "i32[]");
    w.line("yield " + names({at, zero}));
    return " (" + args + ") {\n" + w.text() + "}";
  };
  // One slot each: nothing is fetched before the step before has ended.
  const std::string block = fmt::format(", block = [squeezed, blocked({})], pipeline = buffered(1)", n);
  const bool edge = std::any_of(inputs_.begin(), inputs_.end(), [](const Operand& x) { return x.edge; });
  if (grid_.size() > 1 && scratch_.empty() && !edge && rng_.chance(50))
    outputs_.clear();  // nothing else orders the grid
  chain_ = static_cast<int>(outputs_.size());
  Operand o{"output", "chain_out", "vmem", block, map(shift), array, seen};
  o.alias = static_cast<int>(inputs_.size());
  inputs_.push_back({"input", "chain_in", "vmem", block, map(0), array, seen});
  outputs_.push_back(o);
}

void Frame::chain_step() {
  if (chain_ < 0) return;
  const Operand& o = outputs_[static_cast<size_t>(chain_)];
  const int x = w_.op("get " + name(inputs_[static_cast<size_t>(o.alias)].id), str(o.seen));
  const Value c = body_.fresh(o.seen);
  w_.line("store " + name(o.id) + ", " +
          name(w_.op(fmt::format("{} {}, {}", rng_.of({"add", "xor"}), name(x), name(c.id)), str(o.seen))));
}

void Frame::make() {
  choose_grid();
  choose_operands();
  choose_chain();
  choose_strips();
  body_.budget = static_cast<int>(rng_.in(12, 45));
  const int whole = body_.budget;
  begin_body();
  edges();
  chain_step();
  body_.budget = whole;
  const std::string update = rng_.of({"add", "max", "min", "or", "and", "xor"});
  while (body_.budget > 0) {
    if (rng_.chance(15)) odd_predicates();
    if (rng_.chance(20)) exchange();
    if (shared_ >= 0 && rng_.chance(15)) {
      const Operand& o = outputs_[static_cast<size_t>(shared_)];
      body_.atomic_step({o.id, o.seen, -1, o.space}, update);
    }
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
  // Only TPUs have the latter two: there they come more often.
  const auto kind = machine_ == ir::Machine::Tpu ? rng_.below(8) : 0;
  const int one = body_.number(1);
  if (kind >= 2) {
    const bool deadlock = kind < 5;
    const int sem = w_.fresh();
    w_.open(fmt::format("run_scoped ({}: ref<sem[], semaphore>) {{", name(sem)));
    if (deadlock) w_.line(fmt::format("sem_wait {}, {} {{value = $1}}", name(sem), name(one)));
    else
      w_.line(fmt::format("sem_signal {}, {}, {} {{inc = $1, device_id = $2, device_id_type = logical}}", name(sem),
                          name(one), name(body_.number(devices_ + rng_.below(3))))),
          w_.line(fmt::format("sem_wait {}, {} {{value = $1}}", name(sem), name(one)));  // nobody else complains
    w_.line("yield");
    w_.close("}");
    ++c_.terms[deadlock ? "wrong: deadlock" : "wrong: no such device"];
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

Case generate(uint64_t seed) { return seed % 16 == 7 ? generate_points(seed) : make_case<Frame>(seed); }

}  // namespace pallasim::judge
