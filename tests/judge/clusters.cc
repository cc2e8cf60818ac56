// Programs of clusters of thread blocks without races: rings that bulk copies fill, exchanges between CTAs, atomics,
// named barriers, products.
#include "clusters.h"

#include <iterator>

namespace pallasim::judge {

void Clusters::write() {
  if (one_in(12)) return write_programs();
  if (one_in(16)) return write_claims();
  grid_ = 1 + below(3), x_ = 1 + below(3), y_ = 1 + below(2), wgs_ = 1 + below(3);
  if (one_in(4)) {
    devices_ = 2 + below(2), grid_ = 1 + below(2), x_ = 1 + below(2), y_ = 1, wgs_ = 1 + below(2);
    depth_ = 1;
    between_devices();
  }
  const int64_t parts = 1 + below(3);
  if (devices_ == 1 && one_in(8)) chain();  // who waited before is not in order any more
  for (int64_t p = 0; p < parts; ++p) part();
  std::string head;
  head_of_mesh(&head);
  end(head);
}

// What programs of clusters begin with, as far as their operands, places and small numbers go.
void Clusters::head_of_mesh(std::string* to) {
  std::string& head = *to;
  const std::string devices =
      devices_ > 1 ? fmt::format(", devices = [axis(\"d\", {})], communicates = true", devices_) : "";
  head += fmt::format("pallasim-ir 1\nmodule \"clusters\" {{machine = mosaic_gpu{}}}\n", devices);
  head += fmt::format(
      "mesh \"gpu\" {{kind = gpu, axes = [axis(\"i\", {}), axis(\"x\", {}), axis(\"y\", {}), axis(\"wg\", {})], grid "
      "= 1, "
      "cluster = 2, threads = 1}}\n",
      grid_, x_, y_, wgs_);
  const std::string args = declare(&head);
  head += fmt::format("body \"gpu\" ({}) {{\n", args);
  for (const char* axis : {"i", "x", "y", "wg"})
    head += fmt::format("  %{} = axis_index {{axis = \"{}\"}} : i32[]\n", axis, axis);
  if (devices_ > 1) head += "  %d = axis_index {axis = \"d\"} : i32[]\n";
  for (int n = 0; n < 8; ++n) head += fmt::format("  %c{} = constant {{value = i32 0x{:x}}} : i32[]\n", n, n);
}

// Programs of a grid that go on from each other, which are there together as each has a barrier.
void Clusters::write_programs() {
  term("programs of a grid");
  grid_ = 2 + below(5);
  const int64_t parts = 1 + below(3);
  for (int64_t p = 0; p < parts; ++p) {
    if (p == 0 || one_in(2)) {
      meet("%c7");
      take_long();
    }
    chain();
  }
  std::string head = "pallasim-ir 1\nmodule \"programs\" {machine = mosaic_gpu}\n";
  head += fmt::format("grid {{size = {}}}\n", grid_);
  const std::string args = declare(&head);
  head += "scratch \"bar\" : ref<mbarrier[1], gsmem> {num_arrivals = 1}\n";
  head += fmt::format("body ({}, %c7 \"bar\": ref<mbarrier[1], gsmem>) {{\n", args);
  head += "  %i = program_id {axis = 0} : i32[]\n";
  for (const char* one : {"x", "y", "wg"}) head += fmt::format("  %{} = constant {{value = i32 0x0}} : i32[]\n", one);
  for (int n = 0; n < 7; ++n) head += fmt::format("  %c{} = constant {{value = i32 0x{:x}}} : i32[]\n", n, n);
  end(head);
}

// A loop that takes longer than another OS thread takes to come.
void Clusters::take_long() {
  const std::string o = output(fmt::format("i32[{}]", grid_)), trips = fresh(), sum = fresh(), k = fresh(),
                    before = fresh(), after = fresh();
  line("{} = constant {{value = i32 0x{:x}}} : i32[]", trips, 1000 + below(4000));
  line("{} = for %c0, {}, %c1, %i ({}: i32[], {}: i32[]) {{", sum, trips, k, before);
  line("  {} = xor {}, {} : i32[]", after, before, k);
  line("  yield {}", after);
  line("}} : i32[]");
  line("store {}, {}, %i {{view = [index($2)]}}", o, sum);
}

// Operands, as text that is added to `head`; as arguments of a body.
std::string Clusters::declare(std::string* head) {
  *head += "input \"a\" : i32[6,8,16] {space = gmem}\ninput \"b\" : i8[2,16,16] {space = gmem}\n";
  std::string args = "%0 \"a\": ref<i32[6,8,16], gmem>, %1 \"b\": ref<i8[2,16,16], gmem>";
  for (const auto& [number, type] : outputs_) {
    *head += fmt::format("output \"o{}\" : {} {{space = gmem}}\n", number, type);
    args += fmt::format(", %{} \"o{}\": ref<{}, gmem>", number, number, type);
  }
  return args;
}

// The text from its head on, and values for its inputs.
void Clusters::end(const std::string& head) {
  c_.text = numbered(head + body_ + "  yield\n}\n");
  c_.devices = static_cast<int>(devices_);
  for (int64_t device = 0; device < devices_; ++device)
    for (const auto& [dims, dtype] : {std::pair{std::vector<int64_t>{6, 8, 16}, ir::DType::I32},
                                      std::pair{std::vector<int64_t>{2, 16, 16}, ir::DType::I8}}) {
      oracle::Array a{dtype, dims, {}};
      int64_t n = ir::byte_size(dtype);
      for (int64_t d : dims) n *= d;
      for (int64_t i = 0; i < n; ++i) a.bytes.push_back(static_cast<std::byte>(rng_()));
      c_.args.push_back(std::move(a));
    }
}

void Clusters::part() {
  depth_ = 1;
  if (devices_ > 1 && one_in(2)) return between_devices();
  static constexpr void (Clusters::*kParts[])() = {&Clusters::ring,
                                                   &Clusters::ring_in_loop,
                                                   &Clusters::exchange,
                                                   &Clusters::peer_store,
                                                   &Clusters::atomics,
                                                   &Clusters::named,
                                                   &Clusters::product,
                                                   &Clusters::bulk_stores,
                                                   &Clusters::reductions,
                                                   &Clusters::polling,
                                                   &Clusters::products_in_flight,
                                                   &Clusters::expected_bytes,
                                                   &Clusters::predicated,
                                                   &Clusters::gathers,
                                                   &Clusters::scatters,
                                                   &Clusters::leader_tracked,
                                                   &Clusters::semaphores,
                                                   &Clusters::warps,
                                                   &Clusters::tensor_product,
                                                   &Clusters::tensor_product,
                                                   &Clusters::tensor_copies,
                                                   &Clusters::tensor_scales};
  (this->*kParts[below(std::size(kParts))])();
}

// The first warpgroup fills slots, the others (itself where there are none) empty them.
void Clusters::ring() {
  const int64_t slots = 1 + below(3), steps = 1 + below(6), consumers = std::max<int64_t>(wgs_ - 1, 1);
  const bool multicast = one_in(2), clipped = one_in(2), along_y = multicast && one_in(2);
  term(multicast ? "ring, multicast" : "ring");
  const std::string o = output(fmt::format("i32[{}{},{},4,16]", each(), wgs_, steps));
  const Shared s = shared(fmt::format("{},", slots));
  const std::string axes = along_y ? "[\"x\", \"y\"]" : "[\"x\"]", ring = fresh(), full = fresh(), empty = fresh();
  line("run_scoped {{collective = [\"wg\"], transforms = [{}, [], []],", s.transforms);
  line("    allocs = [none, {{num_arrivals = 1}}, {{num_arrivals = {}{}}}]}} ({} \"ring\": ref<{}, gsmem, cta>,",
       consumers, multicast ? fmt::format(", collective_axes = [{}]", axes) : "", ring, s.type);
  line("    {} \"full\": ref<mbarrier[{}], gsmem, cta>, {} \"empty\": ref<{}[{}], gsmem, cta>) {{", full, slots, empty,
       multicast ? "cluster_barrier" : "mbarrier", slots);
  ++depth_;
  const auto step = [&](int64_t k) {
    const int64_t slot = k % slots;
    if (k >= slots) line("barrier_wait {} {{barrier = view($0, [index({})])}}", empty, slot);
    // Of several CTAs all name one box.
    const std::string row = multicast ? (along_y ? "%i" : "%y") : one_in(2) ? "%x" : "%i";
    line(
        "copy_gmem_to_smem %0, {}, {}, {} {{src = view($0, [index($1, slice({}, 4), slice(0, 16))]), dst = view($2, "
        "[{}]),",
        row, ring, full, clipped ? 4 + below(4) : below(5),
        join(s.view, fmt::format("index({}, {})", slot, all(4, 16))));
    line("  barrier = view($3, [index({})]), oob_mode = zeros{}}}", slot,
         multicast ? ", collective_axes = " + axes : "");
  };
  const auto use = [&](int64_t k) {
    const std::string v = fresh(), w = fresh();
    line("barrier_wait {} {{barrier = view($0, [index({})])}}", full, k % slots);
    line("{} = get {} {{view = [{}]}} : i32[4,16]", v, ring,
         join(s.view, fmt::format("index({}, {})", k % slots, all(4, 16))));
    line("{} = {} {}, {} : i32[4,16]", w, one_in(2) ? "add" : "mul", v, v);
    line("store {}, {}, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, {}, {})]}}", o, w, k, all(4, 16));
    line("barrier_arrive {} {{barrier = view($0, [index({})])}}", empty, k % slots);
  };
  const auto drain = [&] {
    for (int64_t k = std::max<int64_t>(steps - slots, 0); k < steps; ++k)
      line("barrier_wait {} {{barrier = view($0, [index({})])}}", empty, k % slots);
  };
  if (wgs_ == 1) {
    for (int64_t k = 0; k < steps; ++k) step(k), use(k);
    drain();
  } else {
    only(0, [&] {
      for (int64_t k = 0; k < steps; ++k) step(k);
      drain();
      const std::string ones = fresh();
      line("{} = broadcast_in_dim %c1 {{dims = []}} : i32[{},4,16]", ones, steps);
      line("store {}, {}, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, slice(0, {}), {})]}}", o, ones, steps,
           all(4, 16));
    });
    for (int64_t w = 1; w < wgs_; ++w)
      only(w, [&] {
        for (int64_t k = 0; k < steps; ++k) use(k);
      });
  }
  close();
}

// Each CTA's memory is read by its neighbour along an axis.
void Clusters::exchange() {
  term("exchange");
  const bool along_x = one_in(2), all_of_them = one_in(2);
  const Shared s = shared();
  const std::string o = output(fmt::format("i32[{}{},4,16]", each(), wgs_)), smem = fresh(), met = fresh();
  const std::string axes = all_of_them ? "[\"x\", \"y\"]" : along_x ? "\"x\"" : "\"y\"";
  line(
      "run_scoped {{collective = [\"wg\"], transforms = [{}, []], allocs = [none, {{num_arrivals = {}, "
      "collective_axes = [{}]}}]}} (",
      s.transforms, wgs_, axes);
  line("    {} \"s\": ref<{}, gsmem, cta>, {} \"met\": ref<cluster_barrier[1], gsmem, cta>) {{", smem, s.type, met);
  ++depth_;
  const std::string v = fresh(), w = fresh(), at = fresh(), next = fresh(), got = fresh(), sum = fresh();
  only(below(wgs_), [&] {
    line("{} = get %0, %i {{view = [index($1, slice({}, 4), slice(0, 16))]}} : i32[4,16]", v, below(5));
    const std::string place = fresh();
    line("{} = broadcast_in_dim {} {{dims = []}} : i32[4,16]", place, along_x ? "%x" : "%y");
    line("{} = add {}, {} : i32[4,16]", w, v, place);
    line("store {}, {}{}", smem, w, seen(s));
  });
  meet(met);
  line("{} = add {}, %c1 : i32[]", at, along_x ? "%x" : "%y");
  line("{} = rem {}, %c{} : i32[]", next, at, along_x ? x_ : y_);
  line("{} = get {}, {} {{view = [{}]}} : i32[4,16]", got, smem, next,
       join(s.view, fmt::format("cluster(axis(\"{}\", $1))", along_x ? "x" : "y")));
  line("{} = add {}, {} : i32[4,16]", sum, got, got);
  line("store {}, {}, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, {})]}}", o, sum, all(4, 16));
  meet(met);
  close();
}

// A warpgroup stores values in another CTA, perhaps twice, added the second time.
void Clusters::peer_store() {
  term("peer store");
  const bool along_x = one_in(2), adds = one_in(2);
  const Shared s = shared();
  const std::string o = output(fmt::format("i32[{}4,16]", each())), smem = fresh(), bar = fresh(), met = fresh();
  const char* axis = along_x ? "x" : "y";
  line(
      "run_scoped {{collective = [\"wg\"], transforms = [{}, [], []], allocs = [none, {{num_arrivals = 1}}, "
      "{{num_arrivals = 1, "
      "collective_axes = [\"{}\"]}}]}} (",
      s.transforms, axis);
  line(
      "    {} \"s\": ref<{}, gsmem, cta>, {} \"bar\": ref<mbarrier[1], gsmem, cta>, {} \"met\": "
      "ref<cluster_barrier[1], gsmem, cta>) {{",
      smem, s.type, bar, met);
  ++depth_;
  only(below(wgs_), [&] {
    const std::string v = fresh(), at = fresh(), next = fresh(), got = fresh();
    line("{} = get %0, %{} {{view = [index($1, slice({}, 4), slice(0, 16))]}} : i32[4,16]", v, axis, below(5));
    line("{} = add %{}, %c1 : i32[]", at, axis);
    line("{} = rem {}, %c{} : i32[]", next, at, along_x ? x_ : y_);
    for (int n = 0; n < (adds ? 2 : 1); ++n) {
      line(
          "async_store_smem {}, {}, {}, {} {{value = $0, ref = view($1, [{}]), barrier = view($2, [index(0)]), "
          "cluster_idx = $3,",
          v, smem, bar, next, s.view);
      line("  cluster_dim = [\"{}\"]{}}}", axis, n ? ", atomic = \"add\"" : "");
      wait(bar);
      if (n == 0) meet(met);
    }
    line("{} = get {}{} : i32[4,16]", got, smem, seen(s));
    line("store {}, {}, %i, %x, %y {{view = [index($2, $3, $4, {})]}}", o, got, all(4, 16));
    meet(met);
  });
  close();
}

// All warpgroups change the same memory; the order does not matter.
void Clusters::atomics() {
  static constexpr const char* kKinds[] = {"add", "max", "min", "and", "or", "xor"};
  const char* kind = kKinds[below(6)];
  term("atomics");
  const Shared s = shared();
  const std::string o = output(fmt::format("i32[{}4,16]", each())), smem = fresh(), met = fresh(), v = fresh();
  const std::string view = seen(s);
  line(
      "run_scoped {{collective = [\"wg\"], transforms = [{}, []], allocs = [none, {{num_arrivals = {}}}]}} ({} "
      "\"s\": ref<{}, gsmem, cta>,",
      s.transforms, wgs_, smem, s.type);
  line("    {} \"met\": ref<mbarrier[1], gsmem, cta>) {{", met);
  ++depth_;
  only(0, [&] {
    const std::string z = fresh();
    line("{} = broadcast_in_dim %c{} {{dims = []}} : i32[4,16]", z, below(8));
    line("store {}, {}{}", smem, z, view);
  });
  meet(met);
  line("{} = get %0, %wg {{view = [index($1, slice({}, 4), slice(0, 16))]}} : i32[4,16]", v, below(5));
  line("gpu_atomic_store {}, {} {{ref = view($0, [{}]), value = $1, kind = {}}}", smem, v, s.view, kind);
  meet(met);
  only(wgs_ - 1, [&] {
    const std::string got = fresh();
    line("{} = get {}{} : i32[4,16]", got, smem, view);
    line("store {}, {}, %i, %x, %y {{view = [index($2, $3, $4, {})]}}", o, got, all(4, 16));
    if (one_in(2)) return;
    term("bulk store");
    line("commit_smem");
    const std::string dst = fmt::format("index($1, $2, $3, {})", all(4, 16));
    for (const char* how : {"", ", reduction_op = \"add\""}) {
      line("copy_smem_to_gmem {}, %i, %x, %y, {} {{src = view($0, [{}]), dst = view($4, [{}]){}}}", smem, o, s.view,
           dst, how);
      line("wait_smem_to_gmem %c0 {{wait_read_only = false}}");
      if (one_in(2)) break;
    }
  });
  close();
}

// One warpgroup hands a value to the next at a named barrier; then all meet.
void Clusters::named() {
  term("named barriers");
  const std::string o = output(fmt::format("i32[{}{},4,16]", each(), wgs_)), smem = fresh();
  const int64_t id = 1 + below(15);
  line("run_scoped {{collective = [\"wg\"]}} ({} \"s\": ref<i32[4,16], gsmem, cta>) {{", smem);
  ++depth_;
  only(0, [&] {
    const std::string v = fresh();
    line("{} = get %0, %x {{view = [index($1, slice({}, 4), slice(0, 16))]}} : i32[4,16]", v, below(5));
    line("store {}, {}", smem, v);
    if (wgs_ > 1) line("ptx {{does = [fence, named_barrier_{}({}, 256)]}}", one_in(2) ? "arrive" : "sync", id);
  });
  if (wgs_ > 1)
    only(1, [&] {
      const std::string v = fresh(), w = fresh();
      line("ptx {{does = [named_barrier_sync({}, 256)]}}", id);
      line("{} = get {} : i32[4,16]", v, smem);
      line("{} = mul {}, {} : i32[4,16]", w, v, v);
      line("store {}, {}", smem, w);
    });
  line("ptx {{does = [named_barrier_sync(0)]}}");
  const std::string got = fresh();
  line("{} = get {} : i32[4,16]", got, smem);
  line("store {}, {}, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, {})]}}", o, got, all(4, 16));
  line("ptx {{does = [named_barrier_sync(0)]}}");
  close();
}

// A product of operands that a bulk copy brought, in a union with memory that is used behind it.
void Clusters::product() {
  term("product");
  const std::string o = output(fmt::format("i32[{}16,16]", each())), u = fresh(), bar = fresh(), acc = fresh(),
                    r = fresh(), v = fresh(), got = fresh();
  line(
      "run_scoped {{collective = [\"wg\"], allocs = [none, {{num_arrivals = 2}}]}} ({} \"u\": ref<i8[1024], gsmem, "
      "cta>,",
      u);
  line("    {} \"bar\": ref<mbarrier[1], gsmem, cta>) {{", bar);
  ++depth_;
  only(below(wgs_), [&] {
    for (int n = 0; n < 2; ++n)
      line(
          "copy_gmem_to_smem %1, {}, {} {{src = view($0, [index({}, {})]), dst = view($1, [extract(i8[16,16], {}, "
          "0)]), "
          "barrier = view($2, [index(0)]), oob_mode = zeros}}",
          u, bar, n, all(16, 16), n * 256);
    wait(bar);
    line("{} = run_scoped {{allocs = [{{accumulator = true}}]}} ({} \"acc\": ref<i32[16,16], regs>) {{", r, acc);
    ++depth_;
    for (int64_t n = 1 + below(2); n-- > 0;)
      line(
          "wgmma_ref {}, {}, {} {{acc = view($0, []), a = view($1, [extract(i8[16,16], 0, 0)]), b = view($2, "
          "[extract(i8[16,16], 256, "
          "0), transpose(1, 0)])}}",
          acc, u, u);
    line("{} = wgmma_accumulator_deref {} {{wait_n = 0}} : i32[16,16]", v, acc);
    line("yield {}", v);
    --depth_;
    line("}} : i32[16,16]");
    line("store {}, {} {{view = [extract(i32[2,2,8,8], 0, 1), untile(8, 8)]}}", u, r);
    line("{} = get {} {{view = [extract(i32[2,2,8,8], 0, 1), untile(8, 8)]}} : i32[16,16]", got, u);
    line("store {}, {}, %i, %x, %y {{view = [index($2, $3, $4, {})]}}", o, got, all(16, 16));
  });
  close();
}

// `value`: row `at` of `o`, which a bulk copy brought into shared memory before other values came to the row; they are
// there while it is read, and then the row is as before.
void Clusters::changed_source(const std::string& o, const std::string& at, const std::string& value,
                              const std::function<void()>& use) {
  term("bulk copy of what changes behind it");
  const std::string s = fresh(), bar = fresh(), zeros = fresh(), last = fresh();
  line("run_scoped {{collective = [\"wg\"], transforms = [[], []], allocs = [none, {{num_arrivals = 1}}]}} (");
  line("    {} \"s\": ref<i32[1,16], gsmem, cta>, {} \"bar\": ref<mbarrier[1], gsmem, cta>) {{", s, bar);
  ++depth_;
  line("copy_gmem_to_smem {}, {}, {}, {} {{src = view($0, [index(slice($1, 1), slice(0, 16))]), dst = view($2, []),", o,
       at, s, bar);
  line("  barrier = view($3, [index(0)]), oob_mode = zeros}}");
  line("barrier_wait {} {{barrier = view($0, [index(0)])}}", bar);
  line("{} = broadcast_in_dim %c0 {{dims = []}} : i32[16]", zeros);
  line("store {}, {}, {} {{view = [index($2, slice(0, 16))]}}", o, zeros, at);
  line("{} = get {} {{view = [index(0, slice(0, 16))]}} : i32[16]", value, s);
  use();
  line("{} = add {}, {} : i32[16]", last, value, zeros);
  line("store {}, {}, {} {{view = [index($2, slice(0, 16))]}}", o, last, at);
  close();
}

// Each thread block goes on from what the one before it left in the array, one element or a row.
void Clusters::chain() {
  term("chain of thread blocks");
  c_.in_order = true;
  const bool row = one_in(3);
  const std::string tail = row ? ",16" : "", type = row ? "i32[16]" : "i32[]", rest = row ? ", slice(0, 16)" : "",
                    o = output(fmt::format("i32[{}{}]", grid_, tail));
  const auto own = [&] {
    const std::string v = fresh();
    if (row) line("{} = get %0, %i {{view = [index($1, {}, slice(0, 16))]}} : i32[16]", v, below(8));
    else line("{} = get %0, %i {{view = [index($1, {}, {})]}} : i32[]", v, below(8), below(16));
    return v;
  };
  const auto leave = [&](const std::string& v) { line("store {}, {}, %i {{view = [index($2{})]}}", o, v, rest); };
  const std::string place = fresh(), first = fresh();
  line("{} = or %x, %y : i32[]", place);
  line("{} = or {}, %wg : i32[]", first, place);
  when(fmt::format("eq {}, %c0", first), [&] {
    when("eq %i, %c0", [&] { leave(own()); });
    when("ne %i, %c0", [&] {
      const std::string before = fresh(), left = fresh(), twice = fresh(), sum = fresh();
      const auto go_on = [&] {
        line("{} = add {}, {} : {}", twice, left, left, type);
        line("{} = add {}, {} : {}", sum, twice, own(), type);
        leave(sum);
      };
      line("{} = sub %i, %c1 : i32[]", before);
      if (row && wgs_ == 1 && one_in(2)) return changed_source(o, before, left, go_on);
      line("{} = get {}, {} {{view = [index($1{})]}} : {}", left, o, before, rest, type);
      go_on();
    });
  });
}

Case generate_clusters(uint64_t seed) {
  Case c;
  c.seed = seed;
  Clusters(&c).write();
  return c;
}

}  // namespace pallasim::judge
