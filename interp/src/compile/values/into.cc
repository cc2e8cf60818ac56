#include "into.h"
#include "../../plan/host_cost.h"

#include "arrays.h"
#include "emitter.h"

namespace pallasim::interp {

Val box(const Val& array, const std::vector<int64_t>& first, const std::vector<int64_t>& dims,
        const std::vector<int64_t>& step) {
  Val r = array;
  r.dims = dims;
  if (r.elements() == 0) return r;
  for (size_t d = 0; d < dims.size(); ++d) {
    r.memory().addr.offset += first[d] * array.memory().strides[d] * ir::byte_size(array.dtype);
    if (!step.empty()) r.memory().strides[d] *= step[d];
  }
  return r;
}

namespace {

using Args = std::vector<Val>;

void make(Emitter& e, const Into::Product& f, const Args& args, const Val& dst) {
  ContractPayload p;
  p.contraction = f.contraction;
  p.unit = f.unit;
  p.reference = e.options().numerics == Options::Numerics::Reference;
  p.a = args[0].memory().addr;
  p.b = args[1].memory().addr;
  p.dst = dst.memory().addr;
  if (!is_dense(dst)) p.contraction.c_row = dst.memory().strides[0];
  const Contraction& c = f.contraction;
  e.emit<Kind::contraction>(std::move(p));
  e.plan().split.step_cost_ns +=
      host_cost::kProduct.of(static_cast<double>(c.m * c.n) * static_cast<double>(c.k * c.batch));
}

void make(Emitter& e, const Into::Reshaped&, const Args& args, const Val& dst) {
  Val as = dst;
  as.dims = args[0].dims;
  as.memory().strides = dense_strides(as.dims);
  emit_pending(e, args[0], as);
}

void make(Emitter& e, const Into::Concatenated& f, const Args& args, const Val& dst) {
  std::vector<int64_t> first(dst.dims.size(), 0);
  for (const Val& v : args) {
    emit_pending(e, v, box(dst, first, v.dims));
    first[f.axis] += v.dims[f.axis];
  }
}

// What lies around the box of `dims` elements at `first`, slab by slab.
void fill_around(Emitter& e, const Val& fill, const Val& dst, const std::vector<int64_t>& first,
                 const std::vector<int64_t>& dims) {
  std::vector<int64_t> from(dst.dims.size(), 0), to = dst.dims;  // what is left
  for (size_t d = 0; d < to.size(); ++d) {
    const auto slab = [&](int64_t begin, int64_t end) {
      std::vector<int64_t> at = from, n = to;
      for (size_t k = 0; k < n.size(); ++k) n[k] -= from[k];
      at[d] = begin, n[d] = end - begin;
      emit_pending(e, fill.spread(n), box(dst, at, n));
    };
    slab(from[d], first[d]);
    slab(first[d] + dims[d], to[d]);
    from[d] = first[d], to[d] = first[d] + dims[d];
  }
}

void make(Emitter& e, const Into::Padded& f, const Args& args, const Val& dst) {
  if (f.apart) emit_pending(e, args[1].spread(dst.dims), dst);
  else fill_around(e, args[1], dst, f.first, f.count);
  emit_pending(e, args[0], box(dst, f.first, f.count, f.step));
}

// [rep0, d0, rep1, d1, …] with stride 0 along the repetitions.
void make(Emitter& e, const Into::Tiled& f, const Args& args, const Val& dst) {
  const Val& v = args[0];
  Val from = v, to = dst;
  from.dims.clear(), from.memory().strides.clear(), to.memory().strides.clear();
  const size_t lead = dst.dims.size() - v.dims.size();
  for (size_t i = 0; i < dst.dims.size(); ++i) {
    const int64_t n = i < lead ? 1 : v.dims[i - lead], step = dst.memory().strides[i];
    from.dims.push_back(f.reps[i]), from.memory().strides.push_back(0);
    from.dims.push_back(n), from.memory().strides.push_back(i < lead ? 0 : v.memory().strides[i - lead]);
    to.memory().strides.push_back(step * n), to.memory().strides.push_back(step);
  }
  to.dims = from.dims;
  emit_copy(e, to, from);
}

void make(Emitter& e, const Into::Stacked& f, const Args& args, const Val& dst) {
  const auto at = static_cast<std::ptrdiff_t>(f.axis);
  for (size_t i = 0; i < args.size(); ++i) {
    Val part = dst;
    part.dims.erase(part.dims.begin() + at);
    part.memory().strides.erase(part.memory().strides.begin() + at);
    part.memory().addr.offset += static_cast<int64_t>(i) * dst.memory().strides[f.axis] * ir::byte_size(dst.dtype);
    emit_pending(e, args[i], part);
  }
}

void make(Emitter& e, const Into::Whole& f, const Args& args, const Val& dst) {
  emit_array_into(e, args, {dst}, f.body);
}

}  // namespace

void emit_into(Emitter& e, const Into& into, const Args& args, const Val& dst) {
  std::visit([&](const auto& f) { make(e, f, args, dst); }, into.form);
}

}  // namespace pallasim::interp
