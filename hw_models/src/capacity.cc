// What a launch keeps in the memories of its cores and of its device, against what the chip has.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "pallasim/hw/tiles.h"
#include "pallasim/ir/made.h"
#include "pallasim/memory/saturate.h"
#include "rules.h"

namespace pallasim::hw {
namespace {

using ir::Space;

// A compiler parameter that is a number.
int64_t parameter(const ir::Module& m, std::string_view key) {
  const ir::Attr* params = ir::find(m.attrs, "params");
  for (size_t i = 0; params && i < params->keys.size(); ++i)
    if (params->keys[i] == key && params->items[i].is_int()) return params->items[i].i;
  return kUnknown;
}

// The memory that holds the arrays of a call; all spaces that are a part of it have its capacity.
bool holds_arrays(const MachineModel& m, const SpaceInfo& s) {
  const char* all = m.spaces[m.arrays].capacity.figure;
  return s.capacity.figure && all && std::string_view(s.capacity.figure) == all;
}

// Memories that a kernel itself fills.
bool is_counted(const MachineModel& m, const SpaceInfo& s) { return *s.name && !holds_arrays(m, s); }

int64_t bytes_in(const SpaceInfo& s, ir::DType t, const std::vector<int64_t>& dims) {
  constexpr int64_t kBarrier = 8;  // bytes of a barrier in shared memory (PTX ISA, mbarrier)
  if (s.layout == Layout::Tiles) return tiled_bytes(t, dims);
  int64_t n = 1;
  for (int64_t d : dims) n = memory::mul(n, d);
  if (s.layout == Layout::Count) return n;
  if (ir::is_sync(t)) return memory::mul(n, kBarrier);
  return memory::mul(memory::add(memory::mul(n, ir::bit_width(t)) / 8, s.granule - 1) / s.granule, s.granule);
}

// Whether the index map gives the same block at every grid point.
bool is_constant(const ir::Module& m, const ir::Graph& map) {
  std::set<ir::ValueId> moving;
  for (size_t i = 0; i < map.region.args.size(); ++i)
    if (i >= m.grid.size() || m.grid[i].dynamic >= 0 || m.grid[i].size > 1) moving.insert(map.region.args[i]);
  const std::function<bool(const ir::Op&)> moves = [&](const ir::Op& op) {
    return std::any_of(op.operands.begin(), op.operands.end(), [&](ir::ValueId v) { return moving.count(v) > 0; }) ||
           std::any_of(op.regions.begin(), op.regions.end(),
                       [&](const ir::Region& r) { return std::any_of(r.ops.begin(), r.ops.end(), moves); });
  };
  for (const ir::Op& op : map.region.ops) {
    if (!moves(op)) continue;
    if (op.code == ir::OpCode::yield) return false;
    moving.insert(op.results.begin(), op.results.end());
  }
  return true;
}

class Walk {
 public:
  Walk(const ir::Module& m, const MachineModel& model, const ir::Body* body, const Profile& chip)
      : m_(m), model_(model), body_(body), chip_(chip) {
    for (size_t i = 0; i < kSpaces; ++i)
      if (const auto s = static_cast<Space>(i); is_counted(model, model.spaces[s])) most_.push_back({s, 0, -1, {}});
  }

  std::vector<SpaceUse> run() {
    for (const ir::Operand& o : m_.operands) operand(o);
    for (const ir::Scratch& s : m_.scratch)
      if (!body_ || s.type->mesh.empty() || s.type->mesh == body_->mesh)
        allocate(s.name, s.type, "scratch", ir::made_at(m_.locs, s.attrs), ir::find(s.attrs, "columns"));
    if (const int64_t n = parameter(m_, "internal_scratch_in_bytes"); n > 0)
      live_.push_back({Space::Vmem, {"(the compiler's own)", nullptr, {}, n, 1, "internal_scratch_in_bytes"}});
    note(-1);
    if (body_) {
      graph_ = &body_->graph;
      region(graph_->region);
    }
    std::erase_if(most_, [](const SpaceUse& o) { return o.buffers.empty(); });
    return std::move(most_);
  }

