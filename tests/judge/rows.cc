// Copies whose rows a list chooses. Rows arrive in any order: a row that is written twice is added to, and of integers.
#include <fmt/format.h>

#include <algorithm>

#include "body.h"

namespace pallasim::judge {

void Body::list_step() {
  Ref src, dst;
  if (machine != ir::Machine::Tpu || nesting > 1 || !copy_pair(&src, &dst, false)) return;
  const bool scatters = rng.chance(40);
  const Dims &from = src.type.dims, &to = dst.type.dims;
  const bool add = can_add(dst.type.dtype) && rng.chance(30);
  const bool twice = !scatters || (add && ir::is_int(dst.type.dtype));
  if (scatters && !twice && from[0] < to[0]) return;
  ++terms[scatters ? "copy to chosen rows" : "copy of chosen rows"];
  const int64_t extent = scatters ? to[0] : from[0], most = scatters ? from[0] : to[0];
  const int64_t n = twice ? rng.in(1, most) : extent;
  const Value list = twice ? indices({n}, extent) : permutation(n);
  std::string rest;
  for (size_t i = 1; i < from.size(); ++i) rest += fmt::format(", slice(0, {})", std::min(from[i], to[i]));
  const int held = w.fresh(), sem = w.fresh();
  w.open(fmt::format("run_scoped ({}: {}, {}: ref<dma_sem[], semaphore>) {{", name(held),
                     ref_type({DType::I32, {n}}, "vmem"), name(sem)));
  const Mark m = enter();
  w.line(fmt::format("store {}, {}", name(held), name(list.id)));
  const bool by_ref = rng.chance(60);
  const std::string ignored = rng.chance(30) ? fmt::format(", {}", rng.in(0, extent - 1)) : "";
  const std::string chosen = fmt::format("{}($3{}){}", by_ref ? "ref" : "array", ignored, rest),
                    plain = fmt::format("slice(0, {}){}", n, rest);
  const std::string attrs =
      fmt::format("src = view($0, [index({})]), dst = view($1, [index({})]), dst_sem = view($2, [])",
                  scatters ? plain : chosen, scatters ? chosen : plain);
  const std::string operands =
      fmt::format("{}, {}, {}, {}", name(src.id), name(dst.id), name(sem), name(by_ref ? held : list.id));
  w.line(fmt::format("dma_start {} {{{}{}}}", operands, attrs, add ? ", add = true" : ""));
  const Lock l = lock(src, dst);
  inside(5);
  w.line(fmt::format("dma_wait {} {{{}}}", operands, attrs));
  unlock(l);
  late_use({});
  w.line("yield");
  leave(m);
  w.close("}");
  budget -= 2;
}

}  // namespace pallasim::judge
