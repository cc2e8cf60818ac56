// Bulk copies and products in programs of clusters: rings in loops, boxes around an array, groups of stores,
// reductions, bytes that a warpgroup expects and brings, predicates, products in flight.
#include "clusters.h"

namespace pallasim::judge {

// A ring whose slots and boxes are known when it runs; boxes may begin before the array and end behind it.
void Clusters::ring_in_loop() {
  const int64_t slots = 1 + below(3), steps = 2 + below(5), consumers = std::max<int64_t>(wgs_ - 1, 1);
  const bool multicast = one_in(2), sums = one_in(2);
  term(multicast ? "ring in a loop, multicast" : "ring in a loop");
  const std::string o = output(fmt::format("i32[{}{},{},4,16]", each(), wgs_, steps));
  const Shared s = shared(fmt::format("{},", slots));
  const std::string ring = fresh(), full = fresh(), empty = fresh();
  line("run_scoped {{collective = [\"wg\"], transforms = [{}, [], []],", s.transforms);
  line("    allocs = [none, {{num_arrivals = 1}}, {{num_arrivals = {}{}}}]}} ({} \"ring\": ref<{}, gsmem, cta>,",
       consumers, multicast ? ", collective_axes = [[\"x\"]]" : "", ring, s.type);
  line("    {} \"full\": ref<mbarrier[{}], gsmem, cta>, {} \"empty\": ref<{}[{}], gsmem, cta>) {{", full, slots, empty,
       multicast ? "cluster_barrier" : "mbarrier", slots);
  ++depth_;
  const int64_t back = below(4);
  const std::string row = multicast ? "%y" : one_in(2) ? "%x" : "%i";
  const auto fill = [&](const std::string& k, const std::string& slot) {
    const std::string later = fresh(), which = fresh(), first = fresh();
    line("{} = ge {}, %c{} : bool[]", later, k, slots);
    line("{} = convert {} : i32[]", which, later);
    line("cond {} () {{\n    yield\n  }} () {{", which);
    line("  barrier_wait {}, {} {{barrier = view($0, [index($1)])}}", empty, slot);
    line("  yield\n  }}");
    line("{} = sub {}, %c{} : i32[]", first, k, back);
    line("copy_gmem_to_smem %0, {}, {}, {}, {}, {} {{src = view($0, [index($1, slice($2, 4), slice(0, 16))]),", row,
         first, ring, slot, full);
    line("  dst = view($3, [{}]), barrier = view($5, [index($4)]), oob_mode = zeros{}}}",
         join(s.view, fmt::format("index($4, {})", all(4, 16))), multicast ? ", collective_axes = [\"x\"]" : "");
  };
  const auto use = [&](const std::string& k, const std::string& slot, const std::string& sum) {
    const std::string v = fresh(), w = fresh();
    line("barrier_wait {}, {} {{barrier = view($0, [index($1)])}}", full, slot);
    line("{} = get {}, {} {{view = [{}]}} : i32[4,16]", v, ring, slot,
         join(s.view, fmt::format("index($1, {})", all(4, 16))));
    line("{} = add {}, {} : i32[4,16]", w, v, sum.empty() ? v : sum);
    line("store {}, {}, %i, %x, %y, %wg, {} {{view = [index($2, $3, $4, $5, $6, {})]}}", o, w, k, all(4, 16));
    line("barrier_arrive {}, {} {{barrier = view($0, [index($1)])}}", empty, slot);
    return w;
  };
  const auto loop = [&](bool fills, bool uses) {
    const std::string k = fresh(), slot = fresh(), zero = fresh(), end = fresh(), carry = fresh(), sum = fresh();
    const bool carries = uses && sums;
    line("{} = broadcast_in_dim %c0 {{dims = []}} : i32[4,16]", zero);
    if (carries) line("{} = for %c0, %c{}, %c1, {} ({}: i32[], {}: i32[4,16]) {{", end, steps, zero, k, carry);
    else line("for %c0, %c{}, %c1 ({}: i32[]) {{", steps, k);
    ++depth_;
    line("{} = rem {}, %c{} : i32[]", slot, k, slots);
    if (fills) fill(k, slot);
    const std::string now = uses ? use(k, slot, carries ? carry : "") : "";
    if (carries) line("{} = mul {}, %c3 : i32[4,16]", sum, now);
    line("yield{}", carries ? " " + sum : "");
    --depth_;
    line("}}{}", carries ? " : i32[4,16]" : "");
  };
  const auto drain = [&] {
    for (int64_t k = std::max<int64_t>(steps - slots, 0); k < steps; ++k)
      line("barrier_wait {} {{barrier = view($0, [index({})])}}", empty, k % slots);
  };
  if (wgs_ == 1) {
    loop(true, true);
    drain();
  } else {
    only(0, [&] {
      loop(true, false);
      drain();
      const std::string ones = fresh();
      line("{} = broadcast_in_dim %c1 {{dims = []}} : i32[{},4,16]", ones, steps);
      line("store {}, {}, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, slice(0, {}), {})]}}", o, ones, steps,
           all(4, 16));
    });
    for (int64_t w = 1; w < wgs_; ++w) only(w, [&] { loop(false, true); });
  }
  close();
}

// A store of slot `slot` of the warpgroup's own memory to rows of its plane of `o`.
void Clusters::bulk_store(const std::string& smem, const std::string& slot, const std::string& o,
                          const std::string& place, const std::string& row, const std::string& how) {
  const bool computed = row[0] == '%';
  line("copy_smem_to_gmem {}, %wg, {}, %i, %x, %y{} {{src = view($0, [{}]),", smem, o, computed ? ", " + row : "",
       slot);
  line("  dst = view($2, [index($3, $4, $5, {}slice({}, 4), slice(0, 16))]){}}}", place, computed ? "$6" : row, how);
}

// Groups of stores of each warpgroup, into rows that lie around its plane of the output; what is outside is dropped.
void Clusters::bulk_stores() {
  term("bulk stores around an array");
  const std::string o = output(fmt::format("i32[{}{},8,16]", each(), wgs_)), smem = fresh(), v = fresh(), w = fresh();
  const Shared s = shared(fmt::format("{},2,", wgs_));
  line("run_scoped {{collective = [\"wg\"], transforms = [{}]}} ({} \"s\": ref<{}, gsmem, cta>) {{", s.transforms, smem,
       s.type);
  ++depth_;
  const auto slot = [&](int64_t n) { return join(s.view, fmt::format("index($1, {}, {})", n, all(4, 16))); };
  const auto put = [&](int64_t n, const std::string& value) {
    line("store {}, {}, %wg {{view = [{}]}}", smem, value,
         join(s.view, fmt::format("index($2, {}, {})", n, all(4, 16))));
  };
  const auto await = [&](int64_t most, bool reads) {
    line("wait_smem_to_gmem %c{} {{wait_read_only = {}}}", most, reads);
  };
  line("{} = get %0, %wg {{view = [index($1, slice({}, 4), slice(0, 16))]}} : i32[4,16]", v, below(5));
  line("{} = add {}, {} : i32[4,16]", w, v, v);
  put(0, v), put(1, w);
  line("commit_smem");
  // Both halves of the plane, in one group or two; perhaps the memory is used again once it was read.
  const bool one_group = one_in(2), again = one_in(2);
  for (int64_t half = 0; half < 2; ++half) {
    bulk_store(smem, slot(half), o, "$1, ", std::to_string(4 * half), one_group ? ", commit_group = false" : "");
    if (half == 0 && again && !one_group) {
      await(0, true);
      const std::string x = fresh();
      line("{} = mul {}, %c3 : i32[4,16]", x, w);
      put(0, x);
      line("commit_smem");
    }
  }
  if (one_group) line("commit_group");
  else await(1, one_in(2));
  await(0, false);
  static constexpr const char* kKinds[] = {"add", "smin", "smax", "umin", "umax", "and", "or", "xor", "inc", "dec"};
  for (int64_t n = 1 + below(3); n-- > 0;) {
    const int64_t row = below(11) - 3;
    std::string place = std::to_string(row);
    if (row < 0 || one_in(2)) {
      place = fresh();
      line("{} = sub %c{}, %c{} : i32[]", place, std::max<int64_t>(row, 0), std::max<int64_t>(-row, 0));
    }
    std::string how = one_in(3) ? "" : fmt::format(", reduction_op = \"{}\"", kKinds[below(10)]);
    if (!how.empty()) term("bulk reductions");
    bulk_store(smem, slot(below(2)), o, "$1, ", place, how);
    await(0, false);
  }
  close();
}

// All warpgroups reduce into the same rows, in any order.
void Clusters::reductions() {
  static constexpr const char* kKinds[] = {"add", "smin", "smax", "umin", "umax", "and", "or", "xor"};
  term("reductions of several warpgroups");
  const std::string o = output(fmt::format("i32[{}8,16]", each())), smem = fresh(), met = fresh(), v = fresh();
  const Shared s = shared(fmt::format("{},", wgs_));
  line("run_scoped {{collective = [\"wg\"], transforms = [{}, []], allocs = [none, {{num_arrivals = {}}}]}} (",
       s.transforms, wgs_);
  line("    {} \"s\": ref<{}, gsmem, cta>, {} \"met\": ref<mbarrier[1], gsmem, cta>) {{", smem, s.type, met);
  ++depth_;
  const std::string slot = join(s.view, fmt::format("index($1, {})", all(4, 16)));
  line("{} = get %0, %wg {{view = [index($1, slice({}, 4), slice(0, 16))]}} : i32[4,16]", v, below(5));
  line("store {}, {}, %wg {{view = [{}]}}", smem, v, join(s.view, fmt::format("index($2, {})", all(4, 16))));
  line("commit_smem");
  only(0, [&] {
    for (const char* row : {"0", "4"}) bulk_store(smem, slot, o, "", row, "");
    line("wait_smem_to_gmem %c0 {{wait_read_only = false}}");
  });
  meet(met);
  const std::string how = fmt::format(", reduction_op = \"{}\"", kKinds[below(8)]);
  for (int64_t n = 1 + below(2); n-- > 0;) bulk_store(smem, slot, o, "", std::to_string(below(8)), how);
  line("wait_smem_to_gmem %c0 {{wait_read_only = {}}}", one_in(2));
  close();
}

// Products in flight into one or two accumulators, of a left operand in shared memory or in registers; what they sum
// to.
std::string Clusters::products(const char* type, const std::string& left, const std::string& a, const std::string& b,
                               int accumulators) {
  const bool both = accumulators == 2;
  const std::string r = fresh(), sum = fresh(), acc[2] = {fresh(), fresh()}, sums[2] = {fresh(), fresh()};
  line("{} = run_scoped {{allocs = [{{accumulator = true}}{}]}} (", r, both ? ", {accumulator = true}" : "");
  line("    {} \"one\": ref<f32[16,16], regs>{}) {{", acc[0],
       both ? fmt::format(", {} \"two\": ref<f32[16,16], regs>", acc[1]) : "");
  ++depth_;
  for (int64_t n = 2 + below(3); n-- > 0;) {
    const bool registers = one_in(2);
    std::string value = left;
    if (registers && one_in(2)) {
      // Those of two products that follow each other differ, and may lie in one place one after the other.
      value = fresh();
      if (one_in(3)) line("{} = add {}, {} : {}[16,16]", value, left, left, type);
      else line("{} = {} {} : {}[16,16]", value, one_in(2) ? "neg" : "abs", left, type);
    }
    line("wgmma_ref {}, {}, {} {{acc = view($0, []), a = {}, b = view($2, [{}])}}", acc[both ? below(2) : 0],
         registers ? value : a, b, registers ? "$1" : "view($1, [])", one_in(2) ? "transpose(1, 0)" : "");
    if (one_in(3)) line("wgmma_wait %c{}", below(3));
  }
  for (int n = 0; n < accumulators; ++n)
    line("{} = wgmma_accumulator_deref {} {{wait_n = 0}} : f32[16,16]", sums[n], acc[n]);
  if (both) line("{} = sub {}, {} : f32[16,16]", sum, sums[0], sums[1]);
  line("yield {}", both ? sum : sums[0]);
  --depth_;
  line("}} : f32[16,16]");
  return r;
}

// Rounds of such products; the values of the second one lie where an accumulator of the first one did.
void Clusters::products_in_flight() {
  const char* type = one_in(2) ? "f16" : "bf16";
  term("products in flight");
  const int64_t rounds = 1 + below(2);
  const std::string o = output(fmt::format("f32[{}{},16,16]", each(), rounds)), a = fresh(), b = fresh();
  line(
      "run_scoped {{collective = [\"wg\"]}} ({} \"a\": ref<{}[16,16], gsmem, cta>, {} \"b\": ref<{}[16,16], gsmem, "
      "cta>) {{",
      a, type, b, type);
  ++depth_;
  only(below(wgs_), [&] {
    std::string values[2];
    for (int64_t n = 0; n < 2; ++n) {
      const std::string narrow = fresh();
      values[n] = fresh();
      line("{} = get %1 {{view = [index({}, {})]}} : i8[16,16]", narrow, n, all(16, 16));
      line("{} = convert {} : {}[16,16]", values[n], narrow, type);
      line("store {}, {}", n == 0 ? a : b, values[n]);
    }
    line("commit_smem");
    for (int64_t round = 0; round < rounds; ++round) {
      const std::string r = products(type, values[0], a, b, round == 0 ? 2 : 1);
      line("store {}, {}, %i, %x, %y {{view = [index($2, $3, $4, {}, {})]}}", o, r, round, all(16, 16));
    }
  });
  close();
}

// A phase of two arrivals: a copy, and a warpgroup that expects bytes which the same or another one brings, perhaps
// before they are expected.
void Clusters::expected_bytes() {
  term("expected bytes");
  const int64_t phases = 1 + below(3), bytes = 16 * (1 + below(8));
  const std::string o = output(fmt::format("i32[{}{},{},4,16]", each(), wgs_, phases)), smem = fresh(), bar = fresh(),
                    met = fresh();
  const Shared s = shared();
  line(
      "run_scoped {{collective = [\"wg\"], transforms = [{}, [], []], allocs = [none, {{num_arrivals = 2}}, "
      "{{num_arrivals = {}}}]}} (",
      s.transforms, wgs_);
  line(
      "    {} \"s\": ref<{}, gsmem, cta>, {} \"bar\": ref<mbarrier[1], gsmem, cta>, {} \"met\": ref<mbarrier[1], "
      "gsmem, "
      "cta>) {{",
      smem, s.type, bar, met);
  ++depth_;
  for (int64_t k = 0; k < phases; ++k) {
    only(below(wgs_), [&] {
      line(
          "copy_gmem_to_smem %0, %i, {}, {} {{src = view($0, [index($1, slice({}, 4), slice(0, 16))]), dst = view($2, "
          "[{}]),",
          smem, bar, below(8), s.view);
      line("  barrier = view($3, [index(0)]), oob_mode = zeros}}");
    });
    const auto expects = [&] {
      line("barrier_arrive {} {{barrier = view($0, [index(0)]), expects = {}}}", bar, bytes);
    };
    const auto brings = [&](int64_t n) {
      line("barrier_arrive {} {{barrier = view($0, [index(0)]), count = 0, brings = {}}}", bar, n);
    };
    const bool together = one_in(3);
    only(below(wgs_), [&] {
      if (together)
        return line("barrier_arrive {} {{barrier = view($0, [index(0)]), expects = {}, brings = {}}}", bar, bytes,
                    bytes);
      expects();
    });
    if (!together)
      only(below(wgs_), [&] {
        const int64_t first = 16 * below(bytes / 16);
        if (first > 0) brings(first);
        brings(bytes - first);
      });
    wait(bar);
    const std::string v = fresh();
    line("{} = get {}{} : i32[4,16]", v, smem, seen(s));
    line("store {}, {}, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, {}, {})]}}", o, v, k, all(4, 16));
    if (k + 1 < phases) meet(met);
  }
  close();
}

// A warpgroup that looks at a barrier again and again.
void Clusters::polling() {
  term("polling");
  const std::string o = output(fmt::format("i32[{}{},4,16]", each(), wgs_)), smem = fresh(), bar = fresh();
  line(
      "run_scoped {{collective = [\"wg\"], allocs = [none, {{num_arrivals = 1}}]}} ({} \"s\": ref<i32[4,16], gsmem, "
      "cta>,",
      smem);
  line("    {} \"bar\": ref<mbarrier[1], gsmem, cta>) {{", bar);
  ++depth_;
  only(below(wgs_), [&] {
    const std::string v = fresh();
    line("{} = get %0, %y {{view = [index($1, slice({}, 4), slice(0, 16))]}} : i32[4,16]", v, below(5));
    line("store {}, {}", smem, v);
    arrive(bar);
  });
  const std::string end = fresh(), before = fresh(), ended = fresh(), again = fresh(), now = fresh(), got = fresh();
  line("{} = while %c0 ({}: i32[]) {{", end, before);
  line("  {} = barrier_test {} {{barrier = view($0, [index(0)])}} : bool[]", ended, bar);
  line("  {} = not {} : bool[]", again, ended);
  line("  yield {}", again);
  line("}} ({}: i32[]) {{", now);
  line("  yield {}", now);
  line("}} : i32[]");
  line("{} = get {} : i32[4,16]", got, smem);
  line("store {}, {}, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, {})]}}", o, got, all(4, 16));
  close();
}

// Numbers of rows: all of 0 to 7 in some order, from `first` on; unsigned, as the copy unit takes them, or signed.
std::string Clusters::chosen_rows(int64_t count, int64_t first) {
  static constexpr int64_t kOdd[] = {1, 3, 5, 7};
  const std::string n = fresh(), step = fresh(), stepped = fresh(), add = fresh(), added = fresh(), eight = fresh(),
                    row = fresh(), by = fresh(), at = fresh();
  const auto vector = [&](const std::string& name, int64_t value) {
    const std::string scalar = fresh();
    line("{} = constant {{value = i32 0x{:x}}} : i32[]", scalar, static_cast<uint32_t>(value));
    line("{} = broadcast_in_dim {} {{dims = []}} : i32[{}]", name, scalar, count);
  };
  line("{} = iota {{axis = 0}} : i32[{}]", n, count);
  vector(step, kOdd[below(4)]), vector(add, below(8)), vector(eight, 8), vector(by, first);
  line("{} = mul {}, {} : i32[{}]", stepped, n, step, count);
  line("{} = add {}, {} : i32[{}]", added, stepped, add, count);
  line("{} = rem {}, {} : i32[{}]", row, added, eight, count);
  line("{} = add {}, {} : i32[{}]", at, row, by, count);
  if (first < 0 || one_in(2)) return at;
  const std::string u = fresh();
  line("{} = convert {} : u32[{}]", u, at, count);
  return u;
}

// Rows that a list names come into shared memory; some of them do not exist.
void Clusters::gathers() {
  term("gathers");
  const std::string o = output(fmt::format("i32[{}{},4,16]", each(), wgs_)), smem = fresh(), bar = fresh(),
                    got = fresh();
  const Shared s = shared();
  open_filled(s, smem, bar);
  only(below(wgs_), [&] {
    const std::string rows = chosen_rows(4, one_in(2) ? 0 : below(5) - 2);
    line(
        "copy_gmem_to_smem %0, %x, {}, {}, {} {{src = view($0, [index($1, array($2), slice(0, 16))]), dst = view($3, "
        "[{}]),",
        rows, smem, bar, s.view);
    line("  barrier = view($4, [index(0)]), oob_mode = zeros}}");
  });
  wait(bar);
  give(o, got, smem, s);
  close();
}

// Every warpgroup writes all rows of its plane in an order of its own, then four again.
void Clusters::scatters() {
  term("scatters");
  const std::string o = output(fmt::format("i32[{}{},8,16]", each(), wgs_)), smem = fresh(), v = fresh();
  line("run_scoped {{collective = [\"wg\"]}} ({} \"s\": ref<i32[{},8,16], gsmem, cta>) {{", smem, wgs_);
  ++depth_;
  line("{} = get %0, %wg {{view = [index($1, slice(0, 8), slice(0, 16))]}} : i32[8,16]", v);
  line("store {}, {}, %wg {{view = [index($2, {})]}}", smem, v, all(8, 16));
  line("commit_smem");
  for (int64_t count : {8, 4}) {
    const std::string rows = chosen_rows(count, count == 8 ? 0 : below(5) - 2);
    line("copy_smem_to_gmem {}, %wg, {}, %i, %x, %y, {} {{src = view($0, [index($1, {})]),", smem, o, rows,
         all(count, 16));
    line("  dst = view($2, [index($3, $4, $5, $1, array($6), slice(0, 16))])}}");
    line("wait_smem_to_gmem %c0 {{wait_read_only = false}}");
  }
  close();
}

// A pair of CTAs loads tiles of a box, or all of it each; the first one's barrier says when both are there.
void Clusters::leader_tracked() {
  if (x_ != 2) return ring_in_loop();
  const bool tiles = one_in(2), rows = one_in(2);
  term(tiles ? "leader-tracked, tiles" : "leader-tracked");
  const std::string o = output(fmt::format("i32[{}{},4,16]", each(), wgs_)), smem = fresh(), bar = fresh(),
                    met = fresh(), got = fresh();
  const Shared s = shared();
  line(
      "run_scoped {{collective = [\"wg\"], transforms = [{}, [], []], allocs = [none, {{num_arrivals = 1}}, "
      "{{num_arrivals = {}, collective_axes = [\"x\"]}}]}} (",
      s.transforms, wgs_);
  line(
      "    {} \"s\": ref<{}, gsmem, cta>, {} \"bar\": ref<mbarrier[1], gsmem, cta>, {} \"met\": "
      "ref<cluster_barrier[1], gsmem, cta>) {{",
      smem, s.type, bar, met);
  ++depth_;
  // Along rows a tile is half of 8 of them; columns come from an array's beginning and from beyond its end.
  const std::string box = !tiles ? fmt::format("slice({}, 4), slice(0, 16)", below(8))
                          : rows ? "slice(0, 8), slice(0, 16)"
                                 : fmt::format("slice({}, 4), slice(0, 32)", below(8));
  only(below(wgs_), [&] {
    line(
        "copy_gmem_to_smem %0, %i, {}, {} {{src = view($0, [index($1, {})]), dst = view($2, [{}]), barrier = view($3, "
        "[index(0)]),",
        smem, bar, box, s.view);
    line("  oob_mode = zeros, collective_axes = [\"x\"], leader_tracked = {}}}",
         tiles ? (rows ? "Partitioned(0)" : "Partitioned(1)") : "Replicated()");
  });
  const std::string first = fresh(), which = fresh();
  line("{} = eq %x, %c0 : bool[]", first);
  line("{} = convert {} : i32[]", which, first);
  line("cond {} () {{\n    yield\n  }} () {{", which);
  wait(bar);
  line("  yield\n  }}");
  meet(met);
  give(o, got, smem, s);
  close();
}

// A copy that all warpgroups come to, and one of them makes.
void Clusters::predicated() {
  term("predicates");
  const std::string o = output(fmt::format("i32[{}{},4,16]", each(), wgs_)), smem = fresh(), bar = fresh(), p = fresh(),
                    got = fresh();
  const Shared s = shared();
  open_filled(s, smem, bar);
  line("{} = eq %wg, %c{} : bool[]", p, below(wgs_));
  line(
      "copy_gmem_to_smem %0, %x, {}, {}, {} {{src = view($0, [index($1, slice({}, 4), slice(0, 16))]), dst = view($2, "
      "[{}]),",
      smem, bar, p, below(8), s.view);
  line("  barrier = view($3, [index(0)]), predicate = $4, oob_mode = zeros}}");
  wait(bar);
  give(o, got, smem, s);
  close();
}

// Every warpgroup of the grid writes its rows and says so at a semaphore of the device; one of them waits for all and
// reads them.
void Clusters::semaphores() {
  term("global semaphores");
  c_.all_at_once = true;
  const std::string rows = output(fmt::format("i32[{}{},16]", each(), wgs_)), sum = output("i32[16]"), s = fresh(),
                    v = fresh(), last = fresh(), which = fresh(), at = fresh();
  const bool gpu = one_in(2), array = one_in(2);
  const std::string view = array ? fmt::format("view = [index({})], ", below(2)) : "";
  line("{} = get_global : ref<sem[{}], gmem, grid>", s, array ? "2" : "");
  line("{} = get %0, %x, %wg {{view = [index($1, $2, slice(0, 16))]}} : i32[16]", v);
  line("store {}, {}, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, slice(0, 16))]}}", rows, v);
  line("{}sem_signal {} {{{}inc = {}}}", gpu ? "gpu_" : "", s, view, 2);
  // The thread at place 0 of every axis.
  line("{} = or %i, %x : i32[]", at);
  const std::string more = fresh(), all_axes = fresh();
  line("{} = or {}, %y : i32[]", more, at);
  line("{} = or {}, %wg : i32[]", all_axes, more);
  line("{} = eq {}, %c0 : bool[]", last, all_axes);
  line("{} = convert {} : i32[]", which, last);
  line("cond {} () {{\n    yield\n  }} () {{", which);
  line("  {}sem_wait {} {{{}value = {}, decrement = {}}}", gpu ? "gpu_" : "", s, view, 2 * grid_ * x_ * y_ * wgs_,
       true);
  const std::string everything = fresh(), total = fresh();
  line("  {} = get {} : i32[{}{},16]", everything, rows, each(), wgs_);
  line("  {} = reduce_sum {} {{axes = [0, 1, 2, 3]}} : i32[16]", total, everything);
  line("  store {}, {}", sum, total);
  line("  yield\n  }}");
}

}  // namespace pallasim::judge
