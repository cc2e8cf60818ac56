// Views of refs: what a list of transforms shows, as strides, checked indices and copies.
#include <algorithm>
#include <map>
#include <optional>

#include "../../plan/payload/movement.h"
#include "../../plan/payload/places.h"
#include "../../plan/steps.h"
#include "../values/affine_arrays.h"
#include "devices.h"
#include "existing.h"
#include "pallasim/hw/machine.h"
#include "views.h"

namespace pallasim::interp {
std::optional<std::vector<int64_t>> same_but_for_ones(const Val& memory, std::span<const int64_t> to) {
  const std::optional<std::vector<int>> map = analysis::unit_reshape(memory.dims, to);
  if (!map) return {};
  std::vector<int64_t> strides(to.size(), 1);
  for (size_t d = 0; d < map->size(); ++d)
    if ((*map)[d] >= 0) strides[static_cast<size_t>((*map)[d])] = memory.memory().strides[d];
  return strides;
}

// Whether a copy may take what lies behind its source's end.
bool copies_read_on(Emitter& e) {
  return e.options().out_of_bounds == Options::Oob::Uninitialized &&
         e.model().outside.copy_sources == hw::Outside::Undefined;
}

IndexedViews::Scope::Scope(Emitter& e) : e_(e), before_(e.state<IndexedViews>().known_.size()) {}
IndexedViews::Scope::~Scope() { e_.state<IndexedViews>().known_.resize(before_, {}); }

std::optional<uint32_t> IndexedViews::find(const Key& key) const {
  constexpr size_t kMost = 32;  // of the latest ones
  for (size_t i = 0; i < std::min(known_.size(), kMost); ++i)
    if (const auto& [k, slot] = known_[known_.size() - 1 - i]; k == key) return slot;
  return std::nullopt;
}

// A dynamic byte offset for `ref`: the sum of the terms, checked. `starts`: the values in the slots of the terms.
static Val index_dynamic(Emitter& e, const Val& ref, std::vector<IndexTerm> terms, std::vector<ir::ValueId> starts,
                         bool write, const Emptiness& none) {
  Val r = ref;
  if (terms.empty()) return r;
  // One that was found inside is so again; reports of findings count each access.
  const PlanOptions& o = e.options();
  const bool once = o.rewrites() && !starts.empty() && !none.known && o.out_of_bounds != Options::Oob::Machine;
  auto& views = e.state<IndexedViews>();
  IndexedViews::Key key;
  if (once) {
    key = {ref.memory().addr.dyn, std::move(starts), terms};
    for (IndexTerm& t : key.terms) t.slot = 0;
    if (const std::optional<uint32_t> known = views.find(key)) {
      interp::count(Rewrite::EqualIndex);
      r.memory().addr.dyn = *known;
      return r;
    }
  }
  IndexPayload p;
  p.terms = std::move(terms);
  p.ref = ref.memory().name;
  p.shape = ref.dims;
  p.write = write;
  p.empty = none.known;
  p.sizes = none.sizes;
  const uint32_t dyn = e.new_slot();
  Step& s = e.emit<Kind::index_bounds>(e.functions().index_bounds, std::move(p));
  s.a = ref.memory().addr.dyn;
  s.dst = dyn;
  r.memory().addr.dyn = dyn;
  if (once) views.learn(std::move(key), dyn);
  return r;
}

namespace {

using Entry = ir::view::Entry;

// Applies transforms to a ref, one after the other.
class Follower {
 public:
  Follower(Emitter& e, const Op& op, const Val& ref, ViewUse use, Recast recast, std::vector<uint32_t> sizes)
      : e_(e), op_(op), given_(ref), use_(use), recast_(recast), none_{false, std::move(sizes)} {
    out_.ref = ref;
    if (ref.ref().choice && !copies()) refuse(std::string(ir::name(op.code)) + " on one of several refs");
    if (!ref.ref().extents.empty() && !copies())
      refuse(std::string(ir::name(op.code)) + " on a ref whose extent is known at run time only");
  }

