// Copies and semaphores: waits before use, and between start and wait nobody touches what the copy writes or changes
// what it reads.
#include <fmt/format.h>

#include <algorithm>

#include "body.h"

namespace pallasim::judge {
namespace {

// `src = view(…), dst = view(…), …` with the operands that they name.
struct CopyText {
  std::vector<int> operands;
  std::string attrs;

  int at(int id) {
    operands.push_back(id);
    return static_cast<int>(operands.size()) - 1;
  }
  void part(const std::string& key, int ref, const std::string& transforms) {
    attrs += fmt::format("{}{} = view(${}, [{}])", attrs.empty() ? "" : ", ", key, at(ref), transforms);
  }
};

}  // namespace

Body::Lock Body::lock(const Ref& src, const Ref& dst) {
  ++roots[static_cast<size_t>(src.root)].reading;
  ++roots[static_cast<size_t>(dst.root)].writing;
  return {src.root, dst.root};
}

void Body::unlock(const Lock& l) {
  --roots[static_cast<size_t>(l.src)].reading;
  --roots[static_cast<size_t>(l.dst)].writing;
}

// A pair of refs of one element type that a copy may connect.
bool Body::copy_pair(Ref* src, Ref* dst, bool whole) {
  std::vector<std::pair<const Ref*, const Ref*>> l;
  for (const Ref& a : refs)
    for (const Ref& b : refs) {
      const bool apart = a.root != b.root && can_read(a) && can_write(b) && a.space != "smem" && b.space != "smem" &&
                         !a.single && !b.single;
      const bool alike = a.type.dtype == b.type.dtype && a.type.dims.size() == b.type.dims.size() && !a.type.scalar() &&
                         (!whole || a.type == b.type);
      if (apart && alike && a.type.dtype != DType::Bool) l.push_back({&a, &b});
    }
  if (l.empty()) return false;
  const auto& [a, b] = rng.of(l);
  *src = *a, *dst = *b;
  return true;
}

void Body::copy_step() {
  Ref src, dst;
  if (!copy_pair(&src, &dst, false)) return;
  ++terms["copy"];
  if (rng.chance(15)) {  // out of one of two refs, chosen by a number that is known at run time only
    std::vector<Ref> like;
    for (const Ref& r : refs)
      if (r.type == src.type && r.space == src.space && r.root != dst.root && r.id != src.id && can_read(r) &&
          !r.single)
        like.push_back(r);
    if (!like.empty()) {
      const Ref other = rng.of(like);
      ++terms["copy out of a chosen ref"];
      const int which = index_in(1);
      copy(Ref{w.op(fmt::format("select_ref {}, {}, {}", name(which), name(src.id), name(other.id)),
                    ref_type(src.type, src.space)),
               src.type, src.root, src.space},
           dst, {src, other});
      return;
    }
  }
  copy(src, dst, {src});
}

// Starts a copy of a part of `src`, does other things, waits. `sources`: whose memory `src` may be.
void Body::copy(const Ref& src, const Ref& dst, const std::vector<Ref>& sources) {
  CopyText c;
  std::string from, to;
  const bool by_size = rng.chance(30);
  if (by_size) ++terms["copy of a run-time size"];
  const bool nothing = by_size && rng.chance(20);  // which begins where it likes
  if (nothing) ++terms["copy of nothing from outside"];
  const size_t rank = src.type.dims.size();
  const int s = c.at(src.id), d = c.at(dst.id);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t n = std::min(src.type.dims[i], dst.type.dims[i]), size = rng.in(1, n);
    const auto start = [&](int64_t room) {
      if (nothing && rng.chance(70)) return "$" + std::to_string(c.at(number(rng.in(-200, 200))));
      if (room > 0 && rng.chance(40)) return "$" + std::to_string(c.at(index_in(room)));
      return std::to_string(rng.in(0, room));
    };
    const int known_late = i == 0 && by_size ? (nothing ? number(0) : index_in(size)) : -1;
    const std::string e = known_late >= 0 ? "$" + std::to_string(c.at(known_late)) : std::to_string(size);
    from += fmt::format("{}slice({}, {})", i ? ", " : "", start(src.type.dims[i] - size), e);
    to += fmt::format("{}slice({}, {})", i ? ", " : "", start(dst.type.dims[i] - size), e);
  }
  const int sem = w.fresh();
  const int q = c.at(sem);
  c.attrs = fmt::format("src = view(${}, [index({})]), dst = view(${}, [index({})]), dst_sem = view(${}, [])", s, from,
                        d, to, q);
  w.open(fmt::format("run_scoped ({}: ref<dma_sem[], semaphore>) {{", name(sem)));
  const Mark m = enter();
  w.line("dma_start " + names(c.operands) + " {" + c.attrs + "}");
  std::vector<Lock> l;
  for (const Ref& r : sources) l.push_back(lock(r, dst));
  inside(5);
  w.line("dma_wait " + names(c.operands) + " {" + c.attrs + "}");
  for (const Lock& k : l) unlock(k);
  inside(3);
  late_use({});
  w.line("yield");
  leave(m);
  w.close("}");
  --budget;
}

