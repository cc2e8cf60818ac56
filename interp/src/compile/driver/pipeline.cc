// The pipeline of a grid with windows of its own (Options::Pipeline::Modelled).
#include <fmt/format.h>

#include "../../plan/payload/grid.h"
#include "compiler.h"
#include "pallasim/hw/machine.h"

namespace pallasim::interp {

// Blocks, and whole arrays in a core's memory, are windows; the others are refs to memory that the kernel itself copies
// from.
bool Compiler::is_modelled(const ir::Operand& o) const {
  if (plan_.options.pipeline != Options::Pipeline::Modelled || !m_.meshes.empty() ||
      o.kind == ir::Operand::Kind::Prefetch)
    return false;
  if (!model_.grid_pipeline || by_pointer(o)) return false;
  return o.has_block || model_.spaces[o.space].owner == ir::Scope::Thread;
}

// Slots of a window that asks for `n`, as far as there is memory for them.
int Compiler::slot_count(const ir::Operand& o, const Window& w, int64_t n) {
  constexpr int64_t kState = 64;  // bytes of a slot's place and semaphore
  int64_t bytes = w.element_bytes;
  for (int64_t d : w.map.extent) bytes = memory::mul(bytes, d);
  bytes = memory::mul(memory::add(bytes, kState), std::max<int64_t>(n, 1));
  const std::string what = fmt::format("{} slots for the blocks of {}", n, o.name);
  require_memory(bytes, what);
  if (n > INT32_MAX / kState) too_much_memory(*this, bytes, what);  // whatever the limit is
  return static_cast<int>(std::max<int64_t>(n, 1));
}

// Memory for the slots, and what the pipeline knows of them. Blocks have two slots where nothing else is asked for.
void Compiler::model_window(const ir::Operand& o, Window* w, Val* ref) {
  const size_t rank = w->dims.size();
  if (!o.has_block) {
    w->map.extent = w->dims;
    w->map.scale = w->dims;
    w->map.pad_lo.assign(rank, 0);
    w->map.pad_hi.assign(rank, 0);
    w->map.index.assign(rank, Affine{true, 0, std::vector<int64_t>(m_.grid.size(), 0)});
    ref->dims = w->dims;
  }
  Window::Modelled m;
  m.slots = o.has_block ? 2 : 1;
  if (const Attr* mode = ir::find(o.attrs, "pipeline"); mode && mode->is_call("buffered") && !mode->items.empty())
    m.slots = slot_count(o, *w, mode->items[0].i);
  std::vector<int64_t> dims = w->map.extent;
  dims.insert(dims.begin(), m.slots);
  const Val memory = temp(w->dtype, dims);
  keep(memory);
  const std::vector<int64_t>& strides = memory.memory().strides;
  m.stage = {memory.memory().addr.offset, {strides.begin() + 1, strides.end()}, 0};
  m.slot_bytes = strides[0] * w->element_bytes;
  m.offset = new_slot();
  m.state = new_slot(static_cast<int>(2 * w->places()) + kPipelineFields + m.slots);
  m.semaphore = plan_.memory.semaphores.add("the pipeline of " + o.name, m.slots, memory::Level::Thread, true);
  ref->ref().read_only = false;
  ref->memory().addr = {memory.memory().addr.buffer, m.offset, memory.memory().addr.offset};
  ref->memory().strides.clear();
  for (size_t d = 0; d < rank; ++d)
    if (!o.has_block || o.block[d].kind != ir::BlockDim::Kind::Squeezed)
      ref->memory().strides.push_back(m.stage.strides[d]);
  w->reach = std::move(m);
  body_.modelled = true;
}

PipelinePayload* Compiler::begin_pipeline() {
  auto* p = plan_.payloads.own(PipelinePayload());
  for (const Window& w : body_.windows)
    if (w.modelled()) p->windows.push_back(&w);
  p->started = new_slot();
  p->more = new_slot();
  p->saved = new_slot(static_cast<int>(m_.grid.size()));
  return p;
}

void Compiler::end_pipeline(const PipelinePayload* p, int maps) {
  emit<Kind::pipeline_leave>(p);
  for (const Window* w : p->windows)
    if (w->is_output && w->modelled()->slots == 1) emit<Kind::pipeline_drain>(w);
  emit<Kind::pipeline_next>(p);
  jump_to(here() - 1, maps);
  for (const Window* w : p->windows)
    if (w->is_output) emit<Kind::pipeline_drain>(w);
}

}  // namespace pallasim::interp