  ViewResult follow(std::span<const ir::View> transforms) {
    if (given_.ref().tiled) transforms = enter_tiles(transforms);
    find_sizes(transforms);
    for (const ir::View& t : transforms) {
      member_ = member_ && (std::holds_alternative<ir::view::Tile>(t) || std::holds_alternative<ir::view::Swizzle>(t));
      if (out_.gather) refuse("view transform after an array index");
      if (given_.ref().edge >= 0 && use_ != ViewUse::Gather)
        refuse("several indexers on a block that reaches beyond its array");
      std::visit(*this, t);
    }
    Val& r = out_.ref;
    if (r.ref().through && recast_ == Recast::Refuse) refuse("a ref with other element widths or gaps");
    if (r.ref().through && recast_ != Recast::Keep)
      r = open_ref(e_, r, out_.gather && writes() ? Recast::Some : recast_, &out_.opened);
    return std::move(out_);
  }

  void operator()(const ir::view::Index&);
  void operator()(const ir::view::Reshape&);
  void operator()(const ir::view::Transpose&);
  void operator()(const ir::view::Squeeze&);
  void operator()(const ir::view::Bitcast&);
  void operator()(const ir::view::Extract&);
  void operator()(const ir::view::Tile&);
  void operator()(const ir::view::Swizzle&);
  void operator()(const ir::view::Peer& t) { out_.ref = array_of_peer(e_, op_, Val(out_.ref), t); }
  // What no machine here takes yet.
  template <typename T>
  void operator()(const T& t) {
    refuse("ref transform " + std::string(ir::name(ir::View(t))));
  }

 private:
  // The logical shape of tiled memory, and what is left of the view.
  std::span<const ir::View> enter_tiles(std::span<const ir::View> transforms) {
    const std::vector<ir::View>& tiles = given_.ref().tiled->transforms;
    if (transforms.size() < tiles.size() || !std::equal(tiles.begin(), tiles.end(), transforms.begin()))
      refuse("tiled memory that is seen through other tiles than it has");
    Val& r = out_.ref;
    r.dims = given_.ref().tiled->dims;
    r.memory().strides = dense_strides(r.dims);
    r.ref().tiled = nullptr;
    return transforms.subspan(tiles.size());
  }
  [[noreturn]] void refuse(const std::string& what) { e_.unsupported(op_, what); }
  bool box() const { return use_ == ViewUse::Box || use_ == ViewUse::BoxTo; }
  bool moves() const { return use_ == ViewUse::Copy || use_ == ViewUse::CopyTo || box(); }
  bool copies() const { return moves() || use_ == ViewUse::Shape; }
  bool writes() const {
    return use_ == ViewUse::CopyTo || use_ == ViewUse::BoxTo || recast_ == Recast::Write ||
           recast_ == Recast::Overwrite || recast_ == Recast::Some;
  }
  bool stays_put() const { return use_ == ViewUse::Shape; }  // nothing is accessed

  // The sizes that the whole view has, which its last index says.
  void find_sizes(std::span<const ir::View> transforms) {
    const auto last = std::find_if(transforms.rbegin(), transforms.rend(),
                                   [](const ir::View& v) { return std::holds_alternative<ir::view::Index>(v); });
    if (last == transforms.rend()) return;
    for (const Entry& d : std::get<ir::view::Index>(*last).entries) {
      if (!d.is_slice()) continue;
      if (!d.size.is_operand()) none_.known = none_.known || d.size.value() == 0;
      else if (copies()) none_.sizes.push_back(size_slot(d.size.operand));
    }
  }
  uint32_t size_slot(int operand) {
    const auto [at, fresh] = size_slots_.try_emplace(operand);
    if (fresh)
      at->second = scalar_slot(e_, scalar_convert(e_, e_.operand(op_, static_cast<size_t>(operand)), ir::DType::I64));
    return at->second;
  }
  // The slot that says how far the dimension goes, where that is known at run time only.
  uint32_t extent_slot(size_t dim) const {
    const std::vector<uint32_t>& extents = out_.ref.ref().extents;
    return extents.empty() ? Addr::kNoSlot : extents[dim];
  }