// Two slots: one is filled while the other is used, and sometimes cleared through another element width.
void Body::slots_step() {
  std::vector<const Ref*> l;
  for (const Ref& r : refs)
    if (can_read(r) && r.space != "smem" && r.type.dims.size() == 2 && r.type.dims[0] >= 2 && !r.single &&
        r.type.dtype != DType::Bool)
      l.push_back(&r);
  if (l.empty() || nesting > 1) return;
  ++terms["two slots"];
  const Ref src = *rng.of(l);
  const int64_t rows = src.type.dims[0], n = src.type.dims[1];
  const Type row{src.type.dtype, {n}}, slots{src.type.dtype, {2, 1, n}};
  const bool wide = src.type.dtype == DType::I32 || src.type.dtype == DType::U32;
  const int buffer = w.fresh(), sems = w.fresh();
  w.open(fmt::format("run_scoped ({}: {}, {}: ref<dma_sem[2], semaphore>) {{", name(buffer), ref_type(slots, "vmem"),
                     name(sems)));
  const Mark m = enter();
  const auto copy = [&](const char* op, int i, int slot) {
    w.line(
        fmt::format("{} {}, {}, {}, {}, {} {{src = view($0, [index(slice($3, 1), slice(0, {}))]), dst = view($1, "
                    "[index($4, slice(0, 1), slice(0, {}))]), dst_sem = view($2, [index($4)])}}",
                    op, name(src.id), name(buffer), name(sems), name(i), name(slot), n, n));
  };
  const int zero = number(0), one = number(1), two = number(2), end = number(rows);
  copy("dma_start", zero, zero);
  ++roots[static_cast<size_t>(src.root)].reading;
  const int i = w.fresh();
  w.open(fmt::format("for {}, {}, {} ({}: i32[]) {{", name(zero), name(end), name(one), name(i)));
  const Mark inner = enter();
  values.push_back({i, {DType::I32, {}}, 0, rows - 1, 8});
  const int slot = rng.chance(50) ? w.op(fmt::format("rem {}, {}", name(i), name(two)), "i32[]")
                                  : w.op(fmt::format("and {}, {}", name(i), name(one)), "i32[]");
  const int next = w.op(fmt::format("add {}, {}", name(i), name(one)), "i32[]"),
            other = w.op(fmt::format("sub {}, {}", name(one), name(slot)), "i32[]");
  const int more = w.op(fmt::format("lt {}, {}", name(next), name(end)), "bool[]");
  w.open("cond " + name(more) + " () {");
  w.line("yield");
  w.between("} () {");
  copy("dma_start", next, other);
  w.line("yield");
  w.close("}");
  copy("dma_wait", i, slot);
  const Value x = keep(
      w.op(fmt::format("get {}, {} {{view = [index($1, 0, slice(0, {}))]}}", name(buffer), name(slot), n), str(row)),
      row);
  std::vector<Value> old{x};
  if (rng.chance(60)) old.push_back(derived(x));
  if (rng.chance(50)) inside(3);
  if (wide && rng.chance(60)) {  // while the other slot is being filled
    ++terms["slot cleared through another width"];
    const DType narrow = rng.of({DType::I8, DType::I16});
    const int64_t ratio = 4 / ir::byte_size(narrow);
    const Type t{narrow, {ratio, n}};
    const Value z = rng.chance(50) ? fresh(t) : some(t);
    w.line(fmt::format("store {}, {}, {} {{view = [index($2, slice(0, 1), slice(0, {})), bitcast({}[])]}}",
                       name(buffer), name(z.id), name(slot), n, ir::name(narrow)));
    if (rng.chance(50))
      old.push_back(
          keep(w.op(fmt::format("get {}, {} {{view = [index($1, 0, slice(0, {}))]}}", name(buffer), name(slot), n),
                    str(row)),
               row));
  } else if (rng.chance(50)) {
    const Value z = some(row);
    w.line(fmt::format("store {}, {}, {} {{view = [index($2, 0, slice(0, {}))]}}", name(buffer), name(z.id), name(slot),
                       n));
  }
  late_use(old);
  w.line("yield");
  leave(inner);
  w.close("}");
  --roots[static_cast<size_t>(src.root)].reading;
  w.line("yield");
  leave(m);
  w.close("}");
  budget -= 4;
}

