// Devices that operations and views name.
#pragma once
#include <string>

#include "../../plan/payload/units.h"
#include "../values/emitter.h"

namespace pallasim::interp {

// The number in an attribute of that key, which may be an operand: an i32.
Val device_number(Emitter&, const Op&, const Attr&, const char* key);
// The device that an attribute names.
UnitSet device_named(Emitter&, const Op&, const Attr& device, const std::string& kind);
// Whether it is an operand's memory, which each device has for itself.
bool is_array_of_device(Emitter&, const Val& ref);
// The same array of another device, as a buffer of its own.
Val array_of_peer(Emitter&, const Op&, const Val& ref, const ir::view::Peer&);

}  // namespace pallasim::interp
