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

// Rows of elements of another width than those of the memory behind them: chosen by a list, or neighbours.
void Body::width_rows_step() {
  std::vector<const Ref*> l;
  for (const Ref& r : refs)
    if (can_read(r) && r.space != "smem" && r.type.dims.size() == 2 && !r.single && !r.part &&
        ir::bit_width(r.type.dtype) > 1 && ir::bit_width(r.type.dtype) <= 32)
      l.push_back(&r);
  if (l.empty() || nesting > 1 || machine != ir::Machine::Tpu) return;
  const Ref src = *rng.of(l);
  const DType shown = rng.of({DType::I8, DType::I16, DType::I32});
  const int64_t bits = src.type.dims[0] * ir::bit_width(src.type.dtype), columns = src.type.dims[1];
  if (bits % ir::bit_width(shown) != 0 || ir::bit_width(shown) == ir::bit_width(src.type.dtype)) return;
  const int64_t rows = bits / ir::bit_width(shown), n = rng.in(1, rows);
  const bool chosen = rng.chance(70);
  ++terms[chosen ? "copy of chosen rows through another width" : "copy of rows through another width"];
  const Value list = chosen ? indices({n}, rows) : Value{};
  const int start = chosen ? list.id : number(rng.in(0, rows - n)), buffer = w.fresh(), sem = w.fresh();
  const Type taken{shown, {n, columns}};
  w.open(fmt::format("run_scoped ({}: {}, {}: ref<dma_sem[], semaphore>) {{", name(buffer), ref_type(taken, "vmem"),
                     name(sem)));
  const Mark m = enter();
  const std::string at = chosen ? "array($3)" : fmt::format("slice($3, {})", n);
  const std::string rest = fmt::format(
      "{}, {}, {}, {} {{src = view($0, [bitcast({}[]), index({}, slice(0, {}))]), dst = view($1, []), dst_sem = "
      "view($2, [])}}",
      name(src.id), name(buffer), name(sem), name(start), ir::name(shown), at, columns);
  w.line("dma_start " + rest);
  ++roots[static_cast<size_t>(src.root)].reading;
  inside(3);
  w.line("dma_wait " + rest);
  --roots[static_cast<size_t>(src.root)].reading;
  late_use({keep(w.op("get " + name(buffer), str(taken)), taken)});
  w.line("yield");
  leave(m);
  w.close("}");
  budget -= 2;
}

}  // namespace pallasim::judge
