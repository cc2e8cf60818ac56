// A handler that does nothing: what a call from jit costs, whoever answers it (cold.py).
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error do_nothing(ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) { return ffi::Error::Success(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(nothing, do_nothing, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());
