// XLA FFI handlers of the custom call `pallasim_launch`.
#pragma once

namespace pallasim::python {

// Addresses for capsules: the two handlers, and the state's type id and info.
void* instantiate_handler();
void* execute_handler();
void* state_type_id();
void* state_type_info();

}  // namespace pallasim::python
