#include "footprint.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "../plan/payload/arithmetic.h"
#include "../plan/payload/array.h"
#include "../plan/payload/movement.h"
#include "../plan/payload/nans.h"
#include "../plan/payload/print.h"
#include "bodies.h"

namespace pallasim::interp::ops {

ir::LocId Boxes::line() {
  if (line_ == kUnasked) line_ = t_.exec->plan->loc_of(s_);
  return line_;
}

void Boxes::add(const Addr& a, Dims dims, Dims strides, int bytes, const How& how, std::span<const int64_t> places) {
  if (a.buffer < kTempBuffer || std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
  uint32_t buffer = a.buffer;
  int32_t owner = how.owner;
  if (t_.exec->plan->memory.is_alias(buffer)) {
    std::tie(owner, buffer) = t_.exec->stands_for(t_, buffer);
    if (owner == t_.index) owner = -1;
  }
  if (!wants(buffer)) return;
  Access access{.thread = t_.index,
                .buffer = buffer,
                .write = how.write,
                .offset = a.offset + (a.dyn == Addr::kNoSlot ? 0 : t_.slot<int64_t>(a.dyn)),
                .dims = dims.data(),
                .strides = strides.data(),
                .rank = static_cast<int>(dims.size()),
                .element_bytes = bytes,
                .step = s_.id,
                .owner = owner,
                .unwritten = how.unwritten,
                .atomic = how.atomic,
                .chosen = how.chosen,
                .internal = how.internal,
                .places = places.empty() ? nullptr : places.data(),
                .boxes = places.empty() ? 1 : std::ssize(places),
                .loc = a.loc >= 0 ? a.loc : line()};
  if (places.empty()) return box(access);
  // Of lists a box begins where its place says.
  const auto backward = [&](int64_t stride) { return stride < 0; };
  if (std::any_of(strides.begin(), strides.end(), backward)) each_place(access, [&](const Access& one) { box(one); });
  else boxes(access);
}

void Boxes::element_at(const Addr& a, int bytes, bool write) {
  if (t_.exec->plan->memory.is_alias(a.buffer)) return element(a, bytes, {.write = write});
  const Access access{.thread = t_.index,
                      .buffer = a.buffer,
                      .write = write,
                      .offset = a.offset,
                      .dims = nullptr,
                      .strides = nullptr,
                      .rank = 0,
                      .element_bytes = bytes,
                      .step = s_.id,
                      .loc = a.loc >= 0 ? a.loc : line()};
  box(access);
}

void ChosenElements::append(int64_t offset, int bytes) {
  if (count_ > 0 && bytes == bytes_ && offset == row_ + count_ * bytes) {
    ++count_;
    return;
  }
  if (count_ > 0 && bytes == bytes_ && offset == row_ + (count_ - 1) * bytes)
    return;  // once more, or another part of it
  if (bytes != bytes_) flush();
  else end_row();
  bytes_ = bytes;
  row_ = offset;
  count_ = 1;
}

// The row that grew joins the block, or begins another one.
void ChosenElements::end_row() {
  if (count_ == 0) return;
  Block& b = block_;
  const int64_t distance = row_ - b.first;
  if (b.rows > 0 && count_ == b.elements && distance % bytes_ == 0 &&
      (b.rows == 1 || distance == b.rows * b.distance)) {
    if (b.rows++ == 1) b.distance = distance;
  } else {
    emit();
    b = {row_, 1, count_, 0};
  }
  count_ = 0;
}

void ChosenElements::add_row(const std::byte* at, int64_t count, int64_t stride, int bytes) {
  const int64_t step = stride == 1 ? count : 1;
  for (int64_t i = 0; i < count; i += step) {
    const int64_t offset = at - base_ + i * stride * bytes;
    if (sorts_) {
      bytes_ = bytes;
      rows_.push_back({offset, step});
      continue;
    }
    append(offset, bytes);
    count_ += step - 1;
  }
}

void ChosenElements::put_in_order() {
  const auto before = [](const Row& a, const Row& b) { return a.offset < b.offset; };
  if (!std::is_sorted(rows_.begin(), rows_.end(), before)) std::sort(rows_.begin(), rows_.end(), before);
  for (size_t i = 0; i < rows_.size();) {
    Row r = rows_[i++];
    for (; i < rows_.size() && rows_[i].offset <= r.offset + r.count * bytes_; ++i)
      r.count = std::max(r.count, (rows_[i].offset - r.offset) / bytes_ + rows_[i].count);
    append(r.offset, bytes_);
    count_ += r.count - 1;
  }
  rows_.clear();
}

void ChosenElements::flush() {
  put_in_order();
  end_row();
  emit();
  end_list();
  block_ = {};
}

// Few rows at some distance are no pattern: boxes that lie across each other say nothing together.
void ChosenElements::emit() {
  constexpr int64_t kFewest = 4;
  const Block b = std::exchange(block_, {});
  if (b.rows == 0) return;
  if (b.rows < kFewest) {
    if (b.elements != list_elements_) end_list();
    list_elements_ = b.elements;
    for (int64_t i = 0; i < b.rows; ++i) list_.push_back(b.first + i * b.distance);
    return;
  }
  end_list();
  const int64_t dims[] = {b.rows, b.elements}, strides[] = {b.distance / bytes_, 1};
  tell(b.first, dims, strides, {});
}

void ChosenElements::end_list() {
  if (list_.empty()) return;
  const int64_t dims[] = {list_elements_}, strides[] = {1};
  tell(list_.front(), dims, strides, list_.size() > 1 ? std::span<const int64_t>(list_) : std::span<const int64_t>());
  list_.clear();
}

void ChosenElements::tell(int64_t first, Boxes::Dims dims, Boxes::Dims strides, std::span<const int64_t> places) {
  if (modified_) how_.write = false;
  out_.add({buffer_, Addr::kNoSlot, first}, dims, strides, bytes_, how_, places);
  if (!modified_) return;
  how_.write = true;
  out_.add({buffer_, Addr::kNoSlot, first}, dims, strides, bytes_, how_, places);
}

void footprint(const EltProgram& p, Boxes& out) {
  for (const EltOperand& o : p.operands) out.read(o.addr, p.dims, o.strides, o.element_bytes);
  out.write(p.dst, p.dims, p.dst_strides, p.dst_bytes);
}

namespace {

constexpr int64_t kOne[] = {1};
Boxes::Dims line(const int64_t& elements) { return {&elements, 1}; }

void boxes(const EltProgram& p, const Step&, Boxes& out) { footprint(p, out); }

void boxes(const CopyPayload& p, const Step&, Boxes& out) {
  if (p.looks) {
    out.internal(p.src, p.dims, p.src_strides, p.size, false);
    return out.internal(p.dst, p.dims, p.dst_strides, p.size, true);
  }
  out.read(p.src, p.dims, p.src_strides, p.size);
  out.write(p.dst, p.dims, p.dst_strides, p.size);
}

// Memory that is made fresh is nobody's write.
void boxes(const FillPayload& p, const Step&, Boxes& out) {
  if (p.name.empty()) out.internal(p.dst, p.dims, p.strides, p.size, true);
}

void boxes(const ReducePayload& p, const Step& s, Boxes& out) {
  const int64_t results = p.outer * p.inner * (s.kind == Kind::cumulative ? p.reduce : 1);
  const int64_t elements = p.outer * p.reduce * p.inner;
  out.read(p.src, line(elements), kOne, p.element_bytes);
  out.internal(p.dst, line(results), kOne, s.kind == Kind::arg_reduce ? ir::byte_size(p.index) : p.element_bytes, true);
}

void boxes(const ContractPayload& p, const Step&, Boxes& out) {
  const Contraction& c = p.contraction;
  const int64_t a[] = {c.batch, c.m, c.k}, a_strides[] = {c.a_batch, c.a_row, c.a_col}, b[] = {c.batch, c.k, c.n},
                b_strides[] = {c.b_batch, c.b_row, c.b_col}, dst[] = {c.batch, c.m, c.n},
                dst_strides[] = {c.c_batch, c.c_row, 1};
  out.read(p.a, a, a_strides, ir::byte_size(c.in));
  out.read(p.b, b, b_strides, ir::byte_size(c.in_rhs));
  if (c.accumulate) out.read(p.dst, dst, dst_strides, ir::byte_size(c.out));
  out.write(p.dst, dst, dst_strides, ir::byte_size(c.out));
}

void boxes(const ArrayPayload& p, const Step& s, Boxes& out) {
  for (const ArrayArg& a : p.in) out.read(a.addr, line(a.elements), kOne, a.element_bytes);
  for (const ArrayArg& a : p.out)
    if (s.imm) out.write(a.addr, line(a.elements), kOne, a.element_bytes);
    else out.internal(a.addr, line(a.elements), kOne, a.element_bytes, true);
}

void boxes(const PrintPayload& p, const Step&, Boxes& out) {
  for (const PrintPayload::Arg& a : p.args)
    if (!a.scalar) out.internal(a.addr, a.dims, dense_strides(a.dims), ir::byte_size(a.dtype), false);
}

// The operation told of its own accesses.
void boxes(const NanPayload& p, const Step&, Boxes& out) {
  const auto look = [&](const NanPayload::Array& a) {
    if (!a.scalar) out.internal(a.addr, a.dims, a.strides, ir::byte_size(a.dtype), false);
  };
  look(p.result);
  for (const NanPayload::Array& a : p.operands) look(a);
}

using Function = void (*)(Thread&, const Step&, Boxes&);
template <Kind k, Footprint>
constexpr Function kFunction = nullptr;
template <Kind k>
constexpr Function kFunction<k, Footprint::Static> =
    [](Thread&, const Step& s, Boxes& out) { boxes(payload<k>(s), s, out); };
#define STEP(kind, payload, flow, definedness, uses, sides, traits, visible, work, footprint) \
  PALLASIM_FUNCTION_##footprint(kind)
#define PALLASIM_FUNCTION_Nothing(kind)
#define PALLASIM_FUNCTION_Static(kind)
#define PALLASIM_FUNCTION_Operations(kind)
#define PALLASIM_FUNCTION_Dynamic(kind) \
  template <>                           \
  constexpr Function kFunction<Kind::kind, Footprint::Dynamic> = kind##_footprint;
#include "../plan/steps.def"

constexpr std::array<Function, kKinds> kFunctions{{
#define STEP(kind, payload, flow, definedness, uses, sides, traits, visible, work, footprint) \
  kFunction<Kind::kind, Footprint::footprint>,
#include "../plan/steps.def"
}};

}  // namespace

void side_boxes(const memory::AsyncOperation& op, const memory::Side& side, bool write, const int64_t* dims,
                Boxes& out) {
  const memory::Place& at = side.place;
  if (!out.wants(at.buffer)) return;
  const Boxes::Dims strides(side.strides, static_cast<size_t>(side.rank));
  int64_t extents[memory::kMaxRank];
  std::copy(dims, dims + side.rank, extents);
  const Boxes::How how{.write = write, .owner = out.owner(at)};
  const memory::AsyncOperation::Rows rows = op.rows_of(side);
  if (rows.dim < 0)
    return out.add({at.buffer, Addr::kNoSlot, at.offset}, {extents, strides.size()}, strides, side.element_bytes(),
                   how);
  if (rows.places.empty()) return;
  extents[rows.dim] = 1;
  out.add({at.buffer, Addr::kNoSlot, rows.places.front()}, {extents, strides.size()}, strides, side.element_bytes(),
          how, rows.places);
}

void footprint(Thread& t, const Step& s, Boxes& out) {
  if (const Function f = kFunctions[static_cast<size_t>(s.kind)]) f(t, s, out);
}

}  // namespace pallasim::interp::ops
