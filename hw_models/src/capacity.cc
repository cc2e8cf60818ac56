// What a launch keeps in the memories of a TensorCore, against what the chip has.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "pallasim/hw/tiles.h"
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

bool is_counted(Space s) { return s == Space::Vmem || s == Space::Smem || s == Space::Cmem || s == Space::Semaphore; }

int64_t bytes_in(Space s, ir::DType t, const std::vector<int64_t>& dims) {
  if (s == Space::Vmem) return tiled_bytes(t, dims);
  int64_t n = 1;
  for (int64_t d : dims) n = memory::mul(n, d);
  return s == Space::Semaphore ? n : memory::mul(n, ir::bit_width(t)) / 8;
}

// Whether the index map gives the same block at every grid point.
bool is_constant(const ir::Module& m, const ir::Graph& map) {
  std::set<ir::ValueId> moving;
  for (size_t i = 0; i < map.region.args.size(); ++i)
    if (i >= m.grid.size() || m.grid[i].dynamic >= 0 || m.grid[i].size > 1) moving.insert(map.region.args[i]);
  const std::function<bool(const ir::Op&)> moves = [&](const ir::Op& op) {
    return std::any_of(op.operands.begin(), op.operands.end(), [&](ir::ValueId v) { return moving.count(v) > 0; }) ||
           std::any_of(op.regions.begin(), op.regions.end(), [&](const ir::Region& r) { return std::any_of(r.ops.begin(), r.ops.end(), moves); });
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
  explicit Walk(const ir::Module& m) : m_(m) {
    for (Space s : {Space::Vmem, Space::Smem, Space::Cmem, Space::Semaphore}) most_.push_back({s, 0, -1, {}});
  }

  std::vector<Occupancy> run() {
    for (const ir::Operand& o : m_.operands) operand(o);
    for (const ir::Scratch& s : m_.scratch) allocate(s.name, s.type, "scratch");
    if (const int64_t n = parameter(m_, "internal_scratch_in_bytes"); n > 0)
      live_.push_back({Space::Vmem, {"(the compiler's own)", nullptr, {}, n, 1, "internal_scratch_in_bytes"}});
    note(-1);
    for (const ir::Body& b : m_.bodies) {
      graph_ = &b.graph;
      region(b.graph.region);
    }
    std::erase_if(most_, [](const Occupancy& o) { return o.buffers.empty(); });
    return std::move(most_);
  }

 private:
  void operand(const ir::Operand& o) {
    if (!is_counted(o.space) || ir::is_sync(o.array->dtype)) return;
    const bool output = o.kind == ir::Operand::Kind::Output;
    BufferUse b{o.name, o.array, {}, 0, 1, output ? "output" : "input"};
    for (const ir::Dim& d : o.array->dims) b.dims.push_back(d.size);
    if (o.kind == ir::Operand::Kind::Prefetch) b.role = "prefetched";
    if (o.has_block) {
      b.role = output ? "output window" : "input window";
      for (size_t d = 0; d < b.dims.size(); ++d) b.dims[d] = o.block[d].kind == ir::BlockDim::Kind::Squeezed ? 1 : o.block[d].size;
      const ir::Attr* mode = ir::find(o.attrs, "pipeline");
      // A window that never moves is held once, whatever is asked for.
      if (is_trivial_window(o)) b.copies = 1;
      else if (mode && mode->is_call("buffered") && !mode->items.empty()) b.copies = mode->items[0].i;
      else b.copies = is_constant(m_, *o.index_map) ? 1 : 2;
    }
    push(o.space, std::move(b));
  }

  void allocate(const std::string& name, const ir::Type* t, const char* role) {
    if (!t->is_ref || !is_counted(t->space)) return;
    BufferUse b{name.empty() ? "(unnamed)" : name, t, {}, 0, 1, role};
    for (const ir::Dim& d : t->dims) b.dims.push_back(d.size);
    push(t->space, std::move(b));
  }

  void push(Space s, BufferUse b) {
    b.bytes = bytes_in(s, b.type->dtype, b.dims);
    live_.push_back({s, std::move(b)});
  }

  // Keeps what is live now for every memory that was never so full.
  void note(ir::LocId loc) {
    for (Occupancy& o : most_) {
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

  void region(const ir::Region& r) {
    const size_t outer = live_.size();
    for (const ir::Op& op : r.ops) {
      const size_t before = live_.size();
      if (op.code == ir::OpCode::run_scoped && !op.regions.empty())
        for (ir::ValueId a : op.regions[0].args) allocate(graph_->names[static_cast<size_t>(a)], graph_->type(a), "run_scoped");
      const bool fresh = op.code == ir::OpCode::empty_ref || op.code == ir::OpCode::new_ref;
      if (fresh) allocate(graph_->names[static_cast<size_t>(op.results[0])], graph_->type(op.results[0]), "allocated");
      if (live_.size() > before) note(op.loc);
      for (const ir::Region& inner : op.regions) region(inner);
      if (!fresh) live_.resize(before);
    }
    live_.resize(outer);
  }

  const ir::Module& m_;
  const ir::Graph* graph_ = nullptr;
  std::vector<std::pair<Space, BufferUse>> live_;
  std::vector<Occupancy> most_;
};

std::string shape_text(const BufferUse& b) {
  if (!b.type) return "";
  return fmt::format("{}[{}]", ir::name(b.type->dtype), fmt::join(b.dims, ","));
}

std::vector<std::string> table(const Occupancy& o) {
  size_t name = 6, shape = 5;
  std::vector<const BufferUse*> rows;
  for (const BufferUse& b : o.buffers) rows.push_back(&b);
  std::stable_sort(rows.begin(), rows.end(), [](const BufferUse* a, const BufferUse* b) { return memory::mul(a->bytes, a->copies) > memory::mul(b->bytes, b->copies); });
  constexpr size_t kMost = 24;
  const size_t shown = std::min(rows.size(), kMost);
  for (size_t i = 0; i < shown; ++i) name = std::max(name, rows[i]->name.size()), shape = std::max(shape, shape_text(*rows[i]).size());
  std::vector<std::string> r = {fmt::format("{:{}}  {:{}}  {:>12}  {:>6}  {:>13}  what", "buffer", name, "shape", shape, "bytes", "copies", "total")};
  int64_t rest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const BufferUse& b = *rows[i];
    const int64_t total = memory::mul(b.bytes, b.copies);
    if (i < shown) r.push_back(fmt::format("{:{}}  {:{}}  {:>12}  {:>6}  {:>13}  {}", b.name, name, shape_text(b), shape, b.bytes, b.copies, total, b.role));
    else rest = memory::add(rest, total);
  }
  if (rows.size() > shown) r.push_back(fmt::format("{} smaller buffers take {}", rows.size() - shown, rest));
  return r;
}

}  // namespace

std::vector<Occupancy> occupancy(const ir::Module& m) { return Walk(m).run(); }

void check_tpu_capacity(const ir::Module& m, const Profile& p, std::vector<ir::Diagnostic>* out) {
  for (const ir::Mesh& mesh : m.meshes)
    if (mesh.kind != "tensorcore") return;  // subcores have memories of their own
  for (const Occupancy& o : occupancy(m)) {
    int64_t capacity = p.capacity(o.space);
    const int64_t asked = o.space == Space::Vmem ? parameter(m, "vmem_limit_bytes") : kUnknown;
    const bool own_limit = asked != kUnknown && (capacity == kUnknown || asked < capacity);
    if (own_limit) capacity = asked;
    if (capacity == kUnknown || o.bytes <= capacity) continue;
    std::string space(ir::name(o.space));
    std::transform(space.begin(), space.end(), space.begin(), [](unsigned char c) { return std::toupper(c); });
    ir::Diagnostic& d = report(
        m, out, "PS-MEM-001",
        fmt::format("too much {}: {} bytes are needed, {}", space, o.bytes,
                    own_limit ? fmt::format("vmem_limit_bytes allows {}", capacity) : fmt::format("a TensorCore of {} has {}", p.name, capacity)),
        o.loc,
        own_limit ? "raise vmem_limit_bytes, take smaller blocks, or hold one copy of a window: pipeline_mode=pl.Buffered(1)"
                  : "take smaller blocks, hold one copy of a window (pipeline_mode=pl.Buffered(1)), or leave the array in HBM and copy parts of it");
    if (!d.site.source.file.empty()) d.site.what = "most of it is in use here";
    d.numbers = table(o);
    if (o.space == Space::Vmem) d.numbers.push_back("bytes are those of whole tiles: 8 rows of 128 lanes of 32 bits");
  }
}

}  // namespace pallasim::hw
