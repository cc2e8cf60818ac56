// Regions, branches, loops, scopes, ids.
#include "machine.h"

namespace pallasim::oracle {

std::vector<Value> Machine::region(Thread& t, const ir::Region& r, const std::vector<Value>& args) {
  for (size_t i = 0; i < r.args.size(); ++i) t.env[r.args[i]] = args.at(i);
  return walk(t, r);
}

// What the region yields.
std::vector<Value> Machine::walk(Thread& t, const ir::Region& r) {
  for (size_t i = 0; i + 1 < r.ops.size(); ++i) step(t, r.ops[i]);
  return operands(t, r.ops.back());
}

void Machine::tick() {
  constexpr int64_t kMost = 20'000'000;
  // Programs run one after another here, so that one which waits for a later one has no end.
  if (++steps_ > kMost && is_triton()) throw Lack{"programs that may wait for each other"};
  if (steps_ > kMost) throw Stop{"no end within " + std::to_string(kMost) + " operations"};
}

void Machine::step(Thread& t, const Op& op) {
  tick();
  if (!control(t, op) && !elementwise_op(t, op) && !reduce_op(t, op) && !memory_op(t, op) && !sync_op(t, op) &&
      !gpu_op(t, op) && !peer_op(t, op) && !shape_op(t, op) && !scatter_op(t, op))
    throw Lack{std::string(ir::name(op.code))};
}

void Machine::op_cond(Thread& t, const Op& op) {
  const int64_t last = static_cast<int64_t>(op.regions.size()) - 1;
  const int64_t chosen = std::clamp<int64_t>(integer(in(t, op, 0)), 0, last);
  define(t, op, walk(t, op.regions[chosen]));
}

void Machine::op_while(Thread& t, const Op& op) {
  std::vector<Value> carried = operands(t, op);
  ++t.while_depth;
  while (integer(*region(t, op.regions[0], carried)[0].array) != 0) {
    tick();
    carried = region(t, op.regions[1], carried);
  }
  --t.while_depth;
  define(t, op, carried);
}

void Machine::op_for(Thread& t, const Op& op) {
  const int64_t lower = integer(in(t, op, 0)), upper = integer(in(t, op, 1)), by = integer(in(t, op, 2));
  const DType dtype = in(t, op, 0).dtype;
  if (by <= 0 && lower < upper) throw Stop{"a loop whose step is not positive"};
  const Attr* reverse = op.attr("reverse");
  const int64_t n = lower < upper ? (upper - lower - 1) / by + 1 : 0;
  std::vector<Value> carried = operands(t, op);
  carried.erase(carried.begin(), carried.begin() + 2);
  std::optional<Trips::Loop> loop;
  if (op.code == OpCode::parallel_loop) loop.emplace(t.trips);
  for (int64_t k = 0; k < n; ++k) {
    if (loop) loop->next();
    const int64_t i = lower + (reverse && reverse->is_true() ? n - 1 - k : k) * by;
    carried[0] = value_of(integer_scalar(dtype, i));
    const std::vector<Value> next = region(t, op.regions[0], carried);
    std::copy(next.begin(), next.end(), carried.begin() + 1);
    tick();
  }
  loop.reset();
  define(t, op, {carried.begin() + 1, carried.end()});
}

void Machine::op_scoped(Thread& t, const Op& op) {
  if (!op.operands.empty()) throw Lack{"run_scoped with initial values"};
  std::vector<Value> refs;
  const Attr* facts = op.attr("allocs");
  for (ir::ValueId a : op.regions[0].args) {
    const ir::Type* type = t.graph->type(a);
    const bool barrier = type->dtype == DType::Mbarrier || type->dtype == DType::ClusterBarrier;
    const Attr* of = facts && refs.size() < facts->items.size() ? &facts->items[refs.size()] : nullptr;
    if (barrier) barrier_facts(families_[&op.regions[0].args[refs.size()]], of);
    refs.push_back(allocated(t, t.graph->type(a), &op.regions[0].args[refs.size()], t.graph->names[a]));
    // Accumulators of products begin as zeros.
    if (of && std::find(of->keys.begin(), of->keys.end(), "accumulator") != of->keys.end())
      std::fill(refs.back().ref->memory->bytes.begin(), refs.back().ref->memory->bytes.end(), std::byte{0});
  }
  const std::vector<Value> values = region(t, op.regions[0], refs);
  // Where there are several threads another one may have signalled ahead, for the next scope.
  for (const Value& v : refs)
    if (threads_.size() == 1 && ir::is_sync(v.ref->dtype)) {
      left_over(*v.ref->memory);
      std::fill(v.ref->memory->counts.begin(), v.ref->memory->counts.end(), 0);
    }
  define(t, op, values);
}

// The region once per place of the inner mesh, beside each other; who spawns waits for all. What a place saw of
// barriers it knows the next time, too, and it sees what its parent did.
void Machine::op_spawn(Thread& t, const Op& op) {
  const Attr& mesh = *op.attr("mesh");
  std::vector<std::pair<std::string, int64_t>> axes;
  for (size_t k = 0; k < mesh.keys.size(); ++k)
    for (const Attr& a : mesh.items[k].items)
      if (a.is_call("axis")) axes.emplace_back(a.items[0].s, a.items[1].i);
  if (!op.results.empty() || !op.operands.empty() || !t.inner.empty() || !fibers_) throw Lack{"spawn of this kind"};
  int64_t n = 1;
  for (const auto& [name, size] : axes) n *= size;
  const auto left = std::make_shared<int64_t>(n);
  for (int64_t i = 0; i < n; ++i) {
    const auto child = std::make_shared<Thread>(t);
    child->trips = {};
    child->besides.clear(), child->children.clear();
    for (const auto& [barrier, phases] : t.besides[i]) child->seen[barrier] += phases;
    int64_t rest = i;
    for (size_t a = axes.size(); a-- > 0; rest /= axes[a].second)
      child->inner.emplace_back(axes[a].first, rest % axes[a].second, axes[a].second);
    const auto body = [this, child, left, &op] {
      walk(*child, op.regions[0]);
      --*left;
    };
    const size_t fiber = fibers_->add([this, body](size_t at) { guarded(at, body); }, threads_.size());
    child->fiber = static_cast<int>(fiber);
    ready_.resize(std::max(ready_.size(), fiber + 1));
    ready_[fiber] = [] { return true; };
    t.children.push_back(child);
  }
  hand_over(
      t, [left] { return *left == 0; }, false);
  for (int64_t i = 0; i < n; ++i)
    for (const auto& [barrier, phases] : t.children[static_cast<size_t>(i)]->seen) {
      const auto mine = t.seen.find(barrier);
      t.besides[i][barrier] = phases - (mine == t.seen.end() ? 0 : mine->second);
    }
  t.children.clear();
}

void Machine::op_index(Thread& t, const Op& op) {
  const DType dtype = type(t, op)->dtype;
  const bool size = op.code == OpCode::axis_size || op.code == OpCode::num_programs;
  auto give = [&](int64_t place, int64_t extent) { out(t, op, integer_scalar(dtype, size ? extent : place)); };
  if (op.code == OpCode::program_id || op.code == OpCode::num_programs) {
    int64_t axis = op.attr("axis")->i;
    for (size_t g = 0; g < m_.grid.size(); ++g)
      if (!m_.grid[g].vmapped && axis-- == 0) return give(t.point[g], grid_[g]);
    throw Lack{std::string(ir::name(op.code)) + " of an axis that the grid lacks"};
  }
  const std::string& name = op.attr("axis")->s;
  for (size_t g = 0; g < m_.grid.size(); ++g)
    if (!name.empty() && m_.grid[g].name == name) return give(t.point[g], grid_[g]);
  for (const auto& [axis, place, extent] : t.inner)
    if (axis == name) return give(place, extent);
  const ir::Mesh* mesh = teams_[static_cast<size_t>(t.body)].mesh;
  for (size_t a = 0; mesh && a < mesh->axes.size(); ++a)
    if (mesh->axes[a].name == name) return give(t.coordinates[a], mesh->axes[a].size);
  for (size_t a = 0; a < device_axes_.size(); ++a)
    if (device_axes_[a].first == name) return give(t.device_coordinates[a], device_axes_[a].second);
  throw Lack{"axis " + name};
}

bool Machine::control(Thread& t, const Op& op) {
  switch (op.code) {
    case OpCode::cond: return op_cond(t, op), true;
    case OpCode::while_: return op_while(t, op), true;
    case OpCode::for_:
    case OpCode::parallel_loop: return op_for(t, op), true;
    case OpCode::run_scoped: return op_scoped(t, op), true;
    case OpCode::spawn: return op_spawn(t, op), true;
    case OpCode::call: return define(t, op, region(t, op.regions[0], operands(t, op))), true;
    case OpCode::program_id:
    case OpCode::num_programs:
    case OpCode::axis_index:
    case OpCode::axis_size: return op_index(t, op), true;
    case OpCode::multiple_of:
    case OpCode::max_contiguous:
    case OpCode::optimization_barrier:
    case OpCode::layout_cast:
    case OpCode::memory_space_constraint: return define(t, op, operands(t, op)), true;
    case OpCode::touch:
    case OpCode::trace_mark:
    case OpCode::trace_value:
    case OpCode::print_layout:
    case OpCode::set_max_registers:
    case OpCode::delay:
    case OpCode::debug_barrier: return true;
    case OpCode::debug_print: return op_print(t, op), true;
    case OpCode::check:
      if (integer(in(t, op, 0)) == 0) throw Stop{"check failed: " + text_of(t, op, op.attr("message")->s, true, 1)};
      return true;
    default: return false;
  }
}

}  // namespace pallasim::oracle
