// Definedness of elementwise programs: strip by strip with the values, as a choice takes what it chooses.
#include <algorithm>
#include <array>
#include <memory>

#include "../plan/payload/arithmetic.h"
#include "definedness.h"
#include "pallasim/memory/odometer.h"

namespace pallasim::interp::ops {
namespace {

using Lanes = std::array<Birth, kStrip>;

// Elements of a register: 0, and all bits.
template <typename T>
bool is(const void* at, int64_t i, bool ones) {
  const T v = static_cast<const T*>(at)[i];
  return v == (ones ? static_cast<T>(~T{0}) : T{0});
}
bool element_is(const void* at, int64_t i, CType type, bool ones) {
  if (type == CType::Bool) return (static_cast<const uint8_t*>(at)[i] != 0) == ones;
  return byte_size(type) == 8 ? is<uint64_t>(at, i, ones) : is<uint32_t>(at, i, ones);
}

class Program {
 public:
  Program(Thread& t, const Step& s, const EltProgram& p, Shadow& shadow)
      : t_(t),
        s_(s),
        p_(p),
        shadow_(shadow),
        lanes_(static_cast<size_t>(p.entries)),
        strips_(new std::byte[static_cast<size_t>(p.entries + 1) * kStripBytes]),
        entries_(static_cast<size_t>(p.entries)) {
    for (size_t i = 0; i < entries_.size(); ++i) entries_[i] = strip(i);
    for (const EltSplat& e : p.splats) {
      const Birth b = shadow.slots(t.index).find(e.slot, e.slot + byte_size(e.ctype));
      lanes_[e.entry].fill(b);
      undefined_ |= b != 0;
      splats(e);
    }
    for (const EltOperand& o : p.operands) {
      const memory::shadow::View v{o.addr.offset + (o.addr.dyn == Addr::kNoSlot ? 0 : t.slot<int64_t>(o.addr.dyn)),
                                   p.dims, o.strides, o.element_bytes};
      operands_.emplace_back();
      memory::shadow::Definedness& of = shadow.memory(t.index, o.addr.buffer);
      if (of.find(v) == 0) continue;
      undefined_ = true;
      of.load(v, &operands_.back());
      shadow.read(t, s, o.addr.loc, &operands_.back());
    }
  }

  Births run() {
    Births r;
    if (!undefined_) return r;
    int64_t n = 1;
    for (const int64_t d : p_.dims) n *= d;
    r.reserve(static_cast<size_t>(n));
    const size_t outer = p_.dims.size() - 1;
    const int64_t inner = p_.dims.back(), step = p_.complex ? kStrip / 2 : kStrip;
    memory::IndexVector index(outer);
    int64_t row = 0;
    do {
      for (int64_t i = 0; i < inner; i += step) {
        const int64_t m = std::min(step, inner - i);
        strip_of(index, row, i, m);
        r.insert(r.end(), lanes_[p_.result].begin(), lanes_[p_.result].begin() + m);
      }
      ++row;
    } while (outer > 0 && memory::next_index(index, outer, p_.dims));
    return r;
  }

 private:
  std::byte* strip(size_t i) { return strips_.get() + i * kStripBytes; }

  void splats(const EltSplat& e) {
    const auto size = static_cast<size_t>(byte_size(e.ctype));
    const int64_t n = e.one ? 1 : kStrip / (p_.complex ? 2 : 1);
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(strip(e.entry) + static_cast<size_t>(i) * size, t_.arena + e.slot, size);
  }

  void strip_of(const int64_t* index, int64_t row, int64_t i, int64_t n) {
    for (size_t o = 0; o < p_.operands.size(); ++o) {
      const EltOperand& x = p_.operands[o];
      int64_t element = i * x.strides.back();
      for (size_t d = 0; d + 1 < x.strides.size(); ++d) element += index[d] * x.strides[d];
      std::byte* const at = t_.resolve(x.addr) + element * x.element_bytes;
      if (x.load) x.load(strip(x.entry), at, x.one ? 1 : n, x.strides.back());
      entries_[x.entry] = x.load ? strip(x.entry) : at;
      load_births(x, operands_[o], row * p_.dims.back() + i, n);
    }
    if (!p_.store) entries_[p_.result] = strip(static_cast<size_t>(p_.entries));
    for (const EltOp& op : p_.ops) {
      Lanes made;
      lanes(op, n, &made);
      if (op.convert) op.convert(entries_[op.dst], entries_[op.a], n, op.params.semantics);
      else op.fn(entries_[op.dst], entries_[op.a], entries_[op.b], entries_[op.c], n, op.params);
      std::copy_n(made.begin(), n, lanes_[op.dst].begin());
    }
  }

  void load_births(const EltOperand& x, const Births& births, int64_t first, int64_t n) {
    Lanes& to = lanes_[x.entry];
    if (births.empty()) return void(std::fill_n(to.begin(), n, Birth{0}));
    for (int64_t i = 0; i < n; ++i) {
      const auto begin = births.begin() + (first + i) * x.element_bytes, end = begin + x.element_bytes;
      const auto b = std::find_if(begin, end, [](Birth v) { return v != 0; });
      to[static_cast<size_t>(i)] = b == end ? Birth{0} : *b;
    }
  }

  void lanes(const EltOp& op, int64_t n, Lanes* out) {
    const Lanes& a = lanes_[op.a];
    const Lanes none{};
    const Lanes &b = op.arity > 1 ? lanes_[op.b] : none, &c = op.arity > 2 ? lanes_[op.c] : none;
    const auto at = [&](uint16_t entry, uint8_t bit, int64_t i, bool ones) {
      return element_is(entries_[entry], op.params.scalars & bit ? 0 : i, compute_type(op.params.dtype), ones);
    };
    const bool ints = !ir::is_float(op.params.dtype) && !ir::is_complex(op.params.dtype);
    // What a defined operand settles whatever the other one is.
    const bool settles =
        op.code == ir::OpCode::and_ || op.code == ir::OpCode::or_ || (op.code == ir::OpCode::mul && ints);
    const bool ones = op.code == ir::OpCode::or_;
    for (int64_t i = 0; i < n; ++i) {
      const auto k = static_cast<size_t>(i);
      Birth r = a[k] ? a[k] : b[k] ? b[k] : c[k];
      if (op.code == ir::OpCode::select_n && a[k] == 0) {
        const auto* p = static_cast<const uint8_t*>(entries_[op.a]);
        r = p[op.params.scalars & 1 ? 0 : i] ? c[k] : b[k];
      } else if (r != 0 && settles) {
        if ((a[k] == 0 && at(op.a, 1, i, ones)) || (b[k] == 0 && at(op.b, 2, i, ones))) r = 0;
      }
      if (r != 0 && op.code != ir::OpCode::select_n) r = shadow_.computed(r);
      (*out)[k] = r;
    }
  }

  Thread& t_;
  const Step& s_;
  const EltProgram& p_;
  Shadow& shadow_;
  std::vector<Lanes> lanes_;  // by entry
  std::unique_ptr<std::byte[]> strips_;
  std::vector<void*> entries_;
  std::vector<Births> operands_;  // births per byte
  bool undefined_ = false;        // something that it takes
};

}  // namespace

Births births_of(Thread& t, const Step& s, const EltProgram& p, Shadow& shadow) {
  return Program(t, s, p, shadow).run();
}

}  // namespace pallasim::interp::ops
