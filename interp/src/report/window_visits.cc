#include "window_visits.h"

#include <algorithm>

#include "../ops/bodies.h"

namespace pallasim::interp {

bool window_begins_undefined(const Plan& p, const Window& w) {
  const auto operand = static_cast<size_t>(w.operand);
  return w.is_output && p.first().model->checks.revisited_outputs && p.module.is_aliased_output(operand) &&
         !std::holds_alternative<std::monostate>(w.reach) && !ir::is_sync(w.dtype);
}

WindowVisits::WindowVisits(const Plan& p) {
  for (const auto& body : p.bodies)
    for (const Window& w : body->windows)
      if (std::holds_alternative<Window::Direct>(w.reach) && window_begins_undefined(p, w)) windows_[w.buffer] = &w;
}

void WindowVisits::leave(Visit& v, const Window& w, Definedness* array) {
  if (v.place.empty()) return;
  const memory::Clip c = ops::clip_window(w, v.place.data());
  if (c.empty) return;
  const memory::shadow::View block{
      c.array_offset * w.element_bytes, {c.count, w.dims.size()}, w.strides, w.element_bytes};
  memory::shadow::Births births;
  v.window.load(block, &births);
  array->store(block, births);
  v.window.set(block, 0);
}

void WindowVisits::show(const Thread& t, uint32_t buffer, const int64_t* place, Birth undefined, Definedness* array) {
  const Window& w = *windows_.at(buffer);
  Visit& v = visits_[{t.index, buffer}];
  const std::vector<int64_t> now(place, place + w.places());
  if (v.place == now) return;
  leave(v, w, array);
  v.place = now;
  const memory::Clip c = ops::clip_window(w, place);
  if (c.empty) return;
  v.window.set({c.array_offset * w.element_bytes, {c.count, w.dims.size()}, w.strides, w.element_bytes}, undefined);
}

}  // namespace pallasim::interp
