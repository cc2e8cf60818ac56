// Indices and masks of generated programs.
#include <fmt/format.h>

#include <algorithm>

#include "body.h"

namespace pallasim::judge {

Value Body::permutation(int64_t n) {
  const Type t{DType::I32, {n}};
  std::vector<const Ref*> held;
  for (const Ref& r : refs)
    if (roots[static_cast<size_t>(r.root)].permutation && r.type == t && can_read(r)) held.push_back(&r);
  if (!held.empty() && rng.chance(60)) return get(*rng.of(held), {t, "", {}});
  const bool power = (n & (n - 1)) == 0;
  if (power && rng.chance(50)) {  // (i * odd + shift) mod n
    const Value i = keep(w.op("iota {axis = 0}", str(t)), t);
    const int odd = number(2 * rng.below(4) + 1), low = number(n - 1);
    const Value s = some({DType::I32, {}});
    const int a = w.op(fmt::format("mul {}, {}", name(i.id), name(odd)), str(t));
    const int b = w.op(fmt::format("add {}, {}", name(a), name(s.id)), str(t));
    return keep(w.op(fmt::format("and {}, {}", name(b), name(low)), str(t)), t);
  }
  if (rng.chance(25)) {
    const Value i = keep(w.op("iota {axis = 0}", str(t)), t);
    return keep(w.op("rev " + name(i.id) + " {axes = [0]}", str(t)), t);
  }
  std::vector<double> p;
  for (int64_t x : rng.permutation(n)) p.push_back(static_cast<double>(x));
  return keep(w.op("constant {value = " + dense(t, p) + "}", str(t)), t);
}

Value Body::indices(const Dims& dims, int64_t n) {
  const Type t{DType::I32, dims};
  if (dims.size() == 1 && dims[0] == n && rng.chance(40)) return permutation(n);
  if (!dims.empty() && n > 0 && rng.chance(40)) return progression(t, n);
  const Value v = some(t);
  const int lo = number(0), hi = number(n - 1);
  return keep(w.op(fmt::format("clamp {}, {}, {}", name(lo), name(v.id), name(hi)), str(t)), t);
}

// start + step * iota, all in 0 to n - 1.
Value Body::progression(const Type& t, int64_t n) {
  const auto axis = rng.below(static_cast<int64_t>(t.dims.size()));
  const int64_t last = t.dims[static_cast<size_t>(axis)] - 1;
  const int64_t most = last > 0 ? std::min<int64_t>((n - 1) / last, 2) : 0, step = rng.in(-most, most);
  const int64_t start = rng.in(std::max<int64_t>(0, -step * last), n - 1 - std::max<int64_t>(0, step * last));
  ++terms["progression of indices"];
  const Value line = keep(w.op(fmt::format("iota {{axis = {}}}", axis), str(t)), t);
  const Value steps = keep(w.op(fmt::format("mul {}, {}", name(line.id), name(number(step))), str(t)), t);
  // Some starts are known at run time only.
  const int64_t room = n - 1 - std::max<int64_t>(0, step * last) - std::max<int64_t>(0, -step * last);
  int first = number(start);
  if (rng.chance(40)) {
    const int least = number(std::max<int64_t>(0, -step * last)), more = index_in(room);
    first = keep(w.op(fmt::format("add {}, {}", name(least), name(more)), "i32[]"), {DType::I32, {}}).id;
  }
  return keep(w.op(fmt::format("add {}, {}", name(first), name(steps.id)), str(t)), t);
}

// start + step * iota compared with a bound: values that wrap around at times, either operand first.
Value Body::condition(const Type& t) {
  const DType d = rng.chance(80) ? DType::I32 : DType::U32;
  const bool sign = d == DType::I32;
  const Type line{d, t.dims};
  const auto axis = rng.below(static_cast<int64_t>(t.dims.size()));
  const int64_t step = sign ? rng.of({1, 1, 1, 2, 3, -1, -2}) : rng.of({1, 1, 2});
  Value at = keep(w.op(fmt::format("iota {{axis = {}}}", axis), str(line)), line);
  const auto scalar = [&](int64_t low, int64_t high) {
    return sign && rng.chance(35) ? index_in(high) : constant(d, static_cast<double>(rng.in(sign ? low : 0, high))).id;
  };
  if (step != 1)
    at = keep(w.op(fmt::format("mul {}, {}", name(at.id), name(constant(d, static_cast<double>(step)).id)), str(line)),
              line);
  if (rng.chance(70)) {
    const int start = rng.chance(15) ? constant(d, sign ? 2147483644.0 : 4294967292.0).id : scalar(-4, 6);
    const bool backwards = rng.chance(25);
    at = keep(w.op(fmt::format("{} {}, {}", backwards ? "sub" : "add", name(start), name(at.id)), str(line)), line);
  }
  const std::string bound = name(scalar(-2, 12)), relation = rng.of({"lt", "lt", "le", "gt", "ge"});
  const std::string operands = rng.chance(75) ? name(at.id) + ", " + bound : bound + ", " + name(at.id);
  return keep(w.op(relation + " " + operands, str(t)), t);
}

// What is left of rows and columns.
Value Body::remainder(const Type& t) {
  ++terms["mask of a remainder"];
  const Value a = condition(t);
  if (rng.chance(65)) return a;
  const Value b = condition(t);
  return keep(w.op("and " + name(a.id) + ", " + name(b.id), str(t)), t);
}

Value Body::mask(const Dims& dims) {
  const Type t{DType::Bool, dims};
  if (!dims.empty() && rng.chance(30)) return remainder(t);
  if (rng.chance(30)) return some(t);
  const DType on = rng.of({DType::I32, DType::F32});
  const Value a = some({on, dims}),
              b = rng.chance(50) ? some({on, {}}) : constant(on, static_cast<double>(rng.in(-2, 6)));
  return keep(
      w.op(fmt::format("{} {}, {}", rng.of({"lt", "le", "gt", "ge", "eq", "ne"}), name(a.id), name(b.id)), str(t)), t);
}

}  // namespace pallasim::judge
