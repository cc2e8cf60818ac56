// Grids whose points are scalars: elements at places that move with the coordinates, of whole arrays and of blocks.
// Some points depend on others, or meet at one element.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "body.h"
#include "case.h"

namespace pallasim::judge {
namespace {

struct Array {
  std::string kind, name, block, map;
  Type type, seen;
  int id = -1;
  // The first element that a point touches, in each dimension of what it sees: a coefficient per axis.
  std::vector<Dims> step;
  Dims slack;  // so many further ones it may touch
};

class Points {
 public:
  Points(Rng& rng, Case& c) : rng_(rng), c_(c), body_(rng, w_, ir::Machine::Generic, c.terms) {}

  void make() {
    choose_grid();
    for (int64_t k = rng_.in(1, 3); k > 0; --k) arrays_.push_back(array("input", fmt::format("x{}", k)));
    for (int64_t k = rng_.in(1, 2); k > 0; --k) arrays_.push_back(array("output", fmt::format("o{}", k)));
    for (Array& a : arrays_) a.id = w_.fresh();
    begin_body();
    for (int64_t k = rng_.in(3, 14); k > 0; --k) step();
    for (const Array& a : arrays_)
      if (a.kind == "output") store(a);
    if (rng_.chance(20)) store(arrays_.back());
    arguments();
    c_.text = text();
    ++c_.terms["grid points of scalars"];
  }

 private:
  void choose_grid() {
    machine_ = rng_.of({ir::Machine::Generic, ir::Machine::Generic, ir::Machine::Tpu});
    body_.machine = machine_;
    if (rng_.chance(40)) body_.dtypes.push_back(rng_.of({DType::BF16, DType::F16, DType::I16, DType::U8, DType::U32}));
    if (machine_ == ir::Machine::Generic && rng_.chance(15)) body_.dtypes.push_back(rng_.of({DType::I64, DType::F64}));
    for (int64_t k = rng_.below(3); k > 0; --k) grid_.push_back(rng_.in(1, 3));
    const bool parts = grid_.empty() && rng_.chance(3);  // more points than are taken at a time
    grid_.insert(grid_.begin() + rng_.below(static_cast<int64_t>(grid_.size()) + 1),
                 parts ? 4098 : rng_.of({16, 17, 24, 40, 64, 97, 200}));
  }

  int64_t reach(const Dims& step) const {
    int64_t n = 0;
    for (size_t g = 0; g < grid_.size(); ++g) n += step[g] * (grid_[g] - 1);
    return n;
  }

  // Inputs: anything. Outputs: every element is written.
  Array array(const std::string& kind, const std::string& name) {
    Array a{kind, name, "", "", {rng_.of(body_.dtypes), {}}, {}, -1, {}, {}};
    const bool output = kind == "output";
    a.step.assign(static_cast<size_t>(rng_.in(1, 2)), Dims(grid_.size(), 0));
    for (size_t g = 0; g < grid_.size(); ++g)
      if (rng_.chance(output ? 90 : 70)) rng_.of(a.step)[g] = output ? 1 : rng_.of({1, 1, 2, 3});
    for (Dims& step : a.step) {
      // Axis by axis, as the elements of an array lie.
      const int64_t each = output ? rng_.of({1, 1, 1, 2}) : 1;
      int64_t n = each;
      for (size_t g = grid_.size(); g-- > 0;)
        if (step[g] != 0 && (output || rng_.chance(60))) step[g] = n, n *= grid_[g];
      // Of an output the point writes all, and sometimes elements of the next one.
      a.slack.push_back(output ? each - 1 + rng_.chance(8) : rng_.chance(60) ? 0 : rng_.in(1, 2));
    }
    if (rng_.chance(40)) make_blocks(&a);
    if (a.block.empty()) {
      for (size_t d = 0; d < a.step.size(); ++d) a.type.dims.push_back(reach(a.step[d]) + a.slack[d] + 1);
      a.seen = a.type;
    }
    return a;
  }

