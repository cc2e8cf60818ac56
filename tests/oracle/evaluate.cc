// A launch: arrays, threads, the grid and its blocks.
#include "machine.h"

namespace pallasim::oracle {
namespace {

bool uses(const ir::Region& r, ir::ValueId v) {
  return std::any_of(r.ops.begin(), r.ops.end(), [&](const Op& op) {
    return std::find(op.operands.begin(), op.operands.end(), v) != op.operands.end() ||
           std::any_of(op.regions.begin(), op.regions.end(), [&](const ir::Region& inner) { return uses(inner, v); });
  });
}

bool in_core_memory(const ir::Operand& o) { return o.space == ir::Space::Vmem || o.space == ir::Space::Smem; }

bool is_peered(const ir::Region& r) {
  return std::any_of(r.ops.begin(), r.ops.end(), [](const Op& op) {
    const bool several = op.code == OpCode::multimem_store || op.code == OpCode::multimem_load_reduce ||
                         op.code == OpCode::gpu_sem_signal_multicast || op.code == OpCode::gpu_sem_signal_parallel;
    const auto names_peers = [](const ir::View& v) {
      return std::holds_alternative<ir::view::Peer>(v) || std::holds_alternative<ir::view::Multicast>(v);
    };
    const bool viewed = std::any_of(op.attrs.begin(), op.attrs.end(), [&](const auto& a) {
      const ir::Viewed* v = a.second.view.get();
      return v && std::any_of(v->transforms.begin(), v->transforms.end(), names_peers);
    });
    return several || viewed || op.attr("device_id") || std::any_of(op.regions.begin(), op.regions.end(), is_peered);
  });
}

// The block reaches beyond the array somewhere, or shows less than a whole number of blocks.
bool is_partial(const ir::BlockDim& b, int64_t dim) {
  using Kind = ir::BlockDim::Kind;
  if (b.kind == Kind::BoundedSlice) return true;
  if (b.kind == Kind::Element) return b.size != dim || b.pad_lo || b.pad_hi;
  return b.kind == Kind::Blocked && dim % std::max<int64_t>(b.size, 1) != 0;
}

}  // namespace

bool Machine::is_aliased(size_t input) const {
  const auto& all = m_.aliases;
  return std::any_of(all.begin(), all.end(), [&](const ir::Alias& a) { return a.input == static_cast<int>(input); });
}

std::shared_ptr<Memory> Machine::new_memory(const ir::Type& t, const std::string& name) {
  auto memory = std::make_shared<Memory>();
  memory->reads_outside = setting_.reads_outside && is_tpu();
  memory->dtype = t.dtype;
  memory->space = t.space;
  memory->name = name;
  const auto n = static_cast<size_t>(count(dims_of(&t)));
  if (t.dtype == DType::Mbarrier || t.dtype == DType::ClusterBarrier) {
    memory->barriers.resize(n);
    return memory;
  }
  if (ir::is_sync(t.dtype)) {
    memory->counts.assign(n, 0);
    return memory;
  }
  if (n > (size_t{1} << 25)) throw Lack{"an allocation of " + std::to_string(n) + " elements"};
  memory->bytes.resize(n * static_cast<size_t>(ir::byte_size(t.dtype)));
  fill_unwritten(memory->bytes, t.dtype, setting_.fuzzy_uninitialized, &noise_);
  return memory;
}

// What an operation or declaration allocates: afresh at every visit, but semaphores keep what others signalled ahead,
// and memory of the device is one for all of its threads.
Value Machine::allocated(Thread& t, const ir::Type* type, const void* site, const std::string& name) {
  if (!type->members.empty()) throw Lack{"an allocation of " + ir::to_string(type)};
  Family& f = families_[site];
  const bool of_thread = type->scope == ir::Scope::Thread || type->scope == ir::Scope::Warp;
  const ir::Space s = type->space;
  const bool of_device = s == ir::Space::Hbm || s == ir::Space::Any || s == ir::Space::Gmem;
  const bool sync = ir::is_sync(type->dtype);
  const bool scratch = std::any_of(m_.scratch.begin(), m_.scratch.end(), [&](const auto& x) { return &x == site; });
  f.shared = threads_.size() > 1 && (!of_thread || s == ir::Space::VmemShared || (of_device && !scratch && !sync));
  f.type = type;
  f.name = name;
  f.of.resize(threads_.size());
  auto& mine = f.of[t.index];
  if (!mine || !(sync || f.shared)) {
    auto memory = new_memory(*type, name);
    memory->family = &f;
    give(f, t.index, memory);
  }
  return value_of(whole_ref(mine, type->dtype, dims_of(type)));
}

// Memory of the thread that begins as the operand's array.
std::shared_ptr<Memory> Machine::private_copy(Thread& t, size_t i) {
  const ir::Operand& o = m_.operands[i];
  const ir::Graph& body = graph_of(t);
  const Value v = allocated(t, body.type(body.region.args[i]), &o.name, o.name);
  v.ref->memory->bytes = devices_[t.device][i]->bytes;
  return v.ref->memory;
}

// An operand without blocks, as the kernel gets it.
Value Machine::operand_ref(Thread& t, size_t i) {
  const ir::Operand& o = m_.operands[i];
  const ir::Region& body = graph_of(t).region;
  if (is_tpu() && cores_ > 1 && in_core_memory(o) && (i >= inputs() || is_aliased(i)))
    throw Lack{"results in the memory of several cores"};
  bool own = o.kind == ir::Operand::Kind::Prefetch || (i < inputs() && is_tpu() && in_core_memory(o));
  if (o.kind == ir::Operand::Kind::Prefetch && is_aliased(i)) throw Lack{"an aliased prefetch operand"};
  // A kernel that was given a ref knows it by one name, which is the input's.
  for (const ir::Alias& a : m_.aliases)
    if (a.input == static_cast<int>(i) && !uses(body, body.args[inputs() + a.output])) own = false;
  auto memory = own ? private_copy(t, i) : devices_[t.device][i];
  Ref r = whole_ref(std::move(memory), o.array->dtype, dims_of(o.array));
  r.read_only = i < inputs() && !own && !is_aliased(i);
  return value_of(std::move(r));
}

// On a TPU blocks of inputs lie in the core's memory, and so does everywhere what may be incomplete; other blocks are a
// part of the array.
Machine::Window Machine::make_window(Thread& t, size_t i) {
  using Kind = ir::BlockDim::Kind;
  const ir::Operand& o = m_.operands[i];
  Window w;
  w.operand = i;
  w.output = o.kind == ir::Operand::Kind::Output;
  w.array = devices_[t.device][i];
  const bool core = is_tpu() && in_core_memory(o) && !w.output;
  bool staged = core;
  for (size_t d = 0; d < o.block.size(); ++d) {
    const ir::BlockDim& b = o.block[d];
    const bool bounded = b.kind == Kind::BoundedSlice && !is_tpu() && m_.machine != ir::Machine::Generic;
    if (b.kind == Kind::Indirect || bounded) throw Lack{"a block of this kind"};
    w.extent.push_back(b.kind == Kind::Squeezed ? 1 : b.size);
    if (b.kind != Kind::Squeezed) w.shown.push_back(b.size);
    staged |= is_partial(b, o.array->dims[d].size);
  }
  w.read_only = !w.output && !core && !(is_aliased(i) && is_triton());
  if (!staged || is_triton()) return w;
  w.stage = std::make_shared<Memory>(*w.array);
  w.stage->number = ++Memory::made;
  w.stage->operand = false;
  w.stage->bytes.resize(static_cast<size_t>(count(w.extent) * ir::byte_size(o.array->dtype)));
  return w;
}

// f(element of the block, element of the array or kOutside)
template <typename W, typename F>
static void each_place(const W& w, const Dims& dims, const F& f) {
  const Dims strides = strides_of(dims);
  each_index(w.extent, [&](const Dims& index, int64_t n) {
    int64_t at = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t i = w.start[d] + index[d];
      if (i < 0 || i >= dims[d] || index[d] >= w.size[d]) return f(n, kOutside);
      at += i * strides[d];
    }
    f(n, at);
  });
}

