// Devices that operations and views name.
#include "devices.h"

#include <algorithm>

#include "../../plan/steps.h"

namespace pallasim::interp {

Val device_number(Emitter& e, const Op& op, const Attr& a, const char* key) {
  if (a.is(Attr::Kind::Operand)) return scalar_convert(e, e.operand(op, static_cast<size_t>(a.i)), ir::DType::I32);
  if (!a.is_int()) e.unsupported(op, std::string(ir::name(op.code)) + " with such a " + key);
  return e.const_int(ir::DType::I32, std::clamp<int64_t>(a.i, INT32_MIN, INT32_MAX));
}

// A logical device id counts the devices around the kernel; where there is one, its id is 0, by number or by
// coordinates. Ids are compared with what there is when the step runs.
UnitSet device_named(Emitter& e, const Op& op, const Attr& device, const std::string& kind) {
  UnitSet r;
  if (e.plan().threads.num_devices() > 1) {
    if (kind != "logical") e.unsupported(op, std::string(ir::name(op.code)) + " with a device id of type " + kind);
    r.device.slot = scalar_slot(e, device_number(e, op, device, "device_id"));
    return r;
  }
  StripParams params;
  params.dtype = ir::DType::I32;
  params.semantics = e.semantics();
  Val id = e.const_int(ir::DType::I32, 0);
  for (const Attr& coordinate : device.is(Attr::Kind::List) ? device.items : std::vector<Attr>{device}) {
    const Val v =
        device_number(e, op, coordinate, "device_id");  // any coordinate but 0 shows in the bits of all of them
    const bool first = id.scalar().is_const && id.scalar().bits == 0;
    id = first ? v : scalar_result(e, ir::OpCode::or_, ir::DType::I32, ir::DType::I32, {id, v}, params);
  }
  const bool own = id.scalar().is_const && id.scalar().bits == 0;
  if (!own) r.device.slot = scalar_slot(e, id);
  return r;
}

bool is_array_of_device(Emitter& e, const Val& ref) {
  if (!ref.is_ref() || ref.is_semaphore()) return false;
  const uint32_t buffer = ref.memory().addr.buffer;
  return buffer >= kFirstOperandBuffer && buffer - kFirstOperandBuffer < e.module().operands.size();
}

Val array_of_peer(Emitter& e, const Op& op, const Val& ref, const ir::view::Peer& t) {
  if (!is_array_of_device(e, ref) || ref.is_recast())
    e.unsupported(op, "a peer's ref of memory that is no array of the device");
  if (!t.axes.empty()) e.unsupported(op, "a peer by coordinates on some axes of the devices");
  const UnitSet peer = device_named(
      e, op, t.device.is_operand() ? Attr::operand(t.device.operand) : Attr::integer(t.device.value()), t.kind);
  Val r = ref;
  if (!peer.elsewhere()) return r;
  PeerArrayPayload p{peer, ref.memory().addr.buffer, e.plan().memory.new_alias()};
  r.memory().addr.buffer = p.alias;
  e.emit<Kind::peer_array>(std::move(p));
  return r;
}

}  // namespace pallasim::interp