// A copy fills the first rows of a buffer while the others are cleared through another element width.
void Body::rows_step() {
  std::vector<const Ref*> l;
  for (const Ref& r : refs)
    if (can_read(r) && r.space != "smem" && r.type.dims.size() == 2 && !r.single && r.type.dtype == DType::I32)
      l.push_back(&r);
  if (l.empty() || nesting > 1 || machine != ir::Machine::Tpu) return;
  ++terms["rows cleared through another width"];
  const Ref src = *rng.of(l);
  const int64_t rows = src.type.dims[0], n = src.type.dims[1];
  const Type twice{DType::I32, {2 * rows, n}};
  const int buffer = w.fresh(), sem = w.fresh();
  w.open(fmt::format("run_scoped ({}: {}, {}: ref<dma_sem[], semaphore>) {{", name(buffer), ref_type(twice, "vmem"),
                     name(sem)));
  const Mark m = enter();
  const auto copy = [&](const char* op) {
    w.line(
        fmt::format("{} {}, {}, {} {{src = view($0, []), dst = view($1, [index(slice(0, {}), slice(0, {}))]), "
                    "dst_sem = view($2, [])}}",
                    op, name(src.id), name(buffer), name(sem), rows, n));
  };
  copy("dma_start");
  ++roots[static_cast<size_t>(src.root)].reading;
  const DType narrow = rng.of({DType::I8, DType::I16});
  const int64_t ratio = 4 / ir::byte_size(narrow);
  const Value z = some({narrow, {ratio * rows, n}});
  const bool dynamic = rng.chance(40);
  const int start = dynamic ? number(ratio * rows) : -1;
  w.line(fmt::format("store {}, {}{} {{view = [bitcast({}[]), index(slice({}, {}), slice(0, {}))]}}", name(buffer),
                     name(z.id), dynamic ? ", " + name(start) : "", ir::name(narrow),
                     dynamic ? "$2" : std::to_string(ratio * rows), ratio * rows, n));
  copy("dma_wait");
  --roots[static_cast<size_t>(src.root)].reading;
  late_use({keep(w.op("get " + name(buffer), str(twice)), twice)});
  w.line("yield");
  leave(m);
  w.close("}");
  budget -= 2;
}

