// Refs: every element by its place. Views make new lists of places; accesses go element by element.
#include <cmath>

#include "machine.h"

namespace pallasim::oracle {

thread_local Trips* Trips::here = nullptr;
thread_local Trips::Kind Trips::doing = Trips::Read;

Ref whole_ref(std::shared_ptr<Memory> memory, DType t, Dims dims) {
  Ref r;
  r.at.resize(static_cast<size_t>(count(dims)));
  const int64_t unit = ir::is_sync(t) ? 1 : 8 * ir::byte_size(t);
  for (size_t n = 0; n < r.at.size(); ++n) r.at[n] = static_cast<int64_t>(n) * unit;
  r.memory = std::move(memory);
  r.dtype = t;
  r.dims = std::move(dims);
  return r;
}

static void touched(const Ref& r, const int64_t* at, bool write) {
  const int64_t bytes = r.bits == 0 ? ir::byte_size(r.dtype) : std::max(1, r.bits / 8);
  for (int p = 0; p < r.parts; ++p) Trips::touch(r.memory->number, at[p] / 8, bytes, write);
}

void read_element(const Ref& r, int64_t n, std::byte* out) {
  const int64_t* at = r.at.data() + n * r.parts;
  if ((*at == kOutside || *at == kPadding) && r.memory->reads_outside) {
    std::vector<std::byte> unwritten(static_cast<size_t>(ir::byte_size(r.dtype)));
    fill_unwritten(unwritten, r.dtype, false, nullptr);
    std::memcpy(out, unwritten.data(), unwritten.size());
    return;
  }
  if (*at < 0) throw Stop{"out of bounds: read of " + r.memory->name};
  const auto size = static_cast<size_t>(ir::byte_size(r.dtype));
  touched(r, at, false);
  if (r.bits == 0) {
    std::memcpy(out, r.memory->bytes.data() + *at / 8, size);
    return canonical(r.dtype, out, 1);
  }
  uint64_t word = 0;
  for (int p = 0; p < r.parts; ++p) {
    uint64_t v = 0;
    std::memcpy(&v, r.memory->bytes.data() + at[p] / 8, static_cast<size_t>(std::max(1, r.bits / 8)));
    v >>= at[p] % 8;
    if (r.bits < 64) v &= (uint64_t{1} << r.bits) - 1;
    word |= v << (p * r.bits);
  }
  std::memcpy(out, &word, size);
  canonical(r.dtype, out, 1);
}

void write_element(const Ref& r, int64_t n, const std::byte* from) {
  const int64_t* at = r.at.data() + n * r.parts;
  if (*at < 0) throw Stop{"out of bounds: write to " + r.memory->name};
  std::byte* bytes = r.memory->bytes.data();
  touched(r, at, true);
  if (r.bits == 0) {
    std::memcpy(bytes + *at / 8, from, static_cast<size_t>(ir::byte_size(r.dtype)));
    return;
  }
  uint64_t word = 0;
  std::memcpy(&word, from, static_cast<size_t>(ir::byte_size(r.dtype)));
  for (int p = 0; p < r.parts; ++p, word = r.bits < 64 ? word >> r.bits : 0) {
    std::byte* to = bytes + at[p] / 8;
    if (r.bits >= 8) {
      std::memcpy(to, &word, static_cast<size_t>(r.bits / 8));
      continue;
    }
    const int shift = static_cast<int>(at[p] % 8), mask = ((1 << r.bits) - 1) << shift;
    *to = static_cast<std::byte>((static_cast<int>(*to) & ~mask) | (static_cast<int>(word << shift) & mask));
    canonical(r.memory->dtype, to, 1);
  }
}

Array read(const Ref& r) {
  if (ir::is_sync(r.dtype)) throw Lack{"a read of semaphores"};
  Array a = empty_array(r.dtype, r.dims);
  const int size = ir::byte_size(r.dtype);
  for (int64_t n = 0, total = count(r.dims); n < total; ++n) read_element(r, n, a.bytes.data() + n * size);
  return a;
}

void write(const Ref& r, const Array& a) {
  if (r.read_only) throw Stop{"write to " + r.memory->name + ", which is an input"};
  const int size = ir::byte_size(r.dtype);
  for (int64_t n = 0, total = count(r.dims); n < total; ++n) write_element(r, n, a.bytes.data() + n * size);
}

namespace {

// A view whose element n has the parts of element from(index) of `r`; negative: no such element.
template <typename F>
Ref picked(const Ref& r, Dims dims, const F& from) {
  Ref v = r;
  v.dims = std::move(dims);
  const auto parts = static_cast<size_t>(r.parts);
  v.at.assign(static_cast<size_t>(count(v.dims)) * parts, kOutside);
  each_index(v.dims, [&](const Dims& index, int64_t n) {
    const int64_t m = from(index);
    for (size_t p = 0; p < parts; ++p) v.at[n * parts + p] = m < 0 ? m : r.at[m * parts + p];
  });
  return v;
}

// (…, M, N) of memory that is (…, M/a, N/b, a, b).
Ref untiled(const Ref& r, const Dims& tiling) {
  const size_t n = tiling.size(), lead = r.dims.size() - 2 * n;
  Dims dims(r.dims.begin(), r.dims.end() - static_cast<std::ptrdiff_t>(n));
  for (size_t i = 0; i < n; ++i) dims[lead + i] *= tiling[i];
  const Dims strides = strides_of(r.dims);
  return picked(r, dims, [&](const Dims& index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d)
      at += d < lead ? index[d] * strides[d]
                     : index[d] / tiling[d - lead] * strides[d] + index[d] % tiling[d - lead] * strides[d + n];
    return at;
  });
}

// Widths change through the second minor dimension: narrow elements of one column and successive rows share a word.
Ref bitcast_ref(const Ref& r, DType to) {
  const int a = ir::bit_width(r.dtype), b = ir::bit_width(to);
  Ref v = r;
  v.dtype = to;
  if (a == b) return v;
  const size_t rows = r.dims.size() - 2;
  if (r.dims.size() < 2 || std::max(a, b) > 64 || ir::is_sync(r.dtype) || r.dims[rows] * a % b != 0)
    throw Lack{"bitcast of a ref between these widths"};
  v.dims[rows] = r.dims[rows] * a / b;
  const int bits = r.bits ? r.bits : a;
  v.bits = std::min(bits, b);
  v.parts = b / v.bits;
  v.at.clear();
  const Dims strides = strides_of(r.dims);
  each_index(v.dims, [&](const Dims& index, int64_t) {
    for (int p = 0; p < v.parts; ++p) {
      // Bit `bit` of the column: in which row's element it lies, and in which of its parts.
      const int64_t bit = index[rows] * b + p * v.bits;
      int64_t from = 0;
      for (size_t d = 0; d < index.size(); ++d) from += (d == rows ? bit / a : index[d]) * strides[d];
      const int64_t place = r.at[from * r.parts + bit % a / bits];
      v.at.push_back(place < 0 ? place : place + bit % bits);
    }
  });
  return v;
}

// One dimension of an index: where it starts and how it goes on along a dimension of the result, or an array.
struct Axis {
  int64_t start = 0, step = 1;
  int along = -1;
  Array array;
  bool has_array = false;
  bool ignores = false;  // what `ignored` names
  int64_t ignored = 0;
};

}  // namespace