  // Where an entry begins, and how far it goes.
  struct Place {
    int64_t start = 0;
    uint32_t slot = Addr::kNoSlot;  // instead of `start`
    bool wide = false;
    int64_t count = 1, step = 1;
    uint32_t size_slot = Addr::kNoSlot;  // instead of `count`, which bounds it
    int64_t span() const { return (count - 1) * step; }
  };
  Place place(const Entry&, size_t dim);
  void select(const ir::view::Index&);
  struct Exists {
    uint32_t valid, before;
  };
  Exists select_dim(const Entry&, size_t dim, std::vector<IndexTerm>*, const Place&);
  void gather(const ir::view::Index&);
  std::vector<Val> index_arrays(const ir::view::Index&);
  const AffineArray* affine_array(const Entry&) const;

  Emitter& e_;
  const Op& op_;
  const Val& given_;
  const ViewUse use_;
  const Recast recast_;
  Emptiness none_;
  std::map<int, uint32_t> size_slots_;  // by operand
  bool member_ = false;  // the ref is a member of a union, with nothing done to it but to say how it is tiled
  ViewResult out_;
};

void Follower::operator()(const ir::view::Index& given) {
  Val& r = out_.ref;
  const ir::view::Index index = r.ref().through ? push_index(e_, op_, &r, given) : given;
  if (!index.has_arrays()) return select(index);
  if (use_ != ViewUse::Gather) refuse("array index in this operation");
  gather(index);
}

Follower::Place Follower::place(const Entry& d, size_t dim) {
  const Val& r = out_.ref;
  const int64_t extent = r.dims[dim];
  Place p;
  if (d.is_slice()) {
    p.count = d.size.value();
    p.step = d.stride.value();
    if (d.size.is_operand()) {
      if (!copies() || p.step != 1) refuse("slice of a size that is known at run time only");
      p.size_slot = size_slot(d.size.operand);
      p.count = extent + (stays_put() && !r.ref().padding.empty() ? r.ref().padding[dim] : 0);
    }
  }
  if (d.start.is_operand()) {
    const Val& v = e_.operand(op_, static_cast<size_t>(d.start.operand));
    p.slot = scalar_slot(e_, v);
    p.wide = is_wide(v.dtype);
  } else if (const int64_t start = d.start.value(); p.size_slot != Addr::kNoSlot || extent_slot(dim) != Addr::kNoSlot ||
                                                    (p.count > 0 && (start < 0 || start + p.span() >= extent))) {
    // A static index out of bounds is a finding of the run, not of the compilation: the branch may never run.
    p.slot = e_.const_int(ir::DType::I64, start).scalar().slot;
    p.wide = true;
  } else {
    p.start = start;
  }
  return p;
}

// Numbers and slices: new offsets and strides.
void Follower::select(const ir::view::Index& index) {
  Val& r = out_.ref;
  std::vector<IndexTerm> terms;
  std::vector<ir::ValueId> starts;  // of the terms, where all are values of the kernel
  std::vector<int64_t> dims, strides, padding;
  std::vector<uint32_t> extents, valid, before;
  for (size_t i = 0; i < index.entries.size(); ++i) {
    const Entry& d = index.entries[i];
    const Place p = place(d, i);
    const Exists exists = select_dim(d, i, &terms, p);
    if (d.start.is_operand()) starts.push_back(op_.operands[static_cast<size_t>(d.start.operand)]);
    if (d.is_slice()) {
      const bool whole = p.slot == Addr::kNoSlot && p.start == 0 && p.step == 1 && p.size_slot == Addr::kNoSlot &&
                         p.count == r.dims[i] && !r.ref().padding.empty();
      padding.push_back(whole ? r.ref().padding[i] : 0);
      dims.push_back(p.count), strides.push_back(r.memory().strides[i] * p.step), extents.push_back(p.size_slot);
      valid.push_back(exists.valid), before.push_back(exists.before);
      continue;
    }
    if (exists.valid != Addr::kNoSlot) r.ref().gates.push_back(exists.valid);
    if (exists.before != Addr::kNoSlot) r.ref().gates.push_back(behind_start(e_, exists.before));
  }
  if (use_ != ViewUse::Gather || r.ref().choice || r.ref().through || starts.size() != terms.size()) starts.clear();
  if (!stays_put()) r = index_dynamic(e_, r, std::move(terms), std::move(starts), writes(), none_);
  const auto none = [](const std::vector<uint32_t>& v) {
    return std::all_of(v.begin(), v.end(), [](uint32_t slot) { return slot == Addr::kNoSlot; });
  };
  r.dims = dims;
  r.memory().strides = strides;
  r.ref().extents = none(extents) ? std::vector<uint32_t>() : std::move(extents);
  r.ref().valid = none(valid) ? std::vector<uint32_t>() : std::move(valid);
  r.ref().before = none(before) ? std::vector<uint32_t>() : std::move(before);
  r.ref().padding = std::any_of(padding.begin(), padding.end(), [](int64_t n) { return n > 0; })
                        ? std::move(padding)
                        : std::vector<int64_t>();
}

// The slots that say how much of the dimension exists.
Follower::Exists Follower::select_dim(const Entry& d, size_t dim, std::vector<IndexTerm>* terms, const Place& p) {
  constexpr int64_t kBoundless = INT64_MAX / 4;
  Val& r = out_.ref;
  const int64_t bytes = r.memory().strides[dim] * (r.ref().semaphore >= 0 ? 1 : ir::byte_size(r.dtype));
  const IndexTerm* term = nullptr;
  const bool reads_on = use_ == ViewUse::Copy && copies_read_on(e_);
  const bool padded = moves() && !box() && !r.ref().padding.empty() &&
                      (d.is_slice() ? p.step == 1 : e_.options().padding == Options::Padding::All);
  const int64_t named = padded ? r.ref().padding[dim] : 0;
  if (p.slot != Addr::kNoSlot) {
    const int64_t pad = box() || reads_on ? kBoundless : named;
    terms->push_back({p.slot, p.wide, bytes, r.dims[dim] + pad - 1 - std::max<int64_t>(p.span(), 0),
                      static_cast<int>(dim), r.dims[dim], p.count, p.size_slot, pad, box() ? -kBoundless : 0,
                      extent_slot(dim), std::max<int64_t>(p.span(), 0) + 1});
    term = &terms->back();
  } else {
    r.memory().addr.offset += p.start * bytes;
  }
  if (!moves() || p.step != 1) return {Addr::kNoSlot, Addr::kNoSlot};
  using Notes = ValidPayload::Notes;
  std::optional<Notes> notes;
  if (reads_on && !none_.known) notes = Notes::ReadsOn;
  if (box() && !none_.known && e_.options().out_of_bounds != Options::Oob::Machine) notes = Notes::Box;
  return {valid_slot(e_, r, dim, term, p.start, p.count, p.size_slot, notes, named, none_.sizes),
          box() ? before_slot(e_, r, dim, term, p.start, p.count) : Addr::kNoSlot};
}

// The array of the entry, where it is one that needs no memory.
const AffineArray* Follower::affine_array(const Entry& d) const {
  if (d.kind != Entry::Kind::Array || d.ignored) return nullptr;
  return e_.state<AffineArrays>().find(op_.operands[static_cast<size_t>(d.operand)]);
}

// The index arrays of an index, by dimension; None elsewhere.
std::vector<Val> Follower::index_arrays(const ir::view::Index& index) {
  std::vector<Val> arrays(index.entries.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Entry& d = index.entries[i];
    if (!d.is_array()) continue;
    if (const AffineArray* p = affine_array(d)) {
      arrays[i].dims = p->dims;  // no memory is asked for
      continue;
    }
    if (d.ignored) refuse("an index array that skips elements, in this operation");
    Val v = e_.operand(op_, static_cast<size_t>(d.operand));
    if (v.is_recast()) v = open_ref(e_, v, Recast::Read, nullptr);
    if (v.is_ref()) v = v.as_strided();
    // The elements are written one by one: an index must not show what was written before its turn.
    const bool writes = (ir::info(op_.code).effects & (ir::kEffectWrite | ir::kEffectAtomic)) != 0;
    arrays[i] = strided(e_, writes ? apart_from(e_, e_.live().written(given_), v) : v);
    out_.keep.push_back(arrays[i].memory().storage);
  }
  return arrays;
}

// Arrays of indices: how every dimension of the ref is addressed. NumPy's placement: the arrays' dims (scalar indices
// count as arrays) stand where the first one does when they are adjacent, else in front.
void Follower::gather(const ir::view::Index& index) {
  const Val& r = out_.ref;
  out_.gather = true;
  const std::vector<Val> arrays = index_arrays(index);
  size_t rank = 0, before = 0, first = arrays.size(), last = 0, count = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    rank = std::max(rank, arrays[i].dims.size());
    if (index.entries[i].is_slice()) continue;
    if (count++ == 0) first = i, before = i;
    last = i;
  }
  const size_t at = last - first + 1 == count ? before : 0;
  std::vector<int64_t>& dims = out_.result_dims;
  for (const Entry& d : index.entries)
    if (d.is_slice()) dims.push_back(d.size.value());
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at), rank, 1);
  for (const Val& v : arrays)
    for (size_t k = 0; k < v.dims.size(); ++k) {
      int64_t& n = dims[at + rank - v.dims.size() + k];
      n = std::max(n, v.dims[k]);
    }
  size_t slices = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    GatherDim g;
    g.extent = r.dims[i];
    g.stride = r.memory().strides[i];
    if (const AffineArray* p = affine_array(index.entries[i])) {
      interp::count(Rewrite::AffineIndex);
      g.kind = GatherDim::Kind::Affine;
      g.start_slot = p->base.scalar().slot;
      g.array_dtype = p->base.dtype;
      if (const std::optional<int64_t> base = known_int(p->base)) g.known = true, g.start = *base;
      g.wraps = e_.model().negative_indices == hw::NegativeIndex::FromEnd;
      g.array_strides = strides_along(*p, dims.size(), at + rank - 1);
    } else if (index.entries[i].is_array()) {
      const Val& v = arrays[i];
      g.kind = GatherDim::Kind::Array;
      g.array = v.memory().addr;
      g.array_dtype = v.dtype;
      g.wraps = e_.model().negative_indices == hw::NegativeIndex::FromEnd;
      g.array_strides.assign(dims.size(), 0);
      for (size_t k = 0; k < v.dims.size(); ++k)
        if (v.dims[k] != 1) g.array_strides[at + rank - v.dims.size() + k] = v.memory().strides[k];
    } else {
      const Place p = place(index.entries[i], i);
      g.start = p.start, g.start_slot = p.slot, g.wide = p.wide, g.step = p.step;
      if (index.entries[i].is_slice()) {
        g.result_dim = static_cast<int>(slices < at ? slices : slices + rank);
        ++slices;
      }
    }
    out_.dims.push_back(std::move(g));
  }
}

