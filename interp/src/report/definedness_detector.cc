#include "definedness_detector.h"

#include <fmt/format.h>

#include <algorithm>

#include "../plan/array.h"
#include "../plan/payload/movement.h"
#include "causes.h"
#include "left_undefined.h"
#include "pallasim/interp/observer.h"
#include "program.h"
#include "report.h"

namespace pallasim::interp {
namespace {

memory::shadow::View view_of(const Access& a) {
  const auto rank = static_cast<size_t>(a.rank);
  return {a.offset, {a.dims, rank}, {a.strides, rank}, a.element_bytes};
}

}  // namespace

DefinednessDetector::Definedness& DefinednessDetector::memory(int32_t thread, uint32_t buffer) {
  if (thread < 0) thread = ~thread * ex().device_threads;  // an operand of that device (BufferAlias)
  if (buffer == memory::kSlotBuffer) return slots(thread);
  if (plan_.memory.is_alias(buffer)) {
    const auto [owner, other] = ex().stands_for(ex().threads[static_cast<size_t>(thread)], buffer);
    return memories_[instances_.of(ex(), owner, other)];
  }
  return visits_.is_one(buffer) ? visits_.of(thread, buffer) : array(thread, buffer);
}

bool DefinednessDetector::begins_undefined(const Window& w, Birth* b) {
  if (!window_begins_undefined(plan_, w)) return false;
  *b = birth(Origin::What::Window, plan_.module.operands[static_cast<size_t>(w.operand)].name, -1, false);
  return true;
}

void DefinednessDetector::on_window(const WindowEvent& e) {
  const uint32_t buffer = operand_buffer(e.operand);
  if (!visits_.is_one(buffer)) return;
  visits_.show(thread(e.thread), buffer, e.place,
               birth(Origin::What::Window, plan_.module.operands[e.operand].name, -1, false), &array(e.thread, buffer));
}

// One number for each, as far as there are numbers.
DefinednessDetector::Birth DefinednessDetector::birth(Origin::What what, const std::string& name, ir::LocId line,
                                                      bool read) {
  for (size_t b = 1; b < origins_.size(); ++b)
    if (origins_[b].what == what && origins_[b].name == name && origins_[b].line == line && origins_[b].read == read &&
        origins_[b].of == 0)
      return static_cast<Birth>(b);
  if (origins_.size() == 255) origins_.push_back({});
  if (origins_.size() == 256) return 255;
  origins_.push_back({what, name, line, read, "", 0, {"PS-UNINIT-003", ""}});
  return static_cast<Birth>(origins_.size() - 1);
}

DefinednessDetector::Birth DefinednessDetector::computed(Birth b) {
  if (origins_[b].of != 0 || origins_[b].what == Origin::What::Several) return b;
  Birth& r = computed_[b];
  if (r == 0) {
    if (origins_.size() >= 255) return b;
    origins_.push_back(origins_[b]);
    origins_.back().of = b;
    r = static_cast<Birth>(origins_.size() - 1);
  }
  return r;
}

void DefinednessDetector::begin_memory(int32_t thread, const memory::Allocation& a) {
  memory(thread, a.buffer).set(a.offset, a.offset + a.bytes, birth(Origin::What::Scratch, a.name, -1, false));
}

void DefinednessDetector::begin_thread(const Thread& t) {
  slots_[static_cast<size_t>(t.index)] = {};
  for (const memory::Allocation& a : plan_.memory.allocations)
    if (a.private_to_thread() && a.lifetime == memory::Allocation::Lifetime::Launch && t.bases[a.buffer])
      begin_memory(t.index, a);
}

// Outputs that begin as nobody's, scratch of the threads that are there, and what they share.
void DefinednessDetector::on_launch(const LaunchEvent&) {
  const Execution& ex = this->ex();
  slots_.assign(ex.threads.size(), {});
  for (const Window& w : plan_.first().windows) {
    const auto operand = static_cast<size_t>(w.operand);
    for (int32_t device = 0; device < ex.devices && !w.is_output; ++device) look_at_input(w, device);
    if (!w.is_output || ir::is_sync(w.dtype) || plan_.module.is_aliased_output(operand)) continue;
    for (int32_t device = 0; device < ex.devices; ++device)
      if (ex.operand(device, w.buffer))
        memory(device * ex.device_threads, w.buffer)
            .set(0, arrays::count(w.dims) * w.element_bytes,
                 birth(Origin::What::Output, plan_.module.operands[operand].name, -1, false));
  }
  for (const Thread& t : ex.threads) {
    if (!t.bases) continue;
    begin_thread(t);
    for (const memory::Allocation& a : plan_.memory.allocations)
      if (!a.private_to_thread() && a.lifetime == memory::Allocation::Lifetime::Launch && t.bases[a.buffer])
        begin_memory(t.index, a);
  }
}

void DefinednessDetector::on_thread(const ThreadEvent& e) {
  if (e.what == ThreadEvent::What::Begins && static_cast<size_t>(e.thread) < slots_.size()) {
    if (const Thread& t = thread(e.thread); t.bases && t.parent < 0 && t.point >= 0) begin_thread(t);
  }
}

// Memory that is given out again: nothing of what lay there is left.
void DefinednessDetector::on_memory(const MemoryEvent& e) {
  Definedness& m = memory(e.thread, e.buffer);
  const int64_t end = e.offset + e.bytes;
  if (e.what == MemoryEvent::What::Fresh) m.set(e.offset, end, birth(Origin::What::Scratch, *e.name, -1, false));
  if (e.what == MemoryEvent::What::Freed) m.set(e.offset, end, 0);
  if (e.what != MemoryEvent::What::Given) return;
  m.set(e.offset, end, 0);
  for (const memory::Allocation& a : plan_.memory.allocations)
    if (a.buffer == e.buffer && a.lifetime == memory::Allocation::Lifetime::Launch) begin_memory(e.thread, a);
}

void DefinednessDetector::on_sync(const SyncEvent& e) {
  if (e.what == SyncEvent::What::Spawn) slots(static_cast<int32_t>(e.object)) = slots(e.thread);
}

void DefinednessDetector::on_step(const StepEvent&) {
  collects_ = true;
  reads_undefined_ = false;
  writes_.clear();
}

// Accesses come before their step runs, those of operations that it starts once it runs.
void DefinednessDetector::see(Seen& seen) {
  if (!collects_) return;
  const Access& a = seen.access;
  Definedness* of = nullptr;
  if (visits_.is_one(a.buffer)) {
    of = &visits_.of(a.owner < 0 ? a.thread : a.owner, a.buffer);
  } else {
    of = memories_.find(seen.instance());
  }
  if (!of || of->all_defined()) return;
  memory::shadow::View v = view_of(a);
  if (a.write) {
    writes_.push_back(
        {of, v.offset, a.element_bytes, {v.dims.begin(), v.dims.end()}, {v.strides.begin(), v.strides.end()}, {}});
    if (a.places) writes_.back().places.assign(a.places, a.places + a.boxes);
  }
  for (int64_t i = 0; i < a.boxes && !a.write && !reads_undefined_; ++i) {
    if (a.places) v.offset = a.places[i];
    reads_undefined_ = of->find(v) != 0;
  }
}

void DefinednessDetector::on_told(const StepEvent& e) {
  collects_ = false;
  Thread& t = ex().threads[static_cast<size_t>(e.thread)];
  const Step& s = step(e.step);
  if (reads_undefined_ || !slots(e.thread).all_defined() || ops::may_make_undefined(t, s))
    return ops::carry(t, s, *this);
  for (const Written& w : writes_) {
    memory::shadow::View v{w.offset, w.dims, w.strides, w.bytes};
    if (w.places.empty()) w.of->set(v, 0);
    for (const int64_t place : w.places) v.offset = place, w.of->set(v, 0);
  }
}

void DefinednessDetector::on_operation(const OperationEvent& e) {
  const memory::AsyncOperation& op = e.operation;
  if (e.what == OperationEvent::What::Issued) {
    Births held = ops::births_held(ex(), op, *this);
    if (!held.empty()) held_[op.id] = std::move(held);
  }
  if (e.what != OperationEvent::What::Moved) return;
  const auto held = held_.find(op.id);
  ops::carry(ex(), op, held == held_.end() ? Births{} : held->second, *this);
  if (held != held_.end()) held_.erase(held);
}

DefinednessDetector::Birth DefinednessDetector::made(const Thread& t, const Step& s, Making how) {
  const ir::LocId line = plan_.loc_of(s);
  Origin::What what = Origin::What::Padding;
  if (how == Making::Padding) {
    const Window& w = s.kind == Kind::window_staged ? payload<Kind::window_staged>(s) : payload<Kind::window_flush>(s);
    return birth(what, plan_.module.operands[static_cast<size_t>(w.operand)].name, -1, false);
  }
  what = how == Making::MaskedLane ? Origin::What::MaskedLane : Origin::What::Outside;
  const std::string& name = s.kind == Kind::load_scalar ? payload<Kind::load_scalar>(s).ref
                            : s.kind == Kind::gather    ? payload<Kind::gather>(s).name
                                                        : payload<Kind::load_in_place>(s).access.name;
  const Birth r = birth(what, name, line, true);
  if (origins_[r].found.kernel.empty()) origins_[r].found = diagnostic_at(t, line, "PS-UNINIT-003", "");
  if (const auto at = ex().log.outside.find(&s); at != ex().log.outside.end()) origins_[r].detail = at->second;
  return r;
}

DefinednessDetector::Birth DefinednessDetector::padding(const memory::AsyncOperation& op) {
  const memory::Side& from = op.reads.front();
  return birth(Origin::What::Padding, allocation_name(plan_, from.place.buffer, from.place.offset), -1, false);
}

void DefinednessDetector::read(const Thread& t, const Step& s, ir::LocId line, Births* births) {
  Birth from = 0, to = 0;  // what came last
  for (Birth& b : *births) {
    if (b == 0 || origins_[b].read || origins_[b].what == Origin::What::Several) continue;
    if (b != from) {
      if (line < 0) line = plan_.loc_of(s);
      from = b;
      const auto [known, fresh] = read_.insert({{b, line}, 0});
      if (fresh) {
        const Origin was = origins_[b];
        known->second = birth(was.what, was.name, line, true);
        Origin& now = origins_[known->second];
        if (now.found.kernel.empty()) now.found = diagnostic_at(t, line, "PS-UNINIT-003", "");
      }
      to = known->second;
    }
    b = to;
  }
}

// An element of an output that nobody wrote stays one of those (PS-OUT-001); elsewhere it is one that was read.
void DefinednessDetector::taken(const Thread& t, const Step& s, Births* births) {
  if (std::any_of(births->begin(), births->end(), [&](Birth b) { return origins_[b].what == Origin::What::Output; }))
    read(t, s, -1, births);
}

void DefinednessDetector::stored(const Thread& t, const Step& s, const Addr& a, const Births& births) {
  Birth seen = 0;
  for (const Birth b : births) {
    if (b == seen || b == 0 || origins_[b].of == 0) continue;
    seen = b;
    const std::string& name = origins_[b].name;
    const int64_t at = a.offset + (a.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(a.dyn));
    if (!name.empty() && !accumulated_.count(name) && allocation_name(plan_, a.buffer, at) == name)
      accumulated_.insert(name);
  }
  if (a.buffer < memory::kFirstOperandBuffer) return;
  const size_t operand = a.buffer - memory::kFirstOperandBuffer;
  if (operand >= plan_.module.operands.size()) return;
  Birth last = 0;
  for (const Birth b : births)
    if (b != 0 && b != last) {
      last = b;
      stored_.insert({{operand, base(b)}, a.loc >= 0 ? a.loc : plan_.loc_of(s)});
    }
}

std::string DefinednessDetector::source(const Origin& o) const {
  const std::string name = o.name.empty() ? "memory" : o.name;
  const std::string by = o.line >= 0 ? " that are read at " + where(ex(), o.line) : "",
                    load = o.line >= 0 ? "the load at " + where(ex(), o.line) : "a load";
  switch (o.what) {
    case Origin::What::Scratch: return fmt::format("elements of {}{} and that nobody wrote", name, by);
    case Origin::What::Output: return fmt::format("elements of output {}{} and that nobody wrote before", name, by);
    case Origin::What::Window:
      return fmt::format(
          "elements of a block of {}{} that nobody wrote in its visit: it is aliased, but the alias joins "
          "arrays, and a window begins with whatever memory held",
          name, by);
    case Origin::What::Earlier: return fmt::format("elements of {}{} that {}", name, by, earlier_.at(o.name));
    case Origin::What::MaskedLane: return fmt::format("lanes of {} that the mask of {} leaves undefined", name, load);
    case Origin::What::Outside:
      return fmt::format("elements that {} reads outside of {}{}", load, name, o.detail.empty() ? "" : ": " + o.detail);
    case Origin::What::Padding: return fmt::format("elements of a block of {}{}, beyond the array's edge", name, by);
    case Origin::What::Several: break;
  }
  return "memory that nobody wrote";
}

std::string DefinednessDetector::hint(const Origin& o) {
  switch (o.what) {
    case Origin::What::Scratch:
    case Origin::What::Output:
      return fmt::format("set it before it is read: {0}[...] = jnp.zeros_like({0})", o.name.empty() ? "ref" : o.name);
    case Origin::What::Earlier: return "let the kernel before write all of its output, or choose those away here";
    case Origin::What::Window:
      return "write all of the block in each visit: o_ref[...] = x_ref[...] first, with x_ref the aliased input";
    case Origin::What::MaskedLane:
      return "give the load `other=`, or leave the lanes out with jnp.where before they are used";
    case Origin::What::Padding:
      return "leave out what lies beyond the edge: jnp.where(index < size, x, 0) before it is summed or multiplied";
    default: return "leave out what lies outside with jnp.where before it is used";
  }
}

void DefinednessDetector::decides(const Thread& t, const Step& s, Birth b, Decides what) {
  static constexpr const char* kWhat[] = {
      "a branch", "the number of trips of a loop", "where memory is accessed", "how much is accessed",
      "a mask",   "what a semaphore is told",      "which unit is named",      "a check"};
  const Origin& o = origins_[b];
  used_.insert(o.name);
  fail(t, &s, "PS-UNINIT-004", fmt::format("an undefined value decides {}", kWhat[static_cast<size_t>(what)]),
       {"it comes from " + source(o)}, hint(o));
}

void DefinednessDetector::look_at_output(size_t operand, int32_t device, std::vector<bool>* undefined,
                                         std::vector<bool>* left) {
  const uint32_t buffer = operand_buffer(operand);
  const Definedness* of = memories_.find(instances_.of(ex(), device * ex().device_threads, buffer));
  if (!of || of->all_defined()) return;
  const ir::Type& type = *plan_.module.operands[operand].array;
  const std::string& name = plan_.module.operands[operand].name;
  const int64_t size = ir::byte_size(type.dtype), n = type.num_elements();
  std::vector<int64_t> dims;
  for (const ir::Dim& d : type.dims) dims.push_back(d.size);
  struct Found {
    int64_t elements = 0, first = -1;
  };
  std::map<Birth, Found> found;
  undefined->assign(static_cast<size_t>(n), false);
  left->assign(static_cast<size_t>(n), false);
  for (int64_t at = 0, end = n * size; of->find(at, end, &at) != 0; at = (at / size + 1) * size) {
    const Birth b = base(of->at(at));
    Found& f = found[b];
    if (f.elements++ == 0) f.first = at / size;
    (*undefined)[static_cast<size_t>(at / size)] = true;
    // A window's hold what the array held: one that is given anew may hold the same.
    (*left)[static_cast<size_t>(at / size)] = origins_[b].what != Origin::What::Window;
  }
  for (const auto& [b, f] : found) {
    const Origin& o = origins_[b];
    if (!o.read && o.what == Origin::What::Output && o.name == name) continue;  // never written: PS-OUT-001
    used_.insert(o.name);
    ir::Diagnostic d = o.found;
    if (d.kernel.empty()) d.kernel = plan_.module.name;
    d.message = fmt::format("undefined elements reach output {}", name);
    const auto line = stored_.find({operand, b});
    if (!o.name.empty()) d.about.push_back(about_ref(o.name));
    if (o.line < 0 && line != stored_.end()) d.site = ir::site_of(*ex().locs, line->second);
    d.numbers.push_back("they come from " + source(o));
    d.numbers.push_back(fmt::format("{} of {} elements of {} are undefined, the first is {}{}", f.elements, n, name,
                                    index_text(f.first, dims),
                                    line == stored_.end() ? "" : ", stored at " + where(ex(), line->second)));
    d.hint = hint(o);
    found_.emplace_back(o.name, std::move(d));
  }
}

// What an earlier launch left undefined in it.
void DefinednessDetector::look_at_input(const Window& w, int32_t device) {
  const auto operand = static_cast<size_t>(w.operand);
  const ir::Operand& o = plan_.module.operands[operand];
  const std::byte* const at = ir::is_sync(w.dtype) ? nullptr : ex().operand(device, w.buffer);
  const auto found = at ? LeftUndefined::of_process().find(at, o.array->num_bytes()) : std::nullopt;
  if (!found) return;
  earlier_[o.name] = found->whose;
  const Birth b = birth(Origin::What::Earlier, o.name, -1, false);
  Definedness& array = this->array(device * ex().device_threads, w.buffer);
  for (const LeftUndefined::Run& r : found->undefined) array.set(r.begin, r.end, b);
}

void DefinednessDetector::leave(const Window& w, int32_t device, const std::vector<bool>& undefined) const {
  const std::byte* const at = ir::is_sync(w.dtype) ? nullptr : ex().operand(device, w.buffer);
  if (!at) return;
  const ir::Operand& o = plan_.module.operands[static_cast<size_t>(w.operand)];
  std::vector<LeftUndefined::Run> runs;
  for (size_t i = 0; i < undefined.size(); ++i) {
    if (!undefined[i]) continue;
    const int64_t begin = static_cast<int64_t>(i) * w.element_bytes;
    if (!runs.empty() && runs.back().end == begin) runs.back().end += w.element_bytes;
    else runs.push_back({begin, begin + w.element_bytes});
  }
  LeftUndefined::of_process().keep(at, o.array->num_bytes(), std::move(runs),
                                   fmt::format("kernel {} left undefined in its output {}", plan_.module.name, o.name));
}

void DefinednessDetector::settle() {
  ended_ = all_ended(ex());
  if (!ended_) return;
  visits_.end([&](int32_t thread, uint32_t buffer) -> Definedness& { return array(thread, buffer); });
  for (int32_t device = 0; device < ex().devices; ++device)
    for (const Window& w : plan_.first().windows) {
      if (!w.is_output) continue;
      undefined_.emplace_back();
      std::vector<bool> left;
      if (!ir::is_sync(w.dtype) && ex().operand(device, w.buffer))
        look_at_output(static_cast<size_t>(w.operand), device, &undefined_.back(), &left);
      leave(w, device, left);
    }
  if (std::all_of(undefined_.begin(), undefined_.end(), [](const auto& r) { return r.empty(); })) undefined_.clear();
}

void DefinednessDetector::finish(std::vector<ir::Diagnostic>& out) {
  for (auto& [name, d] : found_)
    if (name.empty() || !left_out_.count(name)) out.push_back(std::move(d));
}

}  // namespace pallasim::interp