Ref Machine::index_view(Thread& t, const Op& op, const Ref& r, const ir::view::Index& list) {
  auto number = [&](const ir::ViewInt& n) { return n.is_operand() ? integer(in(t, op, n.operand)) : n.value(); };
  std::vector<Axis> axes(list.entries.size());
  Dims dims, shared;  // of the slices; of the arrays, broadcast together
  bool arrays = false;
  size_t first = SIZE_MAX, last = 0, single = 0, slices_before = 0;
  for (size_t d = 0; d < axes.size(); ++d) {
    const ir::view::Entry& e = list.entries[d];
    Axis& a = axes[d];
    if (e.is_slice()) {
      const int64_t n = number(e.size);
      if (n < 0) throw Stop{"out of bounds: a slice of negative size of " + r.memory->name};
      a.start = number(e.start);
      a.step = number(e.stride);
      a.along = static_cast<int>(dims.size());
      dims.push_back(n);
      continue;
    }
    if (first == SIZE_MAX) first = d, slices_before = dims.size();
    last = d, ++single;
    if (!e.is_array()) {
      a.start = number(e.start);
      continue;
    }
    if (e.ignored) a.ignores = true, a.ignored = *e.ignored;
    const auto k = static_cast<size_t>(e.operand);
    a.array = e.kind == ir::view::Entry::Kind::Ref ? read(ref(t, op, k)) : in(t, op, k);
    arrays = a.has_array = true;
    Dims& x = a.array.dims;
    if (x.size() > shared.size()) shared.insert(shared.begin(), x.size() - shared.size(), 1);
    for (size_t i = 0, lead = shared.size() - x.size(); i < x.size(); ++i)
      if (x[i] != 1) shared[lead + i] = x[i];
  }
  // NumPy: the arrays' dimensions stand where the first integer entry does if all of them are adjacent, else in front.
  const size_t at = arrays && last - first + 1 == single ? slices_before : 0;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at), shared.begin(), shared.end());
  for (Axis& a : axes) {
    if (a.along >= static_cast<int>(at)) a.along += static_cast<int>(shared.size());
    if (a.has_array) a.array = spread(a.array, shared);
  }
  const Dims strides = strides_of(r.dims), shared_strides = strides_of(shared);
  const size_t rank = r.dims.size();
  return picked(r, dims, [&](const Dims& index) {
    int64_t from = 0, outside = 0;
    for (size_t d = 0; d < rank; ++d) {
      const Axis& a = axes[d];
      int64_t i = a.start + (a.along < 0 ? 0 : index[a.along] * a.step);
      if (a.has_array) {
        int64_t n = 0;
        for (size_t k = 0; k < shared.size(); ++k) n += index[at + k] * shared_strides[k];
        i = integer(a.array, n);
        if (a.ignores && i == a.ignored) return kIgnored;
        if (i < 0 && m_.machine == ir::Machine::Generic) i += r.dims[d];
      }
      if (i < 0 || i >= r.dims[d]) {
        const int64_t tile = rank == 1 ? 4096 : d + 1 == rank ? 128 : d + 2 == rank ? 32 : 1;
        const bool in_tile = i >= 0 && i < (r.dims[d] + tile - 1) / tile * tile;
        if (!is_tpu() || r.memory->space == ir::Space::Smem || !in_tile) return kOutside;
        outside = kPadding;
        continue;
      }
      from += i * strides[d];
    }
    return outside ? outside : from;
  });
}

