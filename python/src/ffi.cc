#include "ffi.h"

#include <algorithm>

#include <fmt/format.h>

#include "interrupt.h"
#include "launch_call.h"
#include "rendezvous.h"
#include "reports.h"
#include "xla/ffi/api/ffi.h"

namespace pallasim::python {
namespace {

namespace ffi = xla::ffi;

// One per executable; its devices and threads share it.
struct Executable {
  static ffi::TypeId id;
  std::shared_ptr<const Program> program;
  bool numbered = false;  // operand 0 is the device's number among those around the kernel
};
ffi::TypeId Executable::id = {};
ffi::TypeInfo g_type_info = ffi::MakeTypeInfo<Executable>();

bool dtype_of(ffi::DataType t, ir::DType* out) {
  using X = ffi::DataType;
  using D = ir::DType;
  switch (t) {
    case X::PRED: return *out = D::Bool, true;
    case X::S2: return *out = D::I2, true;
    case X::S4: return *out = D::I4, true;
    case X::S8: return *out = D::I8, true;
    case X::S16: return *out = D::I16, true;
    case X::S32: return *out = D::I32, true;
    case X::S64: return *out = D::I64, true;
    case X::U2: return *out = D::U2, true;
    case X::U4: return *out = D::U4, true;
    case X::U8: return *out = D::U8, true;
    case X::U16: return *out = D::U16, true;
    case X::U32: return *out = D::U32, true;
    case X::U64: return *out = D::U64, true;
    case X::BF16: return *out = D::BF16, true;
    case X::F16: return *out = D::F16, true;
    case X::F32: return *out = D::F32, true;
    case X::F64: return *out = D::F64, true;
    case X::C64: return *out = D::C64, true;
    case X::C128: return *out = D::C128, true;
    case X::F8E3M4: return *out = D::F8E3M4, true;
    case X::F8E4M3: return *out = D::F8E4M3, true;
    case X::F8E4M3B11FNUZ: return *out = D::F8E4M3B11FNUZ, true;
    case X::F8E4M3FN: return *out = D::F8E4M3FN, true;
    case X::F8E4M3FNUZ: return *out = D::F8E4M3FNUZ, true;
    case X::F8E5M2: return *out = D::F8E5M2, true;
    case X::F8E5M2FNUZ: return *out = D::F8E5M2FNUZ, true;
    case X::F8E8M0FNU: return *out = D::F8E8M0FNU, true;
    case X::F4E2M1FN: return *out = D::F4E2M1FN, true;
    default: return false;
  }
}

// Keys and semaphores travel as integers: keys with their words as a trailing dimension.
bool carries(ir::DType declared, ir::DType found) {
  if (ir::is_key(declared)) return found == ir::DType::U32;
  if (ir::is_sync(declared)) return found == ir::DType::I32;
  return declared == found;
}

std::string text_of(ir::DType t, ffi::Span<const int64_t> dims) {
  return fmt::format("{}[{}]", ir::name(t), fmt::join(dims.begin(), dims.end(), ","));
}

// Checks one buffer against the module and fills `out`. Allocates only when the shape differs from the last call's.
bool fill(const Program::Shape& want, const ffi::AnyBuffer& b, const char* kind, size_t i, interp::Buffer* out,
          std::string* error) {
  ir::DType found;
  ffi::Span<const int64_t> dims = b.dimensions();
  if (!dtype_of(b.element_type(), &found)) {
    *error = fmt::format("{} {} has an element type that the emulator does not know", kind, i);
    return false;
  }
  const bool key = !want.open && ir::is_key(want.dtype);
  size_t rank = dims.size();
  if (key) {  // the words of a key are inside its element; some implementations have two word dimensions
    rank = want.dims.size();
    if (dims.size() < rank) rank = dims.size() + 1;
  }
  const bool same = want.open || (carries(want.dtype, found) && want.dims.size() == rank &&
                                  std::equal(want.dims.begin(), want.dims.end(), dims.begin()));
  if (!same) {
    *error = fmt::format("{} {} is {}, but the module declares {}[{}]", kind, i, text_of(found, dims),
                         ir::name(want.dtype), fmt::join(want.dims, ","));
    return false;
  }
  out->data = b.untyped_data();
  out->dtype = want.open ? found : want.dtype;
  if (out->dims.size() != rank || !std::equal(out->dims.begin(), out->dims.end(), dims.begin()))
    out->dims.assign(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(rank));
  return true;
}

// XLA's CPU packs sub-byte elements (the first one in the low bits); ours take a byte each.
int packing(ir::DType t) { return ir::bit_width(t) < 8 && !ir::is_sync(t) ? 8 / ir::bit_width(t) : 1; }

size_t count(const interp::Buffer& b) {
  size_t n = 1;
  for (int64_t d : b.dims) n *= static_cast<size_t>(d);
  return n;
}

// The low bits of a byte, the others 0: as ml_dtypes keeps such elements.
void unpack(ir::DType t, const uint8_t* from, size_t n, uint8_t* to) {
  const int bits = ir::bit_width(t), per = 8 / bits;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  for (size_t i = 0; i < n; ++i)
    to[i] = static_cast<uint8_t>(from[i / static_cast<size_t>(per)] >>
                                 (static_cast<int>(i % static_cast<size_t>(per)) * bits)) &
            mask;
}

void pack(ir::DType t, const uint8_t* from, size_t n, uint8_t* to) {
  const int bits = ir::bit_width(t), per = 8 / bits;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  std::fill(to, to + (n + static_cast<size_t>(per) - 1) / static_cast<size_t>(per), uint8_t{0});
  for (size_t i = 0; i < n; ++i)
    to[i / static_cast<size_t>(per)] |=
        static_cast<uint8_t>((from[i] & mask) << (static_cast<int>(i % static_cast<size_t>(per)) * bits));
}

// Unpacked copies of the sub-byte buffers of one call. Buffers that share memory (aliases) share their copy.
class Unpacked {
 public:
  void take(interp::Buffer& b, bool read) {
    if (packing(b.dtype) == 1) return;
    for (Copy& c : copies_)
      if (c.packed == b.data) {
        b.data = c.bytes.data();
        return;
      }
    const size_t n = count(b);
    copies_.push_back({static_cast<uint8_t*>(b.data), b.dtype, false, std::vector<uint8_t>(n)});
    if (read) unpack(b.dtype, copies_.back().packed, n, copies_.back().bytes.data());
    b.data = copies_.back().bytes.data();
  }
  void written(const interp::Buffer& b) {
    for (Copy& c : copies_)
      if (c.bytes.data() == b.data) c.write_back = true;
  }
  void finish() {
    for (const Copy& c : copies_)
      if (c.write_back) pack(c.dtype, c.bytes.data(), c.bytes.size(), c.packed);
  }

