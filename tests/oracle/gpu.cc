// Clusters of CTAs: barriers, bulk copies, products of a warpgroup. What is asynchronous is done at once; its barriers
// say when others may know.
#include "machine.h"

namespace pallasim::oracle {

static int64_t axes_of(const ir::Mesh& mesh, const char* key) {
  const Attr* a = ir::find(mesh.attrs, key);
  return a && a->is_int() ? a->i : 0;
}

// Threads of a CTA: the last axes of the mesh. Where there are no CTAs, all of a device.
int Machine::warpgroups() const {
  if (m_.meshes.size() != 1 || m_.meshes[0].kind != "gpu") return cores_;
  const ir::Mesh& mesh = m_.meshes[0];
  int64_t n = 1;
  const auto threads = static_cast<size_t>(axes_of(mesh, "threads"));
  for (size_t i = mesh.axes.size() - std::min(threads, mesh.axes.size()); i < mesh.axes.size(); ++i)
    n *= mesh.axes[i].size;
  return static_cast<int>(n);
}

// The thread at place `at` along the axis, its other places being those of `from`.
int Machine::moved(int from, const std::string& axis, int64_t at) const {
  int64_t stride = 1;
  for (size_t i = m_.meshes.at(0).axes.size(); i-- > 0;) {
    const ir::MeshAxis& a = m_.meshes[0].axes[i];
    if (a.name == axis) {
      if (at < 0 || at >= a.size) throw Stop{"a CTA that does not exist"};
      return static_cast<int>(from + (at - from / stride % a.size) * stride);
    }
    stride *= a.size;
  }
  throw Lack{"axis " + axis + " of a cluster"};
}

// Threads at all places along the axes together.
std::vector<int> Machine::along(int from, const std::vector<std::string>& axes) const {
  std::vector<int> r{from};
  for (const std::string& name : axes) {
    std::vector<int> next;
    const auto& all = m_.meshes.at(0).axes;
    const auto a = std::find_if(all.begin(), all.end(), [&](const ir::MeshAxis& x) { return x.name == name; });
    if (a == all.end()) throw Lack{"axis " + name + " of a cluster"};
    for (int t : r)
      for (int64_t i = 0; i < a->size; ++i) next.push_back(moved(t, name, i));
    r = std::move(next);
  }
  std::sort(r.begin(), r.end());
  return r;
}

static std::vector<std::string> names_of(const Attr& a) {
  std::vector<std::string> r;
  if (!a.is(Attr::Kind::List)) return {a.s};
  for (const Attr& x : a.items) r.push_back(x.s);
  return r;
}

// What the scope says of its barriers.
void Machine::barrier_facts(Family& f, const Attr* facts) {
  f.arrivals = 1, f.cross.clear();
  for (size_t i = 0; facts && i < facts->keys.size(); ++i) {
    const std::string& key = facts->keys[i];
    if (key == "orders_tensor_core") continue;
    if (key == "num_arrivals") f.arrivals = facts->items[i].i;
    else if (key == "collective_axes")
      for (const Attr& group : facts->items[i].items) f.cross.push_back(names_of(group));
    else throw Lack{"a barrier with " + key};
  }
  int64_t reached = 1;
  for (const auto& group : f.cross) reached += static_cast<int64_t>(along(0, group).size()) - 1;
  f.arrivals *= reached;
}

Barrier& Machine::barrier(const Ref& r, int thread) {
  const Ref there = at_thread(r, thread);
  if (there.memory->barriers.empty() || there.at.size() != 1 || there.at[0] < 0) throw Lack{"a barrier of this kind"};
  return there.memory->barriers[static_cast<size_t>(there.at[0])];
}

void Barrier::settle() {
  if (arrived < expected || due != 0) return;
  ++phase;
  arrived = 0;
}

void Machine::op_arrive(Thread& t, const Op& op) {
  const Ref r = keyed_view(t, op, "barrier");
  const auto number = [&](const char* key, int64_t otherwise) {
    const Attr* a = op.attr(key);
    return !a ? otherwise : a->is(Attr::Kind::Operand) ? integer(in(t, op, a->i)) : a->i;
  };
  std::vector<int> reached{t.index};
  for (const auto& group : r.memory->family->cross)
    for (int other : along(t.index, group)) reached.push_back(other);
  std::sort(reached.begin(), reached.end());
  reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
  for (int other : reached) {
    Barrier& b = barrier(r, other);
    b.due += number("expects", 0);
    b.arrived += number("count", 1);
    if (b.arrived > b.expected) throw Stop{"more arrivals than a barrier's phase takes"};
    b.settle();
    b.due -= number("brings", 0);
    if (number("brings", 0) != 0) b.settle();
  }
}

bool Machine::passed(Thread& t, Barrier& b, bool waits) {
  int64_t& seen = t.seen[&b];
  if (b.phase <= seen && !waits) return false;
  if (b.phase <= seen) {
    const int64_t mine = seen;
    hand_over(
        t, [&b, mine] { return b.phase > mine; }, false);
  }
  ++seen;
  return true;
}

namespace {

int64_t bytes_of(const Ref& r) { return (count(r.dims) * ir::bit_width(r.dtype) + 7) / 8; }

// How a copy combines words with those that lie there (PTX ISA, cp.reduce.async.bulk); "none": it replaces them.
Array combined(const std::string& how, const Array& old, const Array& v) {
  static const std::map<std::string, std::pair<OpCode, DType>> kWords = {
      {"smin", {OpCode::min, DType::I32}}, {"smax", {OpCode::max, DType::I32}}, {"umin", {OpCode::min, DType::U32}},
      {"umax", {OpCode::max, DType::U32}}, {"and", {OpCode::and_, DType::I32}}, {"or", {OpCode::or_, DType::I32}},
      {"xor", {OpCode::xor_, DType::I32}}};
  const bool words = v.dtype == DType::I32 || v.dtype == DType::U32;
  if (words && (how == "inc" || how == "dec")) {
    const auto o = static_cast<uint32_t>(integer(old)), limit = static_cast<uint32_t>(integer(v));
    const uint32_t up = o >= limit ? 0 : o + 1, down = o == 0 || o > limit ? limit : o - 1;
    return integer_scalar(v.dtype, static_cast<int64_t>(how == "inc" ? up : down));
  }
  interp::StripParams p;
  p.dtype = v.dtype;
  if (how == "add") return elementwise(OpCode::add, p.dtype, p.dtype, {}, {&old, &v}, p);
  const auto found = kWords.find(how);
  if (!words || found == kWords.end()) throw Lack{"a copy that reduces by " + how};
  Array a = old, b = v;
  a.dtype = b.dtype = p.dtype = found->second.second;
  Array r = elementwise(found->second.first, p.dtype, p.dtype, {}, {&a, &b}, p);
  r.dtype = v.dtype;
  return r;
}

// Elements [begin, end): what the source lacks is 0, what the destination lacks is dropped.
void copy_elements(const Ref& src, const Ref& dst, int64_t begin, int64_t end, const std::string& how) {
  alignas(16) std::byte e[16];
  Array x = empty_array(src.dtype, {}), y = x;
  for (int64_t n = begin; n < end; ++n) {
    if (dst.at[static_cast<size_t>(n * dst.parts)] < 0) continue;
    std::fill(std::begin(e), std::end(e), std::byte{0});
    if (src.at[static_cast<size_t>(n * src.parts)] >= 0) read_element(src, n, e);
    if (how != "none") {
      std::memcpy(x.bytes.data(), e, x.bytes.size());
      read_element(dst, n, y.bytes.data());
      x = combined(how, y, x);
      std::memcpy(e, x.bytes.data(), x.bytes.size());
    }
    write_element(dst, n, e);
  }
}

// The tile number `n` of a ref, along a dimension.
Ref tile_of(const Ref& r, const Dims& dims, size_t axis, int64_t n) {
  Ref tile = r;
  tile.dims = dims;
  tile.at.clear();
  const Dims strides = strides_of(r.dims);
  each_index(dims, [&](const Dims& index, int64_t) {
    int64_t from = n * dims.at(axis) * strides.at(axis);
    for (size_t d = 0; d < dims.size(); ++d) from += index[d] * strides[d];
    for (int p = 0; p < r.parts; ++p) tile.at.push_back(r.at.at(static_cast<size_t>(from * r.parts + p)));
  });
  return tile;
}

}  // namespace

void Machine::op_bulk(Thread& t, const Op& op) {
  if (const Attr* on = op.attr("predicate"); on && integer(in(t, op, on->i)) == 0) return;
  std::vector<ir::View> to = op.viewed("dst")->transforms;
  const auto all_devices = std::find_if(
      to.begin(), to.end(), [](const ir::View& v) { return std::holds_alternative<ir::view::Multicast>(v); });
  const bool to_all = all_devices != to.end();
  if (to_all) to.erase(all_devices);
  const Ref src = keyed_view(t, op, "src"), dst = view(t, op, ref(t, op, op.viewed("dst")->operand), to);
  const Attr* leader = op.attr("leader_tracked");
  const bool tiles = leader && leader->is_call("Partitioned");
  if ((src.dims != dst.dims && !tiles) || src.dtype != dst.dtype)
    throw Stop{"a copy between views of different shapes"};
  const Attr *how = op.attr("reduction_op"), *axes = op.attr("collective_axes");
  const int64_t n = count(src.dims);
  if (op.code == OpCode::copy_smem_to_gmem) {
    for (int other : to_all ? everywhere(t) : std::vector<int>{-1})
      copy_elements(src, other < 0 ? dst : at_thread(dst, other), 0, n, how ? how->s : "none");
    return;
  }
  const Ref bar = keyed_view(t, op, "barrier");
  Barrier& own = barrier(bar, t.index);
  std::vector<int> all{t.index};
  if (axes) all = along(t.index, names_of(*axes));
  const auto parts = static_cast<int64_t>(all.size()), mine = std::find(all.begin(), all.end(), t.index) - all.begin();
  if (!leader || mine == 0) {
    own.due += bytes_of(dst) * (leader ? parts : 1);
    ++own.arrived;
  }
  Barrier& first = barrier(bar, all.front());
  if (tiles) {
    copy_elements(tile_of(src, dst.dims, static_cast<size_t>(leader->items.at(0).i), mine), dst, 0, count(dst.dims),
                  "none");
    first.due -= bytes_of(dst);
    return first.settle();
  }
  for (int other : all) {
    copy_elements(src, at_thread(dst, other), n * mine / parts, n * (mine + 1) / parts, "none");
    Barrier& b = leader ? first : barrier(bar, other);
    b.due -= bytes_of(dst) * (mine + 1) / parts - bytes_of(dst) * mine / parts;
    b.settle();
  }
}

void Machine::op_peer_store(Thread& t, const Op& op) {
  const int other =
      moved(t.index, op.attr("cluster_dim")->items.at(0).s, integer(in(t, op, op.attr("cluster_idx")->i)));
  const Attr* how = op.attr("atomic");
  if (how && how->s != "add" && how->s != "none") throw Lack{"a store that reduces by " + how->s};
  const Ref dst = at_thread(keyed_view(t, op, "ref"), other);
  auto value = std::make_shared<Memory>();
  value->bytes = in(t, op, op.attr("value")->i).bytes;
  copy_elements(whole_ref(value, dst.dtype, dst.dims), dst, 0, count(dst.dims), how ? how->s : "none");
  Barrier& b = barrier(keyed_view(t, op, "barrier"), other);
  ++b.arrived;
  b.settle();
}

void Machine::op_product(Thread& t, const Op& op) {
  const auto matrix = [&](const char* key) {
    return op.viewed(key) ? read(keyed_view(t, op, key)) : in(t, op, op.attr(key)->i);
  };
  const Array a = matrix("a"), b = matrix("b");
  Array sum = matrix("acc");
  interp::Contraction c;
  c.m = a.dims.at(0), c.k = a.dims.at(1), c.n = b.dims.at(1);
  c.in = a.dtype, c.in_rhs = b.dtype, c.out = sum.dtype;
  c.a_row = c.k, c.a_col = 1, c.b_row = c.n, c.b_col = 1, c.c_row = c.n;
  c.accumulate = true;
  if (!interp::contract(c, sum.bytes.data(), a.bytes.data(), b.bytes.data(), interp::GemmBackend::Reference))
    throw Lack{"a product of " + std::string(ir::name(a.dtype))};
  if (op.code == OpCode::wgmma) return out(t, op, sum);
  write(keyed_view(t, op, "acc"), sum);
}

void Machine::op_ptx(Thread& t, const Op& op) {
  constexpr int64_t kWarpgroup = 128;
  for (const Attr& act : op.attr("does")->items) {
    if (!act.is_call("named_barrier_sync") && !act.is_call("named_barrier_arrive")) continue;  // a fence
    if (act.items.size() > 1 && act.items[1].i % kWarpgroup != 0) throw Lack{"a named barrier of single warps"};
    const Attr& id = act.items.at(0);
    const int64_t number = id.is(Attr::Kind::Operand) ? integer(in(t, op, id.i)) : id.i;
    Barrier& b = named_[{t.index / warpgroups(), number}];
    if (b.arrived == 0) b.expected = act.items.size() > 1 ? act.items[1].i / kWarpgroup : warpgroups();
    t.seen[&b] = b.phase;
    ++b.arrived;
    b.settle();
    if (act.is_call("named_barrier_sync")) passed(t, b, true);
  }
}

bool Machine::gpu_op(Thread& t, const Op& op) {
  switch (op.code) {
    case OpCode::barrier_arrive: return op_arrive(t, op), true;
    case OpCode::barrier_wait: return passed(t, barrier(keyed_view(t, op, "barrier"), t.index), true);
    case OpCode::barrier_test: {
      // Who looks again and again waits for somebody else.
      if (t.while_depth > 0 && threads_.size() > 1)
        hand_over(
            t, [] { return true; }, true);
      const bool ended = passed(t, barrier(keyed_view(t, op, "barrier"), t.index), false);
      return out(t, op, integer_scalar(DType::Bool, ended)), true;
    }
    case OpCode::copy_gmem_to_smem:
    case OpCode::copy_smem_to_gmem: return op_bulk(t, op), true;
    case OpCode::async_store_smem: return op_peer_store(t, op), true;
    case OpCode::wgmma:
    case OpCode::wgmma_ref: return op_product(t, op), true;
    case OpCode::wgmma_accumulator_deref: return out(t, op, read(ref(t, op, 0))), true;
    case OpCode::wgmma_accumulator_store: return write(ref(t, op, 0), in(t, op, 1)), true;
    case OpCode::ptx: return op_ptx(t, op), true;
    case OpCode::commit_group:
    case OpCode::commit_smem:
    case OpCode::wait_smem_to_gmem:
    case OpCode::wgmma_wait:
    case OpCode::async_prefetch: return true;
    default: return tensor_op(t, op);
  }
}

}  // namespace pallasim::oracle