// A value is stored to memory out of which a copy takes it, one time or two; what it was made of may change in between.
void Body::forwarded_step() {
  std::vector<const Ref*> l;
  for (const Ref& r : refs)
    if (can_write(r) && r.space != "smem" && !r.type.scalar() && !r.single && r.type.dtype != DType::Bool)
      l.push_back(&r);
  if (l.empty() || nesting > 1) return;
  ++terms["value for a copy"];
  const Ref dst = *rng.of(l);
  const bool slots = rng.chance(40);
  Type memory = dst.type;
  if (slots) memory.dims.insert(memory.dims.begin(), 2);
  std::string part;
  for (const int64_t n : dst.type.dims) part += fmt::format("{}slice(0, {})", part.empty() ? "" : ", ", n);
  const int buffer = w.fresh(), sem = w.fresh();
  w.open(fmt::format("run_scoped ({}: {}, {}: ref<dma_sem[], semaphore>) {{", name(buffer), ref_type(memory, "vmem"),
                     name(sem)));
  const Mark m = enter();
  const auto once = [&] {
    const int slot = slots ? index_in(1) : -1;
    const auto view = [&](int operand) { return slots ? fmt::format("index(${}, {})", operand, part) : std::string(); };
    const Value x = some(dst.type), y = rng.chance(70) ? derived(x) : x;
    w.line(slots ? fmt::format("store {}, {}, {} {{view = [{}]}}", name(buffer), name(y.id), name(slot), view(2))
                 : fmt::format("store {}, {}", name(buffer), name(y.id)));
    if (rng.chance(60)) inside(3);
    const auto copy = [&](const char* op) {
      w.line(fmt::format("{} {}, {}, {}{} {{src = view($0, [{}]), dst = view($1, []), dst_sem = view($2, [])}}", op,
                         name(buffer), name(dst.id), name(sem), slots ? ", " + name(slot) : "", view(3)));
    };
    copy("dma_start");
    ++roots[static_cast<size_t>(dst.root)].writing;
    if (rng.chance(40)) inside(3);
    copy("dma_wait");
    --roots[static_cast<size_t>(dst.root)].writing;
  };
  once();
  if (rng.chance(40)) once();
  std::vector<Value> old;
  if (!slots && rng.chance(15)) old.push_back(keep(w.op("get " + name(buffer), str(memory)), memory));
  late_use(old);
  w.line("yield");
  leave(m);
  w.close("}");
  budget -= 2;
}

void Body::semaphore_step() {
  ++terms["semaphore"];
  const int sem = w.fresh(), n = number(rng.in(1, 3));
  w.open(fmt::format("run_scoped ({}: ref<sem[], semaphore>) {{", name(sem)));
  const Mark m = enter();
  w.line(fmt::format("sem_signal {}, {} {{inc = $1}}", name(sem), name(n)));
  if (rng.chance(50)) keep(w.op("sem_read " + name(sem), "i32[]"), {DType::I32, {}});
  inside(3);
  w.line(fmt::format("sem_wait {}, {} {{value = $1}}", name(sem), name(n)));
  w.line("yield");
  leave(m);
  w.close("}");
}

