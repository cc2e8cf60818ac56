// Block windows, index maps and the grid loop.
#include <fmt/format.h>

#include <algorithm>

#include "../../analysis/expressions.h"
#include "../../analysis/facts.h"
#include "../../analysis/refs.h"
#include "../../plan/host_cost.h"
#include "../../plan/payload/grid.h"
#include "../../plan/steps.h"
#include "../lower/access.h"
#include "../lower/unread.h"
#include "../values/affine_arrays.h"
#include "compiler.h"
#include "pallasim/hw/machine.h"

namespace pallasim::interp {
namespace {

// Whether nothing but copies within the device touches `ref`, as their destination.
bool copied_into_alone(const ir::Region& region, ir::ValueId ref) {
  auto allowed = [&](const ir::Op& op) {
    const auto uses = std::count(op.operands.begin(), op.operands.end(), ref);
    if (uses == 0 || op.code == ir::OpCode::dma_wait) return true;
    if (op.code != ir::OpCode::dma_start || uses > 1 || op.attr("device_id")) return false;
    const ir::Attr* add = op.attr("add");
    const int dst = op.viewed("dst")->operand;
    return op.operands[static_cast<size_t>(dst)] == ref && op.viewed("src")->operand != dst && !(add && add->is_true());
  };
  return std::all_of(region.ops.begin(), region.ops.end(), [&](const ir::Op& op) {
    return allowed(op) && std::all_of(op.regions.begin(), op.regions.end(),
                                      [&](const ir::Region& r) { return copied_into_alone(r, ref); });
  });
}

// Whether `input` may be looked at after something was written to `output`.
bool read_after_write(const ir::Region& region, ir::ValueId input, ir::ValueId output) {
  bool written = false;
  for (const ir::Op& op : region.ops) {
    const bool reads = std::find(op.operands.begin(), op.operands.end(), input) != op.operands.end();
    for (const ir::Region& r : op.regions)
      if (analysis::touches(r, input) && (written || analysis::may_write(r, output))) return true;
    if (reads && written) return true;
    ir::Region one;
    one.ops = {op};
    written = written || analysis::may_write(one, output);
  }
  return false;
}

}  // namespace

// Whether some grid point's block is not inside its array; true where the grid is not known yet.
bool Compiler::may_leave_array(const Window& w) const {
  if (!w.map.affine) return false;  // checked as a whole when the index is known
  std::vector<int64_t> grid;
  for (const ir::GridAxis& g : m_.grid) grid.push_back(g.dynamic >= 0 ? int64_t{INT32_MAX} + 1 : g.size);
  for (size_t d = 0; d < w.dims.size(); ++d) {
    const auto [first, last] = w.map.starts(d, grid);
    if (first < 0 || memory::add(last, w.map.extent[d]) > w.dims[d]) return true;
  }
  return false;
}

bool Compiler::by_pointer(const ir::Operand& o) const {
  return model_.spaces[o.space].blocks == hw::BlockAccess::Pointer;
}

// An array outside of the core's memory that the caller keeps, and to which the kernel writes all the same. Its copy is
// made when the launch begins: other devices may write to it where a barrier of theirs comes first, or where they all
// begin together, as GPUs do that reach into each other.
bool Compiler::writes_callers_buffer(int input) const {
  const ir::Operand& o = m_.operands[static_cast<size_t>(input)];
  const ir::Region& body = ir_body_.graph.region;
  if (model_.in_order() && analysis::reaches_devices(m_) && !ir::find(m_.attrs, "collective_id")) return false;
  return o.kind == ir::Operand::Kind::Input && model_.input_copies &&
         !m_.is_aliased_input(static_cast<size_t>(input)) && model_.spaces[o.space].owner == ir::Scope::Device &&
         !o.has_block && analysis::writes_by_name(body, body.args[static_cast<size_t>(input)]);
}

// Whether the kernel can tell that the block of an input lies in a window of its own: where it writes to it, or where
// the input's array is also an output's and a block is looked at after it, or another one in its place, was written.
bool Compiler::needs_window(int input, const Window& w) const {
  const ir::Operand& o = m_.operands[static_cast<size_t>(input)];
  const bool core_memory = o.array->dtype != ir::DType::DmaSem && model_.spaces[o.space].owner == ir::Scope::Thread;
  if (o.kind != ir::Operand::Kind::Input || !model_.input_copies || !core_memory) return false;
  const ir::Region& body = ir_body_.graph.region;
  const ir::ValueId ref = body.args[static_cast<size_t>(input)];
  const int inputs = static_cast<int>(m_.operands.size()) - m_.count(ir::Operand::Kind::Output);
  if (!m_.is_aliased_input(static_cast<size_t>(input))) return analysis::may_write(body, ref);
  for (const ir::Alias& a : m_.aliases) {
    if (a.input != input) continue;
    const auto out = static_cast<size_t>(inputs + a.output);
    // Refs that a mesh's kernel was given: it knows them by one name, which is the input's.
    if (!o.has_block && !analysis::touches(body, body.args[out])) return false;
    const ir::Operand& p = m_.operands[out];
    if (!o.has_block) {
      const bool once = std::all_of(m_.grid.begin(), m_.grid.end(),
                                    [](const ir::GridAxis& g) { return g.dynamic < 0 && g.size <= 1; });
      if (!once || read_after_write(body, ref, body.args[out])) return true;
      continue;
    }
    const std::vector<Affine> index = p.has_block ? analysis::affine_map(m_, p) : std::vector<Affine>();
    bool same =
        index == w.map.index && std::all_of(index.begin(), index.end(), [](const Affine& i) { return i.known; });
    // Every axis moves both to a block of its own.
    for (size_t g = 0; same && g < m_.grid.size(); ++g)
      same = m_.grid[g].size == 1 || std::any_of(index.begin(), index.end(), [&](const Affine& i) {
               return i.coefficient[g] != 0 && std::count(i.coefficient.begin(), i.coefficient.end(), 0) + 1 ==
                                                   static_cast<std::ptrdiff_t>(i.coefficient.size());
             });
    if (!same || read_after_write(body, ref, body.args[out])) return true;
  }
  return analysis::may_write(body, ref);
}

void Compiler::place_operands() {
  if (!m_.grid.empty()) body_.row_end = new_slot();
  for (size_t i = 0; i < m_.grid.size(); ++i) {
    body_.pid_slots.push_back(new_slot());
    body_.size_slots.push_back(new_slot());
    body_.place_slots.push_back(new_slot());
  }
  if (body_.mesh >= 0)
    for (size_t i = 0; i < m_.meshes[static_cast<size_t>(body_.mesh)].axes.size(); ++i)
      body_.axis_slots.push_back(new_slot());
  for (size_t i = 0; i < plan_.threads.device_axes.size(); ++i) body_.device_slots.push_back(new_slot());
  set_graph(ir_body_.graph);
  for (size_t i = 0; i < m_.operands.size(); ++i) place_operand(i);
  const int inputs = static_cast<int>(m_.operands.size()) - m_.count(ir::Operand::Kind::Output);
  const ir::Region& region = ir_body_.graph.region;
  for (const ir::Alias& a : m_.aliases) {
    add_alias(region.args[static_cast<size_t>(a.input)], region.args[static_cast<size_t>(inputs + a.output)]);
  }
}

void Compiler::place_operand(size_t i) {
  const ir::Region& body = ir_body_.graph.region;
  const ir::Operand& o = m_.operands[i];
  Window w;
  w.operand = static_cast<int>(i);
  w.buffer = kFirstOperandBuffer + static_cast<uint32_t>(i);
  w.dims = dims_of(o.array);
  w.strides = dense_strides(w.dims);
  w.is_output = o.kind == ir::Operand::Kind::Output;
  w.dtype = o.array->dtype;
  w.element_bytes = ir::byte_size(w.dtype);
  Val ref(w.dtype, {}, Val::Ref{});
  ref.memory().name = o.name;
  // An aliased input that is no block, or that is reached by a pointer, is the output's memory under another name.
  ref.ref().read_only = !w.is_output && !(m_.is_aliased_input(i) && (by_pointer(o) || !o.has_block));
  ref.memory().origin = body.args[i];
  ref.memory().addr = {w.buffer, Addr::kNoSlot, 0};
  if (ir::is_sync(w.dtype)) {
    outer_semaphores(o, w, &ref);
  } else if (is_modelled(o) && !o.has_block) {
    model_window(o, &w, &ref);
  } else if (!o.has_block) {
    ref.dims = w.dims;
    ref.memory().strides = w.strides;
    const bool given = writes_callers_buffer(static_cast<int>(i));
    const bool own = o.kind == ir::Operand::Kind::Prefetch ? analysis::may_write(body, body.args[i])
                                                           : needs_window(static_cast<int>(i), w);
    if (own) copy_prefetch(&ref);
    if (own && o.kind == ir::Operand::Kind::Prefetch && model_.grid_pipeline &&
        std::any_of(m_.operands.begin(), m_.operands.end(), [&](const ir::Operand& reader) {
          return reader.index_map && reads_operand(m_, *reader.index_map, i);
        }))
      state<ScalarsOfIndexMaps>().not_found[ref.origin()] = i;
    if (given) keep_callers_array(static_cast<int>(i), &ref);
    if (of_cores(o)) place_in_cores(w, &ref);
    add_tile_padding(*this, &ref, o.space);
  } else {
    const BlockNeeds needs = read_block(o, &w, &ref);
    const bool unread = may_be_unread(o, w);
    if (unread) w.map.affine = false;  // its index is looked at before the block is
    place_block(o, needs, &w, &ref);
    if (unread) state<UnreadWindows>().of[body.args[i]] = nullptr;
  }
  w.init_deferred = w.is_output && !ir::is_sync(w.dtype) && !is_modelled(o) && m_.bodies.size() == 1 &&
                    ref.memory().addr.buffer == w.buffer && ref.memory().addr.dyn == Addr::kNoSlot &&
                    copied_into_alone(body, body.args[i]);
  bind(body.args[i], ref);
  body_.windows.push_back(std::move(w));
}

// An index map may say where a block lies that the kernel then does not want: ring kernels return -1.
bool Compiler::may_be_unread(const ir::Operand& o, const Window& w) const {
  const ir::Region& body = ir_body_.graph.region;
  return o.kind == ir::Operand::Kind::Input && !by_pointer(o) && !is_modelled(o) &&
         !m_.is_aliased_input(static_cast<size_t>(w.operand)) && w.map.bounded.empty() &&
         (plan_.options.out_of_bounds == Options::Oob::Error || plan_.options.out_of_bounds == Options::Oob::Chip) &&
         (!w.map.affine || may_leave_array(w)) &&
         !analysis::touched_always(body, body.args[static_cast<size_t>(w.operand)]);
}

// What the module says of the operand's block. True: it is the whole array at every grid point.
Compiler::BlockNeeds Compiler::read_block(const ir::Operand& o, Window* w, Val* ref) const {
  using Kind = ir::BlockDim::Kind;
  w->map.index = analysis::affine_map(m_, o);
  BlockNeeds r;
  size_t next_size = o.block.size();
  for (size_t d = 0; d < o.block.size(); ++d) {
    const ir::BlockDim& b = o.block[d];
    const bool blocked = b.kind == Kind::Blocked || b.kind == Kind::Squeezed, slice = b.kind == Kind::BoundedSlice;
    refuse_block_kind(o, b);
    if (slice) {
      w->map.bounded.resize(o.block.size(), -1);
      w->map.bounded[d] = static_cast<int>(next_size++);
      w->map.affine &= w->map.index[static_cast<size_t>(w->map.bounded[d])].known;
    }
    const int64_t n = b.kind == Kind::Squeezed ? 1 : b.size;
    w->map.extent.push_back(n);
    w->map.scale.push_back(blocked ? n : 1);
    w->map.pad_lo.push_back(b.pad_lo);
    w->map.pad_hi.push_back(b.pad_hi);
    w->map.affine &= w->map.index[d].known;
    r.copy |= slice || (blocked ? w->dims[d] % std::max<int64_t>(n, 1) != 0 : n != w->dims[d] || b.pad_lo || b.pad_hi);
    r.whole &= n == w->dims[d] && w->map.index[d].is_constant() && w->map.index[d].constant == 0;
    if (b.kind != Kind::Squeezed) ref->dims.push_back(n), ref->memory().strides.push_back(w->strides[d]);
  }
  return r;
}

void Compiler::place_block(const ir::Operand& o, BlockNeeds block, Window* w, Val* ref) {
  if (needs_window(w->operand, *w)) {
    block.copy = true;
    ref->ref().read_only = false;
  }
  // Blocks outside their array are read into memory of their own, where nobody wrote what is missing.
  if (plan_.options.out_of_bounds == Options::Oob::Uninitialized && !w->is_output && !block.whole)
    block.copy |= !w->map.affine || may_leave_array(*w);
  if (is_modelled(o)) {
    model_window(o, w, ref);
  } else if (by_pointer(o) && (block.copy || may_leave_array(*w))) {
    const uint32_t place = new_slot(static_cast<int>(w->dims.size()));
    w->reach = Window::Edge{new_slot(), place};
    ref->memory().addr.dyn = w->edge()->offset;
    ref->ref().edge = w->operand;
  } else if (block.copy) {
    Val stage = temp(w->dtype, w->map.extent);
    keep(stage);
    w->reach = Window::Staged{{stage.memory().addr.offset, stage.memory().strides, stage.elements()},
                              new_slot(static_cast<int>(w->places()) + 1)};
    ref->memory().addr = stage.memory().addr;
    ref->memory().strides.clear();
    for (size_t d = 0; d < o.block.size(); ++d)
      if (o.block[d].kind != ir::BlockDim::Kind::Squeezed) ref->memory().strides.push_back(stage.memory().strides[d]);
  } else if (!block.whole) {
    const uint32_t offset = new_slot();
    w->reach = Window::Direct{offset};
    ref->memory().addr.dyn = offset;
    if (w->map.affine) add_moving_window(*w, offset);
  }
}

// Blocks that the machine does not fetch: indices of an array belong to a pipeline of the kernel's own, and sizes that
// are known at run time only need one that takes them.
void Compiler::refuse_block_kind(const ir::Operand& o, const ir::BlockDim& b) const {
  using Kind = ir::BlockDim::Kind;
  if (b.kind != Kind::Indirect && (b.kind != Kind::BoundedSlice || model_.bounded_slices)) return;
  interp::unsupported(m_, fmt::format("{} block of {} in a grid without a pipeline",
                                      b.kind == Kind::Indirect ? "Indirect" : "BoundedSlice", o.name));
}

// Prefetched scalars, and inputs without blocks, lie in memory of each core, where the kernel may change them; the
// array stays as it is.
void Compiler::copy_prefetch(Val* ref) {
  Val own = temp(ref->dtype, ref->dims);
  keep(own);
  prefetch_copies_.push_back({own, *ref});
  ref->memory().addr = own.memory().addr;
  ref->ref().read_only = false;
}

// The kernel, which may write to the array now, works on the launch's copy of it.
void Compiler::keep_callers_array(int input, Val* ref) {
  std::vector<int>& own = plan_.memory.own_inputs;
  if (std::find(own.begin(), own.end(), input) == own.end()) own.push_back(input);
  ref->ref().read_only = false;
  state<CallersBuffers>().not_noted.insert(ref->origin());
}

// Memory that each core of a mesh has for itself, where arrays may lie between launches.
bool Compiler::of_cores(const ir::Operand& o) const {
  return model_.core_arrays && body_.mesh >= 0 && (body_.threads > 1 || m_.bodies.size() > 1) &&
         model_.spaces[o.space].owner == ir::Scope::Thread;
}

void Compiler::place_in_cores(const Window& w, Val* ref) {
  if (m_.bodies.size() > 1)
    interp::unsupported(m_, fmt::format("{} in memory of the cores, in a launch of several bodies",
                                        m_.operands[static_cast<size_t>(w.operand)].name));
  const int inputs = static_cast<int>(m_.operands.size()) - m_.count(ir::Operand::Kind::Output);
  Body::CoreArray a{w.is_output ? -1 : w.operand, w.is_output ? w.operand : -1, 0,
                    m_.operands[static_cast<size_t>(w.operand)].array->num_bytes()};
  for (const ir::Alias& alias : m_.aliases) {
    if (inputs + alias.output == w.operand)
      for (const Body::CoreArray& input : body_.core_arrays)
        if (input.input == alias.input) {
          ref->memory().addr = {body_.temps, Addr::kNoSlot, input.offset};
          return;
        }
    if (alias.input == w.operand) a.output = inputs + alias.output;
  }
  const Val own = temp(w.dtype, w.dims);
  keep(own);
  a.offset = own.memory().addr.offset;
  ref->memory().addr = own.memory().addr;
  body_.core_arrays.push_back(a);
}

// Semaphores that live outside the kernel. An aliased output is its input.
void Compiler::outer_semaphores(const ir::Operand& o, const Window& w, Val* ref) {
  const int inputs = static_cast<int>(m_.operands.size()) - m_.count(ir::Operand::Kind::Output);
  ref->dims = w.dims;
  ref->memory().strides = w.strides;
  ref->memory().addr = {};
  for (const ir::Alias& a : m_.aliases)
    if (w.is_output && w.operand == inputs + a.output)
      for (const PlanMemory::OuterSemaphores& s : plan_.memory.outer_semaphores)
        if (s.operand == a.input) ref->ref().semaphore = s.block;
  for (const PlanMemory::OuterSemaphores& s : plan_.memory.outer_semaphores)
    if (s.operand == w.operand) ref->ref().semaphore = s.block;  // of another body
  if (ref->ref().semaphore >= 0) return;
  // On a mesh every core may have one of its own under the handle.
  const memory::Level owner = model_.core_arrays && !m_.meshes.empty() ? memory::Level::Thread : memory::Level::Device;
  ref->ref().semaphore = plan_.memory.semaphores.add(o.name, ref->elements(), owner, w.dtype == ir::DType::DmaSem);
  const bool in_place = m_.is_aliased_input(static_cast<size_t>(w.operand));
  plan_.memory.outer_semaphores.push_back({ref->ref().semaphore, w.operand, in_place});
}

void Compiler::add_moving_window(const Window& w, uint32_t offset) {
  Body::MovingWindow m{offset, 0, std::vector<int64_t>(m_.grid.size(), 0)};
  for (size_t d = 0; d < w.dims.size(); ++d) {
    const int64_t unit = memory::mul(memory::mul(w.map.scale[d], w.strides[d]), w.element_bytes);
    m.first = memory::add(m.first, memory::mul(w.map.index[d].constant, unit));
    for (size_t g = 0; g < m.step.size(); ++g)
      m.step[g] = memory::add(m.step[g], memory::mul(w.map.index[d].coefficient[g], unit));
  }
  body_.moving.push_back(std::move(m));
}

// Inputs of aliased outputs come in with every visit of a block, as far as checked runs can tell.
bool Compiler::watches_revisits(const Window& w) const {
  if (!w.is_output || !model_.checks.revisited_outputs || w.places() == 0) return false;
  if (plan_.options.revisits == Options::Revisits::Error) return true;
  return plan_.options.checked && !m_.is_aliased_output(static_cast<size_t>(w.operand));
}

// An index map that is not affine runs at every grid point, on the program ids and the prefetched scalars.
void Compiler::compile_index_map(Window& w, const Map& body_values) {
  const ir::Region& body = ir_body_.graph.region;
  values_.clear();
  set_graph(*m_.operands[static_cast<size_t>(w.operand)].index_map);
  const Region& r = graph().region;
  for (size_t i = 0; i < r.args.size(); ++i) {
    if (i < m_.grid.size()) {
      bind(r.args[i], scalar_in(body_.pid_slots[i], type(r.args[i])->dtype));
    } else {
      Val ref = body_values.at(body.args[i - m_.grid.size()]).val;
      ref.memory().origin = r.args[i];
      bind(r.args[i], ref);
    }
  }
  compile_region(*this, r);
  for (ir::ValueId v : r.ops.back().operands)
    w.map.index_value.push_back(scalar_slot(*this, scalar_convert(*this, value(v), ir::DType::I64)));
}

void Compiler::emit_grid_next(int top) {
  Step& s = emit(m_.grid.empty() ? functions().grid_end : functions().grid_next);
  if (!m_.grid.empty()) s.dst = body_.pid_slots.back(), s.a = body_.row_end;
  jump_to(here() - 1, top);
}

void Compiler::compile_body() {
  begin_steps();
  Map body_values = values_;
  for (const auto& [own, array] : prefetch_copies_) emit_copy(*this, own, array);
  emit<Kind::grid_begin>();
  const int top = here();
  auto* pipeline = body_.modelled ? begin_pipeline() : nullptr;
  for (Window& w : body_.windows) {
    if (w.map.index.empty()) continue;
    if (!w.map.affine) compile_index_map(w, body_values);
    if (watches_revisits(w)) emit<Kind::output_visit>(&w);
    if (w.modelled()) continue;
    if (const auto at = state<UnreadWindows>().of.find(ir_body_.graph.region.args[static_cast<size_t>(w.operand)]);
        at != state<UnreadWindows>().of.end()) {
      at->second = own(UnreadWindow{&w, new_slot(1)});
      emit<Kind::window_unread>(at->second);
    }
    if (w.edge()) emit<Kind::window_edge>(&w);
    else if (w.stage()) emit<Kind::window_staged>(&w);
    else if (!w.map.affine) emit<Kind::window_indexed>(&w);
  }
  if (pipeline) {
    emit<Kind::pipeline_fetch>(pipeline);
    jump_to(here() - 1, top);
    for (const Window* w : pipeline->windows) emit<Kind::pipeline_await>(w);
  }
  values_ = std::move(body_values);
  set_graph(ir_body_.graph);
  plan_.split.step_cost_ns += host_cost::kGridPoint.step;
  if (plan_.options.fuse) state<AffineArrays>().read(ir_body_.graph);
  if (kept_) {
    kept_->active = true;
    for (const auto& [id, live] : values_) kept_->begin(id, live.val);
  }
  compile_region(*this, ir_body_.graph.region);
  if (stops_at(ir_body_.graph.region.ops.back())) {
    emit<Kind::stop_point>();  // where all is done
    kept_->end();
    kept_->active = false;
  }
  if (pipeline) end_pipeline(pipeline, top);
  else emit_grid_next(top);
  for (Window& w : body_.windows)
    if (w.stage() && w.is_output && !w.modelled()) emit<Kind::window_flush>(&w);
  emit<Kind::finish>();
  values_.clear();
  body_.temp_bytes = temp_bytes();
}

}  // namespace pallasim::interp
