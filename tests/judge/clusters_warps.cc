// Warps of a warpgroup that take parts of their own: one fills slots, one empties them, the others meet their
// warpgroup.
#include "clusters.h"

namespace pallasim::judge {

// In rounds, so that warps know of barriers what they saw in the round before.
void Clusters::warps() {
  const int64_t slots = 1 + below(2), rounds = 1 + below(3), steps = 1 + below(3);
  term(rounds > 1 ? "warps, again" : "warps");
  const std::string o = output(fmt::format("i32[{}{},{}]", each(), wgs_, rounds * steps)),
                    marks = output(fmt::format("i32[{}{},4]", each(), wgs_)),
                    sums = output(fmt::format("i32[{}{},{},4]", each(), wgs_, rounds));
  const std::string ring = fresh(), full = fresh(), empty = fresh(), met = fresh();
  line("run_scoped {{collective = [\"wg\"], transforms = [[], [], [], []], allocs = [none, {{num_arrivals = 1}},");
  line("    {{num_arrivals = 1}}, {{num_arrivals = 3}}]}} ({} \"ring\": ref<i32[{},4,16], gsmem, cta>,", ring,
       wgs_ * slots);
  line("    {} \"full\": ref<mbarrier[{}], gsmem, cta>, {} \"empty\": ref<mbarrier[{}], gsmem, cta>,", full,
       wgs_ * slots, empty, wgs_ * slots);
  line("    {} \"met\": ref<mbarrier[{}], gsmem, cta>) {{", met, wgs_);
  ++depth_;
  const auto slot_of = [&](int64_t k) {
    const std::string base = fresh(), slot = fresh();
    line("{} = mul %wg, %c{} : i32[]", base, slots);
    line("{} = add {}, %c{} : i32[]", slot, base, k % slots);
    return slot;
  };
  const auto fill = [&](int64_t k) {
    const std::string slot = slot_of(k);
    if (k >= slots) line("barrier_wait {}, {} {{barrier = view($0, [index($1)])}}", empty, slot);
    line("copy_gmem_to_smem %0, {}, {}, {}, {} {{src = view($0, [index($1, slice({}, 4), slice(0, 16))]),",
         one_in(2) ? "%x" : "%wg", ring, slot, full, below(5));
    line("  dst = view($2, [index($3, {})]), barrier = view($4, [index($3)]), oob_mode = zeros}}", all(4, 16));
  };
  const auto use = [&](int64_t k) {
    const std::string slot = slot_of(k), v = fresh(), w = fresh();
    line("barrier_wait {}, {} {{barrier = view($0, [index($1)])}}", full, slot);
    line("{} = get {}, {} {{view = [index($1, {}, {})]}} : i32[]", v, ring, slot, below(4), below(16));
    line("{} = add {}, %c{} : i32[]", w, v, 1 + below(7));
    line("store {}, {}, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, {})]}}", o, w, k);
    line("barrier_arrive {}, {} {{barrier = view($0, [index($1)])}}", empty, slot);
  };
  for (int64_t round = 0; round < rounds; ++round) {
    const std::string warp = fresh(), value = fresh(), got = fresh();
    line("spawn {{mesh = {{kind = warp, axes = [axis(\"warp\", 4)]}}}} () {{");
    ++depth_;
    line("{} = axis_index {{axis = \"warp\"}} : i32[]", warp);
    when(fmt::format("eq {}, %c0", warp), [&] {
      for (int64_t k = round * steps; k < (round + 1) * steps; ++k) fill(k);
      for (int64_t k = std::max<int64_t>(rounds * steps - slots, 0); round + 1 == rounds && k < rounds * steps; ++k)
        line("barrier_wait {}, {} {{barrier = view($0, [index($1)])}}", empty, slot_of(k));
    });
    when(fmt::format("ne {}, %c0", warp), [&] {
      when(fmt::format("eq {}, %c1", warp), [&] {
        for (int64_t k = round * steps; k < (round + 1) * steps; ++k) use(k);
      });
      line("{} = add {}, %c{} : i32[]", value, warp, round);
      line("store {}, {}, %i, %x, %y, %wg, {} {{view = [index($2, $3, $4, $5, $6)]}}", marks, value, warp);
      line("barrier_arrive {}, %wg {{barrier = view($0, [index($1)])}}", met);
    });
    if (round == 0)
      when(fmt::format("eq {}, %c0", warp),
           [&] { line("store {}, %wg, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, 0)]}}", marks); });
    close();
    line("barrier_wait {}, %wg {{barrier = view($0, [index($1)])}}", met);
    line("{} = get {}, %i, %x, %y, %wg {{view = [index($1, $2, $3, $4, slice(0, 4))]}} : i32[4]", got, marks);
    line("store {}, {}, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, {}, slice(0, 4))]}}", sums, got, round);
  }
  close();
}

}  // namespace pallasim::judge