  // The steps become those of blocks, in which all points touch the same.
  void make_blocks(Array* a) {
    Writer w;
    std::string args, sizes;
    for (size_t g = 0; g < grid_.size(); ++g) args += (args.empty() ? "" : ", ") + judge::name(w.fresh()) + ": i32[]";
    std::vector<int> results;
    a->seen.dtype = a->type.dtype;
    Dims slack;
    // A block that the grid comes back to is a finding.
    for (size_t g = 0; g < grid_.size(); ++g)
      if (a->kind == "output" && grid_[g] > 1 &&
          std::all_of(a->step.begin(), a->step.end(), [&](const Dims& step) { return step[g] == 0; }))
        return;
    if (a->kind == "output" && std::any_of(a->slack.begin(), a->slack.end(), [](int64_t n) { return n > 0; })) return;
    for (const Dims& step : a->step) {
      int at = w.op("constant {value = i32 0x0}", "i32[]");
      for (size_t g = 0; g < grid_.size(); ++g) {
        if (step[g] == 0) continue;
        const int by = w.op("constant {value = " + literal(DType::I32, static_cast<double>(step[g])) + "}", "i32[]");
        const int term = w.op(fmt::format("mul {}, {}", judge::name(static_cast<int>(g)), judge::name(by)), "i32[]");
        at = w.op(fmt::format("add {}, {}", judge::name(at), judge::name(term)), "i32[]");
      }
      results.push_back(at);
      const int64_t n = rng_.of({0, 1, 2});  // 0: squeezed
      sizes += (sizes.empty() ? "" : ", ") + (n == 0 ? std::string("squeezed") : fmt::format("blocked({})", n));
      a->type.dims.push_back((reach(step) + 1) * std::max<int64_t>(n, 1));
      if (n > 0) a->seen.dims.push_back(n), slack.push_back(n - 1);
    }
    w.line("yield " + names(results));
    a->block = ", block = [" + sizes + "]";
    a->map = " (" + args + ") {\n" + w.text() + "}";
    a->step.assign(slack.size(), Dims(grid_.size(), 0));
    a->slack = slack;
    ++c_.terms["elements of blocks"];
  }

  void begin_body() {
    for (size_t g = 0; g < grid_.size(); ++g) {
      Value v{w_.op(fmt::format("program_id {{axis = {}}}", g), "i32[]"), {DType::I32, {}}, 0, grid_[g] - 1, 4};
      ids_.push_back(v.id);
      body_.values.push_back(v);
    }
    load(arrays_[0]);
  }

  // An element that the point touches. Places are operands from number `operand` on.
  View place(const Array& a, Dims first, size_t operand) {
    View v{{a.type.dtype, {}}, "", {}};
    std::string entries;
    for (size_t d = 0; d < a.step.size(); ++d) {
      int at = sum(a.step[d]);
      if (at >= 0 && first[d] > 0)
        at = w_.op(fmt::format("add {}, {}", name(at), name(body_.number(first[d]))), "i32[]");
      else if (at < 0 && rng_.chance(50)) at = body_.number(first[d]);
      if (at >= 0 && operand == 1 && rng_.chance(4)) at = no_sum(at, a.seen.dims[d]);
      entries += entries.empty() ? "" : ", ";
      if (at < 0) entries += std::to_string(first[d]);
      else entries += fmt::format("${}", v.operands.size() + operand), v.operands.push_back(at);
    }
    if (!a.step.empty()) v.text = fmt::format(" {{view = [index({})]}}", entries);
    return v;
  }

  int sum(const Dims& step) {
    int at = -1;
    for (size_t g = 0; g < grid_.size(); ++g) {
      if (step[g] == 0) continue;
      int term = ids_[g];
      if (step[g] != 1 || rng_.chance(20))
        term = w_.op(fmt::format("mul {}, {}", name(term), name(body_.number(step[g]))), "i32[]");
      at = at < 0 ? term : w_.op(fmt::format("add {}, {}", name(at), name(term)), "i32[]");
    }
    return at;
  }

  // A place that is no sum of coordinates.
  int no_sum(int at, int64_t extent) {
    ++c_.terms["a place that is no sum of coordinates"];
    const std::string end = name(body_.number(extent - 1));
    at = w_.op(rng_.chance(50) ? fmt::format("sub {}, {}", end, name(at))
                               : fmt::format("min {}, {}", name(at), name(body_.number(rng_.in(1, 9)))),
               "i32[]");
    return w_.op(fmt::format("min {}, {}", name(at), end), "i32[]");
  }

  Value get(const Array& a, const View& v) {
    std::string operands = name(a.id);
    for (const int k : v.operands) operands += ", " + name(k);
    return body_.keep(w_.op("get " + operands + v.text, str(v.type)), v.type, 4);
  }