void Follower::operator()(const ir::view::Reshape& t) {
  Val& r = out_.ref;
  if (!r.ref().extents.empty() || !r.ref().valid.empty() || !r.ref().before.empty())
    refuse("reshape of a ref whose extent is known at run time only");
  std::vector<int64_t> to;
  for (const ir::Dim& d : t.dims) to.push_back(d.size);
  std::vector<int64_t> padding = std::move(r.ref().padding);
  r.ref().padding.clear();
  if (std::optional<std::vector<int64_t>> strides = same_but_for_ones(r, to)) {
    r.memory().strides = std::move(*strides);
  } else {
    if (!is_dense(r) && !stays_put()) r = see_through(e_, op_, r, r.dtype, to);
    r.memory().strides = dense_strides(to);
  }
  // Rows that are counted otherwise end where they did.
  if (!padding.empty() && padding.back() > 0 && !to.empty() && to.back() == r.dims.back() && !r.ref().through) {
    r.ref().padding.assign(to.size(), 0);
    r.ref().padding.back() = padding.back();
  }
  r.dims = std::move(to);
}

void Follower::operator()(const ir::view::Transpose& t) {
  Val& r = out_.ref;
  const Val v = r;
  for (size_t i = 0; i < t.perm.size(); ++i) {
    const auto from = static_cast<size_t>(t.perm[i]);
    r.dims[i] = v.dims[from], r.memory().strides[i] = v.memory().strides[from];
    if (!v.ref().extents.empty()) r.ref().extents[i] = v.ref().extents[from];
    if (!v.ref().valid.empty()) r.ref().valid[i] = v.ref().valid[from];
    if (!v.ref().before.empty()) r.ref().before[i] = v.ref().before[from];
    if (!v.ref().padding.empty()) r.ref().padding[i] = v.ref().padding[from];
  }
}

