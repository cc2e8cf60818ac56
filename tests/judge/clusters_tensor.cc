// Programs of clusters that use tensor memory: products of one CTA and of pairs, copies, loads and stores.
#include "clusters.h"

namespace pallasim::judge {

// What a pair shares is started by its first CTA, and the other one may name it or not.
void Clusters::by_leader(bool pair, const std::function<void()>& f) {
  if (pair && one_in(2)) when("eq %x, %c0", f);
  else f();
}

// The accumulator's columns are those of one CTA's right operand, or of both. Operands come by bulk copies; the left
// one may go on to tensor memory. Each round adds to the sum or begins it anew.
void Clusters::tensor_product() {
  const bool pair = x_ == 2 && one_in(2);
  term(pair ? "tensor product of a pair" : "tensor product");
  const int64_t columns = pair ? 32 : 16, rounds = 1 + below(3), wg = below(wgs_);
  const std::string o = output(fmt::format("i32[{}{},16,{}]", each(), wgs_, columns)), a = fresh(), b = fresh(),
                    bar = fresh(), met = fresh(), used = fresh(), done = fresh(), acc = fresh(), tmem = fresh(),
                    got = fresh(), axis = pair ? ", collective_axis = [\"x\"]" : "";
  line(
      "run_scoped {{collective = [\"wg\"], allocs = [none, none, {{num_arrivals = 2}}, {{num_arrivals = 1, "
      "collective_axes = [\"x\"]}},");
  line(
      "    {{num_arrivals = 1, orders_tensor_core = true}}, {{num_arrivals = 1, orders_tensor_core = true}}, none, "
      "none]}} (");
  line(
      "    {} \"a\": ref<i8[16,16], gsmem, cta>, {} \"b\": ref<i8[16,16], gsmem, cta>, {} \"bar\": ref<mbarrier[1], "
      "gsmem, cta>,",
      a, b, bar);
  line(
      "    {} \"met\": ref<cluster_barrier[1], gsmem, cta>, {} \"used\": ref<mbarrier[1], gsmem, cta>, {} \"done\": "
      "ref<mbarrier[1], gsmem, cta>,",
      met, used, done);
  line("    {} \"acc\": ref<i32[16,{}], tmem, cta>, {} \"left\": ref<i8[16,16], tmem, cta>) {{", acc, columns, tmem);
  ++depth_;
  only(wg, [&] {
    for (int64_t r = 0; r < rounds; ++r)
      tensor_round({a, b, bar, met, r + 1 < rounds ? used : done, acc, tmem, axis, done}, r);
  });
  wait(done);
  line("{} = async_load_tmem {} {{ref = view($0, [])}} : i32[16,{}]", got, acc, columns);
  line("store {}, {}, %i, %x, %y, %wg {{view = [index($2, $3, $4, $5, {})]}}", o, got, all(16, columns));
  close();
}

void Clusters::tensor_round(const TensorRound& p, int64_t round) {
  const bool pair = !p.axis.empty(), left = !pair && one_in(3);
  if (left) term("tensor product of tensor memory");
  const std::string anew = fresh(), adds = fresh(), v = fresh();
  for (const std::string& to : {p.a, p.b}) {
    const bool own = pair && one_in(2);  // of the two CTAs each has another one
    line(
        "copy_gmem_to_smem %1, {}, {}{} {{src = view($0, [index({}, {})]), dst = view($1, []), barrier = view($2, "
        "[index(0)]), oob_mode = zeros}}",
        to, p.bar, own ? ", %x" : "", own ? "$3" : std::to_string(below(2)), all(16, 16));
  }
  wait(p.bar);
  if (pair) meet(p.met);
  line("{} = constant {{value = bool 0x0}} : bool[]", anew);
  line("{} = eq %{}, %c{} : bool[]", adds, one_in(2) ? "i" : "y", below(2));
  if (left) {
    line("{} = get {} : i8[16,16]", v, p.a);
    if (round > 0) line("wait_load_tmem");
    line("async_store_tmem {}, {} {{ref = view($0, []), value = $1}}", p.tmem, v);
    line("commit_tmem");
  }
  const bool commits = one_in(2);
  const int64_t products = 1 + below(3);
  by_leader(pair, [&] {
    for (int64_t n = 0; n < products; ++n) {
      const bool tells = !commits && n + 1 == products;
      line(
          "tcgen05_mma {}, {}, {}, {}{} {{acc = view($0, []), a = view($1, [{}]), b = view($2, [{}]), accumulate = $3,",
          p.acc, left ? p.tmem : p.a, p.b, n == 0 && round == 0 ? anew : adds, tells ? ", " + p.tells : "",
          !left && one_in(3) ? "transpose(1, 0)" : "", one_in(3) ? "transpose(1, 0)" : "");
      line("  {}arrive = {}, scaled = false, sparse = false{}}}", tells ? "barrier = view($4, [index(0)]), " : "",
           tells, p.axis);
    }
    if (commits) line("tcgen05_commit_arrive {} {{barrier = view($0, [index(0)]){}}}", p.tells, p.axis);
  });
  if (p.tells != p.last) wait(p.tells);
}

// From shared to tensor memory, in parts; from there and back by registers.
void Clusters::tensor_copies() {
  const bool scales = one_in(2), again = one_in(2);
  term(scales ? "scales to tensor memory" : "copies to tensor memory");
  const std::string shape = scales ? "128,4" : "16,16", o = output(fmt::format("i8[{}{}]", each(), shape)), s = fresh(),
                    bar = fresh(), done = fresh(), tmem = fresh(), v = fresh(), got = fresh(), part = fresh();
  line(
      "run_scoped {{collective = [\"wg\"], allocs = [none, {{num_arrivals = 1}}, {{num_arrivals = 1, "
      "orders_tensor_core = true}}, none]}} (");
  line(
      "    {} \"s\": ref<i8[{}], gsmem, cta>, {} \"bar\": ref<mbarrier[1], gsmem, cta>, {} \"done\": ref<mbarrier[1], "
      "gsmem, cta>, {} \"t\": ref<i8[{}], tmem, cta>) {{",
      s, scales ? "1,1,32,16" : "16,16", bar, done, tmem, shape);
  ++depth_;
  only(below(wgs_), [&] {
    if (scales)
      line(
          "copy_gmem_to_smem %1, {}, {} {{src = view($0, [reshape(1, 1, 32, 16)]), dst = view($1, []), barrier = "
          "view($2, [index(0)]), oob_mode = zeros}}",
          s, bar);
    else
      line(
          "copy_gmem_to_smem %1, {}, {} {{src = view($0, [index({}, {})]), dst = view($1, []), barrier = view($2, "
          "[index(0)]), oob_mode = zeros}}",
          s, bar, below(2), all(16, 16));
    wait(bar);
    if (scales) line("async_copy_scales_to_tmem {}, {} {{smem = view($0, []), tmem = view($1, [])}}", s, tmem);
    for (int64_t half = 0; half < 2 && !scales; ++half)
      line(
          "async_copy_smem_to_tmem {}, {} {{smem = view($0, [index(slice(0, 16), slice({}, 8))]), tmem = view($1, "
          "[index(slice(0, 16), slice({}, 8))])}}",
          s, tmem, 8 * half, 8 * (1 - half));
    line("tcgen05_commit_arrive {} {{barrier = view($0, [index(0)])}}", done);
    wait(done);
    line("{} = async_load_tmem {} {{ref = view($0, [])}} : i8[{}]", v, tmem, shape);
    if (again) {
      const std::string rows = scales ? "slice(0, 128), slice(0, 4)" : "slice(0, 8), slice(0, 16)";
      line("wait_load_tmem");
      line("{} = async_load_tmem {} {{ref = view($0, [index({})])}} : i8[{}]", part, tmem, rows,
           scales ? "128,4" : "8,16");
      line("wait_load_tmem");
      line("async_store_tmem {}, {} {{ref = view($0, [index({})]), value = $1}}", tmem, part,
           scales ? rows : "slice(8, 8), slice(0, 16)");
      line("commit_tmem");
    }
    line("{} = async_load_tmem {} {{ref = view($0, [])}} : i8[{}]", got, tmem, shape);
    line("store {}, {}, %i, %x, %y {{view = [index($2, $3, $4, {})]}}", o, again ? got : v,
         scales ? all(128, 4) : all(16, 16));
  });
  close();
}

// Operands of narrow floats with scales, or of a sparse left side, whose numbers are small enough that every sum is
// exact.
void Clusters::tensor_scales() {
  const bool sparse = one_in(2), scaled = !sparse || one_in(3), halves = sparse && !scaled && one_in(2);
  term(sparse ? (scaled ? "tensor product, sparse with scales" : "tensor product, sparse") : "tensor product, scales");
  const char* const in = halves ? "f16" : one_in(2) ? "f8e4m3fn" : "f8e5m2";
  // The right operand is of 16 or 32 rows; a sparse left one has half of them.
  const int64_t k = halves ? 32 : 16, held = sparse ? k / 2 : k, blocks = 1 << below(3);
  const std::string o = output(fmt::format("f32[{}16,16]", each())), a = fresh(), b = fresh(), done = fresh(),
                    acc = fresh(), sa = fresh(), sb = fresh(), which = fresh();
  line(
      "run_scoped {{collective = [\"wg\"], allocs = [none, none, {{num_arrivals = 1, orders_tensor_core = true}}, "
      "none, "
      "none, none, none]}} (");
  line(
      "    {} \"a\": ref<{}[16,{}], gsmem, cta>, {} \"b\": ref<{}[{},16], gsmem, cta>, {} \"done\": ref<mbarrier[1], "
      "gsmem, cta>, {} \"acc\": ref<f32[16,16], tmem, cta>,",
      a, in, held, b, in, k, done, acc);
  line(
      "    {} \"sa\": ref<f8e8m0fnu[16,{}], tmem, cta>, {} \"sb\": ref<f8e8m0fnu[16,{}], tmem, cta>, {} \"which\": "
      "ref<u2[16,{}], tmem, cta>) {{",
      sa, blocks, sb, blocks, which, k / 2);
  ++depth_;
  only(below(wgs_), [&] {
    const auto operand = [&](const std::string& to, int64_t rows, int64_t columns, int64_t row) {
      const std::string raw = fresh(), v = fresh();
      line("{} = get %1 {{view = [index({}, slice({}, {}), slice(0, {}))]}} : i8[{},{}]", raw, below(2), row, rows,
           columns, rows, columns);
      line("{} = convert {} : {}[{},{}]", v, raw, in, rows, columns);
      line("store {}, {} {{view = [index(slice({}, {}), slice(0, {}))]}}", to, v, row, rows, columns);
    };
    operand(a, 16, held, 0);
    operand(b, 16, 16, 0);
    if (k > 16) {
      const std::string raw = fresh(), v = fresh();
      line("{} = get %1 {{view = [index({}, {})]}} : i8[16,16]", raw, below(2), all(16, 16));
      line("{} = convert {} : {}[16,16]", v, raw, in);
      line("store {}, {} {{view = [index(slice(16, 16), slice(0, 16))]}}", b, v);
    }
    line("commit_smem");
    // 1 or 2, by row and block.
    const auto numbers = [&](const char* type, int64_t rows, int64_t columns, int64_t mask) {
      const std::string n = fresh(), m = fresh(), mask_of = fresh(), bits = fresh(), v = fresh(), all_of = fresh(),
                        row = fresh(), column = fresh(), part = fresh();
      line("{} = iota {{axis = 0}} : i32[{},{}]", row, rows, columns);
      line("{} = iota {{axis = 1}} : i32[{},{}]", column, rows, columns);
      const std::string eight = fresh(), eights = fresh();
      const bool by_row = one_in(2);
      line("{} = constant {{value = i32 0x8}} : i32[]", eight);
      line("{} = broadcast_in_dim {} {{dims = []}} : i32[{},{}]", eights, eight, rows, columns);
      line("{} = div {}, {} : i32[{},{}]", part, by_row ? row : column, eights, rows, columns);
      line("{} = add {}, {} : i32[{},{}]", n, by_row ? column : row, part, rows, columns);
      line("{} = constant {{value = i32 0x{:x}}} : i32[]", mask_of, mask);
      line("{} = broadcast_in_dim {} {{dims = []}} : i32[{},{}]", all_of, mask_of, rows, columns);
      line("{} = and {}, {} : i32[{},{}]", m, n, all_of, rows, columns);
      if (std::string(type) == "u2") {
        line("{} = convert {} : u2[{},{}]", v, m, rows, columns);
        return v;
      }
      const std::string one = fresh(), sum = fresh();
      line("{} = broadcast_in_dim %c1 {{dims = []}} : i32[{},{}]", one, rows, columns);
      line("{} = add {}, {} : i32[{},{}]", sum, m, one, rows, columns);
      line("{} = convert {} : f32[{},{}]", bits, sum, rows, columns);
      line("{} = convert {} : {}[{},{}]", v, bits, type, rows, columns);
      return v;
    };
    std::string more;
    std::string attrs;
    int at = 4;
    if (scaled)
      for (const auto& [ref, key] : {std::pair(sa, "a_scale"), std::pair(sb, "b_scale")}) {
        const std::string v = numbers("f8e8m0fnu", 16, blocks, 1);
        line("async_store_tmem {}, {} {{ref = view($0, []), value = $1}}", ref, v);
        more += ", " + ref, attrs += fmt::format("{} = view(${}, []), ", key, at++);
      }
    if (sparse) {
      const std::string v = numbers("u2", 16, k / 2, 3);
      line("async_store_tmem {}, {} {{ref = view($0, []), value = $1}}", which, v);
      more += ", " + which, attrs += fmt::format("a_sparse_metadata = view(${}, []), ", at++);
    }
    line("commit_tmem");
    const std::string anew = fresh(), got = fresh();
    line("{} = constant {{value = bool 0x0}} : bool[]", anew);
    line(
        "tcgen05_mma {}, {}, {}, {}{} {{acc = view($0, []), a = view($1, []), b = view($2, []), accumulate = $3, "
        "{}arrive "
        "= false, scaled = {}, sparse = {}}}",
        acc, a, b, anew, more, attrs, scaled, sparse);
    line("tcgen05_commit_arrive {} {{barrier = view($0, [index(0)])}}", done);
    wait(done);
    line("{} = async_load_tmem {} {{ref = view($0, [])}} : f32[16,16]", got, acc);
    line("store {}, {}, %i, %x, %y {{view = [index($2, $3, $4, {})]}}", o, got, all(16, 16));
  });
  close();
}

}  // namespace pallasim::judge