 private:
  // Of a window: how many blocks are held at a time. One that never moves is held once, whatever is asked for.
  int64_t copies(const ir::Operand& o) const {
    if (is_trivial_window(o)) return 1;
    if (const ir::Attr* mode = ir::find(o.attrs, "pipeline"); mode && mode->is_call("buffered") && !mode->items.empty())
      return mode->items[0].i;
    if (is_constant(m_, *o.index_map)) return 1;
    const int64_t asked = model_.window_copies_parameter ? parameter(m_, model_.window_copies_parameter) : kUnknown;
    return asked > 0 ? std::min(asked, steps()) : model_.window_copies;
  }

  // Points that a pipeline walks over in one program: axes that are declared to be no parallel ones.
  int64_t steps() const {
    int64_t n = 1;
    for (const ir::GridAxis& a : m_.grid)
      if (!a.semantics.empty() && a.semantics != "parallel")
        n = memory::mul(n, a.dynamic >= 0 ? 1 : std::max<int64_t>(a.size, 1));
    return n;
  }

  void operand(const ir::Operand& o) {
    if (!is_counted(model_, model_.spaces[o.space]) || ir::is_sync(o.array->dtype)) return;
    const bool output = o.kind == ir::Operand::Kind::Output;
    BufferUse b{o.name, o.array, {}, 0, 1, output ? "output" : "input", ir::made_at(m_.locs, o.attrs)};
    for (const ir::Dim& d : o.array->dims) b.dims.push_back(d.size);
    if (o.kind == ir::Operand::Kind::Prefetch) b.role = "prefetched";
    if (o.has_block) {
      b.role = output ? "output window" : "input window";
      for (size_t d = 0; d < b.dims.size(); ++d)
        b.dims[d] = o.block[d].kind == ir::BlockDim::Kind::Squeezed ? 1 : o.block[d].size;
      b.copies = copies(o);
    }
    push(o.space, std::move(b));
  }

  // `columns`: how many it takes, where it lies otherwise than at its shape.
  void allocate(const std::string& name, const ir::Type* t, const char* role, ir::LocId loc,
                const ir::Attr* columns = nullptr) {
    if (!t->is_ref || !is_counted(model_, model_.spaces[t->space])) return;
    BufferUse b{name.empty() ? "(unnamed)" : name, t, {}, 0, 1, role, loc};
    for (const ir::Dim& d : t->dims) b.dims.push_back(d.size);
    push(t->space, std::move(b), columns);
  }

  void push(Space s, BufferUse b, const ir::Attr* columns = nullptr) {
    const SpaceInfo& space = model_.spaces[s];
    b.bytes = bytes_in(space, b.type->dtype, b.dims);
    if (columns && columns->is_int() && space.column > 0)
      b.bytes = memory::mul(memory::add(memory::mul(columns->i, space.column), space.granule - 1) / space.granule,
                            space.granule);
    live_.push_back({s, std::move(b)});
  }

  // Keeps what is live now for every memory that was never so full.
  void note(ir::LocId loc) {
    for (SpaceUse& o : most_) {
      int64_t bytes = 0;
      for (const auto& [space, b] : live_)
        if (space == o.space) bytes = memory::add(bytes, memory::mul(b.bytes, b.copies));
      if (bytes <= o.bytes) continue;
      o.bytes = bytes;
      o.loc = loc;
      o.buffers.clear();
      for (const auto& [space, b] : live_)
        if (space == o.space) o.buffers.push_back(b);
    }
  }

  void loads(const ir::Op& op) {
    using C = ir::OpCode;
    if (op.code == C::get || op.code == C::masked_load) loaded_[op.results[0]] = op.operands[0];
    if (const auto it = op.code == C::transpose ? loaded_.find(op.operands[0]) : loaded_.end(); it != loaded_.end())
      loaded_[op.results[0]] = it->second;
  }