  void load(const Array& a) {
    Dims first;
    for (const int64_t n : a.slack) first.push_back(rng_.in(0, n));
    get(a, place(a, first, 1));
  }

  // All that is the point's, in one of two orders; what was stored is sometimes read again.
  void store(const Array& a) {
    const bool down = rng_.chance(50);
    Dims first(a.slack.size(), 0);
    for (;;) {
      Dims at_first = first;
      for (size_t d = 0; d < first.size() && down; ++d) at_first[d] = a.slack[d] - first[d];
      const Value x = body_.some({a.type.dtype, {}});
      const View v = place(a, at_first, 2);
      std::string at;
      for (const int k : v.operands) at += ", " + name(k);
      w_.line("store " + name(a.id) + ", " + name(x.id) + at + v.text);
      if (rng_.chance(30)) {
        View again = v;  // its places are operands 1 and 2, not 2 and 3
        for (size_t k = 0; k < v.operands.size(); ++k)
          again.text.replace(again.text.find(fmt::format("${}", k + 2)), 2, fmt::format("${}", k + 1));
        body_.combine(get(a, again), body_.some(v.type));
      }
      size_t d = first.size();
      while (d > 0 && first[d - 1] == a.slack[d - 1]) first[--d] = 0;
      if (d == 0) return;
      ++first[d - 1];
    }
  }

  void step() {
    const Type t{rng_.of(body_.dtypes), {}};
    const auto put = [&](const std::string& op, double mag) { body_.keep(w_.op(op, str(t)), t, mag); };
    switch (rng_.below(7)) {
      case 0:
      case 1:
        return load(arrays_[static_cast<size_t>(rng_.below(
            std::count_if(arrays_.begin(), arrays_.end(), [](const Array& a) { return a.kind == "input"; })))]);
      case 2: {
        const Value x = body_.some(t), y = body_.some(t);
        const int p =
            w_.op(fmt::format("{} {}, {}", rng_.of({"lt", "le", "eq", "ne"}), name(x.id), name(y.id)), "bool[]");
        const Value a = body_.some(t), b = body_.some(t);
        return put(fmt::format("select_n {}, {}, {}", name(p), name(a.id), name(b.id)), std::max(a.mag, b.mag));
      }
      case 3: {
        const Value x = body_.some(t);
        return put(fmt::format("{} {}", rng_.of({"neg", "abs", "sign"}), name(x.id)), std::max(1.0, x.mag));
      }
      case 4: return void(body_.convert(body_.some({rng_.of(body_.dtypes), {}}), t.dtype));
      default: body_.combine(body_.some(t), body_.some(t));
    }
  }

  void arguments() {
    for (const Array& a : arrays_) {
      if (a.kind != "input") continue;
      std::vector<double> v;
      for (int64_t k = a.type.size(); k > 0; --k)
        v.push_back(ir::is_float(a.type.dtype) ? static_cast<double>(rng_.in(-16, 16)) / 4
                                               : static_cast<double>(rng_.in(0, 12)));
      c_.args.push_back({a.type.dtype, a.type.dims, encode(a.type.dtype, v)});
    }
  }

  std::string text() const {
    const bool tpu = machine_ == ir::Machine::Tpu;
    std::string t =
        fmt::format("pallasim-ir 1\nmodule \"judged_{}\" {{machine = {}}}\n", c_.seed, tpu ? "tpu" : "generic");
    for (const int64_t n : grid_) t += fmt::format("grid {{size = {}}}\n", n);
    const std::string space = tpu ? "smem" : "any";
    std::string args;
    for (const Array& a : arrays_) {
      args += (args.empty() ? "" : ", ") + name(a.id) + " \"" + a.name + "\": " + ref_type(a.seen, space);
      t += a.kind + " \"" + a.name + "\" : " + str(a.type) + " {space = " + space + a.block + "}" + a.map + "\n";
    }
    return t + "body (" + args + ") {\n" + w_.text() + "  yield\n}\n";
  }

  Rng& rng_;
  Case& c_;
  Writer w_;
  Body body_;
  ir::Machine machine_ = ir::Machine::Generic;
  Dims grid_;
  std::vector<Array> arrays_;
  std::vector<int> ids_;
};

}  // namespace

Case generate_points(uint64_t seed) { return make_case<Points>(seed); }

}  // namespace pallasim::judge