void Follower::operator()(const ir::view::Squeeze& t) {
  Val& r = out_.ref;
  std::vector<int64_t> axes = t.axes;
  std::sort(axes.rbegin(), axes.rend());
  for (int64_t a : axes) {
    r.dims.erase(r.dims.begin() + a);
    r.memory().strides.erase(r.memory().strides.begin() + a);
    if (!r.ref().extents.empty()) r.ref().extents.erase(r.ref().extents.begin() + a);
    if (!r.ref().valid.empty()) r.ref().valid.erase(r.ref().valid.begin() + a);
    if (!r.ref().before.empty()) r.ref().before.erase(r.ref().before.begin() + a);
    if (!r.ref().padding.empty()) r.ref().padding.erase(r.ref().padding.begin() + a);
  }
}

void Follower::operator()(const ir::view::Bitcast& t) {
  Val& r = out_.ref;
  const int from_bits = ir::bit_width(r.dtype), to_bits = ir::bit_width(t.dtype);
  if (from_bits != to_bits) {
    std::vector<int64_t> dims = r.dims;
    const size_t rows = dims.size() - 2;
    if (dims.size() < 2 || dims[rows] * from_bits % to_bits != 0 || std::max(from_bits, to_bits) > 64 ||
        r.ref().semaphore >= 0)
      refuse("bitcast of a ref between these widths");
    dims[rows] = dims[rows] * from_bits / to_bits;
    r = see_through(e_, op_, r, t.dtype, dims);
  }
  r.dtype = t.dtype;
}