// From the array into the window, where what does not exist is unwritten, or back.
void Machine::move(Window& w, bool in) {
  const auto size = static_cast<size_t>(ir::byte_size(w.array->dtype));
  if (in) fill_unwritten(w.stage->bytes, w.array->dtype, setting_.fuzzy_uninitialized, &noise_);
  each_place(w, dims_of(m_.operands[w.operand].array), [&](int64_t n, int64_t at) {
    if (at < 0) return;
    std::byte *here = w.stage->bytes.data() + n * size, *there = w.array->bytes.data() + at * size;
    std::memcpy(in ? here : there, in ? there : here, size);
  });
}

// The blocks of a grid point. Blocks of outputs that change are written back before any block is fetched.
void Machine::place_windows(Thread& t, std::vector<Window>& windows, std::vector<Value>& body) {
  using Kind = ir::BlockDim::Kind;
  std::vector<std::pair<Dims, Dims>> next;
  auto stays = [&](size_t i) { return windows[i].start == next[i].first && windows[i].size == next[i].second; };
  for (Window& w : windows) {
    const ir::Operand& o = m_.operands[w.operand];
    std::vector<Value> args;
    for (size_t i = 0; i < o.index_map->region.args.size(); ++i) {
      const ir::Type* type = o.index_map->type(o.index_map->region.args[i]);
      args.push_back(i < grid_.size() ? value_of(integer_scalar(type->dtype, t.point[i])) : body[i - grid_.size()]);
    }
    t.graph = o.index_map.get();
    t.env.assign(t.graph->types.size(), {});
    const std::vector<Value> values = region(t, o.index_map->region, args);
    Dims start, size = w.extent;
    for (size_t d = 0, bounded = o.block.size(); d < o.block.size(); ++d) {
      const ir::BlockDim& b = o.block[d];
      const int64_t index = integer(*values[d].array), dim = o.array->dims[d].size;
      start.push_back(b.kind == Kind::Blocked ? index * b.size : index - b.pad_lo);
      if (b.kind == Kind::BoundedSlice) {
        size[d] = integer(*values[bounded++].array);
        if (size[d] != 0 && (size[d] < 0 || size[d] > b.size || start[d] < 0 || start[d] >= dim))
          throw Stop{"out of bounds: slice of " + o.name};
        continue;
      }
      const int64_t end = start[d] + w.extent[d];
      const bool inside = w.stage ? end > 0 && start[d] < dim : start[d] >= 0 && end <= dim;
      if (!inside && !is_triton() && w.extent[d] > 0) throw Stop{"out of bounds: block of " + o.name};
    }
    next.emplace_back(std::move(start), std::move(size));
  }
  for (size_t i = 0; i < windows.size(); ++i)
    if (windows[i].valid && windows[i].output && windows[i].stage && !stays(i)) move(windows[i], false);
  for (size_t i = 0; i < windows.size(); ++i) {
    Window& w = windows[i];
    if (w.valid && stays(i)) continue;
    std::tie(w.start, w.size) = next[i];
    w.valid = true;
    Ref r;
    if (w.stage) {
      move(w, true);
      r = whole_ref(w.stage, w.array->dtype, w.extent);
    } else {
      r.memory = w.array;
      r.dtype = w.array->dtype;
      const int64_t bits = 8 * ir::byte_size(r.dtype);
      each_place(w, dims_of(m_.operands[w.operand].array),
                 [&](int64_t, int64_t at) { r.at.push_back(at < 0 ? at : at * bits); });
    }
    r.dims = w.shown;
    r.read_only = w.read_only;
    body[w.operand] = value_of(std::move(r));
  }
}

