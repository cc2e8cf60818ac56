// Arrays and semaphores of several devices at once, and clusters that take the work of others. A cluster has begun when
// a thread of it has: until then another one may take its place.
#include "machine.h"

namespace pallasim::oracle {
namespace {

std::optional<OpCode> reduction(const std::string& how) {
  static const std::map<std::string, OpCode> kAll = {{"add", OpCode::add}, {"min", OpCode::min},
                                                     {"max", OpCode::max}, {"and", OpCode::and_},
                                                     {"or", OpCode::or_},  {"xor", OpCode::xor_}};
  const auto it = kAll.find(how);
  return it == kAll.end() ? std::nullopt : std::optional(it->second);
}

int64_t count_of(const ir::Mesh& mesh, const char* key) {
  const Attr* a = ir::find(mesh.attrs, key);
  return a && a->is_int() ? a->i : 0;
}

}  // namespace

// The threads that are to other devices what this one is to its own.
std::vector<int> Machine::everywhere(const Thread& t) const {
  std::vector<int> r;
  for (size_t d = 0; d < devices_.size(); ++d) r.push_back(static_cast<int>(d) * cores_ + t.index % cores_);
  return r;
}

void Machine::op_multimem(Thread& t, const Op& op) {
  const Ref part = keyed_view(t, op, "ref");
  if (op.code == OpCode::multimem_store) {
    for (int other : everywhere(t)) write(at_thread(part, other), in(t, op, op.attr("value")->i));
    return;
  }
  const std::optional<OpCode> how = reduction(op.attr("reduction_op")->s);
  if (!how) throw Lack{"a reduction by " + op.attr("reduction_op")->s};
  interp::StripParams p;
  p.dtype = part.dtype;
  std::optional<Array> sum;
  for (int other : everywhere(t)) {
    const Array next = read(at_thread(part, other));
    sum = sum ? elementwise(*how, p.dtype, p.dtype, part.dims, {&*sum, &next}, p) : next;
  }
  out(t, op, std::move(*sum));
}

void Machine::op_signals(Thread& t, const Op& op) {
  if (op.code == OpCode::gpu_sem_signal_multicast) {
    const Ref sem = keyed_view(t, op, "sem");
    for (int other : everywhere(t)) semaphore(at_thread(sem, other)) += integer(in(t, op, op.attr("inc")->i));
    return;
  }
  for (const Attr& one : op.attr("signals")->items) {
    const ir::Viewed& v = *one.items.at(0).view;
    const Ref sem = view(t, op, ref(t, op, v.operand), v.transforms);
    int to = t.index;
    if (one.items.size() > 2) to = on_device(t, integer(in(t, op, one.items[2].i)), "signal");
    semaphore(at_thread(sem, to)) += integer(in(t, op, one.items.at(1).i));
  }
}

int Machine::on_device(const Thread& t, int64_t device, const char* what) const {
  if (device < 0 || device >= static_cast<int64_t>(devices_.size()))
    throw Stop{std::string(what) + " to a device that does not exist"};
  return static_cast<int>(device) * cores_ + t.index % cores_;
}

// Threads of a cluster: of a mesh of CTAs those below the axes of its grid.
int Machine::cluster_threads() const {
  if (m_.meshes.size() != 1 || m_.meshes[0].kind != "gpu") return cores_;
  int64_t n = 1;
  for (size_t i = static_cast<size_t>(count_of(m_.meshes[0], "grid")); i < m_.meshes[0].axes.size(); ++i)
    n *= m_.meshes[0].axes[i].size;
  return static_cast<int>(n);
}

bool Machine::begins(const Thread& t) {
  const int cluster = t.index / cluster_threads();
  if (taken_.count(cluster)) return false;
  begun_.insert(cluster);
  return true;
}

// Each thread arrives at its CTA's barrier. Who is first along the axes of threads that ask together, all or those that
// are named, expects the answer's bytes there, and asks if it is first along those of CTAs, too.
void Machine::op_request(Thread& t, const Op& op) {
  constexpr int64_t kBytes = 16;
  if (!t.inner.empty()) throw Lack{"a request for a cluster by a warp"};
  const Ref answer = keyed_view(t, op, "result"), bar = keyed_view(t, op, "barrier");
  const int all = cluster_threads(), of_cta = warpgroups(), first = t.index / all * all;
  const ir::Mesh& mesh = m_.meshes.at(0);
  const Attr* named = op.attr("collective_axes");
  bool leads = true, asks = true;
  for (auto i = static_cast<size_t>(count_of(mesh, "grid")); i < mesh.axes.size(); ++i) {
    const bool together = !named || std::any_of(named->items.begin(), named->items.end(),
                                                [&](const Attr& a) { return a.s == mesh.axes[i].name; });
    const bool of_threads = i + static_cast<size_t>(count_of(mesh, "threads")) >= mesh.axes.size();
    if (!together && !of_threads && mesh.axes[i].size > 1) throw Lack{"several requests of a cluster at once"};
    if (together && t.coordinates[i] != 0) (of_threads ? leads : asks) = false;
  }
  Barrier& own = barrier(bar, t.index);
  own.due += leads ? kBytes : 0;
  ++own.arrived;
  own.settle();
  if (!leads || !asks) return;
  std::array<int32_t, 4> words{-1, 0, 0, 0};
  const int device = t.index / cores_, clusters = cores_ / all;
  for (int c = device * clusters; c < (device + 1) * clusters && words[1] == 0; ++c)
    if (!begun_.count(c) && taken_.insert(c).second) words = {c % clusters, 1, 0, 0};
  for (int cta = first; cta < first + all; cta += of_cta) {
    const Ref there = at_thread(answer, cta);
    for (int64_t i = 0; i < kBytes; ++i) write_element(there, i, reinterpret_cast<const std::byte*>(words.data()) + i);
    Barrier& b = barrier(bar, cta);
    b.due -= kBytes;
    b.settle();
  }
}

void Machine::op_answer(Thread& t, const Op& op) {
  const Array bytes = read(keyed_view(t, op, "result"));
  std::array<int32_t, 2> words{};
  std::memcpy(words.data(), bytes.bytes.data(), sizeof(words));
  const ir::Mesh& mesh = m_.meshes.at(0);
  const auto grid = static_cast<size_t>(count_of(mesh, "grid"));
  size_t result = 0;
  for (const Attr& name : op.attr("grid_names")->items) {
    int64_t stride = 1, at = -1;
    for (size_t i = grid; i-- > 0; stride *= mesh.axes[i].size)
      if (mesh.axes[i].name == name.s) at = words[0] / stride % mesh.axes[i].size;
    out(t, op, integer_scalar(DType::I32, words[1] == 1 ? at : -1), result++);
  }
  out(t, op, integer_scalar(DType::Bool, words[1] == 1), result);
}

bool Machine::peer_op(Thread& t, const Op& op) {
  switch (op.code) {
    case OpCode::multimem_store:
    case OpCode::multimem_load_reduce: return op_multimem(t, op), true;
    case OpCode::gpu_sem_signal_multicast:
    case OpCode::gpu_sem_signal_parallel: return op_signals(t, op), true;
    case OpCode::try_cluster_cancel: return op_request(t, op), true;
    case OpCode::query_cluster_cancel: return op_answer(t, op), true;
    default: return false;
  }
}

}  // namespace pallasim::oracle