// On every device alike: what `src` holds goes into `dst` of the next device, which said that it waits for it.
void Body::exchange_step(int me, int devices) {
  Ref src, dst;
  const bool copying = copy_pair(&src, &dst, true);  // else they only meet
  ++terms["exchange between devices"];
  const int count = number(devices), ahead = number(rng.in(1, devices - 1)), one = number(1);
  const auto op = [&](const char* o, int a, int b) {
    return w.op(fmt::format("{} {}, {}", o, name(a), name(b)), "i32[]");
  };
  const int to = op("rem", op("add", me, ahead), count),
            from = op("rem", op("add", me, op("sub", count, ahead)), count);
  const int send = w.fresh(), receive = w.fresh(), ready = w.fresh();
  const bool computes = copying && rng.chance(50);  // what is sent is stored for that alone
  const int sent = computes ? w.fresh() : src.id;
  w.open(fmt::format(
      "run_scoped ({}: ref<dma_sem[], semaphore>, {}: ref<dma_sem[], semaphore>, {}: ref<sem[], semaphore>{}) {{",
      name(send), name(receive), name(ready),
      computes ? fmt::format(", {}: {}", name(sent), ref_type(src.type, "vmem")) : ""));
  const Mark m = enter();
  w.line(fmt::format("sem_signal {}, {}, {} {{inc = $1, device_id = $2, device_id_type = logical}}", name(ready),
                     name(one), name(from)));
  const auto end = [&] {
    inside(3);
    w.line("yield");
    leave(m);
    w.close("}");
  };
  if (!copying) {
    w.line(fmt::format("sem_wait {}, {} {{value = $1}}", name(ready), name(one)));
    return end();
  }
  const Lock l = lock(src, dst);
  if (rng.chance(50)) inside(3);
  if (computes) {
    ++terms["value for a copy to another device"];
    const Value x = some(src.type), y = rng.chance(70) ? derived(x) : x;
    w.line(fmt::format("store {}, {}", name(sent), name(y.id)));
    if (rng.chance(30)) inside(3);
  }
  w.line(fmt::format("sem_wait {}, {} {{value = $1}}", name(ready), name(one)));
  w.line(
      fmt::format("dma_start {}, {}, {}, {}, {} {{src = view($0, []), dst = view($1, []), dst_sem = view($2, []), "
                  "src_sem = view($3, []), device_id = $4, device_id_type = logical}}",
                  name(sent), name(dst.id), name(receive), name(send), name(to)));
  inside(6);
  const std::string waits[] = {
      fmt::format("dma_wait {}, {}, {} {{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}}", name(sent),
                  name(dst.id), name(send)),
      fmt::format("dma_wait {}, {}, {} {{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}}", name(sent),
                  name(dst.id), name(receive))};
  const auto first = static_cast<size_t>(rng.below(2));
  w.line(waits[first]);
  w.line(waits[1 - first]);
  unlock(l);
  end();
}

// Cores of one device: each shows a row of shared memory to the next one, after it said that the row is there.
void Body::meeting_step(int me, int cores, const Ref& shared) {
  ++terms["exchange between cores"];
  const int count = number(cores), one = number(1);
  const auto op = [&](const char* o, int a, int b) {
    return w.op(fmt::format("{} {}, {}", o, name(a), name(b)), "i32[]");
  };
  const int next = op("rem", op("add", me, one), count),
            before = op("rem", op("add", me, op("sub", count, one)), count);
  const Type row{shared.type.dtype, {shared.type.dims.begin() + 1, shared.type.dims.end()}};
  std::string rest;
  for (int64_t n : row.dims) rest += fmt::format(", slice(0, {})", n);
  const Value x = some(row);
  w.line(fmt::format("store {}, {}, {} {{view = [index($2{})]}}", name(shared.id), name(x.id), name(me), rest));
  const int ready = w.fresh();
  w.open(fmt::format("run_scoped ({}: ref<sem[], semaphore>) {{", name(ready)));
  const Mark m = enter();
  w.line(fmt::format("sem_signal {}, {}, {} {{inc = $1, core_index = $2}}", name(ready), name(one), name(next)));
  inside(5);
  w.line(fmt::format("sem_wait {}, {} {{value = $1}}", name(ready), name(one)));
  std::vector<Value> old{keep(
      w.op(fmt::format("get {}, {} {{view = [index($1{})]}}", name(shared.id), name(before), rest), str(row)), row)};
  if (rng.chance(60)) old.push_back(derived(old[0]));
  inside(4);
  late_use(old);
  w.line("yield");
  leave(m);
  w.close("}");
}

}  // namespace pallasim::judge