void Machine::run_thread(Thread& t, std::vector<Value>& body, std::vector<Window>& windows) {
  if (count(grid_) == 0 || !begins(t)) return;
  each_index(grid_, [&](const Dims& point, int64_t) {
    tick();
    t.point = point;
    place_windows(t, windows, body);
    t.graph = &graph_of(t);
    t.env.assign(t.graph->types.size(), {});
    region(t, t.graph->region, body);
  });
  for (Window& w : windows)
    if (w.output && w.stage) move(w, false);
}

void Machine::bind_device(std::span<const Array> args) {
  std::vector<std::shared_ptr<Memory>> device;
  for (size_t i = 0; i < m_.operands.size(); ++i) {
    const ir::Operand& o = m_.operands[i];
    if (ir::is_sync(o.array->dtype)) throw Lack{"an operand of semaphores"};
    std::shared_ptr<Memory> memory;
    for (const ir::Alias& a : m_.aliases)
      if (i == inputs() + static_cast<size_t>(a.output)) memory = device[a.input];
    if (!memory) {
      memory = new_memory(*o.array, o.name);
      memory->space = o.space;
      memory->operand = true;
    }
    if (i < inputs()) {
      const Array& a = args[static_cast<size_t>(m_.num_dynamic) + i];
      if (a.dtype != o.array->dtype || a.dims != dims_of(o.array) || a.bytes.size() != memory->bytes.size())
        throw Stop{"another array than declared for " + o.name};
      memory->bytes = a.bytes;
      canonical(a.dtype, memory->bytes.data(), count(a.dims));
    }
    device.push_back(std::move(memory));
  }
  devices_.push_back(std::move(device));
}