  // Loaded operands of a product that are held whole: both where the chip's file says so, else the larger one, which is
  // the least.
  void product(const ir::Op& op) {
    if (!is_counted(model_, model_.spaces[model_.products])) return;
    std::vector<BufferUse> operands;
    for (size_t i = 0; i < 2; ++i) {
      const auto it = loaded_.find(op.operands[i]);
      if (it == loaded_.end()) continue;
      const std::string& name = graph_->names[static_cast<size_t>(it->second)];
      BufferUse b{name.empty() ? "(unnamed)" : name,        graph_->type(op.operands[i]), {}, 0, 1,
                  i == 0 ? "left operand" : "right operand"};
      for (const ir::Dim& d : b.type->dims) b.dims.push_back(d.size);
      b.bytes = bytes_in(model_.spaces[model_.products], b.type->dtype, b.dims);
      operands.push_back(std::move(b));
    }
    const auto both = [&](ir::DType t) {
      return chip_.holds_both_operands && (ir::bit_width(t) == 16 || t == ir::DType::I8);
    };
    if (operands.size() == 2 && !both(operands[0].type->dtype))
      operands.erase(operands.begin() + (operands[0].bytes < operands[1].bytes ? 0 : 1));
    for (BufferUse& b : operands) live_.push_back({model_.products, std::move(b)});
  }

  static const ir::Attr* fact(const ir::Op& op, size_t i, const char* key) {
    const ir::Attr* allocs = op.attr("allocs");
    if (!allocs || i >= allocs->items.size()) return nullptr;
    const ir::Attr& facts = allocs->items[i];
    const auto at = std::find(facts.keys.begin(), facts.keys.end(), key);
    return at == facts.keys.end() ? nullptr : &facts.items[static_cast<size_t>(at - facts.keys.begin())];
  }

  void region(const ir::Region& r) {
    const size_t outer = live_.size();
    for (const ir::Op& op : r.ops) {
      const size_t before = live_.size();
      if (op.code == ir::OpCode::run_scoped && !op.regions.empty())
        for (size_t i = 0; i < op.regions[0].args.size(); ++i) {
          const ir::ValueId a = op.regions[0].args[i];
          const ir::LocId made = ir::line_in(m_.locs, fact(op, i, "made"));
          allocate(graph_->names[static_cast<size_t>(a)], graph_->type(a), "run_scoped", made >= 0 ? made : op.loc,
                   fact(op, i, "columns"));
        }
      const bool fresh = op.code == ir::OpCode::empty_ref || op.code == ir::OpCode::new_ref;
      if (fresh)
        allocate(graph_->names[static_cast<size_t>(op.results[0])], graph_->type(op.results[0]), "allocated", op.loc);
      loads(op);
      if (op.code == ir::OpCode::dot_general) product(op);
      if (live_.size() > before) note(op.loc);
      for (const ir::Region& inner : op.regions) region(inner);
      if (!fresh) live_.resize(before);
    }
    live_.resize(outer);
  }