// A member of a union of refs: bytes of the union's own. Who reads a member reads what was written through it. Unions
// in shared memory are bytes, those in tensor memory columns of 32 bits, of which a member has all lanes: its elements
// lie side by side in the bytes of its columns.
void Follower::operator()(const ir::view::Extract& t) {
  constexpr int64_t kLanes = 128, kWord = 4;
  Val& r = out_.ref;
  int64_t bytes = ir::byte_size(t.dtype);
  for (const ir::Dim& d : t.dims) bytes = memory::mul(bytes, d.size);
  if (ir::bit_width(t.dtype) < 8) refuse("a member of a union with elements narrower than a byte");
  const bool columns = r.dims.size() == 2 && r.dims[0] == kLanes && ir::byte_size(r.dtype) == kWord;
  const int64_t offset = memory::mul(t.offset, columns ? kLanes * kWord : 1);
  if (r.is_recast() || r.ref().tiled || r.is_semaphore() || !is_dense(r) || !r.ref().extents.empty() ||
      (!columns && (r.dims.size() != 1 || ir::byte_size(r.dtype) != 1)) || t.offset < 0 ||
      memory::add(offset, bytes) > r.bytes())
    refuse("a member of this ref, which is no union that has it");
  r.memory().addr.offset += offset;
  r.dtype = t.dtype;
  r.dims.clear();
  for (const ir::Dim& d : t.dims) r.dims.push_back(d.size);
  r.memory().strides = dense_strides(r.dims);
  r.ref().padding.clear(), r.ref().valid.clear(), r.ref().before.clear();
  member_ = true;
}

// Tiles of a member, as those of other memory: its bytes lie in the logical shape.
void Follower::operator()(const ir::view::Tile& t) {
  Val& r = out_.ref;
  const size_t n = t.tiling.size();
  if (!member_ || !t.inverse || r.dims.size() < 2 * n) refuse("ref transform " + std::string(ir::name(ir::View(t))));
  for (size_t i = 0; i < n; ++i) r.dims[r.dims.size() - 2 * n + i] *= r.dims[r.dims.size() - n + i];
  r.dims.resize(r.dims.size() - n);
  r.memory().strides = dense_strides(r.dims);
}

void Follower::operator()(const ir::view::Swizzle& t) {
  if (!member_ || !t.inverse) refuse("ref transform " + std::string(ir::name(ir::View(t))));
}

}  // namespace

ViewResult apply_view(Emitter& e, const Op& op, const Val& ref, std::span<const ir::View> view, ViewUse use,
                      Recast recast, std::vector<uint32_t> sizes) {
  return Follower(e, op, ref, use, recast, std::move(sizes)).follow(view);
}

}  // namespace pallasim::interp