void Machine::bind() {
  make_teams();
  int64_t peers = 1;
  if (const Attr* devices = ir::find(m_.attrs, "devices"))
    for (const Attr& d : devices->items)
      if (d.is_call("axis")) device_axes_.emplace_back(d.items[0].s, d.items[1].i), peers *= d.items[1].i;
  const size_t each = static_cast<size_t>(m_.num_dynamic) + inputs();
  const bool peered =
      std::any_of(m_.bodies.begin(), m_.bodies.end(), [](const ir::Body& b) { return is_peered(b.graph.region); });
  const size_t n = each ? args_.size() / each : peered ? static_cast<size_t>(peers) : 1;
  if (n == 0 || n * each != args_.size() || n > static_cast<size_t>(peers))
    throw Stop{"another number of arrays than declared"};
  for (size_t d = 0; d < n; ++d) bind_device(args_.subspan(d * each, each));
  for (const ir::GridAxis& a : m_.grid)
    grid_.push_back(std::max<int64_t>(0, a.dynamic < 0 ? a.size : integer(args_[a.dynamic])));
  if (cores_ * static_cast<int64_t>(n) > 64) throw Lack{"more than 64 threads"};
}

// A kernel takes what it was signalled; `generic` says so only.
void Machine::left_over(const Memory& memory) {
  const Attr* params = ir::find(m_.attrs, "params");
  for (size_t i = 0; params && i < params->keys.size(); ++i)
    if (params->keys[i] == "disable_semaphore_checks" && params->items[i].is_true()) return;
  const auto zeros = std::count(memory.counts.begin(), memory.counts.end(), 0);
  if (m_.machine != ir::Machine::Generic && zeros != static_cast<std::ptrdiff_t>(memory.counts.size()))
    throw Stop{"a semaphore of " + memory.name + " ends with a count"};
}

Outcome Machine::run() {
  std::vector<std::vector<Value>> bodies;
  std::vector<std::vector<Window>> windows;
  std::vector<std::function<void()>> runs;
  try {
    bind();
    make_threads();
    bodies.resize(threads_.size()), windows.resize(threads_.size());
    for (auto& t : threads_) {
      const auto n = static_cast<size_t>(t->index);
      for (size_t i = 0; i < m_.operands.size(); ++i) {
        bodies[n].push_back(m_.operands[i].has_block ? Value() : operand_ref(*t, i));
        if (m_.operands[i].has_block) windows[n].push_back(make_window(*t, i));
      }
      for (const ir::Scratch& s : m_.scratch) bodies[n].push_back(allocated(*t, s.type, &s, s.name));
      runs.push_back([this, n, &t, &bodies, &windows] { run_thread(*t, bodies[n], windows[n]); });
    }
    for (size_t i = 0; i < m_.operands.size(); ++i) {
      Family& f = families_[&m_.operands[i]];
      for (auto& t : threads_) f.of.push_back(devices_[t->device][i]);
      for (auto& memory : f.of)
        if (!memory->family) memory->family = &f;
    }
    schedule(runs);
    if (outcome_.end == End::Done)
      for (const auto& [site, family] : families_)
        for (const auto& memory : family.of)
          if (memory) left_over(*memory);
  } catch (const Stop& s) { outcome_.end = End::Stopped, outcome_.what = s.what; } catch (const Lack& l) {
    outcome_.end = End::Missing, outcome_.what = l.what;
  }
  for (const auto& t : threads_) {
    outcome_.trips_meet |= t->trips.meet;
    outcome_.trips_write |= t->trips.write;
  }
  if (outcome_.end != End::Done) return std::move(outcome_);
  for (const auto& d : devices_)
    for (size_t i = 0; i < m_.operands.size(); ++i) {
      if (m_.operands[i].kind != ir::Operand::Kind::Output) continue;
      const ir::Type* t = m_.operands[i].array;
      Array a{t->dtype, dims_of(t), d[i]->bytes};
      canonical(a.dtype, a.bytes.data(), count(a.dims));
      outcome_.results.push_back(std::move(a));
    }
  return std::move(outcome_);
}

Outcome evaluate(const ir::Module& m, std::span<const Array> args, const Setting& setting) {
  if (m.params.empty()) return Machine(m, args, setting).run();
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = static_cast<size_t>(m.num_dynamic); i < args.size(); ++i) shapes.push_back(args[i].dims);
  std::vector<std::pair<std::string, int64_t>> values;
  if (!ir::infer_shapes(m, shapes, &values).empty())
    return {.end = End::Stopped, .what = "a parameter that no array gives"};
  const ir::Module bound = ir::bind_shapes(m, values);
  return Machine(bound, args, setting).run();
}

}  // namespace pallasim::oracle
