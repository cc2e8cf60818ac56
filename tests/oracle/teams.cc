// The threads of a launch: one mesh per body, which threads share memory, and whom a copy or a signal reaches.
#include "machine.h"

namespace pallasim::oracle {
namespace {

bool names_nobody(const Attr* a) { return !a || (a->is(Attr::Kind::Symbol) && a->s == "none"); }

// Coordinates run with the last axis fastest.
Dims coordinates_of(int64_t n, const Dims& sizes) {
  Dims r(sizes.size());
  for (size_t d = sizes.size(); d-- > 0; n /= sizes[d]) r[d] = n % sizes[d];
  return r;
}

}  // namespace

void Machine::make_teams() {
  cores_ = 0;
  for (const ir::Body& b : m_.bodies) {
    Team team;
    for (const ir::Mesh& mesh : m_.meshes)
      if (mesh.name == b.mesh || (m_.bodies.size() == 1 && m_.meshes.size() == 1)) team.mesh = &mesh;
    if (!team.mesh && (m_.bodies.size() > 1 || !m_.meshes.empty())) throw Lack{"a body without a mesh"};
    team.first = cores_;
    if (team.mesh) {
      for (const ir::MeshAxis& a : team.mesh->axes) team.size *= static_cast<int>(std::clamp<int64_t>(a.size, 0, 1024));
      if (team.mesh->kind == "vector_subcore" && !team.mesh->axes.empty())
        team.subcores = static_cast<int>(team.mesh->axes.back().size);
    }
    cores_ += team.size;
    teams_.push_back(team);
  }
  for (const ir::Scratch& s : m_.scratch)
    if (!s.type->mesh.empty() && team_of(s.type->mesh) < 0) throw Lack{"memory of a mesh without a body"};
}

int Machine::team_of(const std::string& mesh) const {
  for (size_t i = 0; i < teams_.size(); ++i)
    if (teams_[i].mesh && teams_[i].mesh->name == mesh) return static_cast<int>(i);
  return -1;
}

void Machine::make_threads() {
  Dims around;
  for (const auto& a : device_axes_) around.push_back(a.second);
  for (int device = 0; device < static_cast<int>(devices_.size()); ++device)
    for (size_t body = 0; body < teams_.size(); ++body) {
      const Team& team = teams_[body];
      Dims mesh;
      for (size_t i = 0; team.mesh && i < team.mesh->axes.size(); ++i) mesh.push_back(team.mesh->axes[i].size);
      for (int core = 0; core < team.size; ++core) {
        auto t = std::make_unique<Thread>();
        t->index = t->fiber = static_cast<int>(threads_.size());
        t->device = device, t->core = core, t->body = static_cast<int>(body);
        const std::string kind = team.mesh ? team.mesh->kind : "";
        if (kind == "vector_subcore" || kind == "scalar_subcore") t->sparse_core = core / team.subcores;
        t->coordinates = coordinates_of(core, mesh);
        t->device_coordinates = coordinates_of(device, around);
        threads_.push_back(std::move(t));
      }
    }
}

// Whether memory that threads share is one for both.
bool Machine::share(const ir::Type& type, int a, int b) const {
  if (a == b) return true;
  if (type.scope == ir::Scope::Cta) return a / warpgroups() == b / warpgroups();
  const Thread &x = *threads_[static_cast<size_t>(a)], &y = *threads_[static_cast<size_t>(b)];
  if (x.device != y.device) return false;
  return type.space != ir::Space::VmemShared || (x.sparse_core >= 0 && x.sparse_core == y.sparse_core);
}

void Machine::give(Family& f, int thread, const std::shared_ptr<Memory>& memory) {
  f.of[static_cast<size_t>(thread)] = memory;
  for (size_t i = 0; f.shared && i < f.of.size(); ++i)
    if (share(*f.type, thread, static_cast<int>(i))) f.of[i] = memory;
  for (Barrier& b : memory->barriers) b.expected = f.arrivals;
}

// Whose memory or semaphores an operation reaches: those of the thread's own body, or of the mesh that a type names.
int Machine::reached(Thread& t, const Op& op) {
  int r = t.body;
  const auto look = [&](const Ref& of) {
    const Family* f = of.memory->family;
    if (f && f->type && !f->type->mesh.empty()) r = team_of(f->type->mesh);
  };
  const bool copy = op.viewed("dst") != nullptr;
  for (const char* key : {"dst", "dst_sem"})
    if (copy && op.viewed(key)) look(ref(t, op, op.viewed(key)->operand));
  if (!copy) look(ref(t, op, 0));
  return r;
}

// The place among the threads of a body that its coordinates name; those that `named` does not are the thread's own.
int64_t Machine::core_at(Thread& t, const Op& op, const Team& team, const Attr& named) {
  int64_t core = 0;
  for (const ir::MeshAxis& axis : team.mesh->axes) {
    std::optional<int64_t> at;
    const Team& own = teams_[static_cast<size_t>(t.body)];
    for (size_t i = 0; own.mesh && i < own.mesh->axes.size(); ++i)
      if (own.mesh->axes[i].name == axis.name) at = t.coordinates[i];
    for (const Attr& a : named.items) {
      if (!a.is_call("axis") || a.items.size() != 2) throw Lack{"a core by other than axes"};
      const Attr& n = a.items[1];
      if (a.items[0].s == axis.name) at = n.is(Attr::Kind::Operand) ? integer(in(t, op, n.i)) : n.i;
    }
    if (!at) throw Lack{"a core without a coordinate on axis " + axis.name};
    if (*at < 0 || *at >= axis.size) return -1;
    core = core * axis.size + *at;
  }
  return core;
}

// The thread that device_id and core_index name; the running one where nobody is named.
int Machine::peer(Thread& t, const Op& op, const char* what) {
  const auto number = [&](const Attr* a) -> int64_t {
    const bool one = device_axes_.size() == 1 && a->is(Attr::Kind::List) && a->items.size() == 1;
    if (one && a->items[0].is_call("axis")) a = &a->items[0].items[1];
    if (a->is(Attr::Kind::Operand)) return integer(in(t, op, a->i));
    if (!a->is_int()) throw Lack{std::string(ir::name(op.code)) + " with such a peer"};
    return a->i;
  };
  const int body = reached(t, op);
  const Team& team = teams_[static_cast<size_t>(body)];
  int64_t device = t.device, core = t.core;
  if (const Attr* a = op.attr("device_id"); !names_nobody(a)) {
    const Attr* kind = op.attr("device_id_type");
    if (kind && kind->s != "logical") throw Lack{"a device id of type " + kind->s};
    device = number(a);
    if (device < 0 || device >= static_cast<int64_t>(devices_.size()))
      throw Stop{std::string(what) + " to a device that does not exist"};
  }
  const Attr* at = op.attr("core_index");
  const bool named = !names_nobody(at);
  if (named && !at->is(Attr::Kind::List)) core = number(at);
  else if (named || body != t.body) core = core_at(t, op, team, named ? *at : Attr::list({}));
  if (core < 0 || core >= team.size) throw Stop{std::string(what) + " to a core that does not exist"};
  return static_cast<int>(device) * cores_ + team.first + static_cast<int>(core);
}

Ref Machine::at_thread(const Ref& r, int thread) {
  Family* f = r.memory->family;
  if (!f) throw Lack{"a block in another thread's memory"};
  if (!f->of[static_cast<size_t>(thread)]) {
    auto fresh = new_memory(*f->type, f->name);
    fresh->family = f;
    give(*f, thread, fresh);
  }
  Ref moved = r;
  moved.memory = f->of[static_cast<size_t>(thread)];
  return moved;
}

// Subcores of the thread's SparseCore.
int Machine::subcores(const Thread& t) const {
  const Team& team = teams_[static_cast<size_t>(t.body)];
  if (!team.mesh || team.mesh->kind != "vector_subcore" || team.mesh->axes.empty()) throw Lack{"subcores"};
  return team.subcores;
}

void Machine::op_barrier(Thread& t) {
  const int n = subcores(t);
  Gate& gate = gates_[t.index - t.core % n];
  const int64_t mine = gate.phase;
  if (++gate.arrived == n) {
    gate.arrived = 0;
    ++gate.phase;
  } else {
    hand_over(
        t, [&gate, mine] { return gate.phase > mine; }, false);
  }
}

void Machine::op_fetch_and_add(Thread& t, const Op& op) {
  const int n = subcores(t);
  const int64_t subcore = integer(in(t, op, op.attr("subcore")->i));
  if (subcore < 0 || subcore >= n) throw Stop{"fetch_and_add to a subcore that does not exist"};
  const Ref own = view(t, op, ref(t, op, 0), op.view());
  const int target = t.index - t.core % n + static_cast<int>(subcore);
  const Ref word = target == t.index ? own : at_thread(own, target);
  const Array before = read(word);
  interp::StripParams p;
  p.dtype = word.dtype;
  const Array& value = in(t, op, 1);
  write(word, elementwise(OpCode::add, word.dtype, word.dtype, word.dims, {&before, &value}, p));
  out(t, op, before);
}

}  // namespace pallasim::oracle