  const ir::Module& m_;
  const MachineModel& model_;
  const ir::Body* body_;
  const Profile& chip_;
  std::map<ir::ValueId, ir::ValueId> loaded_;  // values that are what a ref shows, and the ref
  const ir::Graph* graph_ = nullptr;
  std::vector<std::pair<Space, BufferUse>> live_;
  std::vector<SpaceUse> most_;
};

std::string shape_text(const BufferUse& b) {
  if (!b.type) return "";
  return fmt::format("{}[{}]", ir::name(b.type->dtype), fmt::join(b.dims, ","));
}

int64_t total(const BufferUse& b) { return memory::mul(b.bytes, b.copies); }

// Per cent of the capacity, as text.
std::string share(int64_t bytes, int64_t capacity) {
  if (capacity <= 0) return "-";  // there is none of it
  const double percent = 100 * static_cast<double>(bytes) / static_cast<double>(capacity);
  return bytes > 0 && percent < 0.1 ? "< 0.1 %" : fmt::format("{:.1f} %", percent);
}

std::vector<std::string> table(const SpaceUse& o, int64_t capacity) {
  size_t name = 6, shape = 5;
  std::vector<const BufferUse*> rows;
  for (const BufferUse& b : o.buffers) rows.push_back(&b);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const BufferUse* a, const BufferUse* b) { return total(*a) > total(*b); });
  constexpr size_t kMost = 24;
  const size_t shown = std::min(rows.size(), kMost);
  for (size_t i = 0; i < shown; ++i)
    name = std::max(name, rows[i]->name.size()), shape = std::max(shape, shape_text(*rows[i]).size());
  std::vector<std::string> r = {fmt::format("{:{}}  {:{}}  {:>12}  {:>6}  {:>13}  {:>8}  what", "buffer", name, "shape",
                                            shape, "bytes", "copies", "total", "share")};
  int64_t rest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const BufferUse& b = *rows[i];
    if (i < shown)
      r.push_back(fmt::format("{:{}}  {:{}}  {:>12}  {:>6}  {:>13}  {:>8}  {}", b.name, name, shape_text(b), shape,
                              b.bytes, b.copies, total(b), share(total(b), capacity), b.role));
    else rest = memory::add(rest, total(b));
  }
  if (rows.size() > shown) r.push_back(fmt::format("{} smaller buffers take {}", rows.size() - shown, rest));
  // What the largest one may take at most.
  const BufferUse& most = *rows.front();
  const int64_t others = o.bytes - total(most), left = (capacity - others) / std::max<int64_t>(most.copies, 1);
  if (others < capacity && left > 0)
    r.push_back(fmt::format("with all else as it is, {} may take {} bytes{}", most.name, left,
                            most.copies > 1 ? " per copy" : ""));
  return r;
}

// Where the largest buffer was asked for, else the scope in which it gets too much.
ir::LocId line_of(const SpaceUse& use) {
  const auto most = std::max_element(use.buffers.begin(), use.buffers.end(),
                                     [](const BufferUse& a, const BufferUse& b) { return total(a) < total(b); });
  return most != use.buffers.end() && most->loc >= 0 ? most->loc : use.loc;
}

void name_site(const SpaceUse& use, ir::Diagnostic* d) {
  if (d->site.source.file.empty()) return;
  d->site.what = line_of(use) == use.loc ? "most of it is in use here" : "the largest of what lies there is made here";
}

// A memory that the chip lacks: which chips have it.
void report_lack(const ir::Module& m, const Profile& p, const SpaceUse& use, const SpaceInfo& s,
                 std::vector<ir::Diagnostic>* out) {
  std::vector<std::string_view> others;
  for (const Profile& other : profiles())
    if (other.capacity(s.capacity.figure) > 0) others.push_back(other.name);
  report(m, out, "PS-MEM-001", fmt::format("{} has no {}, and {} bytes of it are needed", p.name, s.name, use.bytes),
         line_of(use),
         fmt::format("choose a chip that has {}{}, or hold the values in another memory", s.name,
                     others.empty() ? "" : fmt::format(" ({})", fmt::join(others, ", "))));
}

// What fits into the memory, and not into the part of it that a kernel gets by default.
void compare_scoped(const ir::Module& m, const Profile& p, const SpaceUse& use, const SpaceInfo& s,
                    std::vector<ir::Diagnostic>* out) {
  const int64_t capacity = p.capacity(s.capacity.figure), scoped = p.capacity(s.capacity.scoped);
  if (scoped == kUnknown || use.bytes <= scoped || (capacity != kUnknown && use.bytes > capacity)) return;
  ir::Diagnostic& d = report(m, out, "PS-MEM-002",
                             fmt::format("{} bytes of {} are needed, of which a kernel on {} gets {} by default",
                                         use.bytes, s.name, p.name, scoped),
                             line_of(use),
                             fmt::format("raise the limit, compiler_params=pltpu.CompilerParams({}=…), or {}",
                                         s.capacity.limit, s.capacity.advice));
  name_site(use, &d);
  d.numbers = table(use, scoped);
  d.numbers.push_back("the compiler's own temporaries come on top of these");
}