Ref Machine::view(Thread& t, const Op& op, const Ref& ref, std::span<const ir::View> transforms) {
  Ref r = ref;
  for (const ir::View& f : transforms) {
    if (const auto* index = std::get_if<ir::view::Index>(&f)) {
      r = index_view(t, op, r, *index);
    } else if (const auto* reshape = std::get_if<ir::view::Reshape>(&f)) {
      r.dims.clear();
      for (const ir::Dim& d : reshape->dims) r.dims.push_back(d.size);
    } else if (const auto* transpose = std::get_if<ir::view::Transpose>(&f)) {
      Dims dims, step, strides = strides_of(r.dims);
      for (int64_t d : transpose->perm) dims.push_back(r.dims[d]), step.push_back(strides[d]);
      r = picked(r, dims, [&](const Dims& index) { return dot(index, step); });
    } else if (const auto* squeeze = std::get_if<ir::view::Squeeze>(&f)) {
      Dims n = squeeze->axes;
      std::sort(n.rbegin(), n.rend());
      for (int64_t d : n) r.dims.erase(r.dims.begin() + d);
    } else if (const auto* bitcast = std::get_if<ir::view::Bitcast>(&f)) {
      r = bitcast_ref(r, bitcast->dtype);
    } else if (const auto* tile = std::get_if<ir::view::Tile>(&f); tile && tile->inverse) {
      r = untiled(r, tile->tiling);
    } else if (const auto* extract = std::get_if<ir::view::Extract>(&f)) {
      if (ir::bit_width(extract->dtype) < 8) throw Lack{"a narrow member of a union"};
      Dims dims;
      for (const ir::Dim& d : extract->dims) dims.push_back(d.size);
      const int64_t first = r.at.at(0) + 8 * extract->offset;
      r = whole_ref(r.memory, extract->dtype, dims);
      for (int64_t& at : r.at) at += first;
    } else if (const auto* cluster = std::get_if<ir::view::Cluster>(&f)) {
      int thread = t.index;
      for (const ir::view::AxisIndex& a : cluster->axes)
        thread = moved(thread, a.axis, a.index.is_operand() ? integer(in(t, op, a.index.operand)) : a.index.value());
      r = at_thread(r, thread);
    } else if (const auto* peer = std::get_if<ir::view::Peer>(&f); peer && peer->kind == "logical") {
      const ir::ViewInt& d = peer->device;
      r = at_thread(r, on_device(t, d.is_operand() ? integer(in(t, op, d.operand)) : d.value(), "an access"));
    } else if (std::holds_alternative<ir::view::Swizzle>(f)) {
      continue;  // which of a row's bytes lies where, nobody sees
    } else {
      throw Lack{"ref transform " + std::string(ir::name(f))};
    }
  }
  return r;
}