 private:
  struct Copy {
    uint8_t* packed;
    ir::DType dtype;
    bool write_back;
    std::vector<uint8_t> bytes;
  };
  std::vector<Copy> copies_;
};

// Reused by the calls of one thread, so that the steady state does not allocate. A launch that starts another launch on
// the same thread would need its own; handlers never do that.
struct Scratch {
  std::vector<interp::Buffer> args, results;
};
thread_local Scratch t_scratch;

ffi::Error invalid(std::string text) { return ffi::Error(ffi::ErrorCode::kInvalidArgument, std::move(text)); }

ffi::ErrorOr<std::unique_ptr<Executable>> instantiate(std::string_view ir, std::string_view options,
                                                      std::string_view settings, bool numbered) {
  try {
    auto e = std::make_unique<Executable>();
    e->numbered = numbered;
    e->program = Program::make(ir, options, settings);
    return ffi::ErrorOr<std::unique_ptr<Executable>>(std::move(e));
  } catch (const ir::DiagnosticError& e) {
    return ffi::Unexpected(invalid(Failure(e.diagnostic()).text()));
  } catch (const std::exception& e) {
    return ffi::Unexpected(ffi::Error(ffi::ErrorCode::kInternal, fmt::format("pallasim: {}", e.what())));
  }
}

// Throws PS-INT-001 where the execution was stopped between two of its launches.
void run(const Program& p, int64_t run_id, const interp::DeviceCall& call) {
  if (watch_interrupts(run_id)) throw Failure(interrupted(p));
  if (interp::devices_of(p.plan()) > 1) run_together(p, run_id, call);
  else p.run(std::span(&call, 1));
}

ffi::Error execute(Executable* e, ffi::RunId run_id, int32_t device, ffi::RemainingArgs args, ffi::RemainingRets rets) {
  const Program& p = *e->program;
  const size_t first = e->numbered ? 1 : 0;
  if (args.size() != p.num_args() + first || rets.size() != p.num_results())
    return invalid(fmt::format("the call has {} operands and {} results, but the module declares {} and {}",
                               args.size(), rets.size(), p.num_args() + first, p.num_results()));
  if (e->numbered) {
    auto b = args.get<ffi::BufferR0<ffi::DataType::S32>>(0);
    if (!b) return b.error();
    device = *b->typed_data();
  }
  Scratch& s = t_scratch;
  s.args.resize(args.size() - first);
  s.results.resize(rets.size());
  std::string error;
  for (size_t i = 0; i < s.args.size(); ++i) {
    auto b = args.get<ffi::AnyBuffer>(first + i);
    if (!b) return b.error();
    if (!fill(p.args()[i], *b, "operand", i, &s.args[i], &error)) return invalid(std::move(error));
  }
  for (size_t i = 0; i < rets.size(); ++i) {
    auto b = rets.get<ffi::AnyBuffer>(i);
    if (!b) return b.error();
    if (!fill(p.results()[i], **b, "result", i, &s.results[i], &error)) return invalid(std::move(error));
  }
  try {
    if (!p.has_sub_byte()) {
      run(p, run_id.run_id, {device, s.args, s.results, run_id.run_id});
      return ffi::Error::Success();
    }
    Unpacked u;
    for (interp::Buffer& b : s.args) u.take(b, true);
    for (interp::Buffer& b : s.results) u.take(b, false), u.written(b);
    run(p, run_id.run_id, {device, s.args, s.results, run_id.run_id});
    u.finish();
  } catch (const Failure& e) {  // all devices of a launch fail as one
    return invalid(e.text());
  } catch (const ir::DiagnosticError& e) {
    return invalid(Failure(e.diagnostic()).text());
  } catch (const std::bad_alloc&) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, "pallasim: out of memory");
  } catch (const std::exception& e) {
    return ffi::Error(ffi::ErrorCode::kInternal, fmt::format("pallasim: {}", e.what()));
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kInstantiate, instantiate,
                       ffi::Ffi::BindInstantiate()
                           .Attr<std::string_view>("ir")
                           .Attr<std::string_view>("options")
                           .Attr<std::string_view>("settings")
                           .Attr<bool>("numbered"));
// Attributes were read when the executable was made.
XLA_FFI_DEFINE_HANDLER(kExecute, execute,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::State<Executable>>()
                           .Ctx<ffi::RunId>()
                           .Ctx<ffi::DeviceOrdinal>()
                           .RemainingArgs()
                           .RemainingRets());

}  // namespace

void* instantiate_handler() { return reinterpret_cast<void*>(kInstantiate); }
void* execute_handler() { return reinterpret_cast<void*>(kExecute); }
void* state_type_id() { return &Executable::id; }
void* state_type_info() { return &g_type_info; }

}  // namespace pallasim::python