void compare(const ir::Module& m, const MachineModel& model, const Profile& p, const SpaceUse& use,
             std::vector<ir::Diagnostic>* out) {
  const SpaceInfo& s = model.spaces[use.space];
  const Capacity& has = s.capacity;
  int64_t capacity = has.figure ? p.capacity(has.figure) : kUnknown;
  const int64_t asked = has.limit ? parameter(m, has.limit) : kUnknown;
  const bool own_limit = asked != kUnknown && (capacity == kUnknown || asked < capacity);
  if (own_limit) capacity = asked;
  if (asked == kUnknown && has.scoped) compare_scoped(m, p, use, s, out);
  if (capacity == kUnknown || use.bytes <= capacity) return;
  if (capacity <= 0 && !own_limit) return report_lack(m, p, use, s, out);
  ir::Diagnostic& d = report(m, out, "PS-MEM-001",
                             fmt::format("{}too much {}: {} bytes are needed, {}", has.known_as, s.name, use.bytes,
                                         own_limit ? fmt::format("{} allows {}", has.limit, capacity)
                                                   : fmt::format("{} of {} has {}", has.holder, p.name, capacity)),
                             line_of(use), "");
  int64_t once = 0;  // with one copy of each
  for (const BufferUse& b : use.buffers) once = memory::add(once, b.bytes);
  if (own_limit) d.hint = fmt::format("raise {}, or ", has.limit);
  if (once <= capacity && once < use.bytes && *has.fewer) d.hint += fmt::format("{}, or ", has.fewer);
  d.hint += has.advice;
  name_site(use, &d);
  d.numbers = table(use, capacity);
  if (s.layout == Layout::Tiles && !holds_arrays(model, s))
    d.numbers.push_back("bytes are those of whole tiles: 8 rows of 128 lanes of 32 bits");
  if (s.column > 0)
    d.numbers.push_back(
        fmt::format("{} of {} columns, which have {} bytes", use.bytes / s.column, capacity / s.column, s.column));
  if (s.granule > 1) d.numbers.push_back(fmt::format("bytes of a buffer are multiples of {}", s.granule));
}

// The arrays of one call, which lie in the device's memory while the kernel runs; an aliased output is its input's.
SpaceUse arrays_of(const ir::Module& m, const MachineModel& model) {
  SpaceUse use{model.arrays, 0, -1, {}};
  const int inputs = static_cast<int>(m.operands.size()) - m.count(ir::Operand::Kind::Output);
  for (size_t i = 0; i < m.operands.size(); ++i) {
    const ir::Operand& o = m.operands[i];
    const bool there = o.has_block || holds_arrays(model, model.spaces[o.space]);
    if (!there || ir::is_sync(o.array->dtype) || !o.array->is_static()) continue;
    if (std::any_of(m.aliases.begin(), m.aliases.end(),
                    [&](const ir::Alias& a) { return static_cast<size_t>(inputs + a.output) == i; }))
      continue;
    BufferUse b{o.name,
                o.array,
                {},
                1,
                1,
                o.kind == ir::Operand::Kind::Output ? "output" : "input",
                ir::made_at(m.locs, o.attrs)};
    for (const ir::Dim& d : o.array->dims) b.dims.push_back(d.size), b.bytes = memory::mul(b.bytes, d.size);
    b.bytes = memory::mul(b.bytes, ir::bit_width(o.array->dtype)) / 8;
    use.bytes = memory::add(use.bytes, b.bytes);
    use.buffers.push_back(std::move(b));
  }
  return use;
}

}  // namespace

std::vector<SpaceUse> space_use(const ir::Module& m, size_t body, const Profile& chip) {
  if (body >= m.bodies.size()) return Walk(m, model(m.machine), nullptr, chip).run();
  return Walk(m, model(m, m.bodies[body]), &m.bodies[body], chip).run();
}

void check_capacity(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out) {
  for (size_t b = 0; b < m.bodies.size(); ++b)
    for (const SpaceUse& use : space_use(m, b, p)) compare(m, model(m, m.bodies[b]), p, use, out);
  const MachineModel& machine = model(m);
  if (const SpaceUse use = arrays_of(m, machine); !use.buffers.empty()) compare(m, machine, p, use, out);
}

}  // namespace pallasim::hw