// Reads, writes, swaps; masked ones too. Elements follow each other in row-major order, so that of several writes to
// one place the last one stays.
void Machine::op_access(Thread& t, const Op& op) {
  const bool load = op.code == OpCode::get || op.code == OpCode::masked_load;
  const bool gives_old = op.code == OpCode::swap || op.code == OpCode::masked_swap;
  const Ref r = view(t, op, ref(t, op, 0), op.view());
  if (ir::is_sync(r.dtype)) throw Lack{std::string(ir::name(op.code)) + " of semaphores"};
  if (!load && r.read_only) throw Stop{"write to " + r.memory->name + ", which is an input"};
  auto side = [&](const char* key) {
    const Attr* a = op.attr(key);
    return a && a->is(Attr::Kind::Operand) ? spread(in(t, op, a->i), r.dims) : Array();
  };
  const Array mask = side("mask"), other = load ? side("other") : Array();
  const Array value = load ? Array() : spread(in(t, op, 1), r.dims);
  Array old = empty_array(r.dtype, r.dims);  // zeros where nothing is read and there is no `other`
  if (load && setting_.fuzzy_uninitialized) fill_unwritten(old.bytes, r.dtype, true, &noise_);
  alignas(16) std::byte e[16];
  for (int64_t n = 0, total = count(r.dims); n < total; ++n) {
    const bool on = mask.bytes.empty() || mask.bytes[n] != std::byte{0};
    const int64_t at = n * ir::byte_size(r.dtype);
    if (!on) {
      if (load && !other.bytes.empty()) put(old, n, other, n);
      if (gives_old) put(old, n, value, n);
      continue;
    }
    if (load || gives_old) {
      read_element(r, n, e);
      std::memcpy(old.bytes.data() + at, e, static_cast<size_t>(ir::byte_size(r.dtype)));
    }
    if (!load) write_element(r, n, value.bytes.data() + at);
  }
  if (load || gives_old) out(t, op, std::move(old));
}

namespace {

template <typename T>
T get_as(const std::byte* at) {
  T v;
  std::memcpy(&v, at, sizeof(T));
  return v;
}

// Floats in the order of their bits, as Triton compares them: a value without a sign as a signed number, one with a
// sign as an unsigned one and the other way round.
template <typename S>
bool replaces(const std::byte* now, const std::byte* value, bool max) {
  using U = std::make_unsigned_t<S>;
  if (get_as<S>(value) >= 0) return max ? get_as<S>(value) > get_as<S>(now) : get_as<S>(value) < get_as<S>(now);
  return max ? get_as<U>(value) < get_as<U>(now) : get_as<U>(value) > get_as<U>(now);
}

Array element(DType t, const std::byte* at) {
  Array a = empty_array(t, {});
  std::memcpy(a.bytes.data(), at, a.bytes.size());
  return a;
}

// What an atomic leaves in memory.
Array combined(const std::string& kind, const Array& now, const Array& value, const interp::Semantics& semantics) {
  const DType d = now.dtype;
  const bool narrow = d == DType::F16 || d == DType::BF16, number = ir::is_int(d) || d == DType::F32 || d == DType::F64;
  if (!(number && ir::bit_width(d) >= 32) && !(narrow && kind == "add"))
    throw Lack{"atomic " + kind + " on " + std::string(ir::name(d))};
  if (kind == "xchg") return value;
  if (ir::is_float(d) && (kind == "max" || kind == "min")) {
    const auto replace = ir::byte_size(d) == 8 ? replaces<int64_t> : replaces<int32_t>;
    return replace(now.bytes.data(), value.bytes.data(), kind == "max") ? value : now;
  }
  OpCode code;
  const bool known = kind == "add" || kind == "max" || kind == "min" || kind == "and" || kind == "or" || kind == "xor";
  if (!known || !ir::parse_op(kind, &code)) throw Lack{"atomic " + kind};
  interp::StripParams p;
  p.dtype = d;
  p.semantics = semantics;
  if (d != DType::F32) return elementwise(code, d, d, {}, {&now, &value}, p);
  // f32 additions flush subnormal operands and results to a zero of their sign.
  auto flushed = [](Array a) {
    float v = get_as<float>(a.bytes.data());
    if (std::fpclassify(v) == FP_SUBNORMAL) v = std::copysign(0.0f, v);
    std::memcpy(a.bytes.data(), &v, 4);
    return a;
  };
  const Array x = flushed(now), y = flushed(value);
  return flushed(elementwise(code, d, d, {}, {&x, &y}, p));
}

}  // namespace

