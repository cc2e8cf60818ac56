#include "code.h"

namespace pallasim::interp {

Step& StepWriter::append(Kind kind, StepFn fn, const StepForm* form, const void* payload) {
  Step s;
  s.kind = kind;
  s.fn = fn;
  s.form = form;
  s.payload = payload;
  s.id = here();
  s.adds = adding_;
  c_.plan().steps.push_back(s);
  c_.plan().step_ops.add(c_.op());
  targets_.push_back(-1);
  return c_.plan().steps.back();
}

uint32_t Slots::new_slot(int n) {
  std::vector<std::byte>& image = c_.body().image;
  const auto s = static_cast<uint32_t>(image.size());
  image.resize(image.size() + static_cast<size_t>(n) * 16);
  return s;
}

uint32_t Slots::const_slot(CType type, const void* bytes) {
  uint64_t key = 0;
  std::memcpy(&key, bytes, static_cast<size_t>(std::min(8, byte_size(type))));
  const bool shared = byte_size(type) <= 8;
  if (shared)
    if (const auto it = constants_.find({static_cast<int>(type), key}); it != constants_.end()) return it->second;
  const uint32_t s = new_slot();
  std::memcpy(c_.body().image.data() + s, bytes, static_cast<size_t>(byte_size(type)));
  if (shared) constants_[{static_cast<int>(type), key}] = s;
  return s;
}

Val Slots::const_scalar(ir::DType dtype, uint64_t memory_bits) {
  alignas(16) std::byte value[16] = {};
  c_.kernels().load(dtype)(value, &memory_bits, 1, 1);
  uint64_t bits = 0;
  std::memcpy(&bits, value, 8);
  return {dtype, {}, Val::Scalar{{const_slot(compute_type(dtype), value), true, bits}}};
}

Val Frame::temp(ir::DType dtype, std::vector<int64_t> dims) {
  Val v(dtype, std::move(dims), Val::Strided{});
  v.memory().strides = dense_strides(v.dims);
  allocate(&v);
  return v;
}

void Frame::allocate(Val* v) {
  v->memory().storage = place_->allocate(v->bytes());
  v->memory().addr = {buffer_, Addr::kNoSlot, v->memory().storage->offset};
}

Frame::Spawned::Spawned(Frame& f, uint32_t buffer, std::vector<InnerAxis> axes, int64_t* bytes) : f_(f), bytes_(bytes) {
  f_.place_ = &f_.child_temps_.emplace_back();
  f_.buffer_ = buffer;
  f_.inner_axes_ = std::move(axes);
}

Frame::Spawned::~Spawned() {
  *bytes_ = f_.place_->high_water() + kSlack;
  f_.place_ = &f_.temps_;
  f_.buffer_ = f_.c_.body().temps;
  f_.inner_axes_.clear();
}

}  // namespace pallasim::interp