void Machine::op_atomic(Thread& t, const Op& op) {
  const Trips::As atomic(Trips::Atomic);
  const bool cas = op.code == OpCode::atomic_cas, keyed = op.code == OpCode::gpu_atomic_store;
  const bool gives_old = op.code != OpCode::addupdate && !keyed;
  const Ref r = keyed ? keyed_view(t, op, "ref") : view(t, op, ref(t, op, 0), op.view());
  if (r.read_only) throw Stop{"write to " + r.memory->name + ", which is an input"};
  const Array value = spread(in(t, op,
                                keyed ? op.attr("value")->i
                                : cas ? 2
                                      : 1),
                             r.dims),
              expected = cas ? spread(in(t, op, 1), r.dims) : Array();
  const Attr* m = op.attr("mask");
  const Array mask = m ? spread(in(t, op, m->i), r.dims) : Array();
  const std::string kind = cas ? "cas" : gives_old || keyed ? op.attr("kind")->s : "add";
  Array old = empty_array(r.dtype, r.dims);
  const auto size = static_cast<size_t>(ir::byte_size(r.dtype));
  alignas(16) std::byte e[16];
  for (int64_t n = 0, total = count(r.dims); n < total; ++n) {
    if (m && mask.bytes[n] == std::byte{0}) continue;
    const auto at = n * size;
    read_element(r, n, e);
    std::memcpy(old.bytes.data() + at, e, size);
    if (cas) {
      if (std::memcmp(e, expected.bytes.data() + at, size) == 0) write_element(r, n, value.bytes.data() + at);
      continue;
    }
    const Array now = element(r.dtype, e), by = element(r.dtype, value.bytes.data() + at);
    write_element(r, n, combined(kind, now, by, semantics_of(m_.machine)).bytes.data());
  }
  if (gives_old) out(t, op, std::move(old));
}

bool Machine::memory_op(Thread& t, const Op& op) {
  switch (op.code) {
    case OpCode::get:
    case OpCode::store:
    case OpCode::swap:
    case OpCode::masked_load:
    case OpCode::masked_store:
    case OpCode::masked_swap: return op_access(t, op), true;
    case OpCode::addupdate: {
      if (is_triton() && ref(t, op, 0).memory->operand) return op_atomic(t, op), true;
      const Trips::As adds(Trips::Add);
      const Ref r = view(t, op, ref(t, op, 0), op.view());
      const Array now = read(r), value = spread(in(t, op, 1), r.dims);
      interp::StripParams p;
      p.dtype = r.dtype;
      p.semantics = semantics_of(m_.machine);
      return write(r, elementwise(OpCode::add, r.dtype, r.dtype, r.dims, {&now, &value}, p)), true;
    }
    case OpCode::gpu_atomic_store:
    case OpCode::atomic_rmw:
    case OpCode::atomic_cas: return op_atomic(t, op), true;
    case OpCode::view: {
      Ref r = view(t, op, ref(t, op, 0), op.view());
      if (!is_triton() && std::count(r.at.begin(), r.at.end(), kOutside))
        throw Stop{"out of bounds: view of " + r.memory->name};
      return out(t, op, std::move(r)), true;
    }
    case OpCode::select_ref: {
      const int64_t k = std::clamp<int64_t>(integer(in(t, op, 0)), 0, static_cast<int64_t>(op.operands.size()) - 2);
      return out(t, op, ref(t, op, static_cast<size_t>(k) + 1)), true;
    }
    case OpCode::freeze: return out(t, op, read(ref(t, op, 0))), true;
    case OpCode::new_ref:
    case OpCode::empty_ref: {
      const Value v = allocated(t, type(t, op), &op, "an allocation");
      if (op.code == OpCode::new_ref) write(*v.ref, in(t, op, 0));
      t.env[op.results[0]] = v;
      return true;
    }
    default: return false;
  }
}

}  // namespace pallasim::oracle
